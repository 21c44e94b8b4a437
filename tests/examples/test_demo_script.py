"""examples/demo.py, run as `make demo` runs it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

BOXES = np.array([[177, 60, 267, 174], [10.25, 20, 30, 40]], np.float32)
SCORES = np.array([0.9998, 0.75], np.float32)
LANDMARKS = np.array([[[204, 101]] * 5, [[20, 30]] * 5], np.float32)


def demo(repository: Path, folder: Path, photo: Path, count: int) -> str:
    """Run the script on the first `count` faces; return its output."""
    for name, array in (("boxes", BOXES), ("scores", SCORES), ("landmarks", LANDMARKS)):
        np.save(folder / f"{name}.npy", array[:count])
    script = repository / "examples/demo.py"
    return subprocess.run([sys.executable, script, folder, photo], check=True, capture_output=True, text=True).stdout


def test_it_prints_a_table_and_draws_on_the_photo(
    repository: Path, third_party: Mapping[str, Path], tmp_path: Path
) -> None:
    photo = third_party["astronaut"]
    lines = demo(repository, tmp_path, photo, 2).splitlines()
    assert [line.split() for line in lines[1:3]] == [
        ["1", "0.9998", "177.0", "60.0", "267.0", "174.0"],
        ["2", "0.7500", "10.2", "20.0", "30.0", "40.0"],
    ]
    assert lines[3:] == [f"Annotated photo: {tmp_path / 'annotated.png'}"]
    before, after = (np.asarray(Image.open(path)) for path in (photo, tmp_path / "annotated.png"))
    changed = (before != after).any(axis=2)
    assert after[100, 177].tolist() == after[30, 30].tolist() == after[101, 204].tolist()
    assert not changed[200:, 300:].any()


def test_no_face_is_an_empty_table(repository: Path, third_party: Mapping[str, Path], tmp_path: Path) -> None:
    lines = demo(repository, tmp_path, third_party["astronaut"], 0).splitlines()
    assert len(lines) == 2
    before, after = (np.asarray(Image.open(path)) for path in (third_party["astronaut"], tmp_path / "annotated.png"))
    assert np.array_equal(before, after)
