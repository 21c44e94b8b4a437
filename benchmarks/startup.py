"""Measure commands that build nothing: Python's own start, the version, help, completion, and help through click.

    python benchmarks/startup.py [--rounds N]

The commands take turns, so that load affects all equally. Run the script with the Python that modelbuild is installed
for.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from measure import Figures, Sample, measure

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def completing(*words: str) -> dict[str, str]:
    """Return a shell's environment variables for a completion of the last word."""
    line = " ".join(words)
    return {"_MODELBUILD_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21)
    rounds = parser.parse_args().rounds
    tool = str(Path(sys.executable).with_name("modelbuild"))
    cases: dict[str, tuple[list[str], dict[str, str]]] = {
        "python -c pass": ([sys.executable, "-c", "pass"], {}),
        "--version": ([tool, "--version"], {}),
        "--help": ([tool, "--help"], {}),
        "completion of a command": ([tool], completing("modelbuild", "bu")),
        "completion of a label": ([tool], completing("modelbuild", "build", "//models:d")),
        "completion of an option (click's)": ([tool], completing("modelbuild", "build", "--de")),
    }
    samples: dict[str, list[Sample]] = {name: [] for name in cases}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for name, (command, variables) in cases.items():
                samples[name].append(measure(command, EXAMPLES, {**os.environ, **variables}, Path(folder, "log")))
    python = Figures(tuple(samples["python -c pass"]))
    print("| command | wall, median | CPU, median | CPU, against Python's start |")
    print("| --- | --- | --- | --- |")
    for name, found in samples.items():
        figures = Figures(tuple(found))
        wall, cpu = (f"{figures.median(what) * 1e3:.0f} ms" for what in ("wall", "cpu"))
        print(f"| {name} | {wall} | {cpu} | {figures.ratio(python, 'cpu'):.1f} |")


if __name__ == "__main__":
    main()
