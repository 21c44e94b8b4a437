"""The kernels of programs are those in recorded_kernels.json, so that a change of what is fused or chosen is seen.

Set RECORD_KERNELS=1 to write the file anew.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

RECORDED = Path(__file__).with_name("recorded_kernels.json")
TILE = re.compile(r"^    (BLOCK_[MNK]|SPLIT) : tl\.constexpr = (\d+)$", re.MULTILINE)
KINDS = {"poi": "pointwise", "per": "reduction", "red": "reduction", "tem": "template"}

EXHAUSTIVE = ("vit", "cnn", "depthwise", "norms", "resnet18")

pytestmark = pytest.mark.xdist_group("cuda")


def described(kernel: dict[str, Any]) -> str:
    """Return a kernel's kind, its tile, warps, and bytes of registers that are spilled."""
    name = kernel["name"]
    kind = KINDS[name.split("_")[1]] if name.startswith("triton_") else name.rstrip("0123456789").rstrip("_")
    sizes = {**dict(TILE.findall(Path(kernel["source"]).read_text())), **kernel["constants"]}
    tile = "".join(f" {key} {sizes[key]}" for key in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "SPLIT") if key in sizes)
    return f"{kind}{tile} warps {kernel['warps']} spilled {kernel['spilled']}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *("products", "attentions"),
        *(
            pytest.param(each, marks=pytest.mark.exhaustive)
            for each in ("vit", "cnn", "depthwise", "norms", "resnet18")
        ),
    ],
)
def test_the_kernels_are_those_recorded(name: str, built: Callable[[str], Any]) -> None:
    kernels = json.loads((built(name).folder / "kernels.json").read_text())
    found = sorted(map(described, kernels.values()))
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    if os.environ.get("RECORD_KERNELS"):
        RECORDED.write_text(json.dumps({**recorded, name: found}, indent=1, sort_keys=True) + "\n")
    else:
        assert found == recorded[name]
