"""The kernels of programs are those in recorded_kernels.json, so that a change of what is fused or chosen is seen.

The programs are two small ones of programs.py, and the twelve of benchmarks/gpu/cuda_peers.py. Set RECORD_KERNELS=1 to
write the file anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.rules.backends.cuda.describe_peer import described

RECORDED = Path(__file__).with_name("recorded_kernels.json")
PEERS = (
    "mobilenet_v3_small:fp32",
    "convnext_atto:fp32",
    "efficientnet_b0:fp32",
    "edsr:fp32",
    "resnet50:fp32",
    "resnet50:tf32",
    "resnet50:fp16",
    "bert_base:fp16",
    "swin_t:fp32",
    "whisper_encoder:fp32",
    "vit_b_16:fp16",
    "unet_block:fp16",
)

pytestmark = [pytest.mark.xdist_group("cuda"), pytest.mark.slow]


def check(name: str, found: Any) -> None:
    """Compare kernels with those recorded, or record them."""
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    if os.environ.get("RECORD_KERNELS"):
        RECORDED.write_text(json.dumps({**recorded, name: found}, indent=1, sort_keys=True) + "\n")
    else:
        assert found == recorded[name]


@pytest.mark.parametrize(
    "name", ["mlp", *(pytest.param(each, marks=pytest.mark.exhaustive) for each in ("attentions", "products"))]
)
def test_the_kernels_are_those_recorded(name: str, built: Callable[[str], Any]) -> None:
    kernels = json.loads((built(name).folder / "kernels.json").read_text())
    check(name, sorted(described(each, Path(each["source"]).read_text()) for each in kernels.values()))


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", PEERS)
def test_launches_copies_and_memory_of_the_twelve_are_those_recorded(case: str, tmp_path: Path) -> None:
    script = Path(__file__).with_name("describe_peer.py")
    done = subprocess.run(
        [sys.executable, "-m", "tests.rules.backends.cuda.describe_peer", case, tmp_path / "lowered"],
        cwd=script.parents[4],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    check(case, json.loads(done.stdout.splitlines()[-1]))
