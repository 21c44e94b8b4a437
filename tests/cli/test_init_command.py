"""`modelbuild init`: workspaces that build, from an example and from checkpoints, and what it refuses."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modelbuild.cli import invoke
from modelbuild.errors import ExitCode
from modelbuild_rules.starter import Starter
from tests.workspace_builder import Workspace

Run = Callable[..., tuple[int, str, str]]

WRITTEN = [
    *("MODELBUILD.toml", "BUILD.toml", "features.json", "model.py"),
    ".gitignore",
]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs `modelbuild ...` in the test's folder; it returns the exit code and the output."""
    monkeypatch.setenv("MODELBUILD_CACHE_DIR", str(tmp_path / "cache"))

    def call(*arguments: str) -> tuple[int, str, str]:
        code = invoke(["-C", str(tmp_path), *arguments])
        return code, *capsys.readouterr()

    return call


def test_writes_an_example_and_prints_the_next_commands(run: Run, tmp_path: Path) -> None:
    code, out, err = run("init", "new folder/demo")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"Wrote {', '.join(WRITTEN)}",
        "",
        "Next:",
        "  cd 'new folder/demo'",
        "  modelbuild test //...",
        "  modelbuild run //:net_program --input features=features.json",
    ]
    root = tmp_path / "new folder/demo"
    assert sorted(path.name for path in root.iterdir()) == sorted(WRITTEN)
    assert run("-C", str(root), "query", "//...")[1].split() == [
        "//:net",
        "//:net_program",
        "//:net_test",
    ]


@pytest.mark.parametrize("taken", [name for name in WRITTEN if name != ".gitignore"])
def test_overwrites_no_file_and_writes_nothing_then(run: Run, tmp_path: Path, taken: str) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / taken).write_text("mine")
    code, out, err = run("init", "demo")
    assert (code, out) == (ExitCode.USAGE, "")
    assert err == f"error: demo/{taken} exists already; expected a folder without it\n"
    assert [path.name for path in (tmp_path / "demo").iterdir()] == [taken]
    assert (tmp_path / "demo" / taken).read_text() == "mine"


