"""Random histories of a workspace: after each step a build equals one from scratch in a clone.

    MODELBUILD_HISTORY_SEED=7 MODELBUILD_HISTORY_STEPS=1000 pytest tests/session/test_histories.py

repeats the choices of a history. The progress of a killed or concurrent build still depends on the machine.
"""

from __future__ import annotations

import os
import random
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.command_runner import Ended
from tests.session.changes import CHANGES, begin, rewrite_build_files
from tests.session.checked_workspace import CheckedWorkspace, assert_same
from tests.session.file_systems import MountRefused

REQUESTS = [("//...",)] * 6 + [
    ("//p0:t0",),
    ("//p1:t0", "//p2:t0"),
    ("//p0/...", "//p2/..."),
    ("//...", "--device=//:default"),
    ("//p1/...", "--device=//:default"),
]
# 5 is 1 and 3 together. 36 is a build that conflicts with others: the error suggests building again.
MAY_END = (0, 1, 2, 3, 5, 36)


class History:
    """A workspace, and the list of its changes."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.seed = seed
        self.dice = random.Random(seed)
        self.workspace = CheckedWorkspace(folder)
        self.done: list[str] = []
        self._wrong = 0
        begin(self.workspace, self.dice)

    def step(self) -> None:
        """Change something, perhaps during builds, and check that a build equals one from scratch."""
        for _ in range(self.dice.choice([1, 1, 1, 2, 3])):
            self._change()
        if self.dice.random() < 0.1:
            self.dice.choice([self._kill, self._two_at_once])()
        if self._wrong > 2:  # too often in a row to learn much
            self._note(rewrite_build_files.__name__, rewrite_build_files(self.workspace, self.dice))
        if self.dice.random() < 0.5:
            self.workspace.settle()
        self._check()

    def _change(self) -> None:
        (change,) = self.dice.choices(list(CHANGES), list(CHANGES.values()))
        self.done.append(change.__name__)
        with suppress(MountRefused):  # this machine's histories are without mounts
            self.done[-1] += f" {change(self.workspace, self.dice)}"

    def _check(self) -> None:
        request = self._request()
        self._note("build", " ".join(request))
        ended = self.workspace.built(*request)
        self.done[-1] += f": {ended.code} {'; '.join(ended.errors)}"
        _assert_sound(ended)
        assert_same(ended, self.workspace.afresh(*request))
        self._wrong = self._wrong + 1 if ended.code else 0

    def _kill(self) -> None:
        request, seconds = self._request(), self.dice.random() * 0.6
        self._note("kill", f"{' '.join(request)} after {seconds:.2f} s")
        build = self.workspace.start("build", *request)
        time.sleep(seconds)
        build.kill()

    def _two_at_once(self) -> None:
        first, second, seconds = self._request(), self._request(), self.dice.random() * 0.3
        self._note("two at once", f"{' '.join(first)}, then {' '.join(second)} after {seconds:.2f} s")
        builds = [self.workspace.start("build", *first)]
        time.sleep(seconds)
        self._change()
        builds.append(self.workspace.start("build", *second))
        for build in builds:
            _assert_sound(build.wait())

    def _request(self) -> tuple[str, ...]:
        verify = ["--verify-sources"] if self.workspace.mappings else []
        return (*self.dice.choice(REQUESTS), "--keep-going", f"--jobs={self.dice.choice([1, 2])}", *verify)

    def _note(self, name: str, detail: str) -> None:
        self.done.append(f"{name} {detail}")


def _assert_sound(ended: Ended) -> None:
    assert ended.code in MAY_END, ended.err
    assert "internal error" not in ended.err, ended.err
    assert "Traceback" not in ended.err, ended.err


def go_through(folder: Path, seed: int, steps: int) -> None:
    history = History(folder, seed)
    try:
        for number in range(steps):
            try:
                history.step()
            except BaseException as error:
                done, place = "\n  ".join(history.done[-25:]), history.workspace.root
                print(f"seed {seed}, step {number}, in {place}:\n  {done}\n{type(error).__name__}: {error}")
                raise
    finally:
        for mount in history.workspace.mounts.values():
            mount.close()


SEED, STEPS = (os.environ.get(f"MODELBUILD_HISTORY_{name}") for name in ("SEED", "STEPS"))


@pytest.mark.timeout(7200 if STEPS else 900)
@pytest.mark.parametrize("seed", [int(SEED or 1)])
def test_a_build_comes_out_as_one_from_nothing_whatever_happened_before(tmp_path: Path, seed: int) -> None:
    go_through(tmp_path, seed, int(STEPS or 12))


@pytest.mark.exhaustive
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", [2, 3])
def test_a_long_history(tmp_path: Path, seed: int) -> None:
    go_through(tmp_path, seed, 500)
