"""`modelbuild publish` on the command line: its output, its exit codes, and errors in one line."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from modelbuild.errors import UsageError
from modelbuild.publish.destination import parse_destination
from tests.publish.conftest import FILES, TARGET
from tests.publish.registry import Registry
from tests.workspace_builder import Workspace

ALONE = ("--no-provenance", "--no-sbom")
pytestmark = pytest.mark.usefixtures("no_login")


def test_publishes_to_a_registry(project: Workspace, registry: Registry) -> None:
    address = f"oci://{registry.host}/team/net:1"
    ended = project.run("publish", TARGET, "--to", address, *ALONE)
    assert ended.code == 0, ended.err
    assert re.fullmatch(rf"{re.escape(address)}@sha256:\w{{64}}  2 files uploaded, tagged\n", ended.out)
    layers = registry.manifest("team/net", "1")["layers"]
    assert [layer["annotations"].get("dev.modelbuild.executable") for layer in layers] == [None, "true"]
    again = project.run("publish", TARGET, "--to", address, *ALONE, "--json")
    facts = json.loads(again.out)
    assert (facts["uploaded"], facts["attached"], facts["tagged"]) == ([], [], False)
    assert facts["address"] == ended.out.partition(" ")[0]


def test_publishes_to_a_folder(project: Workspace, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    arguments = ("publish", TARGET, "--to", f"file://{folder}", *ALONE)
    ended = project.run(*arguments)
    assert ended.code == 0, ended.err
    assert ended.out == f"file://{folder}  2 files uploaded\n"
    assert (folder / "net.pte").read_text() == FILES["m/net.pte"]
    assert os.access(folder / "run.sh", os.X_OK)
    assert not os.access(folder / "net.pte", os.X_OK) or os.stat(folder / "net.pte").st_mode & 0o111 == 0
    assert "nothing to upload" in project.run(*arguments).out
    project.write({"m/net.pte": "program 2\n"})
    ended = project.run(*arguments)
    assert (ended.code, ended.out) == (34, "")
    assert re.search(r"error: file://\S+: it contains sha256:\w+, not sha256:\w+; expected .*--replace\n", ended.err)
    assert (folder / "net.pte").read_text() == FILES["m/net.pte"]
    assert project.run(*arguments, "--replace").code == 0
    assert (folder / "net.pte").read_text() == "program 2\n"


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("oic://host.example/net:1", "'oic' is no destination; expected oci://, file://, s3://, gs://, az://, hf://"),
        ("net", "'net' is no destination"),
        ("oci://host.example", "expected oci://HOST[:PORT]/NAME[:TAG]"),
        ("oci://host.example/NET:1", "expected oci://HOST[:PORT]/NAME[:TAG]"),
        ("oci://me:CANARY@host.example/net", "expected an address without a user and a password"),
        ("s3://me:CANARY@bucket/net", "expected an address without a user and a password"),
        ("file://relative/path", "expected the absolute path of a folder"),
        ("s3://bucket/../other", "expected a path without '@' and '..'"),
    ],
)
def test_a_wrong_address_is_one_line(address: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_destination(address)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "CANARY" not in str(raised.value)


def test_a_wrong_address_fails_before_the_build(project: Workspace) -> None:
    ended = project.run("publish", TARGET, "--to", "hg://team/net", *ALONE)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert not (project.root / "modelbuild-out/default").exists()


def test_a_registry_that_is_not_there_is_one_line(project: Workspace) -> None:
    # Port 1 of this machine refuses connections.
    ended = project.run("publish", TARGET, "--to", "oci://127.0.0.1:1/net:1", *ALONE, "--quiet")
    assert ended.code == 34
    assert ended.err == "error: oci://127.0.0.1:1/net:1: [Errno 111] Connection refused\n"


def test_nothing_is_published_of_a_target_that_fails(project: Workspace, tmp_path: Path) -> None:
    project.write({"m/net.pte": ""})
    (project.root / "m/net.pte").unlink()
    ended = project.run("publish", TARGET, "--to", f"file://{tmp_path}/models", *ALONE)
    assert ended.code == 3
    project.write(
        {"m/BUILD.toml": '[[http_file]]\nname = "net"\nurls = ["file:///none/x"]\nsha256 = "' + "0" * 64 + '"\n'}
    )
    ended = project.run("publish", TARGET, "--to", f"file://{tmp_path}/models", *ALONE)
    assert ended.code == 1
    assert not (tmp_path / "models").exists()


def test_several_targets_are_refused(project: Workspace) -> None:
    ended = project.run("publish", "//m/...", "--to", "file:///tmp/models", *ALONE)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "matches several targets" in ended.err


def test_a_folder_that_cannot_be_written_is_one_line(project: Workspace, tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file")
    ended = project.run("publish", TARGET, "--to", f"file://{tmp_path}/models", *ALONE, "--quiet")
    assert (ended.code, ended.err.count("\n")) == (36, 1)
    assert ended.err.startswith(f"error: file://{tmp_path}/models: ")
