"""Help executorch's passes: show each pass, let all use one mode of fake tensors, let them compute shapes of slices,
and make tensors of the right type from numbers.

For a program without inputs, each of executorch's passes makes a mode of fake tensors, but torch accepts only one mode.

torch computes the shape of `slice` for tensors whose size depends on values, but not of `slice_copy`, which replaces it
in executorch's edge dialect: its default compares the sizes and fails. So `slice_copy` gets the shape of `slice`.

A number in the place of a tensor becomes a tensor of float32 or int64 in executorch, which is converted at run time.
Operators of float64 would lose digits.

Private names of executorch are patched temporarily; executorch_private.py lists them. Of torch, checked on 2.14.0, not
patched: torch._guards.detect_fake_mode, and torch._subclasses.fake_impls.register_op_impl, which extends torch's table
of shape functions, with slice_forward, and torch.utils._python_dispatch._disable_current_modes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

import torch
from executorch.exir import pass_base
from executorch.exir.pass_base import ExportPass, ProxyValue, map_args
from executorch.exir.passes.scalar_to_tensor_pass import ScalarToTensorPass
from executorch.exir.program import _program
from torch._guards import detect_fake_mode
from torch._subclasses.fake_impls import register_op_impl, slice_forward
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from modelbuild.step import Progress


@contextmanager
def passes_shown(progress: Progress) -> Iterator[None]:
    """Show each pass while the context lasts, and the memory plan after the last one."""
    listed = _program.edge_to_executorch_passes

    def shown(*given: Any, **options: Any) -> Iterator[Any]:
        passes = listed(*given, **options)
        for number, each in enumerate(passes, 1):
            progress("pass", number, len(passes))
            yield each
        progress("planning memory")

    with patch.object(_program, "edge_to_executorch_passes", shown):
        yield


@contextmanager
def one_fake_mode(program: Any) -> Iterator[None]:
    """Let passes use the mode of a program's tensors while the context lasts."""
    mode = detect_fake_mode([node.meta.get("val") for node in program.graph.nodes])
    if mode is None:
        yield
        return

    def known(*, allow_non_fake_inputs: bool = False) -> Any:
        mode.allow_non_fake_inputs = allow_non_fake_inputs
        return mode

    with patch.object(pass_base, "FakeTensorMode", known):
        yield


@contextmanager
def typed_numbers() -> Iterator[None]:
    """Let executorch make numbers tensors of the type in which their operator computes while the context lasts."""

    def call_operator(itself: Any, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        leaves = pytree.tree_leaves((args, kwargs))
        tensors = [each.to_tensor() for each in leaves if isinstance(each, ProxyValue) and each.is_tensor()]

        def as_tensor(value: Any, argument: Any) -> Any:
            if not isinstance(value, (bool, int, float)) or not isinstance(argument.type, torch.TensorType):
                return value
            itself._modified = True
            kind = torch.result_type(tensors[0], value) if tensors else None
            with _disable_current_modes():
                return torch.tensor(value, dtype=kind)

        given = map_args(op, as_tensor, args, kwargs)
        return ExportPass.call_operator(itself, op, *given, meta)

    with patch.object(ScalarToTensorPass, "call_operator", call_operator):
        yield


@cache
def register_slice_copy() -> None:
    """Register the shape function of `slice_copy` in this process."""

    def slice_copy(mode: Any, func: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        view = slice_forward(mode, func, x, *args, **kwargs)
        return torch.empty_like(view, memory_format=torch.contiguous_format)

    register_op_impl(torch.ops.aten.slice_copy.Tensor)(slice_copy)
