"""The functions that a library needs, which must be those of the runtime."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from modelbuild.step import StepError
from modelbuild_rules.backend_api.steps.cpp_compiler import stub_library, zig
from modelbuild_rules.backend_api.steps.elf import machine, needs
from modelbuild_rules.backends.cuda.steps.generate.missing_kernels import PROVIDED, missing_kernels
from modelbuild_rules.backends.cuda.steps.library.cuda_home import cuda_home
from modelbuild_rules.backends.cuda.steps.library.link import check

TARGET = "x86_64-linux-gnu.2.28"


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stub_library("libstub.so.1", ["one", "two"], TARGET, tmp_path_factory.mktemp("stub"))


def library(stub: Path, calls: str, folder: Path) -> Path:
    """Return a library that calls a function."""
    (folder / "made.c").write_text(f"void {calls}(void); void made(void) {{ {calls}(); }}\n")
    zig(["cc", "-target", TARGET, "-c", "-fPIC", "-g0", "made.c", "-o", "made.o"], folder)
    zig(["ld.lld", "-shared", "-o", "made.so", "made.o", str(stub)], folder)
    return folder / "made.so"


def test_symbols_are_read(stub: Path, tmp_path: Path) -> None:
    found = needs(library(stub, "one", tmp_path))
    assert found.undefined == {"one"}
    assert "made" in found.defined
    assert found.glibc == (0, 0)
    assert {"one", "two"} <= needs(stub).defined


def test_the_glibc_needed_is_read() -> None:
    library = cuda_home() / "lib/libcudart.so.13"
    found = needs(library)
    assert (2, 2) < found.glibc <= (2, 28)
    assert found.undefined == frozenset()


def test_a_symbol_that_the_runtime_lacks_is_an_error(stub: Path, tmp_path: Path) -> None:
    with pytest.raises(StepError, match="needs aoti_torch_cuda_magic, which the CUDA delegate does not have"):
        check(library(stub, "aoti_torch_cuda_magic", tmp_path), TARGET)


@pytest.mark.parametrize("name", ["aoti_torch_get_dim", "cuLaunchKernel", "cudaMalloc"])
def test_symbols_of_the_runtime_are_not_missing(name: str, stub: Path, tmp_path: Path) -> None:
    assert check(library(stub, name, tmp_path), TARGET).undefined == {name}


def test_a_glibc_that_is_too_new_is_an_error() -> None:
    with pytest.raises(StepError, match=r"needs glibc 2\.\d+; expected no more than 2\.2$"):
        check(cuda_home() / "lib/libcudart.so.13", "x86_64-linux-gnu.2.2")


def test_a_library_for_another_machine_is_an_error(tmp_path: Path) -> None:
    """The test reads the machine from the compilers' output, not from their options."""
    made = stub_library("libstub.so.1", ["one"], "aarch64-linux-gnu.2.28", tmp_path)
    assert machine(made) == "aarch64"
    with pytest.raises(StepError, match="the library is for aarch64; expected x86_64"):
        check(made, TARGET)


def test_invalid_libraries_are_errors(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no library")
    with pytest.raises(ValueError, match="text is not a 64-bit little-endian ELF file"):
        needs(tmp_path / "text")


def test_the_runtime_has_what_is_listed(emulator: Path) -> None:
    shims = needs(emulator / "libaoti_cuda_shims.so").defined
    assert {name for name in shims if name.startswith("aoti_torch_")} == PROVIDED


def test_sums_that_are_left_to_libtorch_are_told_with_their_node() -> None:
    """Inductor has classes of their own for them."""
    import torch
    from torch._inductor import ir

    operations = []
    for kind, operator in (
        (ir.ScatterFallback, torch.ops.aten.scatter_reduce_.two),
        (ir.IndexPutFallback, torch.ops.aten.index_put_.default),
    ):
        made = object.__new__(kind)
        place = f"operator 3 of the partition ({str(operator).replace('_.', '.')})"
        object.__setattr__(made, "op_overload", operator)
        object.__setattr__(made, "origins", [SimpleNamespace(meta={"stack_trace": place})])
        operations.append(made)
    found = missing_kernels(SimpleNamespace(operations=operations), ())
    assert "aten.scatter_reduce_.two (operator 3 of the partition (aten.scatter_reduce.two))" in found
    assert 'exclude_ops = ["aten.index_put.default", "aten.scatter_reduce.two"]' in found
