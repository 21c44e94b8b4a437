"""Outputs are collected only from their folder: no file that the action did not make is moved or changed, for any
contents of that folder."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modelbuild.actions import Output
from modelbuild.execution.isolation.system_calls import drop_capabilities
from modelbuild.execution.sandbox import Sandbox, SandboxProblem

FILES = {"mine": "precious", "folder/mine": "precious", "folder/deep/mine": "precious"}


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Return a folder of the user, which the test must not change."""
    host = tmp_path / "host"
    for name, text in FILES.items():
        (host / name).parent.mkdir(parents=True, exist_ok=True)
        (host / name).write_text(text)
        (host / name).chmod(0o640)
    return host


def untouched(host: Path) -> bool:
    found = {str(path.relative_to(host)): path for path in host.rglob("*") if not path.is_dir()}
    return {name: path.read_text() for name, path in found.items()} == FILES and all(
        path.stat().st_mode & 0o777 == 0o640 for path in found.values()
    )


def replaced(path: Path, by: Path) -> None:
    """Put a symbolic link in place of a folder."""
    for folder, _, _ in os.walk(path, topdown=False):
        os.rmdir(folder)
    path.symlink_to(by)


CHANGES: dict[str, tuple[Output, Callable[[Path, Path], None], str]] = {
    "a path that goes up": (
        Output("o", "../../host/mine"),
        lambda outputs, host: None,
        "'../../host/mine' is not a path within a folder",
    ),
    "an absolute path": (Output("o", "HOST/mine"), lambda outputs, host: None, "is not a path within a folder"),
    "a link for an output": (
        Output("o", "o"),
        lambda outputs, host: (outputs / "o").symlink_to(host / "mine"),
        "output 'o' (o) is not a file",
    ),
    "a link for a tree": (
        Output("o", "o", "tree"),
        lambda outputs, host: replaced(outputs / "o", host / "folder"),
        "output 'o' (o) is not a folder",
    ),
    "a link for the folder of an output": (
        Output("o", "folder/mine"),
        lambda outputs, host: replaced(outputs / "folder", host / "folder"),
        "removed, replaced or closed the folder of its output 'o' (folder/mine)",
    ),
    "a link for a folder further up": (
        Output("o", "folder/deep/mine"),
        lambda outputs, host: replaced(outputs / "folder", host / "folder"),
        "removed, replaced or closed the folder of its output 'o' (folder/deep/mine)",
    ),
    "a link for the folder of outputs": (
        Output("o", "mine"),
        lambda outputs, host: replaced(outputs, host),
        "removed, replaced or closed the folder of its outputs",
    ),
    "a link in a tree": (
        Output("o", "o", "tree"),
        lambda outputs, host: (outputs / "o/deep").symlink_to(host / "folder"),
        "o/deep is a symbolic link",
    ),
    "a file for the folder of an output": (
        Output("o", "folder/mine"),
        lambda outputs, host: (os.rmdir(outputs / "folder"), (outputs / "folder").write_text("")),
        "removed, replaced or closed the folder of its output 'o' (folder/mine)",
    ),
    "no folder of outputs": (
        Output("o", "mine"),
        lambda outputs, host: os.rmdir(outputs),
        "removed, replaced or closed the folder of its outputs",
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_collecting_outputs_does_not_leave_their_folder(bench: Any, host: Path, tmp_path: Path, case: str) -> None:
    output, change, problem = CHANGES[case]
    output = Output(output.name, output.path.replace("HOST", str(host)), output.kind)
    request = bench.request("tiny", outputs=(output,))
    sandbox = Sandbox(tmp_path / "sandbox")
    with pytest.raises(SandboxProblem) as caught:  # noqa: PT012 - either may refuse it
        sandbox.lay_out(request.action, (), bench.store)
        change(sandbox.outputs, host)
        sandbox.collect(request.action, bench.store)
    assert problem in str(caught.value)
    assert untouched(host)


def test_a_hard_link_to_somebody_s_file_is_copied(bench: Any, host: Path, tmp_path: Path) -> None:
    request = bench.request("tiny", outputs=(Output("o", "o"),))
    sandbox = Sandbox(tmp_path / "sandbox")
    sandbox.lay_out(request.action, (), bench.store)
    os.link(host / "mine", sandbox.outputs / "o")
    ((_, entry),) = sandbox.collect(request.action, bench.store)
    assert bench.store.read_bytes(entry.digest) == b"precious"
    assert untouched(host)


def test_a_step_that_links_a_folder_of_its_outputs_elsewhere(bench: Any, host: Path) -> None:
    """Run it like a step, in a separate process."""
    bench.step(
        "tiny",
        """
        import os
        def run(step):
            folder = step.outputs["o"].parent
            os.rmdir(folder)
            os.symlink(step.params["host"], folder)
        """,
    )
    outcome = bench.run("tiny", outputs=(Output("o", "a/mine"),), params={"host": str(host)})
    assert "the step removed, replaced or closed the folder of its output 'o' (a/mine)" in outcome.problem
    assert untouched(host)


@pytest.mark.parametrize("closed", ["folder", "."])
def test_a_step_that_closes_a_folder_of_its_outputs(bench: Any, tmp_path: Path, closed: str) -> None:
    request = bench.request("tiny", outputs=(Output("o", "folder/mine"),))
    sandbox = Sandbox(tmp_path / "sandbox")
    sandbox.lay_out(request.action, (), bench.store)
    (sandbox.outputs / "folder/mine").write_text("1")
    (sandbox.outputs / closed).chmod(0)
    problems = []

    def collect() -> None:
        drop_capabilities()  # of this thread, which may be root's
        try:
            sandbox.collect(request.action, bench.store)
        except SandboxProblem as problem:
            problems.append(str(problem))

    thread = threading.Thread(target=collect)
    thread.start()
    thread.join()
    what = "output 'o' (folder/mine)" if closed == "folder" else "outputs"
    assert problems == [
        f"the step removed, replaced or closed the folder of its {what}; expected the step to write into it"
    ]


def test_output_of_a_step_is_not_written_through_a_link(bench: Any, host: Path, tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path / "sandbox")
    sandbox.lay_out(bench.request("tiny").action, (), bench.store)
    sandbox.stdout.symlink_to(host / "mine")
    with pytest.raises(SandboxProblem, match="cannot store the step's output"):
        sandbox.printed(bench.store)
    assert untouched(host)
