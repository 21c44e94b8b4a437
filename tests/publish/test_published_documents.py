"""The documents that are published with a target: `modelbuild verify` accepts them where they lie."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import script_rule
from tests.publish.registry import Registry
from tests.trust.keys import write_key
from tests.workspace_builder import Workspace

pytestmark = pytest.mark.usefixtures("no_login")

TEST = """
from pathlib import Path

def test_s():
    assert [path.read_text() for path in Path().rglob("out.txt")] == ["1"]
"""
DOCUMENTS = {
    "provenance.intoto.json": "application/vnd.in-toto+json",
    "sbom.cdx.json": "application/vnd.cyclonedx+json",
}


MADE = """
[[script]]
name = "s"
srcs = ["s.py"]

[[py_test]]
name = "s_test"
srcs = ["test_s.py"]
data = [":s"]

[[release]]
name = "r"
version = "1.2.0"
artifacts = [":s"]
tests = [":s_test"]
"""


def test_a_release_verifies_where_it_is_published(project: Workspace, tmp_path: Path) -> None:
    project.write({**script_rule.FILES, "a/BUILD.toml": MADE, "a/s.py": "result = 1\n", "a/test_s.py": TEST})
    key = write_key(tmp_path, "release")
    arguments = ("release", "//a:r", "--to", f"file://{tmp_path}/models", "--key", str(key), "--builder", "urn:ci")
    ended = project.run(*arguments)
    assert ended.code == 0, ended.err
    folder = tmp_path / "models/1.2.0"
    documents = ("--attestation", f"{folder}/provenance.intoto.json", "--sbom", f"{folder}/sbom.cdx.json")
    public = ("--key", str(key.with_suffix(".pub")))
    verified = project.run("verify", f"{folder}/out.txt", *documents, *public)
    assert verified.code == 0, verified.err
    assert "built as //a:r by urn:ci" in verified.out
    assert project.run("verify", f"{folder}/release.json", *public).code == 0
    (tested,) = [
        each["name"]
        for each in json.loads((folder / "provenance.intoto.json").read_text())["predicate"]["runDetails"]["byproducts"]
        if each["annotations"].get("passed")
    ]
    assert tested == "//a:s_test"
    # Signatures differ each time; those that are there stay.
    assert "nothing to upload" in project.run(*arguments).out


@pytest.mark.exhaustive
def test_documents_are_referrers_in_a_registry(project: Workspace, registry: Registry, tmp_path: Path) -> None:
    key = write_key(tmp_path, "release")
    arguments = ("publish", "//m:net", "--to", f"oci://{registry.host}/signed:1", "--key", str(key))
    ended = project.run(*arguments)
    assert ended.code == 0, ended.err
    digest = ended.out.partition("@")[2].partition(" ")[0]
    index = registry.manifest("signed", digest.replace(":", "-"))
    found = {each["annotations"]["org.opencontainers.image.title"]: each["artifactType"] for each in index["manifests"]}
    signature = "application/vnd.dev.sigstore.bundle.v0.3+json"
    signed = ("net.pte", "run.sh", *DOCUMENTS)
    assert found == {**DOCUMENTS, **{f"{name}.sig": signature for name in signed}}
    assert "nothing to upload" in project.run(*arguments).out


def test_a_bad_key_publishes_nothing(project: Workspace, tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("CANARY")
    ended = project.run("publish", "//m:net", "--to", f"file://{tmp_path}/models", "--key", f"{tmp_path}/key.pem", "-q")
    assert (ended.code, ended.err) == (2, f"error: {tmp_path}/key.pem: expected a private key in PEM\n")
    assert not (tmp_path / "models").exists()
