"""A build of several programs that is interrupted leaves whole programs."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from fnmatch import fnmatch

import pytest

from tests.stages import Stages, wait_for

NAMES = "abcd"


@pytest.mark.parametrize(("kind", "code"), [(signal.SIGINT, 8), (signal.SIGTERM, 8)])
def test_an_interrupted_build_leaves_whole_programs(stages: Stages, kind: signal.Signals, code: int) -> None:
    """Of four programs of three actions, two are whole and one is in its last action when the build ends."""
    declared = {f"{name}{n}": {"srcs": [f":{name}{n - 1}"] if n else []} for name in NAMES for n in range(3)}
    # The last action of the third program waits; any of them may be the third.
    stages.hold.mkdir()
    for name in NAMES:
        declared[f"{name}2"]["waits"] = str(stages.hold / name)
        (stages.hold / name).touch()
    stages.declare(**declared)
    build = stages.start(*(f"//a:{name}2" for name in NAMES), "-k", "--jobs", "1")
    finished = []
    while len(finished) < 2:
        name = wait_for(lambda: next(iter(waiting(stages) - set(finished)), ""))
        finished.append(name)
        (stages.hold / name).unlink()
    third = wait_for(lambda: next(iter(waiting(stages) - set(finished)), ""))
    build.send(kind)
    ended = build.wait()
    assert ended.code == code
    assert "Interrupted: 12 actions, 8 ran, 0 cached, 4 not run" in ended.err
    # Their outputs are laid out, and no others.
    for name in NAMES:
        path = stages.workspace.root / f"modelbuild-out/default/a/{name}2/{name}2.txt"
        assert path.exists() == (name in finished)
        if name in finished:
            assert path.read_text() == "".join(f"{name}{n}\n" for n in range(3))
    # The next build runs the rest.
    (stages.hold / third).unlink()
    for name in set(NAMES) - {*finished, third}:
        (stages.hold / name).unlink()
    statuses = stages.workspace.build("//a/...", **stages.environment).statuses
    ran = {action.partition("#")[0] for action, status in statuses.items() if status == "ran"}
    (last,) = set(NAMES) - {*finished, third}
    assert ran == {f"//a:{third}2", *(f"//a:{last}{n}" for n in range(3))}


def waiting(stages: Stages) -> set[str]:
    """Return the programs whose last action waits."""
    found = set()
    with suppress(FileNotFoundError):  # of an action that has ended meanwhile
        for home in (stages.workspace.cache / "tmp").glob("build-*/*/.home"):
            found |= {name[0] for name in os.listdir(home) if fnmatch(name, "?2.[0-9]*")}
    return found
