"""A request for a kernel has everything that decides its code, and nothing of the program that needs it."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from triton.compiler import ASTSource
from triton.runtime.errors import PTXASError

from modelbuild.step import StepError
from modelbuild_rules.backends.cuda.steps.kernels import compiler
from modelbuild_rules.backends.cuda.steps.kernels.compiler import compile_kernel, triton_compiler
from modelbuild_rules.backends.cuda.steps.kernels.device import GPUS
from modelbuild_rules.backends.cuda.steps.kernels.request import Request, of, read_request
from modelbuild_rules.backends.cuda.steps.library.images import IMAGE, read_usage, write_image

MODULE = """
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics
triton_helpers.set_driver_to_gpu()


def about(**_):
    return lambda function: function


@triton.jit
def double(x):
    return x * 2


@about(
    inductor_meta={'kernel_name': 'triton_poi_fused_mul_NUMBER'},
)
@triton.jit
def triton_poi_fused_mul_NUMBER(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    index = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    mask = index < xnumel
    tl.store(out_ptr0 + index, double(tl.load(in_ptr0 + index, mask)), mask)
"""
SIGNATURE = {"in_ptr0": "*fp32", "out_ptr0": "*fp32", "xnumel": "i32", "XBLOCK": "constexpr"}
PRODUCT = """
import triton
import triton.language as tl


@triton.jit
def product(a, b, c, depth, SIZE: tl.constexpr, PART: tl.constexpr):
    rows, part = tl.arange(0, SIZE), tl.arange(0, PART)
    total = tl.zeros((SIZE, SIZE), tl.float32)
    for at in range(0, depth, PART):
        left = tl.load(a + rows[:, None] * depth + at + part[None, :])
        right = tl.load(b + (at + part)[:, None] * SIZE + rows[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * SIZE + rows[None, :], total)
"""


def source_of(folder: Path, number: int = 7, text: str = MODULE) -> ASTSource:
    """Return the kernel of MODULE under a number."""
    file = folder / f"module{number}.py"
    text = text.replace("NUMBER", str(number))
    file.write_text(text.replace("triton_helpers.set_driver_to_gpu()\n", "\n"))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    file.write_text(text)
    return ASTSource(getattr(module, f"triton_poi_fused_mul_{number}"), SIGNATURE, {(3,): 128}, {})


def request(folder: Path, number: int = 7, text: str = MODULE) -> Request:
    """Return its request."""
    return of(source_of(folder, number, text), {"num_warps": 4, "num_stages": 1}, 86, "tf32x3")


def test_a_number_a_decorator_and_the_driver_are_no_part_of_it(tmp_path: Path) -> None:
    made = request(tmp_path)
    assert made.name == "triton_poi_fused_mul"
    assert made.key == request(tmp_path, 12).key
    assert "inductor_meta" not in made.source
    assert "set_driver_to_gpu()" not in made.source
    assert made.source.splitlines().index("@triton.jit") + 1 == MODULE.splitlines().index("@triton.jit") + 1
    assert len(made.source.splitlines()) == len(MODULE.splitlines())
    assert read_request(made.text()) == made


def test_a_name_that_another_function_has_keeps_its_number(tmp_path: Path) -> None:
    text = MODULE.replace("double", "triton_poi_fused_mul")
    assert request(tmp_path, text=text).name == "triton_poi_fused_mul_7"


OTHER: Mapping[str, Any] = {
    "name": "other",
    "source": "other",
    "signature": {},
    "constants": [[[3], 256]],
    "attributes": [[[0], [["tt.divisibility", 16]]]],
    "options": {"num_warps": 8},
    "capability": 90,
    "products": None,
}


@pytest.mark.parametrize("name", [each.name for each in fields(Request)])
def test_each_field_is_in_the_key(name: str, tmp_path: Path) -> None:
    made = request(tmp_path)
    assert replace(made, **{name: OTHER[name]}).key != made.key


def test_a_kernel_is_compiled_for_all_capabilities(tmp_path: Path) -> None:
    (folder := tmp_path / "made").mkdir()
    made = write_image(request(tmp_path), [86, 89], tmp_path / "work", folder)
    assert (made.entry, made.usage.spilled, made.usage.shared) == ("triton_poi_fused_mul", 0, 0)
    assert read_usage(folder) == made.usage
    image = (folder / IMAGE).read_bytes()
    again = tmp_path / "again"
    again.mkdir()
    write_image(request(tmp_path, 3), [86, 89], tmp_path / "other", again)
    assert (again / IMAGE).read_bytes() == image


def test_a_kernel_that_does_not_compile_is_told_by_its_name(tmp_path: Path) -> None:
    wrong = replace(request(tmp_path), signature={**SIGNATURE, "xnumel": "*fp32"})
    with pytest.raises(StepError, match="kernel triton_poi_fused_mul does not compile: "):
        write_image(wrong, [86], tmp_path / "work", tmp_path)


@pytest.mark.parametrize(("end", "raised"), [("kill -KILL $$", OSError), ("kill -SEGV $$", PTXASError)])
def test_an_assembler_that_something_ends_says_nothing_about_the_kernel(
    end: str, raised: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ptxas = tmp_path / "ptxas"
    ptxas.write_text(f"#!/bin/sh\n{end}\n")
    ptxas.chmod(0o755)
    monkeypatch.setattr(compiler, "assembler", lambda _: SimpleNamespace(path=str(ptxas), version="12.9"))
    with triton_compiler(GPUS[86], None, tmp_path), pytest.raises(raised):
        compile_kernel(request(tmp_path), tmp_path)


def test_stages_that_do_not_fit_shared_memory_are_left_out(tmp_path: Path) -> None:
    signature = {**dict.fromkeys("abc", "*fp32"), "depth": "i32", "SIZE": "constexpr", "PART": "constexpr"}
    attributes = [[[place], [["tt.divisibility", 16]]] for place in range(4)]
    options = {"num_warps": 4, "num_stages": 5}
    large = Request("product", PRODUCT, signature, [[[4], 128], [[5], 32]], attributes, options, 86, None)
    with triton_compiler(GPUS[86], None, tmp_path):
        one = compile_kernel(replace(large, options={**options, "num_stages": 1}), tmp_path)
        assert compile_kernel(large, tmp_path).usage == one.usage
    with triton_compiler(GPUS[90], None, tmp_path):
        many = compile_kernel(large, tmp_path)
    assert many.usage.shared > GPUS[86].shared_memory >= one.usage.shared
