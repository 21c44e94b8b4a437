"""Measure the time before an action with torch starts its own work: the first action of a build, and later ones.

    python benchmarks/torch_actions.py [--actions N]

The build events have the time at which an action starts; the step writes the time of its call.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

RULE = """
from modelbuild.api import Attrs, Context, Files, Output, Provider, Source, rule


class TickAttrs(Attrs):
    after: Source


@rule(attrs=TickAttrs)
def tick(ctx: Context[TickAttrs]) -> tuple[Provider, ...]:
    output = Output("at", f"{ctx.label.name}.txt")
    after = ctx.file(ctx.attrs.after)
    torch = ("torch",)
    made = ctx.action("tick", step="tick", inputs={"after": after}, outputs=[output], tools=torch, preload=torch)
    return (Files((made["at"],)),)
"""

STEP = """
import time

import torch

from modelbuild.step import Step


def run(step: Step) -> None:
    step.outputs["at"].write_text(f"{time.time()} {torch.__version__}")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--actions", type=int, default=8)
    count = parser.parse_args().actions
    with tempfile.TemporaryDirectory() as folder:
        first, *later = (round(wait * 1000) for wait in waited(Path(folder), count))
    print(f"the first action: {first} ms, in which torch is imported")
    print(f"later actions: {statistics.median(later):.0f} ms (median of {len(later)}; {min(later)} to {max(later)})")


def waited(root: Path, count: int) -> list[float]:
    """Return the seconds from an action's start to its step's, for each of a chain of actions."""
    (root / "rules/steps").mkdir(parents=True)
    (root / "rules/__init__.py").touch()
    (root / "rules/steps/__init__.py").touch()
    (root / "rules/tick.py").write_text(RULE)
    (root / "rules/steps/tick.py").write_text(STEP)
    (root / "MODELBUILD.toml").write_text('rules = ["//rules"]\n')
    (root / "begin").touch()
    sources = ["begin", *(f":t{number}" for number in range(count - 1))]
    tables = [f'[[tick]]\nname = "t{number}"\nafter = "{source}"\n' for number, source in enumerate(sources)]
    (root / "BUILD.toml").write_text("".join(tables))
    command = [sys.executable, "-m", "modelbuild", "build", "//...", "--quiet", "-j1", "--build-event-json", "events"]
    environment = {**os.environ, "MODELBUILD_CACHE_DIR": str(root / "cache")}
    subprocess.run(command, cwd=root, env=environment, check=True)
    stream, *events = (json.loads(line) for line in (root / "events").read_text().splitlines())
    begun = {e["owner"]: stream["time"] + e["at"] for e in events if e["event"] == "action_started"}
    return [_called(root, number) - begun[f"//:t{number}"] for number in range(count)]


def _called(root: Path, number: int) -> float:
    return float((root / f"modelbuild-out/default/t{number}/t{number}.txt").read_text().split()[0])


if __name__ == "__main__":
    main()
