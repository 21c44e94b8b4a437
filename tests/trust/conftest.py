"""A workspace without torch whose target has everything that a statement names: sources, a download, a passed test."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.script_rule import FILES, OUTPUT
from tests.workspace_builder import Workspace

WEIGHTS = "weights 1\n"
TARGET, TEST = "//a:s", "//a:s_test"
BUILDER = "https://ci.example/release"
_BUILD = """
[[http_file]]
name = "weights"
urls = ["file://{mirror}/weights.txt"]
sha256 = "{sha256}"
license = "Apache-2.0"
source = "https://host.example/weights"

[[filegroup]]
name = "code"
srcs = ["s.py"]
license = "MIT"

[[script]]
name = "s"
srcs = [":code", ":weights"]

[[py_test]]
name = "s_test"
srcs = ["test_s.py"]
data = [":s"]
"""
_TEST = """
from pathlib import Path

def test_result():
    assert [path.read_text() for path in Path(".").rglob("out.txt")] == ["1"]
"""

Make = Callable[[str], Workspace]


def new_workspace(folder: Path, name: str) -> Workspace:
    """Return a committed workspace in a folder of `folder`; all have the same files."""
    mirror = folder / "mirror"
    mirror.mkdir(exist_ok=True)
    (mirror / "weights.txt").write_text(WEIGHTS)
    sha256 = hashlib.sha256(WEIGHTS.encode()).hexdigest()
    workspace = Workspace(folder / name)
    build = _BUILD.format(mirror=mirror, sha256=sha256)
    workspace.write({**FILES, "a/BUILD.toml": build, "a/s.py": "result = 1\n", "a/test_s.py": _TEST})
    workspace.write({".gitignore": "__pycache__\n"})
    workspace.git("init", "--quiet")
    workspace.git("remote", "add", "origin", "https://me:CANARY@git.example/team/nets.git")
    workspace.commit()
    return workspace


@pytest.fixture
def make_workspace(tmp_path: Path) -> Make:
    return lambda name: new_workspace(tmp_path, name)


@pytest.fixture
def trusted(make_workspace: Make) -> Workspace:
    return make_workspace("one")


@dataclass(frozen=True)
class Documents:
    """An output, its provenance and its bill, of a workspace whose test has passed; and the actions of its build."""

    output: bytes
    statement: bytes
    bill: bytes
    keys: Mapping[str, str]
    commit: str


@pytest.fixture(scope="session")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Documents:
    workspace = new_workspace(tmp_path_factory.mktemp("release"), "one")
    workspace.test(TEST)
    for command, name in ((("attest", f"--builder={BUILDER}"), "made"), (("sbom",), "bill")):
        ended = workspace.run(*command, TARGET, "-o", f"../{name}.json")
        assert ended.code == 0, ended.err
    output, statement, bill = (
        (workspace.root / name).read_bytes() for name in (OUTPUT, "../made.json", "../bill.json")
    )
    keys = {each["id"]: each["key"] for each in workspace.build(TARGET).json["actions"]}
    return Documents(output, statement, bill, keys, workspace.git("rev-parse", "HEAD").strip())


def attested(workspace: Workspace, *arguments: str, **environment: str) -> Any:
    """Return the statement that `modelbuild attest` prints."""
    ended = workspace.run("attest", TARGET, *arguments, **environment)
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def named(descriptors: list[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return resource descriptors by name."""
    return {each["name"]: each for each in descriptors}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run these tests in one process, which makes the documents once."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.xdist_group("trust"))
