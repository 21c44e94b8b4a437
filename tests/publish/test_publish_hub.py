"""hf:// against a fake hub: one commit with everything, a model card, tags of releases, and errors in one line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from modelbuild.errors import UsageError
from modelbuild.publish.destination import parse_destination
from tests.command_runner import Ended
from tests.publish.conftest import RELEASE, TARGET
from tests.publish.fake_hub import NOTHING, TOKEN, FakeHub, fake_hub
from tests.trust.test_secrets import findings
from tests.workspace_builder import Workspace

TO = ("--to", "hf://team/net")
ALONE = ("--no-provenance", "--no-sbom")


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with fake_hub() as server:
        yield server


class Project:
    """The workspace of these tests, with a program that a hub stores by its SHA-256, and a login."""

    def __init__(self, workspace: Workspace, hub: FakeHub, home: Path) -> None:
        self.workspace = workspace
        self.environment = {
            "HF_ENDPOINT": hub.url,
            "HF_TOKEN": TOKEN,
            "HF_HOME": str(home),
            "HF_HUB_DISABLE_XET": "1",
            "no_proxy": "127.0.0.1",
        }

    def run(self, *arguments: str, **environment: str) -> Ended:
        return self.workspace.run(*arguments, **{**self.environment, **environment})

    def publish(self, *arguments: str, code: int = 0, **environment: str) -> Ended:
        ended = self.run("publish", TARGET, *arguments, **environment)
        assert ended.code == code, ended.err
        return ended


@pytest.fixture
def on_hub(project: Workspace, hub: FakeHub, tmp_path: Path) -> Project:
    project.write({"m/net.pte": "program 1\n" * 200})
    project.edit("m/BUILD.toml", 'srcs = ["net.pte", "run.sh"]', 'srcs = ["net.pte", "run.sh"]\nlicense = "MIT"')
    return Project(project, hub, tmp_path / "hf")


def test_publishes_everything_in_one_commit_and_nothing_twice(on_hub: Project, hub: FakeHub) -> None:
    ended = on_hub.publish(*TO)
    assert ended.out == "hf://team/net  2 files uploaded, 2 documents attached\n"
    repository = hub.repositories["team/net"]
    files = repository.files()
    assert len(repository.commits) == 2
    assert sorted(files) == [
        *(".gitattributes", "README.md", "manifest.json", "net.pte", "provenance.intoto.json", "run.sh"),
        "sbom.cdx.json",
    ]
    assert files["net.pte"] == b"program 1\n" * 200
    layers = json.loads(files["manifest.json"])["layers"]
    assert [each["annotations"]["org.opencontainers.image.title"] for each in layers] == ["net.pte", "run.sh"]
    _, metadata, text = files["README.md"].decode().split("---\n", 2)
    assert yaml.safe_load(metadata) == {
        "library_name": "executorch",
        "license": "mit",
        "tags": ["executorch", "modelbuild"],
    }
    assert "# net\n" in text

    uploads = len(hub.uploads)
    assert on_hub.publish(*TO).out == "hf://team/net  nothing to upload, this content is there already\n"
    assert len(hub.uploads) == uploads


def test_other_content_needs_replace_which_deletes_its_files_only(on_hub: Project, hub: FakeHub) -> None:
    repository = hub.repositories["team/net"]
    repository.commits["0" * 40] |= {"README.md": b"# Our own\n", "notes.txt": b"1"}
    assert "kept README.md, which modelbuild did not write" in on_hub.publish(*TO, *ALONE).err
    on_hub.workspace.write({"m/net.pte": "program 2\n" * 200})
    on_hub.workspace.edit("m/BUILD.toml", '"net.pte", "run.sh"', '"net.pte"')
    ended = on_hub.publish(*TO, *ALONE, code=34)
    assert "error: hf://team/net: it contains sha256:" in ended.err
    assert ended.err.endswith("; expected another branch, or --replace\n")
    ended = on_hub.publish(*TO, *ALONE, "--replace")
    assert ended.out == "hf://team/net  1 file uploaded\n"
    files = repository.files()
    assert sorted(files) == [".gitattributes", "README.md", "manifest.json", "net.pte", "notes.txt"]
    assert files["README.md"] == b"# Our own\n"


def test_a_release_is_a_tag_that_stays(on_hub: Project, hub: FakeHub) -> None:
    repository = hub.repositories["team/net"]
    on_hub.publish(*TO, *ALONE)
    ended = on_hub.run("release", RELEASE, *TO, *ALONE)
    assert ended.code == 0, ended.err
    assert ended.out == "hf://team/net  2 files uploaded, tagged\n"
    first = repository.tags["1.2.0"]
    assert first == repository.branches["main"]
    assert b"# net_1_2 1.2.0\n" in repository.files("1.2.0")["README.md"]
    on_hub.publish(*TO, *ALONE, "--replace")
    assert "nothing to upload" in on_hub.run("release", RELEASE, *TO, *ALONE).out

    on_hub.workspace.write({"m/net.pte": "program 2\n"})
    ended = on_hub.run("release", RELEASE, *TO, *ALONE)
    assert ended.code == 34
    assert "the tag 1.2.0 contains sha256:" in ended.err
    assert repository.tags["1.2.0"] == first
    assert on_hub.run("release", RELEASE, *TO, *ALONE, "--replace").code == 0
    assert repository.files("1.2.0")["net.pte"] == b"program 2\n"


@pytest.mark.exhaustive
def test_another_branch(on_hub: Project, hub: FakeHub) -> None:
    repository = hub.repositories["team/net"]
    repository.branches["next"] = "0" * 40
    on_hub.publish("--to", "hf://team/net@next", *ALONE)
    assert "net.pte" in repository.files("next")
    assert "net.pte" not in repository.files("main")


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("repository", "there is no such repository, or this token may not read it; `hf repos create team/none`"),
        ("token", "or it needs a token, in HF_TOKEN or by `hf auth login`; `hf repos create team/net` makes one"),
        pytest.param("branch", "there is no branch none; expected one that exists", marks=pytest.mark.exhaustive),
        pytest.param(
            "ignored", "its .gitignore excludes run.sh; expected another .gitignore", marks=pytest.mark.exhaustive
        ),
        pytest.param("moved", "HTTP 412: A commit has happened since.", marks=pytest.mark.exhaustive),
        pytest.param("broken", "Server disconnected without sending a response.", marks=pytest.mark.exhaustive),
        ("full", "HTTP 500: no space, Bearer (secret)"),
        pytest.param("down", "Connection refused", marks=pytest.mark.exhaustive),
    ],
)
def test_errors_are_one_line_without_secrets(on_hub: Project, hub: FakeHub, case: str, message: str) -> None:
    address, environment = "hf://team/net", {}
    if case == "repository":
        address = "hf://team/none"
    elif case == "token":
        environment = {"HF_TOKEN": ""}
    elif case == "branch":
        address = "hf://team/net@none"
    elif case == "ignored":
        hub.repositories["team/net"].commits["0" * 40][".gitignore"] = b"run.sh\n"
    elif case == "moved":
        hub.repositories["team/net"].commits["1" * 40] = {}
        hub.moved = "1" * 40
    elif case == "broken":
        hub.breaks = "/commit/"
    elif case == "full":
        hub.fails = "/commit/"
    else:
        environment = {"HF_ENDPOINT": "http://127.0.0.1:9"}
    ended = on_hub.publish("--to", address, *ALONE, "-q", code=34, **environment)
    (line,) = ended.err.splitlines()
    assert line.startswith(f"error: {address}: ")
    assert message in line
    assert "CANARY" not in line
    if case != "ignored":
        assert hub.repositories["team/net"].branches["main"] in ("0" * 40, "1" * 40)
        hub.fails = hub.breaks = NOTHING
        if case in ("broken", "full"):
            assert "2 files uploaded" in on_hub.publish("--to", address, *ALONE).out


@pytest.mark.parametrize(
    "address", ["hf://net", "hf://team/net/more", "hf://team/../net", "hf://team/net@", "hf://te am/n"]
)
def test_no_addresses(address: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"--to {address}: expected hf://ORG/REPO[@BRANCH]")):
        parse_destination(address)


def test_no_file_and_no_output_contains_the_token(on_hub: Project, hub: FakeHub) -> None:
    texts = []
    for fails in ("/commit/", NOTHING):
        hub.fails = fails
        ended = on_hub.run("--verbose-failures", "publish", TARGET, *TO)
        texts += [ended.out, ended.err]
    assert ended.code == 0
    assert not any("CANARY" in each for each in texts)
    assert findings(on_hub.workspace.folder) == []
    assert not any(b"CANARY" in data for data in hub.repositories["team/net"].files().values())


def test_documents_that_are_there_stay(on_hub: Project, hub: FakeHub) -> None:
    on_hub.publish(*TO, *ALONE)
    ended = on_hub.publish(*TO)
    assert ended.out == "hf://team/net  2 documents attached\n"
    before = hub.repositories["team/net"].files()["provenance.intoto.json"]
    assert "nothing to upload" in on_hub.publish(*TO, "--builder", "https://other.example").out
    assert hub.repositories["team/net"].files()["provenance.intoto.json"] == before
