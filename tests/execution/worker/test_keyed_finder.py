"""Workers find the installed distributions of the key, and any other as little as if it were not installed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from modelbuild.events import WorkerReady
from modelbuild.execution.worker.keyed_finder import InstalledModules
from tests.script_rule import install, write

LOOKS = """
    import importlib.util, json
    from importlib import import_module, metadata

    def importable(name):
        try:
            return bool(import_module(name))
        except ModuleNotFoundError as error:
            return str(error)

    def version(name):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            return None

    def run(step):
        found = {name: importable(name) for name in step.params["modules"]}
        found["specs"] = [name for name in step.params["modules"] if importlib.util.find_spec(name.partition(".")[0])]
        found["versions"] = [version(name) for name in ("alpha", "Beta_Two")]
        found["listed"] = sorted(each.name for each in metadata.distributions() if each.name in ("alpha", "beta_two"))
        found["entries"] = [each.name for each in metadata.entry_points(group="extensions")]
        step.outputs["out"].write_text(json.dumps(found))
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder on sys.path with distributions of packages, of single modules, and of one plain folder."""
    site = tmp_path / "site"
    for name, letter in (("alpha", "a"), ("beta_two", "b")):
        files = {f"{letter}_package/__init__.py": "", f"{letter}_package/inner/deep.py": "", f"{letter}_one.py": ""}
        files |= {f"space/{letter}/__init__.py": "", f"space/{letter}_one.py": "", f"{letter}_space/x/y.py": ""}
        info = f"{name}-1.0.dist-info/entry_points.txt"
        install(site, name, "1.0", {**files, info: f"[extensions]\n{letter} = {letter}_one\n"})
    write(site, {"loose.py": "", "a_package/loose.py": ""})
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    return site


MODULES = [
    *("{}_package", "{}_package.inner.deep", "{}_one", "space.{}", "space.{}_one", "{}_space.x.y"),
]


def looked(bench: Any, *tools: str, modules: tuple[str, ...] = ()) -> Any:
    names = [each.format(letter) for letter in "ab" for each in MODULES]
    bench.step("looks", LOOKS)
    return bench.value("looks", tools=tools, params={"modules": [*names, *modules]})


def test_a_distribution_that_is_not_in_the_key_looks_absent(bench: Any, site: Path) -> None:
    found = looked(bench, "alpha")
    for each in MODULES:
        assert found[each.format("a")] is True
        assert found[each.format("b")].startswith("No module named '")
    assert found["specs"] == [each.format("a") for each in MODULES] + ["space.b", "space.b_one"]
    assert (found["versions"], found["listed"], found["entries"]) == (["1.0", None], ["alpha"], ["a"])


def test_no_distribution_is_in_the_key(bench: Any, site: Path) -> None:
    found = looked(bench)
    assert found["specs"] == []
    assert (found["versions"], found["listed"], found["entries"]) == ([None, None], [], [])


def test_results_do_not_depend_on_other_distributions(bench: Any, site: Path) -> None:
    before = looked(bench, "alpha")
    for file in site.glob("beta*/*"):
        file.unlink()
    assert looked(bench, "alpha") == before


def test_files_that_no_record_lists(bench: Any, site: Path) -> None:
    """In a package of the key, the state of the package contains them; elsewhere, nothing does."""
    found = looked(bench, "alpha", modules=("loose", "a_package.loose"))
    assert (found["loose"], found["a_package.loose"]) == ("No module named 'loose'", True)


def test_the_error_for_a_hidden_module_names_the_package_to_declare(bench: Any, site: Path) -> None:
    source = "import importlib; importlib.import_module('b_' + 'package.x'); result = 1"
    assert bench.model(source).problem.splitlines()[-2:] == [
        "ModuleNotFoundError: No module named 'b_package'",
        "b_package is of the package 'beta-two', which is not in the action's key; "
        "add 'beta-two' to 'requires' of //models:detector_model",
    ]
    assert bench.model("import b_package; result = 1", tools=("beta-two",)).problem == ""


def test_the_error_for_a_module_that_a_step_lacks(bench: Any, site: Path) -> None:
    bench.step("tiny", "import b_one\ndef run(step):\n    step.outputs['out'].write_text('1')\n")
    assert bench.run("tiny").problem == (
        "internal error in step tiny_rules.tiny: ModuleNotFoundError: No module named 'b_one'; b_one is of the package "
        "'beta-two', which is not in the action's key; add 'beta-two' to the tools that the rule of "
        "//models:detector_model names"
    )


@pytest.mark.parametrize("first", [(), ("beta-two",)])
def test_modules_that_are_imported_ahead_depend_on_no_other_action(bench: Any, site: Path, first: Any) -> None:
    """`alpha` uses `beta-two` if it is there. Each server starts once, for the first action that needs it: other
    packages in a key make no difference."""
    started = []

    class Reporter:
        def emit(self, event: Any) -> None:
            started.extend([event.modules] if isinstance(event, WorkerReady) else [])

        def close(self) -> None:
            """Do nothing."""

    probing = (
        "import importlib.metadata as m\ntry:\n    import b_one\nexcept ImportError:\n    b_one = None\n"
        "try:\n    GAMMA = m.version('gamma')\nexcept m.PackageNotFoundError:\n    GAMMA = None\n"
    )
    install(site, "alpha", "1.0", {"a_probes.py": f"import os\nHERE = os.getpid()\n{probing}"})
    install(site, "gamma", "1.0", {"g.py": ""})
    install(site, "delta", "1.0", {"d.py": ""})
    bench.step(
        "tiny",
        "import json, os\ndef run(step):\n    import a_probes\n"
        "    found = [a_probes.b_one is not None, a_probes.GAMMA, a_probes.HERE == os.getpid()]\n"
        "    step.outputs['out'].write_text(json.dumps(found))\n",
    )
    bench.executor = bench.new_executor(reporter=Reporter())

    def seen(*tools: str) -> Any:
        return bench.value("tiny", preload=("a_probes",), tools=tools)

    assert seen(*first) == [bool(first), None, False]
    assert len(started) == 1
    for _ in range(2):
        assert seen() == [False, None, False]
        assert seen("delta", "beta-two") == [True, None, False]
        assert seen("gamma") == [False, "1.0", False]
        assert seen("delta") == [False, None, False]
    assert started == [("a_probes",)] * 3


def test_modules_in_a_folder_of_several_distributions_are_imported_ahead_for_those_that_have_them(
    bench: Any, site: Path
) -> None:
    probing = (
        "try:\n    import shared.two\nexcept ImportError:\n    pass\nimport sys\nTWO = 'shared.two' in sys.modules\n"
    )
    install(site, "alpha", "1.0", {"a_probes.py": probing})
    install(site, "one", "1.0", {"shared/one.py": ""})
    install(site, "two", "1.0", {"shared/two.py": ""})
    bench.step(
        "tiny",
        "import json\ndef run(step):\n    import a_probes\n"
        "    step.outputs['out'].write_text(json.dumps(a_probes.TWO))\n",
    )
    for tools in (("one", "two"), ("one",), ("two",), ()):
        assert bench.value("tiny", preload=("a_probes",), tools=tools) == ("two" in tools)


def test_the_modules_of_a_distribution(site: Path) -> None:
    install(site, "native", "1.0", {"native/__init__.py": "", "fast.cpython-311-x86_64-linux-gnu.so": ""})
    found = InstalledModules([str(site), str(site / "missing")]).of(["native", "not-installed"])
    assert found.names == {"native", "not-installed"}
    assert found.packages == {f"{site}/native"}
    assert found.files == {f"{site}/fast.cpython-311-x86_64-linux-gnu.so"}
    assert found.plain == {f"{site}/native"}