def test_keeps_a_gitignore(run: Run, tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("mine\n")
    assert ".gitignore" not in run("init")[1]
    assert (tmp_path / ".gitignore").read_text() == "mine\n"


def test_leaves_no_file_after_a_failure(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    starter = Starter({"BUILD.toml": ""}, {"w.safetensors": tmp_path / "none"})
    monkeypatch.setattr("modelbuild_rules.starter.from_checkpoint", lambda path: starter)
    monkeypatch.setattr("shutil.copyfile", full)
    code, out, err = run("init", "demo", "--from-checkpoint", "w.safetensors")
    assert (code, out, err) == (ExitCode.ENVIRONMENT, "", "error: No space left on device\n")
    assert list((tmp_path / "demo").iterdir()) == []


def test_refuses_a_folder_in_a_workspace(run: Run, tmp_path: Path) -> None:
    assert run("init")[0] == 0
    code, _, err = run("init", "inner")
    assert code == ExitCode.USAGE
    assert err.startswith(f"error: inner is in the workspace {tmp_path}; expected a folder outside of a workspace")
    assert not (tmp_path / "inner").exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["file"], "file is not a folder; expected one for the workspace"),
        (
            ["--example", "--from-checkpoint", "w.pt"],
            "--example and --from-checkpoint exclude each other; expected one of them",
        ),
        (["--from-checkpoint", "none.pt"], "{root}/none.pt: no such file; expected a checkpoint"),
        (["--from-checkpoint", "folder.pt"], "{root}/folder.pt: no such file; expected a checkpoint"),
        (
            ["--from-checkpoint", "file"],
            "{root}/file: not a checkpoint; expected a file ending in .safetensors, .pt, .pth, .bin, .pt2",
        ),
    ],
)
def test_a_wrong_argument_is_one_line(run: Run, tmp_path: Path, arguments: list[str], problem: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.pt").mkdir()
    code, out, err = run("init", *arguments)
    assert (code, out, err) == (ExitCode.USAGE, "", f"error: {problem.format(root=tmp_path)}\n")
    assert not (tmp_path / "MODELBUILD.toml").exists()


def safetensors() -> bytes:
    """Return a file with the weights of Linear(4, 3)."""
    import numpy as np
    from safetensors.numpy import save

    return save({"head.weight": np.ones((3, 4), np.float32), "head.bias": np.zeros(3, np.float32)})


def test_writes_targets_and_a_module_to_fill_in_for_a_state_dict(run: Run, tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(safetensors())
    code, out, err = run("init", "--from-checkpoint", "w.safetensors")
    assert (code, err) == (0, "")
    assert "\nFill in:\n  model.py: the module whose state dict this is\n  BUILD.toml: the inputs of net\n" in out
    assert "    head.weight: float32[3, 4]\n" in (tmp_path / "model.py").read_text()
    (target,) = tomllib.loads((tmp_path / "BUILD.toml").read_text())["torch_model"]
    assert (target["entry"], target["weights"]) == ("model.py:Net", "w.safetensors")


def test_a_file_that_is_no_checkpoint_is_one_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "w.pt").write_bytes(b"<html>")
    code, out, err = run("init", "--from-checkpoint", "w.pt")
    assert (code, out) == (ExitCode.USAGE, "")
    assert err.startswith("error: w.pt: cannot be read as weights only: ")
    assert err.count("\n") == 1


@pytest.fixture
def fresh(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "fresh")


def passed(workspace: Workspace) -> Any:
    return {label: test["status"] for label, test in workspace.test("//...").items()}


@pytest.mark.slow
@pytest.mark.exhaustive
def test_an_example_builds_passes_its_test_and_runs(fresh: Workspace) -> None:
    assert fresh.run("init").code == 0
    assert passed(fresh) == {"//:net_test": "passed"}
    ended = fresh.run("run", "//:net_program", "--input", "features=features.json", "--json")
    assert ended.code == 0, ended.err
    assert [output["name"] for output in ended.json["outputs"]] == ["probabilities"]


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_state_dict_builds_once_its_module_is_filled_in(fresh: Workspace) -> None:
    (fresh.folder / "w.safetensors").write_bytes(safetensors())
    assert fresh.run("init", "--from-checkpoint", "../w.safetensors").code == 0
    assert fresh.run("build", "//...").errors[0].endswith("make the layers here, with the names in the list above")
    fresh.edit("model.py", 'raise NotImplementedError("make the layers here', 'self.head = nn.Linear(4, 3)  # ("')
    fresh.edit("model.py", 'raise NotImplementedError("call the layers here")', "return self.head(x)")
    fresh.edit("BUILD.toml", "shape = [1, 3, 224, 224]", "shape = [2, 4]")
    assert passed(fresh) == {"//:net_test": "passed"}


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("keyword", [False, True])
def test_an_exported_program_builds_with_nothing_to_fill_in(fresh: Workspace, keyword: bool) -> None:
    import torch
    from torch.export import Dim, export

    given: Any = ((), {"input": torch.ones(4, 4)}) if keyword else ((torch.ones(4, 4),), {})
    program = export(torch.nn.Linear(4, 3), *given, dynamic_shapes={"input": {0: Dim("n", min=2, max=8)}})
    torch.export.save(program, fresh.folder / "m.pt2")
    ended = fresh.run("init", "--from-checkpoint", "../m.pt2")
    assert (ended.code, "Fill in" in ended.out) == (0, False)
    (target,) = tomllib.loads((fresh.root / "BUILD.toml").read_text())["torch_model"]
    assert json.dumps(target["dynamic"]).endswith('{"min": 2, "max": 8}}')
    assert passed(fresh) == {"//:net_test": "passed"}
