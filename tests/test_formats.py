"""Formats of JSON documents: none changes its shape without its version. tests/format_shapes.py explains the records.

Documents of programs and of the runtime are checked by the tests that make them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.format_shapes import RECORDED, check_format
from tests.script_rule import FILES
from tests.workspace_builder import Workspace

BUILD = """
[[filegroup]]
name = "f"
srcs = ["f.txt"]
license = "MIT"

[[script]]
name = "s"
srcs = ["s.py"]

[[script]]
name = "wrong"
srcs = ["wrong.py"]

[[py_test]]
name = "s_test"
srcs = ["test_s.py"]
data = [":s"]

[[release]]
name = "r"
version = "1.0"
artifacts = [":s", ":f"]
tests = [":s_test"]
"""


RECORD = "record it with RECORD_FORMATS=1"
RAISE = f"raise its version and {RECORD}"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Return a committed workspace that was built twice, with an edit between; each test builds another edit."""
    made = Workspace(tmp_path_factory.mktemp("formats"), FILES)
    made.write({"a/BUILD.toml": BUILD, "a/f.txt": "1", "a/s.py": "result = 1\n", "a/wrong.py": "1 / 0\n"})
    made.write({"a/test_s.py": "def test_s():\n    pass\n", ".gitignore": "modelbuild-out\n__pycache__\n"})
    made.git("init", "--quiet")
    made.commit()
    made.build("//a:s")
    edit(made)
    made.build("//a:s")
    return made


def edit(workspace: Workspace) -> None:
    workspace.add("a/s.py", "result += 1\n")


def told(workspace: Workspace, *arguments: str, code: int = 0) -> Any:
    """Return the JSON that a command prints."""
    ended = workspace.run(*arguments)
    assert ended.code == code, ended.err
    return ended.json


def test_builds_and_tests(built: Workspace, tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.html" for name in ("events", "report", "measures")}
    flags = [f"--build-event-json={files['events']}", f"--report={files['report']}", f"--measures={files['measures']}"]
    edit(built)
    result = told(built, "ci", "//...", "--json", *flags, code=1)
    check_format("build", result, maps=("tests[].measures", "tests[].identity"))
    events: dict[str, Any] = {}
    for line in map(json.loads, files["events"].read_text().splitlines()):
        events.setdefault(line["event"], []).append(line)
    maps = ("test_finished[].measures", "test_finished[].identity")
    check_format("build-events", events, maps, events["stream_started"][0]["version"])
    check_format("measures", json.loads(files["measures"].read_text()))
    (report,) = built.root.glob("modelbuild-out/*/a/s_test/report.json")
    check_format("test-report", json.loads(report.read_text()), maps=("measures",))


def test_explanations_and_comparisons(built: Workspace, tmp_path: Path) -> None:
    edit(built)
    built.build("//a:s")
    check_format("explain", told(built, "explain", "//a:s", "--json", "--dump", str(tmp_path / "dump")))
    dump = json.loads((tmp_path / "dump").read_text())
    material = tuple(f"actions[].material.{name}" for name in ("env", "params", "tools"))
    maps = ("actions[].modules", "actions[].outputs", *material, "targets", "targets.*.attributes")
    check_format("dump", dump, maps)
    check_format("history", told(built, "history", "//a:s", "--json"))
    check_format("affected", told(built, "affected", "--since", "HEAD", "--json"))


def test_queries(built: Workspace) -> None:
    check_format("query", told(built, "query", "deps(//a:r)", "--output", "json"), maps=("nodes[].attributes",))
    check_format("cquery", told(built, "cquery", "deps(//a:r)", "--output", "json"), maps=("nodes[].attributes",))
    maps = ("nodes[].params", "nodes[].tools", "nodes[].env")
    check_format("aquery", told(built, "aquery", "//a:r", "--output", "json"), maps)


def test_published_documents(built: Workspace, tmp_path: Path) -> None:
    check_format("publish", told(built, "publish", "//a:s", "--to", f"file://{tmp_path}/s", "--json"))
    check_format("publish", told(built, "release", "//a:r", "--to", f"file://{tmp_path}/r", "--json"))
    made = {path.name: json.loads(path.read_text()) for path in (tmp_path / "r/1.0").glob("*.json")}
    check_format("release", made["release.json"])
    layers = made["manifest.json"]
    check_format("manifest", layers, ("annotations", "layers[].annotations"), layers["schemaVersion"])
    actions = "predicate.buildDefinition.internalParameters.actions[]"
    maps = [f"{actions}.{name}" for name in ("env", "outputs", "params", "tools")]
    definition = made["provenance.intoto.json"]["predicate"]["buildDefinition"]
    maps.append("predicate.buildDefinition.externalParameters.attributes")
    check_format("provenance", made["provenance.intoto.json"], maps, definition["buildType"])
    bill = made["sbom.cdx.json"]
    check_format("sbom", bill, version=bill["specVersion"])


def test_this_machine(built: Workspace) -> None:
    check_format("info", {**told(built, "info", "--json"), "gpu_models": []}, maps=("tools",))
    for name in ("stat", "gc", "verify"):
        check_format(f"cache-{name}", told(built, "cache", name, "--json"))


def test_each_format_is_in_the_table_with_its_version(repository: Path) -> None:
    page = (repository / "docs/reference/stability.md").read_text()
    rows = re.findall(r"^\| (`?[\w.:]+`?) \| (.+) \|$", page.partition("## JSON formats")[2], re.MULTILINE)
    named = [(version, name) for version, formats in rows for name in re.findall(r"(?:^|, )`([\w-]+)`", formats)]
    recorded = {path.stem: str(json.loads(path.read_text())["version"]) for path in RECORDED.glob("*.json")}
    assert {name: version.strip("`") for version, name in named} == recorded
    assert len(named) == len(recorded)


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"version": 1, "a": [{"b": 1}, {"b": None}]}, ""),
        ({"version": 1, "a": []}, f"{RAISE}; changed: a[], a[].b"),
        ({"version": 1, "a": [{"b": "1"}]}, f"{RAISE}; changed: a[].b"),
        ({"version": 1, "a": [{"b": 1, "c": 1}, {"b": None}]}, f"{RECORD}; version 1 -> 1, new: a[].c"),
        ({"version": 2, "a": []}, f"{RECORD}; version 1 -> 2, new: nothing"),
    ],
)
def test_a_lost_member_needs_another_version_and_a_new_one_a_record(
    document: Any, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.format_shapes.RECORDED", tmp_path)
    monkeypatch.setenv("RECORD_FORMATS", "1")
    check_format("x", {"version": 1, "a": [{"b": 1}, {"b": None}]})
    monkeypatch.delenv("RECORD_FORMATS")
    if not problem:
        check_format("x", document)
        return
    with pytest.raises(AssertionError, match=re.escape(f"the shape of x changed: {problem}")):
        check_format("x", document)
    monkeypatch.setenv("RECORD_FORMATS", "1")
    if problem.startswith("raise"):
        with pytest.raises(AssertionError, match="raise its version"):
            check_format("x", document)
    else:
        check_format("x", document)
