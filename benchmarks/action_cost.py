"""Measure the cost of an action besides its own work, by part, in a cold build of trivial actions.

    python benchmarks/action_cost.py [--models N] [--jobs N]

The engine reports its own processor time and that of its child processes. The times of a build of one model are
subtracted, to exclude startup and imports. For comparison, the last rows are the time of a bare fork, of making a
folder, and of importing a step after its preloads.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import graphs

# Runs the command line, then prints its processor time and that of its children.
BUILD = """
import resource, sys, time
from modelbuild.cli import invoke
started = time.perf_counter()
code = invoke(sys.argv[1:])
wall = time.perf_counter() - started
times = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print([wall, *(time for used in times for time in (used.ru_utime, used.ru_stime))])
sys.exit(code)
"""

# Forks and waits, in a process that has imported the named modules; prints milliseconds per fork.
FORK = """
import gc, importlib, os, sys, time
for name in sys.argv[1:]:
    importlib.import_module(name)
gc.collect()
gc.freeze()
started = time.perf_counter()
for _ in range(500):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
print((time.perf_counter() - started) * 2)
"""

# Imports all named modules but the last, then prints the milliseconds of importing the last.
IMPORT = """
import importlib, sys, time
for name in sys.argv[1:-1]:
    importlib.import_module(name)
started = time.perf_counter()
importlib.import_module(sys.argv[-1])
print((time.perf_counter() - started) * 1000)
"""

WORKER = "modelbuild.execution.worker.order_loop"
PRELOADED = ("torch", "executorch.exir")
STEPS = ("model.steps.export", "program.steps.partition", "backends.xnnpack.steps.compile", "program.steps.emit")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=250, help="chains of four actions (250)")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for title, row in rows(Path(folder), given.models, given.jobs):
            print(f"| {title} | {row:.2f} ms |")


def rows(folder: Path, models: int, jobs: int) -> list[tuple[str, float]]:
    base, whole = built(folder / "one", 1, jobs), built(folder / "many", models, jobs)
    actions = 4 * (models - 1)
    wall, user, system, children_user, children_system = (
        (all_ - one) / actions * 1000 for all_, one in zip(whole, base, strict=True)
    )
    fresh, later = folders(folder / "folders", 2000)
    return [
        (f"an action, {jobs} jobs, wall", wall),
        ("engine, in Python and its libraries", user),
        ("engine, in the kernel", system),
        ("processes for actions, in Python and its libraries", children_user),
        ("processes for actions, in the kernel", children_system),
        ("a fork that does nothing, of a bare Python", printed(FORK)),
        ("a fork that does nothing, of what forks actions", printed(FORK, WORKER)),
        ("making a folder here", fresh),
        ("the same, after as many were removed", later),
        *((f"importing the step {step}", printed(IMPORT, *PRELOADED, f"modelbuild_rules.{step}")) for step in STEPS),
    ]


def built(folder: Path, models: int, jobs: int) -> list[float]:
    """Return seconds of a cold build: wall clock, then user and system time of the engine and of its children."""
    workspace = folder / "workspace"
    graphs.write_modelbuild(workspace, models)
    environment = {**os.environ, "MODELBUILD_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-c", BUILD, "-C", str(workspace), "build", "//...", "--quiet", f"--jobs={jobs}"]
    ended = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    times: list[float] = json.loads(ended.stdout.splitlines()[-1])
    return times


def printed(program: str, *arguments: str) -> float:
    ended = subprocess.run([sys.executable, "-c", program, *arguments], check=True, capture_output=True, text=True)
    return float(ended.stdout)


def folders(root: Path, count: int) -> tuple[float, float]:
    """Return the milliseconds of making a folder, first, and again after as many were made and removed."""
    root.mkdir()
    fresh = _made(root, count)
    for number in range(count):
        os.rmdir(root / str(number))
    return fresh, _made(root, count)


def _made(root: Path, count: int) -> float:
    started = time.perf_counter()
    for number in range(count):
        os.mkdir(root / str(number))
    return (time.perf_counter() - started) / count * 1000


if __name__ == "__main__":
    main()
