"""Compare the cost of changes to models between modelbuild and a plain export script, in one run.

    make bench-models

Three small classifiers, each with its own weights, become programs for XNNPACK. Each change affects one of them. The
script can't know which, so it exports all, or only the one that a person names ("one by hand"). Olive, which also keeps
results but writes ONNX, converts all; to include it, first install its packages in a folder:

    pip install --no-deps --require-hashes --target build/olive --requirement benchmarks/tools/olive.lock
    PYTHONPATH=build/olive benchmarks/model_changes.py --tools modelbuild,script,olive
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from measure import Figures, Sample, measure
from safetensors.numpy import load_file, save_file

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("north", "south", "east")
SHAPES = {"features.0": (16, 3, 3, 3), "features.2": (32, 16, 3, 3), "head": (10, 32)}

TARGETS = """
[[torch_model]]
name = "{name}_model"
entry = "{name}.py:Classifier"
weights = "{name}.safetensors"
inputs = [{{ name = "image", shape = [1, 3, 64, 64], dtype = "float32", range = [0, 255] }}]

[[pte_program]]
name = "{name}"
model = ":{name}_model"
stack = ":stack"
device = ":cpu"
"""
SHARED = """
[[backend_stack]]
name = "stack"
backends = ["xnnpack", "portable"]

[[device_target]]
name = "cpu"
arch = "x86_64"
"""


class World:
    """The workspace of modelbuild, whose files the script uses too."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "workspace"
        self.root.mkdir()
        self.log = folder / "log"
        self.environment = {**os.environ, "MODELBUILD_CACHE_DIR": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
        (self.root / "MODELBUILD.toml").write_text("")
        (self.root / "BUILD.toml").write_text(SHARED + "".join(TARGETS.format(name=name) for name in NAMES))
        draw = np.random.default_rng(0).standard_normal
        for name in NAMES:
            shutil.copy(ROOT / "examples/models/classifier.py", self.root / f"{name}.py")
            weights = {f"{layer}.weight": draw(shape, dtype=np.float32) for layer, shape in SHAPES.items()}
            weights |= {f"{layer}.bias": draw(shape[0], dtype=np.float32) for layer, shape in SHAPES.items()}
            save_file(weights, self.root / f"{name}.safetensors")

    def run(self, tool: str) -> Sample:
        time.sleep(0.1)
        if tool == "modelbuild":
            command = [sys.executable, "-m", "modelbuild", "build", "//...", "--quiet", "-j1"]
        else:
            script = "olive_convert.py" if tool == "olive" else "export_script.py"
            names = NAMES[:1] if tool == "one by hand" else NAMES
            command = [sys.executable, str(Path(__file__).parent / script), str(self.root), *names]
        return measure(command, self.root, self.environment, self.log)

    def edit(self, name: str, pattern: str, new: str) -> None:
        path = self.root / name
        text, count = re.subn(pattern, new, path.read_text(), count=1)
        assert count == 1
        path.write_text(text)


def comment(world: World, number: int) -> None:
    world.edit("north.py", r"\n", f"\n# {number}\n")


def weight(world: World, number: int) -> None:
    path = world.root / "north.safetensors"
    weights = load_file(path)
    weights["head.bias"][number % 10] += 1
    save_file(weights, path)


def layer(world: World, number: int) -> None:
    """Change a layer, differently in each round so that no program is in the cache."""
    world.edit("north.py", r"self\.head\(features.*?\)", f"self.head(features * 1.{number})")


def attribute(world: World, number: int) -> None:
    """Change the input's range, which decides the example inputs that programs are checked on."""
    world.edit("BUILD.toml", r"range = \[[0-9.]+,", f"range = [0.{number},")


CHANGES: dict[str, Callable[[World, int], None]] = {
    "unchanged": lambda world, number: None,
    "a comment": comment,
    "one weight": weight,
    "one layer": layer,
    "one attribute": attribute,
}
TOOLS = ("modelbuild", "script", "one by hand")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--changes", default=",".join(CHANGES), help="rows to measure")
    chosen = parser.parse_args()
    rounds, tools = chosen.rounds, chosen.tools.split(",")
    print("| change | tool | wall, median | CPU | peak memory | CPU, against modelbuild |")
    print("| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        show("empty caches", {tool: Figures((world.run(tool),)) for tool in tools})
        world.run("modelbuild")
        for name in chosen.changes.split(","):
            change = CHANGES[name]
            samples: dict[str, list[Sample]] = {tool: [] for tool in tools}
            for number in range(1, rounds + 1):
                change(world, number)
                for tool in tools:
                    samples[tool].append(world.run(tool))
            show(name, {tool: Figures(tuple(found)) for tool, found in samples.items()})


def show(change: str, found: dict[str, Figures]) -> None:
    own = found["modelbuild"]
    for tool, figures in found.items():
        numbers = f"{figures.median('wall'):.2f} s | {figures.median('cpu'):.2f} s | {figures.median('memory'):.0f} MiB"
        print(f"| {change} | {tool} | {numbers} | {figures.ratio(own, 'cpu'):.1f} |", flush=True)


if __name__ == "__main__":
    main()
