"""Compare cold builds of the example's program with and without `verify`: processor seconds, and wall time.

    python benchmarks/verify.py [--target //models:detector] [--rounds N]

The two take turns, each with an empty cache. The recording of the module's outputs is a part of the export in both.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="//models:detector")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    found: dict[str, list[tuple[float, float, float]]] = {"on": [], "off": []}
    for _ in range(given.rounds):
        for verify, measured in found.items():
            measured.append(built(given.target, verify))
    print(f"{'verify':<8}{'processor':>12}{'wall':>10}{'the action':>12}   medians of {given.rounds}, in seconds")
    medians = {verify: [statistics.median(each) for each in zip(*rows, strict=True)] for verify, rows in found.items()}
    for verify, (processor, wall, action) in medians.items():
        print(f"{verify:<8}{processor:>12.1f}{wall:>10.1f}{action:>12.1f}")
    print(f"processor time with verify is {medians['on'][0] / medians['off'][0]:.3f} of that without")


def built(target: str, verify: str) -> tuple[float, float, float]:
    """Build with an empty cache; return processor seconds, wall seconds, and those of the verify action."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "examples"
        shutil.copytree(EXAMPLES, root, ignore=shutil.ignore_patterns("modelbuild-out", "__pycache__"), symlinks=True)
        if verify == "off":
            package, _, name = target.removeprefix("//").partition(":")
            declared = root / package / "BUILD.toml"
            text = declared.read_text()
            declared.write_text(text.replace(f'name = "{name}"\n', f'name = "{name}"\nverify = false\n', 1))
        command = [sys.executable, "-m", "modelbuild", "build", target, "--quiet", "--build-event-json", "events"]
        environment = {**os.environ, "MODELBUILD_CACHE_DIR": f"{folder}/cache"}
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        subprocess.run(command, cwd=root, env=environment, check=True, stdout=subprocess.DEVNULL)
        wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        events = [json.loads(line) for line in (root / "events").read_text().splitlines()]
    action = sum(each["seconds"] for each in events if each.get("id", "").endswith("#verify") and "seconds" in each)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall, action


if __name__ == "__main__":
    main()
