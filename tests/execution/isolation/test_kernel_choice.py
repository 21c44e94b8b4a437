"""The kernels of numerical libraries, and the machine's name in keys."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from modelbuild.execution.isolation import kernel_choice

CPUINFO = "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu sse2 {}\nbugs\t\t: x\n\nflags\t\t: other\n"


@pytest.fixture
def flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Put a file in place of /proc/cpuinfo."""
    file = tmp_path / "cpuinfo"
    read = kernel_choice._flags
    monkeypatch.setattr(kernel_choice, "_flags", lambda path: read(file))
    kernel_choice._has_avx2.cache_clear()
    yield file
    kernel_choice._has_avx2.cache_clear()


@pytest.mark.parametrize(
    ("machine", "has", "told"),
    [
        ("x86_64", "fma avx2", "linux-x86_64-avx2"),
        ("x86_64", "avx512f fma avx2", "linux-x86_64-avx2"),
        ("x86_64", "avx2", "linux-x86_64"),
        ("x86_64", "", "linux-x86_64"),
        ("x86_64", None, "linux-x86_64"),
        ("aarch64", "fma avx2", "linux-aarch64"),
    ],
)
def test_machines_with_the_same_kernels_are_told_as_one(
    flags: Path, monkeypatch: pytest.MonkeyPatch, machine: str, has: str | None, told: str
) -> None:
    if has is not None:
        flags.write_text(CPUINFO.format(has))
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine=machine))
    assert kernel_choice.machine() == told
    assert bool(kernel_choice.kernels()) == told.endswith("avx2")


@pytest.mark.skipif("avx2" not in kernel_choice.machine(), reason="not run: this processor has no AVX2")
def test_torch_takes_the_kernels_it_is_held_to(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.step(
        "tells",
        """
        import json, torch
        def run(step):
            found = [torch.backends.cpu.get_cpu_capability(), step.params["n"]]
            step.outputs["out"].write_text(json.dumps(found))
        """,
    )
    assert bench.value("tells", preload=("torch",), params={"n": 1})[0] == "AVX2"
    # On a processor without more features, only this shows the variable's effect.
    monkeypatch.setattr(kernel_choice, "_AVX2", {"ATEN_CPU_CAPABILITY": "default"})
    bench.executor.close()
    bench.executor = bench.new_executor()
    assert bench.value("tells", preload=("torch",), params={"n": 2})[0] == "DEFAULT"
