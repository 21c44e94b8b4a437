"""Changes by other programs to a running action's folder: neither a result nor the action's failure."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modelbuild.actions import StagedInput
from modelbuild.errors import EnvironmentProblem
from modelbuild.execution.fork_server_client import ForkServer

COPY = """
    def run(step):
        files = [path for path in step.input("tree").rglob("*") if path.is_file()]
        step.outputs["out"].write_text("".join(sorted(path.read_text() for path in files)))
"""


@pytest.fixture
def request_of_a_tree(bench: Any) -> Any:
    folder = bench.scratch / "tree"
    folder.mkdir()
    for name in "ab":
        (folder / name).write_text(name)
    return bench.request(
        bench.step("copy", COPY).partition(".")[2], StagedInput("tree", "in", None, bench.store.put_output(folder))
    )


def spoil(folder: Path) -> None:
    """For example by writing to an output in the output tree, which is the same file."""
    (folder / "in/a").chmod(0o644)
    (folder / "in/a").write_text("spoiled")


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "in/a").unlink(),
        spoil,
        lambda folder: shutil.rmtree(folder),
        lambda folder: shutil.rmtree(folder.parent),
    ],
    ids=["an input", "an input is spoiled", "the folder", "all folders"],
)
@pytest.mark.parametrize("when", ["before the step", "after the step"])
def test_changes_during_a_run_make_no_result(
    bench: Any, request_of_a_tree: Any, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], Any], when: str
) -> None:
    run = ForkServer.run

    def changed(server: ForkServer, order: Any, *rest: Any) -> Any:
        if when == "before the step":
            change(Path(order["root"]))
        ended = run(server, order, *rest)
        if when == "after the step":
            change(Path(order["root"]))
        return ended

    with monkeypatch.context() as patched:
        patched.setattr(ForkServer, "run", changed)
        with pytest.raises(EnvironmentProblem, match=r" were changed or removed while it was built; build again$"):
            bench.executor.run(request_of_a_tree)


def test_otherwise_the_result_is_right(bench: Any, request_of_a_tree: Any) -> None:
    outcome = bench.executor.run(request_of_a_tree)
    assert outcome.problem == ""
    assert bench.store.read_bytes(outcome.result.output("out").digest) == b"ab"
