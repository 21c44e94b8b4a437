"""Profiles: every flag of build, test and ci, with the values and the checks of the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pytest

from modelbuild.cli.group import cli
from modelbuild.cli.settings import Settings
from modelbuild.errors import LoadingError
from modelbuild.workspace.flags import FLAGS, Flag
from modelbuild.workspace.workspace import load_workspace
from tests.workspace_builder import Workspace

COMMANDS = ("build", "test", "ci")

# Values of a profile, and the same on the command line.
TEXTS = {
    "device": "//:d",
    "toolchain": "//:t",
    "strategy": "compile=remote,local",
    "remote_executor": "grpc://host:1",
    "since": "HEAD",
}
KINDS: dict[str, Any] = {
    "count": 7,
    "duration": "2 h",
    "address": "https://host/x",
    "runner": "//:d=ssh://user@host",
    "text": "a,-b",
    "file": "x/y",
    "input": "x/y",
}


def value(flag: Flag, root: Path) -> Any:
    if flag.kind == "switch":
        return not flag.default
    if flag.kind == "choice":
        return flag.choices[-1]
    if flag.kind in ("file", "input"):
        return str(root / KINDS["file"])
    return TEXTS.get(flag.key) or KINDS[flag.kind]


def option(flag: Flag, written: Any) -> str:
    if flag.kind == "switch":
        return f"--{'' if written else 'no-'}{flag.name}"
    return f"--{flag.name}={written}"


def command(name: str) -> click.Command:
    found = cli.get_command(click.Context(cli), name)
    assert found is not None
    return found


def parameters(name: str, root: Path, *arguments: str) -> dict[str, Any]:
    return command(name).make_context(name, [*arguments, "//:a"], obj=Settings(root)).params


def write(root: Path, **flags: Any) -> None:
    lines = [f"{key} = {json.dumps(each)}" for key, each in flags.items()]
    (root / "MODELBUILD.toml").write_text("\n".join(["[profile.all]", *lines]))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_profile_may_set_every_option(name: str) -> None:
    known = {flag.name for flag in FLAGS}
    options = [each.opts[-1].removeprefix("--") for each in command(name).params if isinstance(each, click.Option)]
    assert set(options) - {"config", "watch"} <= known


def test_every_flag_of_a_profile_is_an_option() -> None:
    options = {opt for name in COMMANDS for each in command(name).params for opt in each.opts}
    assert {f"--{flag.name}" for flag in FLAGS} <= options


@pytest.mark.parametrize("name", COMMANDS)
def test_a_profile_has_the_values_of_the_command_line(tmp_path: Path, name: str) -> None:
    values = {flag: value(flag, tmp_path) for flag in FLAGS}
    write(tmp_path, **{flag.key: written for flag, written in values.items()})
    own = {opt for each in command(name).params for opt in each.opts}
    arguments = [option(flag, written) for flag, written in values.items() if f"--{flag.name}" in own]
    typed = parameters(name, tmp_path, *arguments)
    assert parameters(name, tmp_path, "--config", "all") == typed != parameters(name, tmp_path)


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.name)
def test_the_command_line_overrides_a_profile(tmp_path: Path, flag: Flag) -> None:
    write(tmp_path, **{flag.key: value(flag, tmp_path)})
    others = {"count": "3", "choice": flag.choices[:1], "duration": "5", "address": ""}
    other = {"switch": bool(flag.default)}.get(flag.kind, others.get(flag.kind, "//:other"))
    typed = option(flag, other[0] if flag.kind == "choice" else other)
    name = next(name for name in COMMANDS if any(f"--{flag.name}" in each.opts for each in command(name).params))
    assert parameters(name, tmp_path, "--config", "all", typed) == parameters(name, tmp_path, typed)


BAD = [
    ("junitt = 'x'", "unknown key 'junitt' of [profile.p]; did you mean 'junit'?"),
    ("keep-going = true", "unknown key 'keep-going' of [profile.p]; did you mean 'keep_going'?"),
    ("config = 'q'", "unknown key 'config' of [profile.p]"),
    ("junit = true", "'junit': expected a path, got true"),
    ("require_all = 1", "'require_all': expected true or false, got 1"),
    ("runs_per_test = 0", "'runs_per_test': expected a whole number from 1 to 10000, got 0"),
    ("strategy = ['compile=remot']", "'strategy': 'remot' is an unknown place; expected remote or local; did you"),
    ("strategy = { compile = ['remote'] }", "'strategy': expected a kind of action and places, as in 'compile=remote"),
    ("remote_executor = 'https://x/y'", "'remote_executor': 'https://x/y' is not the address of a remote; expected g"),
    ("runner = '//:d=shh://host'", "'runner': 'shh://host' is not the address of a device; expected local:, qemu:ARCH"),
    ("remote_upload = 'allways'", 'got "allways"; did you mean \'always\'?'),
    ("action_timeout = '1 m'", "'action_timeout': expected a duration such as"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "problem"), BAD)
def test_an_error_in_a_profile_has_its_place_although_nobody_uses_it(tmp_path: Path, line: str, problem: str) -> None:
    (tmp_path / "MODELBUILD.toml").write_text(f"[profile.p]\njobs = 2\n{line}\n")
    with pytest.raises(LoadingError) as caught:
        load_workspace(tmp_path, {})
    assert str(caught.value).startswith("MODELBUILD.toml:3:")
    assert problem in str(caught.value)


GROUP: Mapping[str, str] = {"BUILD.toml": '[[filegroup]]\nname = "g"\nsrcs = ["a.txt"]\n', "a.txt": "1", "sub/b": ""}


def test_a_profiles_files_are_in_the_workspace_and_written_by_every_build(workspace: Workspace) -> None:
    workspace.write({**GROUP, "MODELBUILD.toml": "[profile.ci]\njunit = 'out/../j.xml'\nbuild_event_json = 'e'\n"})
    report = workspace.root / "j.xml"
    for _ in range(2):  # the second one has nothing to do
        (workspace.root / "out").mkdir(exist_ok=True)
        assert workspace.run("build", "//:g", "--config", "ci", cwd=workspace.root / "sub").code == 0
        assert report.exists()
        report.unlink()


def test_a_repeated_command_line_follows_its_changed_profile(workspace: Workspace) -> None:
    """Also after an edit of a source, when the build is repeated without reading the command line."""
    workspace.write({**GROUP, "MODELBUILD.toml": "[profile.ci]\nquiet = true\n"})
    line = ("build", "//:g", "--config", "ci")
    assert workspace.run(*line).out == workspace.run(*line).out == ""
    workspace.write({"a.txt": "2"})
    assert workspace.run(*line).out == ""
    workspace.write({"a.txt": "3", "MODELBUILD.toml": "[profile.ci]\nquiet = false\n"})
    assert "//:g" in workspace.run(*line).out
    workspace.write({"MODELBUILD.toml": ""})
    ended = workspace.run(*line)
    assert (ended.code, ended.err) == (2, "error: no [profile.ci] in MODELBUILD.toml\n")
