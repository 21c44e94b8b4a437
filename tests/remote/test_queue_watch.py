"""Actions that no worker accepts: one notice, and they continue to wait."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from modelbuild.actions import Action
from modelbuild.remote.execution.queue_watch import QueueWatch
from modelbuild.remote.messages import message

ACTION = Action("//a:b#c", "//a:b", "compile", "modelbuild.step", description="compile p0 (cuda)")
LINE = "remote executor X: compile //a:b p0 (cuda) "


PERIOD = 0.05  # seconds


class Said:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.queue = QueueWatch("X", PERIOD, self.lines.append)

    def after(self, stages: tuple[int, ...], asked: dict[str, str]) -> None:
        """Watch an action that is on the server for longer than the silent period."""
        with self.queue.watch(ACTION, asked) as told:
            for stage in stages:
                told(stage)
            time.sleep(4 * PERIOD)
        self.queue.close()


def test_an_action_that_waits_is_said_once_with_what_it_asks_for() -> None:
    said = Said()
    said.after((1, 2), {"gpu": "1", "OSFamily": "linux"})
    assert said.lines == [f"{LINE}has waited 0.05 s for a worker; it requests OSFamily=linux, gpu=1"]


@pytest.mark.parametrize(("others", "lines"), [({"gpu": "1"}, 0), ({"gpu": "2"}, 1)])
def test_an_action_behind_others_that_workers_take_is_not_reported(others: dict[str, str], lines: int) -> None:
    said = Said()
    with said.queue.watch(ACTION, {"gpu": "1"}) as told:
        told(2)
        for _ in range(20):
            with said.queue.watch(ACTION, others) as other:
                other(3)
                time.sleep(PERIOD / 5)
    said.queue.close()
    assert len(said.lines) == lines


@pytest.mark.parametrize("stages", [(), (0,), (1,)])
def test_a_server_that_tells_no_stage_leaves_it_open(stages: tuple[int, ...]) -> None:
    said = Said()
    said.after(stages, {})
    assert said.lines == [f"{LINE}has been on the server for 0.05 s, perhaps without a worker; it requests no property"]


@pytest.mark.parametrize("stages", [(3,), (2, 3), (2, 4)])
def test_actions_that_a_worker_took_are_not_reported(stages: tuple[int, ...]) -> None:
    said = Said()
    said.after(stages, {})
    assert said.lines == []


def waits_and_ends(place: Any, address: str) -> None:
    """A build whose action no worker accepts prints a notice and waits until Ctrl-C."""
    settings = 'queue_notice = 1\ntimeout = 5\n[remote.strategy]\n"*" = ["remote"]\n'
    place.write({"MODELBUILD.toml": f'rules = ["//tools/rules"]\n[remote]\nexecutor = "{address}"\n{settings}'})
    rule = (place.root / "tools/rules/blobs.py").read_text()
    wanted = 'resources=Resources(gpu=1, compute_capability="8.9"),\n        outputs=['
    place.write({"tools/rules/blobs.py": rule.replace("outputs=[", wanted).replace("Output,", "Output, Resources,")})
    build = place.start("build", "//a:made")
    while "it requests" not in build.err:
        assert not build.over, build.err
        time.sleep(0.05)
    build.send(signal.SIGINT)
    ended = build.wait()
    assert ended.code == 8
    said = ended.err.splitlines()
    line = "blobs //a:made has waited 1.0 s for a worker; it requests compute_capability=8.9, gpu=1"
    assert said[0] == f"note: remote executor {address}: {line}"
    assert [each for each in said if "note:" in each] == said[:1]


@pytest.fixture
def idle(fake_server: ModuleType) -> Iterator[Any]:
    """Return a server that accepts actions but has no worker for them."""

    class Idle(fake_server.FakeServer):  # type: ignore[misc]
        def Execute(self, request: Any, context: Any, fault: str) -> Iterator[Any]:
            operation = message("google.longrunning.Operation")(name="operation-7")
            operation.metadata.Pack(message("ExecuteOperationMetadata")(stage=2))
            yield operation
            while context.is_active():
                time.sleep(0.02)

        WaitExecution = Execute

    made = Idle()
    yield made
    made.close()


def test_a_build_says_what_waits_for_a_worker(place: Callable[..., Any], idle: Any) -> None:
    waits_and_ends(place("one"), idle.address)


@pytest.mark.exhaustive
def test_a_build_says_what_waits_on_build_grid(
    place: Callable[..., Any], tmp_path: Path, shared_casd: Any, build_grid: ModuleType, mounts: Any
) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("not run: needs bubblewrap, which .ci/run installs")
    farm = build_grid.Farm(tmp_path / "farm", [shared_casd.programs / "buildbox-run", *mounts()])
    try:
        waits_and_ends(place("one"), farm.address)
    finally:
        farm.kill()
