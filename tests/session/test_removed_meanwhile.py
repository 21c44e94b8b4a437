"""Folders removed by other programs during a build: the build succeeds or ends with one line."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

TARGETS = 8


@pytest.fixture
def workspace(make_workspace: Callable[..., Any], rules: Mapping[str, str]) -> Any:
    """Targets that are built one after the other, and that are all built again after a change of one file."""
    text = "".join(
        f'[[join]]\nname = "t{number}"\nsrcs = ["first", ":t{number - 1}"]\n' for number in range(1, TARGETS)
    )
    made = make_workspace({**rules, "a/BUILD.toml": f'[[join]]\nname = "t0"\nsrcs = ["first"]\n{text}', "a/first": "1"})
    made.built("//a/...")
    return made


def remove_outputs(workspace: Any) -> None:
    shutil.rmtree(workspace.root / "modelbuild-out", ignore_errors=True)


def clean(workspace: Any) -> None:
    assert workspace.run("clean").code == 0


def remove_cache(workspace: Any) -> None:
    shutil.rmtree(workspace.cache, ignore_errors=True)


def remove_both(workspace: Any) -> None:
    remove_outputs(workspace)
    remove_cache(workspace)


def expunge(workspace: Any) -> None:
    """Which a cache that is used refuses."""
    assert workspace.run("clean", "--expunge").code in (0, 36)


@pytest.mark.sampled
@pytest.mark.parametrize("remove", [remove_outputs, clean, remove_cache, remove_both, expunge])
def test_a_build_copes_with_what_is_removed_meanwhile(workspace: Any, remove: Callable[[Any], None]) -> None:
    for round in range(2):
        workspace.write({"a/first": f"{round}"})
        build = workspace.start("build", "//a/...", "--jobs=2")
        # At other moments each time, and of a build as long as this one is always some in its midst.
        for _ in range(6):
            time.sleep(0.02 + 0.04 * round)
            remove(workspace)
        ended = build.wait()
        assert ended.code in (0, 36), ended.err
        assert len(ended.errors) == (ended.code != 0)
        assert "internal error" not in ended.err
        assert "Traceback" not in ended.err
        workspace.check("//a/...")
    workspace.nothing_to_do("//a/...")
