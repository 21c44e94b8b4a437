"""Random damage to the cache and to the output tree's own folder, between builds and while they run.

MODELBUILD_HISTORY_SEED=7 MODELBUILD_HISTORY_STEPS=300 pytest tests/session/test_damage.py
"""

from __future__ import annotations

import os
import random
import shutil
import time
from pathlib import Path

import pytest

from modelbuild.store.ownership import MARK_FILE
from tests.command_runner import Ended
from tests.session.changes import begin, edit_a_source
from tests.session.checked_workspace import Built, CheckedWorkspace, assert_same
from tests.session.damages import assert_untouched, damage_something, make_decoys

REQUEST = ("//...", "--keep-going", "--jobs=2")


class Damaged:
    """A workspace whose cache and output tree are damaged repeatedly."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.seed = seed
        self.dice = random.Random(seed)
        self.workspace = CheckedWorkspace(folder)
        self.done: list[str] = []
        begin(self.workspace, self.dice)
        make_decoys(folder)
        self.places = [self.workspace.cache, self.workspace.root / "modelbuild-out/.modelbuild"]

    def step(self) -> None:
        if self.dice.random() < 0.5:
            self._note(f"edit {edit_a_source(self.workspace, self.dice)}")
        if self.dice.random() < 0.7:
            self.workspace.settle()
        if self.dice.random() < 0.3:
            self._meanwhile()
        else:
            for _ in range(self.dice.randint(1, 4)):
                self._damage()
        first = self._build()
        if first.code == 36:  # the error reports it, and the next build is correct
            if MARK_FILE in first.err:  # nothing shows that it is a cache
                shutil.rmtree(self.workspace.cache)
            first = self._build()
        assert_same(first, self.workspace.afresh(*REQUEST))
        assert_untouched(self.workspace.folder)

    def _meanwhile(self) -> None:
        build = self.workspace.start("build", *REQUEST)
        for _ in range(4):
            time.sleep(self.dice.random() * 0.15)
            # Files in use are not written to in place, because no build could detect that.
            self._damage(in_place=False)
        self._sound(build.wait())

    def _damage(self, in_place: bool = True) -> None:
        folder = self.dice.choice(self.places)
        self._note(f"{folder.name}: {damage_something(folder, self.dice, in_place)}")

    def _build(self) -> Built:
        ended = self.workspace.run("build", *REQUEST)
        self._note(f"build: {ended.code} {'; '.join(ended.errors)}")
        self._sound(ended)
        return self.workspace.look(ended) if ended.code == 0 else Built(ended.code, ended.out, ended.err, {})

    def _sound(self, ended: Ended) -> None:
        assert ended.code in (0, 36), ended.err
        assert len(ended.errors) == (ended.code != 0), ended.err
        assert "Traceback" not in ended.err, ended.err

    def _note(self, text: str) -> None:
        self.done.append(text)


SEED, STEPS = (os.environ.get(f"MODELBUILD_HISTORY_{name}") for name in ("SEED", "STEPS"))


def go_through(folder: Path, seed: int, steps: int) -> None:
    damaged = Damaged(folder, seed)
    for number in range(steps):
        try:
            damaged.step()
        except BaseException as error:
            done = "\n  ".join(damaged.done[-25:])
            print(f"seed {seed}, step {number}, in {folder}:\n  {done}\n{type(error).__name__}: {error}")
            raise


@pytest.mark.parametrize("seed", [int(SEED or 1)])
def test_a_build_after_damage_is_right_or_reports_it(tmp_path: Path, seed: int) -> None:
    go_through(tmp_path, seed, int(STEPS or 8))


@pytest.mark.exhaustive
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", [2, 3])
def test_a_cache_that_is_damaged_all_the_time(tmp_path: Path, seed: int) -> None:
    go_through(tmp_path, seed, 250)
