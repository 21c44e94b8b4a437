"""A step's source closure: its members, and the digest over all of them."""

from __future__ import annotations

import gc
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from modelbuild.code.step_sources import StepCode, imported_names, source

FILES = {
    "pack/__init__.py": '"""Rules."""\n',
    "pack/rule.py": "import pack.steps.one\n",
    "pack/steps/__init__.py": "",
    "pack/steps/one.py": (
        "from typing import TYPE_CHECKING\nfrom pack.steps import _shared\nimport json\n"
        "if TYPE_CHECKING:\n    from pack.steps import _typing\n"
        "def run(step):\n    from . import _lazy\n    from ..deep.inner import thing\n"
    ),
    "pack/steps/two.py": "def run(step): pass\n",
    "pack/steps/_shared.py": "",
    "pack/steps/_typing.py": "",
    "pack/steps/_lazy.py": "from .two import run\n",
    "pack/deep/__init__.py": "",
    "pack/deep/inner.py": "thing = 1\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def code(tree: Path) -> StepCode:
    source.cache_clear()
    return StepCode({"pack": tree / "pack"})


def test_closure_follows_relative_imports_and_imports_inside_functions(tree: Path) -> None:
    names = [name for name, _ in code(tree).closure("pack.steps.one")]
    assert names == [
        "pack",
        "pack.deep",
        "pack.deep.inner",
        "pack.steps",
        "pack.steps._lazy",
        "pack.steps._shared",
        "pack.steps.one",
        "pack.steps.two",
    ]


def test_a_rule_or_a_type_only_import_is_not_in_the_closure_of_a_step(tree: Path) -> None:
    before = code(tree).digest("pack.steps.one")
    (tree / "pack/rule.py").write_text("import pack.steps.one  # changed\n")
    (tree / "pack/steps/_typing.py").write_text("changed = True\n")
    assert code(tree).digest("pack.steps.one") == before


@pytest.mark.parametrize(
    "changed", ["pack/__init__.py", "pack/steps/_lazy.py", "pack/deep/inner.py", "pack/steps/one.py"]
)
def test_every_file_of_the_closure_decides_the_digest(tree: Path, changed: str) -> None:
    before = code(tree).digest("pack.steps.one")
    with (tree / changed).open("a") as file:
        file.write("\nadded = 1\n")
    assert code(tree).digest("pack.steps.one") != before


def test_moving_the_package_to_another_folder_does_not_change_the_digest(tree: Path, tmp_path: Path) -> None:
    before = code(tree).digest("pack.steps.one")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tree / "pack").rename(elsewhere / "pack")
    assert code(elsewhere).digest("pack.steps.one") == before


def test_an_unknown_step_is_a_key_error(tree: Path) -> None:
    with pytest.raises(KeyError):
        code(tree).closure("pack.steps.three")


def test_imported_names_gives_modules_and_what_may_be_modules() -> None:
    source = b"import a.b as c\nfrom d import e\nfrom .f import *\ntry:\n    import g\nexcept ImportError:\n    pass\n"
    assert sorted(imported_names(source)) == [("a.b", 0), ("d", 0), ("d.e", 0), ("f", 1), ("g", 0)]


BLOCKS = """
class A:
    def f(self):
        with x:
            import a
        for x in y:
            import b
        else:
            import c
        while x:
            async def g():
                import d
        match x:
            case 1:
                import e
        try:
            import f
        except* E:
            import g
        else:
            import h
        finally:
            import i
        if x:
            import j
        elif y:
            import k
        else:
            import l
"""


def test_imported_names_finds_imports_in_every_block() -> None:
    assert sorted(imported_names(BLOCKS.encode())) == [(name, 0) for name in "abcdefghijkl"]


def test_warnings_of_python_about_a_source_are_not_printed(recwarn: pytest.WarningsRecorder) -> None:
    assert imported_names(b"import a\nb = '\\d' is 1\n") == [("a", 0)]
    assert not recwarn.list


def test_threads_may_read_sources_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11 fails when another thread parses while the collector, which may run Python code, interrupts it."""
    source = b"import a.b\nfrom . import c\n" + b"x = [f(i) for i in range(10)]\n" * 200

    def pause(*_: object) -> None:
        time.sleep(0.0001)

    gc.callbacks.append(pause)
    try:
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(imported_names, [source] * 40))
    finally:
        gc.callbacks.remove(pause)
    assert all(names == found[0] for names in found)
    assert set(found[0]) == {("a.b", 0), ("", 1), ("c", 1)}
