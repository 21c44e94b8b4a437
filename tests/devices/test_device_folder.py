"""The folder on a device: a folder of the user's is refused, and nothing in it changes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from modelbuild.device_runners import parse_address
from modelbuild.devices import scripts
from modelbuild.devices.device import Device
from modelbuild.devices.problems import DeviceProblem
from modelbuild.errors import ExitCode
from modelbuild.store.ownership import MARK, MARK_FILE
from tests.devices.sshd import Sshd
from tests.workspace_builder import Workspace

CONTENTS = {"jobs/a": "mine", "incoming/b": "mine", "owner": "mine", "blobs/c": "mine"}
SCRIPTS = {
    name: text
    for name, text in vars(scripts).items()
    if isinstance(text, str) and text.startswith("tag=") and name != "_BEGIN"
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a folder with the names of a device's files."""
    for name, text in CONTENTS.items():
        (tmp_path / "home" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "home" / name).write_text(text)
    return tmp_path / "home"


def contents(home: Path) -> dict[str, str]:
    return {str(path.relative_to(home)): path.read_text() for path in home.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_no_script_works_in_a_folder_of_the_user(home: Path, name: str) -> None:
    arguments = [str(home), "1", "1", "1", "1", "true"]
    for mark in (None, "", f"{MARK.decode()}\n", "mine"):
        if mark is not None:
            (home / MARK_FILE).write_text(mark)
        before = contents(home)
        ended = subprocess.run(
            ["sh", "-c", SCRIPTS[name], "sh", *arguments], input="", capture_output=True, text=True, check=False
        )
        problem = f"{home} has contents, but no {MARK_FILE} of modelbuild; expected a missing or empty folder\n"
        assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", problem)
        assert contents(home) == before


@pytest.mark.parametrize("exists", [True, False])
def test_an_empty_folder_is_marked_by_the_first_session(tmp_path: Path, exists: bool) -> None:
    folder = tmp_path / "device"
    if exists:
        folder.mkdir()
    for _ in range(2):
        device = Device(parse_address(f"local:?folder={folder}"))
        with device.session("//:t", 5, print):
            assert (folder / MARK_FILE).read_bytes() == MARK
        device.close()


def test_a_session_is_refused_over_ssh(server: Sshd, home: Path) -> None:
    with pytest.raises(DeviceProblem, match=f"{home} has contents, but no {MARK_FILE}") as caught:
        Device(parse_address(server.at(server.port, folder=home)))
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    assert contents(home) == CONTENTS


def test_devices_shows_the_problem(workspace: Workspace, home: Path) -> None:
    build = '[[device_target]]\nname = "pc"\narch = "x86_64"\nrunners = [":here"]\n'
    build += f'[[device_runner]]\nname = "here"\nconnection = {{ type = "local" }}\nfolder = "{home}"\n'
    workspace.write({"MODELBUILD.toml": "", "BUILD.toml": build})
    ended = workspace.run("devices")
    assert f"{home} has contents, but no {MARK_FILE} of modelbuild; expected a missing or empty folder" in ended.out
    assert contents(home) == CONTENTS
