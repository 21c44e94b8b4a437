"""Convolutions of every form equal the plain ones that they are rewritten to."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from modelbuild_rules.backends.cuda.steps.generate.convolutions import decomposed


@st.composite
def forms(draw: Any) -> dict[str, Any]:
    """Draw the arguments of a convolution that is valid in eager mode."""
    dims, transposed = draw(st.integers(1, 3)), draw(st.booleans())
    groups, inputs, outputs = (draw(st.integers(1, 3)) for _ in range(3))

    def numbers(least: int, most: int) -> list[int]:
        return draw(st.lists(st.integers(least, most), min_size=dims, max_size=dims))

    kernel, stride, dilation = numbers(1, 4), numbers(1, 3), numbers(1, 3)
    padding = [draw(st.integers(0, step * (k - 1))) for k, step in zip(kernel, dilation, strict=True)]
    reach = [step * (k - 1) + 1 for k, step in zip(kernel, dilation, strict=True)]
    sizes = [draw(st.integers(1 if transposed else far, far + 4)) for far in reach]
    if transposed:  # the output has at least one position
        padding = [
            min(p, (n - 1) * s + far - 1) // 2 for p, n, s, far in zip(padding, sizes, stride, reach, strict=True)
        ]
    more = [draw(st.integers(0, max(s, d) - 1)) if transposed else 0 for s, d in zip(stride, dilation, strict=True)]
    shape = (inputs * groups, outputs) if transposed else (outputs * groups, inputs)
    x = torch.randn(draw(st.integers(1, 2)), inputs * groups, *sizes)
    if draw(st.booleans()):
        x.view(-1)[draw(st.integers(0, x.numel() - 1))] = draw(st.sampled_from([float("inf"), float("nan")]))
    return {
        "x": x,
        "weight": torch.randn(*shape, *kernel),
        "bias": torch.randn(outputs * groups) if draw(st.booleans()) else None,
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "transposed": transposed,
        "output_padding": more,
        "groups": groups,
    }


@settings(max_examples=150, deadline=None)
@given(forms())
def test_every_convolution_equals_its_plain_form(form: dict[str, Any]) -> None:
    """A value that is not finite meets the weights that it meets in eager mode, and no zeros."""
    exact = [each.double() if isinstance(each, torch.Tensor) else each for each in form.values()]
    made, expected = decomposed(**form), torch.ops.aten.convolution.default(*exact).float()
    if made is NotImplemented:
        depthwise = form["groups"] > 1 and form["weight"].shape[1] == 1
        assert not form["transposed"]
        assert depthwise or (form["x"].dim() > 3 and set(form["dilation"]) == {1})
        return
    assert made.shape == expected.shape
    torch.testing.assert_close(made, expected, rtol=1e-4, atol=1e-4, equal_nan=True)


def test_a_number_for_all_dimensions_is_one_for_each() -> None:
    x, weight = torch.randn(1, 4, 9, 8), torch.randn(6, 4, 3, 3)
    made = decomposed(x, weight, None, [2], [1], [2], False, [0], 1)
    torch.testing.assert_close(made, F.conv2d(x, weight, None, 2, 1, 2), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("transposed", [False, True])
def test_only_plain_convolutions_of_two_or_three_dimensions_are_left(transposed: bool) -> None:
    """A rewritten convolution is plain, also when an input's length is symbolic."""
    from torch.fx.experimental.proxy_tensor import make_fx

    def run(x: Any, weight: Any) -> Any:
        return decomposed(x, weight, None, [2], [1], [3], transposed, [0], 1)

    graph = make_fx(run, tracing_mode="symbolic")(torch.randn(1, 4, 29), torch.randn(4, 4, 3)).graph
    found = [node for node in graph.nodes if node.target is torch.ops.aten.convolution.default]
    assert found
    for node in found:
        _, weight, _, _, _, dilation, is_transposed, *_ = node.args
        assert weight.meta["val"].dim() == 4
        assert (dilation, is_transposed) == ([1, 1], False)
