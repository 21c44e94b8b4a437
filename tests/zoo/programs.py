"""Builds of the zoo's programs by the command line, and what came of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

ZOO = Path(__file__).resolve().parent
ROOT = ZOO.parent.parent
STACKS = ("xnnpack", "tensorrt", "cuda")
PACKAGES = ("timm_models", "torchvision_models", "transformers_models", "own")


@dataclass(frozen=True)
class Outcome:
    """A program's build: `delegated` is the fraction of the lowered graph's nodes that backends took, `parity` the
    result of its pte_test on XNNPACK ('' for other stacks, which need a GPU), `reason` the line of a failure."""

    model: str
    stack: str
    built: bool
    seconds: int
    delegated: float = 0.0
    partitions: int = 0
    parity: str = ""
    reason: str = ""


def models() -> list[str]:
    """Return the labels of all models, such as "//timm_models:resnet18"."""
    found = []
    for package in PACKAGES:
        tables = tomllib.loads((ZOO / package / "BUILD.toml").read_text())
        shared = {matrix["name"]: matrix for matrix in tables.get("matrix", ())}
        for target in tables["torch_model"]:
            matrix = target.get("matrix", {"model": [target["name"]]})
            found += [
                f"//{package}:{name}" for name in (shared[matrix] if isinstance(matrix, str) else matrix)["model"]
            ]
    return found


def limits(stack: str) -> dict[str, str]:
    """Return words of the reason why a model does not build for a stack, or fails its test, by label."""
    return dict(tomllib.loads((ZOO / "limits.toml").read_text()).get(stack, {}))


def build(model: str, stack: str, workspace: Path = ZOO) -> Outcome:
    """Build a model's program for a stack in the zoo or a copy of it, and test it if this machine can run it."""
    start = time.monotonic()
    built = _run(workspace, "build", f"{model}_{stack}", "--quiet")
    seconds = round(time.monotonic() - start)
    if built.returncode:
        return Outcome(model, stack, False, seconds, reason=_reason(built))
    totals = json.loads((outputs(model, stack, workspace) / "delegation.json").read_text())["totals"]
    nodes = sum(each["nodes"] for each in totals.values())
    portable = totals.get("portable", {"nodes": 0})["nodes"]
    partitions = sum(each["partitions"] for each in totals.values())
    parity, reason = "", ""
    if stack == "xnnpack":
        add_runtime(workspace)
        tested = _run(workspace, "test", f"{model}_test")
        not_run = [line for line in tested.stdout.splitlines() if "  NOT RUN: " in line]
        parity = "not run" if not_run else "no" if tested.returncode else "yes"
        reason = "".join(not_run) if not_run or not tested.returncode else _reason(tested)
    return Outcome(model, stack, True, seconds, round(1 - portable / max(nodes, 1), 4), partitions, parity, reason)


def outputs(model: str, stack: str, workspace: Path = ZOO) -> Path:
    """Return the folder of a program that was built."""
    package, _, name = model.removeprefix("//").partition(":")
    return workspace / "modelbuild-out" / f"{stack}_device" / package / f"{name}_{stack}"


class RuntimeMissing(Exception):
    """Raised with the reason why the C++ runtime can't be packed, such as that it is not built."""


def add_runtime(workspace: Path, runtime: Path = ROOT / "build/runtime") -> None:
    """Pack the built C++ runtime into a workspace, for tests of programs with operators of a kernel library."""
    if not (workspace / "runtime.tar").exists():
        pack = [sys.executable, ROOT / "runtime/archive.py", "--build", runtime, "--out", workspace / "runtime.tar"]
        made = subprocess.run(pack, capture_output=True, text=True)
        if made.returncode:
            raise RuntimeMissing(made.stderr.strip())


def _run(workspace: Path, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "modelbuild", "-C", str(workspace), command, *arguments]
    return subprocess.run(line, capture_output=True, text=True, env={**os.environ, "COLUMNS": "1000"})


def _reason(ended: subprocess.CompletedProcess[str]) -> str:
    lines = (ended.stderr + ended.stdout).splitlines()
    named = [line for line in lines if line.startswith("error: ") or line.lstrip().startswith("drawn: ")]
    return (named or lines or [f"exit code {ended.returncode}"])[0]
