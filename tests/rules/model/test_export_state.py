"""The export step refuses changes that a program would lose: of inputs, parameters, and state that is no buffer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

INPUT = "changes the input 'x' in place; expected a change of its clone(), which forward returns"
DICT = {"call": {"args": [{"dict": [["a", {"list": [{"input": "x"}]}]]}], "kwargs": {}}}


@pytest.mark.parametrize(
    "body",
    [
        "return x.add_(1) * 2",
        "x[0] = 0.0; return x + 1",
        "x.view(-1)[2:].mul_(2); return x + 0",
        "x.reshape(-1).add_(1); return x + 1",
        "x.t().contiguous().t().view_as(x); x.to(torch.float32).clamp_(0); return x + 1",
        "return torch.add(x.clone(), 1, out=x)",
        "torch._foreach_add_([x], 1); return x * 2",
        "F.relu(x, inplace=True); return x * 2",
        "return F.batch_norm(x.clone(), x[0], torch.ones(3), training=True)",
        "return F.instance_norm(x[None].clone(), x[:, 0], torch.ones(2), use_input_stats=True)",
        "return torch.vmap(lambda row: row.add_(1))(x)",
    ],
)
def test_a_changed_input_is_refused(body: str, refusal: Callable[..., str]) -> None:
    text = refusal(f"class Net(nn.Module):\n    def forward(self, x):\n        {body}")
    assert text == f"m/net.py:6: {INPUT}"


def test_a_changed_input_in_a_container_is_refused(refusal: Callable[..., str]) -> None:
    body = "class Net(nn.Module):\n    def forward(self, d):\n        d['a'][0].add_(1)\n        return d['a'][0] * 2"
    assert refusal(body, **DICT) == f"m/net.py:6: {INPUT}"


@pytest.mark.parametrize(
    "body",
    [
        "return x.clone().add_(1)",
        "return x.t().reshape(-1).add_(1)",
        "y = x + 0; y[0] = 0.0; F.relu(y, inplace=True); return y",
        "y = torch.zeros(2, 3); y.copy_(x); return y",
        "y = torch.tensor([[1.0], [2.0]]); y.mul_(2); return x * y",
        "self.count.add_(1); return x * self.count",
        "self.count = self.count + 1; return x * self.count",
        "return F.batch_norm(x, self.count.expand(3).clone(), torch.ones(3), training=True)",
        "self.seen = x; return x + 1",
        "self.kept['mask'] = self.kept.get('mask', torch.ones(3)); return x * self.kept['mask']",
        "self.calls += 1; return x * 2",
    ],
)
def test_other_changes_are_not(body: str, export: Callable[..., object]) -> None:
    init = "super().__init__(); self.register_buffer('count', torch.zeros(1)); self.kept = {}; self.calls = 0"
    export(f"class Net(nn.Module):\n    def __init__(self):\n        {init}\n    def forward(self, x):\n        {body}")


@pytest.mark.parametrize(
    ("body", "attribute"),
    [
        ("y = x + self.last; self.last = x; return y", "last"),
        ("y = x if self.unset is None else x - self.unset; self.unset = x; return y", "unset"),
        ("self.count += 1; return x * self.count", "count"),
        ("self.many.append(x); return sum(self.many)", "many"),
        ("self.last_two.append(x); return sum(self.last_two)", "last_two"),
        ("self.shapes.add(len(self.shapes)); return x * len(self.shapes)", "shapes"),
        ("y = x + self.many[0]; self.many[0] = y.sum(); return y", "many.0"),
        ("y = x + self.named.get('a', 0); self.named['a'] = y; return y", "named.a"),
        ("y = x + self.holder.value; self.holder.value = x; return y", "holder.value"),
        ("y = x + self.inner.last; self.inner.last = x; return y", "inner.last"),
        ("y = x + getattr(self, 'new', 0); self.new = x; return y", "new"),
    ],
)
def test_state_in_plain_attributes_is_refused(body: str, attribute: str, refusal: Callable[..., str]) -> None:
    text = refusal(
        f"""
        import collections

        class Holder:
            value = 0

        class Inner(nn.Module):
            last = 0

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.last, self.unset, self.count = torch.zeros(3), None, 0
                self.many, self.named = [torch.zeros(3)], {{}}
                self.inner, self.holder = Inner(), Holder()
                self.last_two, self.shapes = collections.deque(maxlen=2), set()
            def forward(self, x):
                {body}
        """
    )
    assert text == (
        f"forward of m/net.py:Net changes the attribute '{attribute}', on which its next call depends; expected a"
        " buffer that it changes: self.register_buffer"
    )


def test_a_module_that_registers_a_hook_in_its_first_call_has_it_once(export: Callable[..., Any]) -> None:
    made = export(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.ready = nn.ReLU(), False
            def forward(self, x):
                self.seen = []
                if not self.ready:
                    self.inner.register_forward_hook(lambda module, args, result: self.seen.append(result))
                    self.ready = True
                self.inner(x)
                return torch.stack(self.seen)
        """
    )
    (x,) = made.examples()
    assert torch.equal(made.program().module()(x), x.relu()[None])


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("self.plain.add_(x[0]); return self.plain + 1", "the tensor 'plain' in place that is no buffer"),
        ("self.plain.view(3, 1)[0] = x[0, 0]; return self.plain + 1", "the tensor 'plain' in place that is no buffer"),
        ("self.many[0].add_(x[0]); return self.many[0] + 1", "a tensor in place that is no buffer"),
        ("self.weight.add_(x[0]); return self.weight + 1", "the parameter 'weight' in place"),
        ("return F.batch_norm(x, self.weight, torch.ones(3), training=True)", "the parameter 'weight' in place"),
    ],
)
def test_a_changed_tensor_that_is_no_buffer_is_refused(body: str, problem: str, refusal: Callable[..., str]) -> None:
    text = refusal(
        f"""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.plain, self.many = torch.zeros(3), [torch.zeros(3)]
                self.weight = nn.Parameter(torch.zeros(3))
            def forward(self, x):
                {body}
        """
    )
    assert text.startswith(f"m/net.py:11: changes {problem}; expected ")
    assert "self.register_buffer" in text
