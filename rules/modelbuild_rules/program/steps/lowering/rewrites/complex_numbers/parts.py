"""Compute operators of complex numbers with the real and imaginary parts of their arguments.

torch's ComplexTensor has the forms of most operators; this module and fourier.py (Fourier transforms) add others.

Private names used, checked on torch 2.14.0: torch._subclasses.complex_tensor (ComplexTensor, its lookup_complex and
COMPLEX_TO_REAL), torch.utils._python_dispatch.TorchDispatchMode, torch.utils._pytree. None is patched.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch._subclasses.complex_tensor import ComplexTensor
from torch._subclasses.complex_tensor._ops.common import COMPLEX_TO_REAL, lookup_complex
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from modelbuild_rules.program.steps.lowering.rewrites.complex_numbers.fourier import TRANSFORMS

aten = torch.ops.aten

_DIRECT = (aten.complex.default, aten.view_as_complex.default, aten.real.default, aten.imag.default)
"""Operators whose form is called directly: they have real arguments, or torch would compose them of other operators."""

_APART = (aten.lift_fresh_copy.default, aten.roll.default, aten.unbind.int, aten.unfold.default)
"""Operators that torch's ComplexTensor lacks, and that treat both parts alike."""


def compute(operator: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
    """Return the result of an operator, with ComplexTensors for complex tensors. Raises NotImplementedError, or any
    exception of torch, for an operator without a form for parts."""
    with _Parts():
        if operator in TRANSFORMS or operator in _DIRECT:
            return _by_parts(operator, args, kwargs)
        return operator(*args, **kwargs)


class _Parts(TorchDispatchMode):
    """Computes by parts, while torch composes an operator of simpler operators."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        return _by_parts(func, args, kwargs or {})


def _by_parts(func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
    values = pytree.tree_leaves((args, kwargs))
    complex_ones = [each for each in values if isinstance(each, ComplexTensor)]
    if func in TRANSFORMS:
        return _transformed(func, *args, **kwargs)
    if func is aten.polar.default:
        return ComplexTensor(args[0] * args[1].cos(), args[0] * args[1].sin())
    if not complex_ones and func not in _DIRECT:
        makes = kwargs.get("dtype") in COMPLEX_TO_REAL or any(isinstance(each, complex) for each in values)
        return _from_real(func, args, kwargs) if makes else func(*args, **kwargs)
    if func is aten.mul.Tensor and not all(isinstance(each, ComplexTensor) for each in args):
        return _times(*args)
    if func in _OWN:
        return _OWN[func](*args)
    if func is aten.div.Tensor and isinstance(args[1], ComplexTensor):
        return _quotient(*args)
    if func in _APART:
        made = [func(part, *args[1:], **kwargs) for part in (args[0].re, args[0].im)]
        return pytree.tree_map(ComplexTensor, *made)
    if func is aten.pow.Tensor_Scalar and args[1] == 2:
        func, args = aten.mul.Tensor, (args[0], args[0])
    if func is aten.mv.default:
        return compute(aten.mm.default, (args[0], args[1].unsqueeze(1)), {}).squeeze(1)
    form = lookup_complex(func, *args, **kwargs)
    if form is None:
        raise NotImplementedError(f"{func} has no form for complex numbers")
    with _Parts():
        return form(*args, **kwargs)


def _transformed(func: Any, x: Any, *rest: Any, **kwargs: Any) -> Any:
    """Return a Fourier transform."""
    made = TRANSFORMS[func](*((x.re, x.im) if isinstance(x, ComplexTensor) else (x,)), *rest, **kwargs)
    return ComplexTensor(*made) if isinstance(made, tuple) else made


def _from_real(func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
    """Return the complex result of an operator on real tensors, or of an operator that makes a tensor of a number."""
    place = next((place for place, each in enumerate(args) if isinstance(each, torch.Tensor)), None)
    if place is not None:
        whole = ComplexTensor(args[place], torch.zeros_like(args[place]))
        return _by_parts(func, (*args[:place], whole, *args[place + 1 :]), kwargs)
    number = next((each for each in pytree.tree_leaves(args) if isinstance(each, complex)), 0j)
    real = pytree.tree_map(lambda each: each.real if isinstance(each, complex) else each, args)
    dtype = COMPLEX_TO_REAL.get(kwargs.get("dtype"), torch.get_default_dtype())
    made = func(*real, **{**kwargs, "dtype": dtype})
    return ComplexTensor(made, torch.full_like(made, number.imag))


def _size(z: ComplexTensor) -> torch.Tensor:
    """Return absolute values without overflow. Backends lack kernels for torch's hypot."""
    x, y = z.re.abs(), z.im.abs()
    greater, less = torch.maximum(x, y), torch.minimum(x, y)
    ratio = less / greater.masked_fill(greater == 0, 1)
    return (greater * (1 + ratio * ratio).sqrt()).masked_fill((x == math.inf) | (y == math.inf), math.inf)


def _quotient(z: Any, by: ComplexTensor) -> ComplexTensor:
    """Return a quotient as torch computes it (c10/util/complex.h; Smith 1962), without overflow."""
    a, b = (z.re, z.im) if isinstance(z, ComplexTensor) else (z, torch.zeros_like(z))
    real = by.re.abs() >= by.im.abs()  # the greater part
    greater, less = torch.where(real, by.re, by.im), torch.where(real, by.im, by.re)
    zero = greater == 0
    ratio = less / greater.masked_fill(zero, 1)
    whole = (greater + less * ratio).masked_fill(zero, 0)
    x, y = torch.where(real, a, b), torch.where(real, b, a)
    turned = y - x * ratio
    return ComplexTensor((x + y * ratio) / whole, torch.where(real, turned, -turned) / whole)


def _reciprocal(z: ComplexTensor) -> ComplexTensor:
    return _quotient(torch.ones_like(z.re), z)


def _root(z: ComplexTensor) -> ComplexTensor:
    """Return square roots; the sign of an imaginary part of zero counts."""
    x, y = z.re, z.im
    root = (_size(z) / 2 + x.abs() / 2).sqrt()
    other = y.abs() / (2 * root.masked_fill(root == 0, 1))
    re, im = torch.where(x < 0, other, root), torch.where(x < 0, root, other)
    im = torch.where(torch.where(y == 0, 1 / y, y) < 0, -im, im)
    infinite = y.abs() == math.inf
    return ComplexTensor(re.masked_fill(infinite, math.inf), torch.where(infinite, y, im))


_OWN = {aten.abs.default: _size, aten.reciprocal.default: _reciprocal, aten.sqrt.default: _root}
"""Operators whose form in torch overflows, or lacks kernels."""


def _times(x: Any, by: Any) -> ComplexTensor:
    """Return a complex tensor times a real tensor or a number. torch's form would make the other factor complex."""
    if not isinstance(x, ComplexTensor):
        x, by = by, x
    if isinstance(by, complex):
        return ComplexTensor(x.re * by.real - x.im * by.imag, x.re * by.imag + x.im * by.real)
    return ComplexTensor(x.re * by, x.im * by)
