"""The facts in a program's manifest: names of inputs and outputs, the device, versions and parts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modelbuild_runtime import ProgramError, load
from modelbuild_runtime.files.contents import KernelLibrary, Part, Target
from tests.sealed_programs import PORTS, SIGNATURE

DEVICE = {"arch": "aarch64", "os": "linux", "compute_capabilities": ["8.7", "11.0"]}
PARTS = [{"id": "p0", "backend": "xnnpack", "bytes": 12, "sha256": "ab" * 32}]
VERSIONS = {"torch": "2.14.0", "executorch": "1.5.1"}
KERNELS = [{"library": "own", "operators": ["own::a.out", "own::b.out"]}]
FACTS = {"signature": SIGNATURE, "device": DEVICE, "versions": VERSIONS, "parts": PARTS, "kernels": KERNELS}


@pytest.fixture
def sealed(samples: dict[str, Any], seal_copy: Callable[..., Path], tmp_path: Path) -> Callable[..., Path]:
    def make(**changes: Any) -> Path:
        return seal_copy(samples["dynamic"].path, tmp_path / "p.pte", **{**FACTS, **changes})

    return make


def test_a_lone_file_describes_itself(sealed: Callable[..., Path]) -> None:
    found = load(sealed()).describe()
    assert [str(port) for port in found.method("forward").inputs] == ["x: float32[n=2..8, 4]", "y: float32[n=2..8, 3]"]
    assert found.contents.device == Target("aarch64", "linux", ("8.7", "11.0"))
    assert found.contents.parts == (Part("p0", "xnnpack", 12, "ab" * 32),)
    assert found.contents.kernels == (KernelLibrary("own", ("own::a.out", "own::b.out")),)
    assert {name: found.to_json()[name] for name in ("device", "versions", "parts", "kernels")} == {
        "device": DEVICE,
        "versions": VERSIONS,
        "parts": PARTS,
        "kernels": KERNELS,
    }
    lines = str(found).splitlines()
    assert lines[1] == "  for linux on aarch64 with a GPU of compute capability 8.7 or 11.0"
    assert lines[2] == "  made with executorch 1.5.1, torch 2.14.0"
    assert lines[3] == "  needs the kernel library own for own::a.out, own::b.out"


def test_the_manifest_is_preferred_to_a_file_beside_the_program(sealed: Callable[..., Path], tmp_path: Path) -> None:
    other = {**PORTS, "outputs": [{**each, "name": f"other_{each['name']}"} for each in PORTS["outputs"]]}
    (tmp_path / "signature.json").write_text(json.dumps({"version": 2, "methods": {"forward": other}}))
    assert [port.name for port in load(sealed()).describe().method("forward").outputs] == ["scores", "sums"]
    found = load(sealed(signature=None)).describe()
    assert [port.name for port in found.method("forward").outputs] == ["other_scores", "other_sums"]


def test_a_manifest_without_facts_describes_a_program_without_them(sealed: Callable[..., Path]) -> None:
    found = load(sealed(**dict.fromkeys(FACTS))).describe()
    assert [port.name for port in found.method("forward").inputs] == ["input0", "input1"]
    assert found.contents.to_json() == {"device": None, "versions": {}, "parts": [], "kernels": []}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"device": "x86_64"}, "is damaged: its manifest cannot be read: device: expected an object"),
        ({"versions": {"torch": 2}}, "is damaged: its manifest cannot be read: versions.torch: expected a text, got 2"),
        ({"kernels": [{"library": "own"}]}, "is damaged: its manifest cannot be read: kernels[0].operators: expected"),
        ({"kernels": [{**KERNELS[0], "library": 1}]}, "is damaged: its manifest cannot be read: kernels[0].library: "),
        ({"parts": [{**PARTS[0], "bytes": -1}]}, "is damaged: its manifest cannot be read: parts[0].bytes: expected"),
        ({"signature": {**SIGNATURE, "version": 7}}, "signature of version 7; this runtime supports 2"),
        (
            {"signature": {"version": 2, "methods": {"forward": {**PORTS, "inputs": []}}}},
            "its signature belongs to another program: it names 0 inputs",
        ),
    ],
)
def test_facts_of_another_kind_are_errors(sealed: Callable[..., Path], changes: dict[str, Any], message: str) -> None:
    path = sealed(**changes)
    with pytest.raises(ProgramError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: {message}")
