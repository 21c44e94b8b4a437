"""Python files that an entry imports: what they rebuild, what queries and `affected` say of them."""

from __future__ import annotations

import time

import pytest

from tests.script_rule import FILES
from tests.workspace_builder import Workspace

RULE = """
from modelbuild.api import Attrs, Context, Entry, Files, Output, Sources, rule

class EntryAttrs(Attrs):
    entry: Entry
    srcs: Sources = ()

@rule(attrs=EntryAttrs)
def entry(ctx: Context[EntryAttrs]) -> tuple[Files]:
    made = ctx.action(
        "script",
        step="script",
        inputs={"srcs": ctx.files(ctx.attrs.entry, ctx.attrs.srcs)},
        outputs=[Output("out", "out.txt")],
        params={"entry": ctx.entry(ctx.attrs.entry)},
        python=("srcs",),
    )
    return (Files((made["out"],)),)
"""
RAN, CACHED = {"//a:s#script": "ran"}, {"//a:s#script": "cached"}
RESULT = "modelbuild-out/default/a/s/out.txt"


@pytest.fixture
def entries(workspace: Workspace) -> Workspace:
    files = {
        "a/BUILD.toml": '[[entry]]\nname = "s"\nentry = "s.py:result"\n',
        "a/s.py": "from a.one import value as result\n",
        "a/one.py": "value = 1\n",
    }
    workspace.write({**FILES, "tools/rules/entry.py": RULE, **files})
    assert workspace.build("//a:s").statuses == RAN
    return workspace


def value(entries: Workspace) -> str:
    return (entries.root / RESULT).read_text()


def test_an_edit_of_an_imported_file_reruns_the_action(entries: Workspace) -> None:
    assert entries.build("//a:s").statuses in ({}, CACHED)
    entries.write({"a/one.py": "value = 2\n"})
    assert (entries.build("//a:s").statuses, value(entries)) == (RAN, "2")


def test_an_edit_may_import_other_files(entries: Workspace) -> None:
    entries.write({"a/two.py": "value = 22\n"})
    entries.build("//a:s")
    time.sleep(0.05)  # older than the clock's granularity, so that a record is saved
    entries.build("//a:s")
    entries.write({"a/one.py": "from .two import value\n"})
    assert (entries.build("//a:s").statuses, value(entries)) == (RAN, "22")
    entries.write({"a/two.py": "value = 23\n"})
    assert (entries.build("//a:s").statuses, value(entries)) == (RAN, "23")


def test_a_file_that_appears_is_imported(entries: Workspace) -> None:
    optional = "try:\n    import a.three as found\nexcept ImportError:\n    found = None\n"
    entries.write({"a/s.py": f"{optional}result = found.value if found else 0\n"})
    assert (entries.build("//a:s").statuses, value(entries)) == (RAN, "0")
    entries.write({"a/three.py": "value = 3\n"})
    assert (entries.build("//a:s").statuses, value(entries)) == (RAN, "3")
    (entries.root / "a/three.py").unlink()
    entries.build("//a:s")
    assert value(entries) == "0"


def test_queries_and_affected_know_imported_files(entries: Workspace) -> None:
    assert entries.run("query", "deps(//a:s)").out.splitlines() == ["//a:one.py", "//a:s", "//a:s.py"]
    assert entries.run("query", "labels(entry, //a:s)").out.splitlines() == ["//a:one.py", "//a:s.py"]
    entries.write({".gitignore": "modelbuild-out\n"})
    entries.git("init", "-q")
    entries.git("add", ".")
    entries.git("-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "-m", "m")
    assert entries.run("affected", "--since=HEAD").out == ""
    entries.write({"a/one.py": "value = 5\n"})
    assert entries.run("affected", "--since=HEAD").out == "//a:s\n"
    entries.write(
        {"a/one.py": "value = 1\n", "a/s.py": "import a.two\nfrom a.one import value as result\n", "a/two.py": ""}
    )
    assert entries.run("affected", "--since=HEAD").out == "//a:s\n"
