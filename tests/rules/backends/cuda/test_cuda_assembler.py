"""Kernels are assembled by a ptxas that keeps the constants of packed additions."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from triton import knobs
from triton.backends.nvidia import compiler

from modelbuild_rules.backends.cuda.steps.kernels.assembler import assembler

ADDITION = """
.version 8.8
.target sm_90a
.address_size 64
.visible .entry f(.param .u64 p)
{
  .reg .b32 %r<5>; .reg .b64 %rd<2>; .reg .b16 %rs<2>;
  ld.param.b64 %rd1, [p];
  mov.u32 %r1, %tid.x;
  mov.b32 %r2, 18;
  add.s16x2 %r3, %r1, %r2;
  mov.b32 {%rs1, _}, %r3;
  cvt.u32.u16 %r4, %rs1;
  st.global.b32 [%rd1], %r4;
  ret;
}
"""
VIADD = bytes.fromhex("36780000")  # VIADD.16x2 R0, R0, then its constant in 32 bits


def constant(tool: str, folder: Path) -> int:
    """Return the constant of the addition in the assembled kernel."""
    source, made = folder / "f.ptx", folder / "f.cubin"
    source.write_text(ADDITION)
    subprocess.run([tool, "--gpu-name=sm_90a", source, "-o", made], check=True)
    found = made.read_bytes()
    place = found.index(VIADD) + len(VIADD)
    return int.from_bytes(found[place : place + 4], "little")


def test_the_assembler_keeps_the_constant_of_a_packed_addition(tmp_path: Path) -> None:
    assert constant(assembler(90).path, tmp_path) == 18


def test_the_older_assembler_drops_it(tmp_path: Path) -> None:
    """If this fails, upstream is right again, and kernels/assembler.py can go."""
    assert constant(knobs.nvidia.ptxas.path, tmp_path) == 0


@pytest.mark.parametrize(
    ("capability", "expected"), [(80, "ptxas"), (90, "ptxas"), (100, "ptxas_blackwell"), (120, "ptxas_blackwell")]
)
def test_the_version_of_ptx_is_one_of_tritons(capability: int, expected: str) -> None:
    """Of the older below 10.0. Triton 3.9's own choice for 9.0 is the newer."""
    version = assembler(capability).version
    assert version == getattr(knobs.nvidia, expected).version
    assert float(version) <= float(compiler.get_ptxas(capability).version)


def test_an_incomplete_triton_is_no_kernel_that_does_not_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton's own exception is a RuntimeError, as those of kernels are."""

    class Missing:
        @property
        def ptxas_blackwell(self) -> str:
            raise RuntimeError("Cannot find ptxas-blackwell")

    monkeypatch.setattr(knobs, "nvidia", Missing())
    assembler.cache_clear()
    with pytest.raises(
        FileNotFoundError, match="the installation of triton is incomplete: Cannot find ptxas-blackwell"
    ):
        assembler(90)
