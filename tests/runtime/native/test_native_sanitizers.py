"""The parser of TensorRT's blobs under the compilers' sanitizers: memory and undefined behaviour."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sanitizers")]

ENVIRONMENT = {"ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "print_stacktrace=1"}


def test_random_damage_of_blobs(builder: Any, repository: Path, damaged_blob: Path) -> None:
    """Every read of the parser, and of the engine that it hands out, is within the blob."""
    folder = builder.build(
        repository / "build/runtime-address", "address,undefined", tests=True, targets=["blob_check"]
    )
    command = [folder / "bin/blob_check", "--mutate", "2", "30000", damaged_blob]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


@pytest.fixture
def damaged_blob(tmp_path: Path) -> Path:
    from modelbuild_rules.steps._trt_blob import Metadata, write_blob

    path = tmp_path / "blob"
    write_blob(path, Metadata(("a", "b"), ("c",), 3), bytes(range(256)) * 4)
    return path
