"""`modelbuild release`: nothing is published unless all tests ran and passed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.publish.conftest import BUILD, FILES, RELEASE, TARGET
from tests.publish.registry import Registry
from tests.workspace_builder import Workspace

ALONE = ("--no-provenance", "--no-sbom")
PUBLIC = '[package]\ndefault_visibility = ["//visibility:public"]\n'
pytestmark = pytest.mark.usefixtures("no_login")


def test_publishes_under_the_version(project: Workspace, registry: Registry) -> None:
    ended = project.run("release", RELEASE, "--to", f"oci://{registry.host}/released", *ALONE)
    assert ended.code == 0, ended.err
    assert "//m:net_test  PASSED" in ended.err
    assert registry.tags("released") == ["1.2.0"]
    manifest = registry.manifest("released", "1.2.0")
    assert manifest["annotations"] == {
        "org.opencontainers.image.title": "net_1_2",
        "org.opencontainers.image.version": "1.2.0",
    }
    digests = {each["annotations"]["org.opencontainers.image.title"]: each["digest"] for each in manifest["layers"]}
    document = json.loads(registry.get(f"released/blobs/{digests['release.json']}"))
    assert {key: document[key] for key in ("version", "name", "release", "notes")} == {
        "version": 1,
        "name": "net_1_2",
        "release": "1.2.0",
        "notes": "NOTES.md",
    }
    assert {f["path"]: f"sha256:{f['sha256']}" for f in document["files"]} == {
        path: digest for path, digest in digests.items() if path != "release.json"
    }
    net = next(f for f in document["files"] if f["path"] == "net.pte")
    assert net["sha256"] == hashlib.sha256(FILES["m/net.pte"].encode()).hexdigest()


@pytest.mark.parametrize("body", ["assert False", "import pytest; pytest.skip('no camera')"], ids=["failed", "not run"])
def test_publishes_nothing_unless_all_tests_pass(project: Workspace, tmp_path: Path, body: str) -> None:
    project.write({"m/test_net.py": f"def test_net():\n    {body}\n"})
    ended = project.run("release", RELEASE, "--to", f"file://{tmp_path}/models", *ALONE)
    assert (ended.code, ended.out) == (4, "")
    assert not (tmp_path / "models").exists()


def test_the_version_is_the_folder(project: Workspace, tmp_path: Path) -> None:
    ended = project.run("release", RELEASE, "--to", f"file://{tmp_path}/models", *ALONE)
    assert ended.code == 0, ended.err
    folder = tmp_path / "models/1.2.0"
    assert sorted(path.name for path in folder.iterdir()) == [
        *("NOTES.md", "manifest.json", "net.pte", "release.json", "run.sh"),
    ]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("target", "address", "message"),
    [
        (TARGET, "file:///tmp/models", "//m:net is no release; expected a target of the rule `release`"),
        (RELEASE, "oci://127.0.0.1:1/net:1", "the tag of a release is its version; expected an address without a tag"),
    ],
)
def test_wrong_arguments(project: Workspace, target: str, address: str, message: str) -> None:
    ended = project.run("release", target, "--to", address, *ALONE)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert message in ended.err


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '"1.2.0"',
            '"1.2 0"',
            "m/BUILD.toml:13:1: attribute 'version': '1.2 0' is not a version; expected one of letters",
        ),
        ('tests = [":net_test"]', 'tests = [":net"]', "m/BUILD.toml:15:10: ':net' is no test; expected a test or"),
        ('artifacts = [":net"]', "artifacts = []", "these give no files; expected some to release"),
        ('artifacts = [":net"]', 'artifacts = [":net", "test_net.py", "sub/net.pte"]', "two files called 'net.pte'"),
    ],
)
def test_wrong_attributes(project: Workspace, old: str, new: str, message: str) -> None:
    project.write({"m/sub/net.pte": "x"})
    project.edit("m/BUILD.toml", old, new)
    ended = project.run("build", RELEASE)
    assert ended.code == 3
    assert message in ended.err, ended.err


def test_the_key_contains_each_attribute_of_a_release_but_its_tests(project: Workspace) -> None:
    attributes = {"name": "r", "version": "1.0", "artifacts": ["//m:net"], "tests": ["//m:net_test"]}
    changes = {"same": {}, "tests": {"tests": []}, "name": {"name": "s"}, "version": {"version": "1.1"}}
    changes |= {"notes": {"notes": "//m:one"}, "artifacts": {"artifacts": ["//m:one"]}}
    project.write({"m/BUILD.toml": PUBLIC + BUILD + '[[filegroup]]\nname = "one"\nsrcs = ["NOTES.md"]\n'})
    for package, change in changes.items():
        lines = [f"{name} = {json.dumps(value)}" for name, value in (attributes | change).items()]
        project.write({f"{package}/BUILD.toml": "\n".join(["[[release]]", *lines, ""])})
    actions = project.build("//...").json["actions"]
    keys = {
        each["owner"].strip("/").partition(":")[0]: each["key"] for each in actions if each["mnemonic"] == "describe"
    }
    assert keys["same"] == keys["tests"]
    assert len({keys[package] for package in changes}) == len(changes) - 1
