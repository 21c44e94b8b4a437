"""Calls on tensors without values are recorded, and give the same bytes when they are repeated with values."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from modelbuild_rules.model.steps.exported.recipes import Recipes
from modelbuild_rules.model.steps.exported.sources import Sources, ValuesNeeded, known_sources

MODE = FakeTensorMode()


def fake(sources: Sources, name: str, shape: tuple[int, ...] = (4, 6), dtype: torch.dtype = torch.float32) -> Tensor:
    with MODE:
        made = torch.empty(shape, dtype=dtype)
    sources.add(made, name)
    return made


def marked_bytes(tensor: Tensor) -> bytes:
    """Return the bytes of a tensor's storage as executorch reads them."""
    storage = tensor.untyped_storage()
    return ctypes.string_at(storage.data_ptr(), storage.nbytes())


RECORDED: list[Callable[[Tensor], Any]] = [
    Tensor.clone,
    lambda w: w.t().contiguous(),
    lambda w: w[1:3, ::2].to(torch.float64) * 0.1,
    lambda w: torch.rsqrt(w.double() + 1e-5).float(),
    lambda w: w.reshape(1, 2, 2, 6).to(memory_format=torch.channels_last),
    lambda w: torch.cat([w.half(), w.half()], 1),
    lambda w: w.split(2)[1] - w.unbind()[0],
    lambda w: w.data.contiguous().unsqueeze(-1) + w[..., None],
    lambda w: torch.nn.functional.pad(w, (0, 2)).to(torch.bfloat16),
]


@pytest.mark.parametrize("derive", RECORDED)
def test_a_recorded_result_has_the_bytes_of_the_calls(derive: Callable[[Tensor], Any]) -> None:
    sources, value = Sources(), torch.randn(4, 6)
    with known_sources(sources):
        derived = derive(fake(sources, "w"))
        name = sources.marked(marked_bytes(derived))
    assert name is not None
    size = derived.untyped_storage().nbytes()
    wanted = derive(value).untyped_storage()
    assert Recipes(sources.calls([name]), {"w": value}).data(name, size) == bytes(wanted)


def test_a_view_has_the_name_of_its_weight_and_equal_calls_have_one_name() -> None:
    sources = Sources()
    with known_sources(sources):
        weight, other = fake(sources, "7"), fake(sources, "8")
        for same in (weight, nn.Parameter(weight), weight.detach(), weight.view(2, 12), weight.flatten()):
            assert sources.of(same) == "7"
        assert sources.of(weight * 2) == sources.of(weight * 2) != sources.of(other * 2)
        assert sources.of(weight.t()) != "7"
        assert list(sources.calls(["7"])) == []


def test_other_tensors_have_no_name() -> None:
    sources = Sources()
    with known_sources(sources):
        weight = fake(sources, "7")
        with MODE:
            unknown = torch.empty(4, 6)
        changed = weight.clone().add_(1)
        for each in (unknown, unknown + weight, changed):
            with pytest.raises(ValuesNeeded):
                sources.of(each)
        with pytest.raises(ValuesNeeded):
            marked_bytes(unknown)
    weight.add_(1)
    with pytest.raises(ValuesNeeded):
        sources.of(weight)


def test_marks_are_distinct_from_each_other_and_from_values() -> None:
    sources = Sources()
    with known_sources(sources):
        small = [fake(sources, f"s{number}", (1,)) for number in range(50)]
        assert len({marked_bytes(each) for each in small}) == 50
        assert marked_bytes(small[0]) == marked_bytes(small[0])
        value = torch.ones(3)
        assert marked_bytes(value) == value.numpy().tobytes()
        assert sources.marked(marked_bytes(value)) is None
        equal = torch.frombuffer(bytearray(marked_bytes(small[0])), dtype=torch.float32).clone()
        marked_bytes(equal)
        with pytest.raises(ValuesNeeded, match="not distinct"):
            sources.marked(marked_bytes(small[0]))
        tiny = [fake(sources, f"b{number}", (1,), torch.int8) for number in range(257)]
        with pytest.raises(ValuesNeeded, match="not distinct"):
            [marked_bytes(each) for each in tiny]


@pytest.mark.parametrize(
    "read", [lambda w: w.sum().item(), lambda w: bool((w > 0).all()), lambda w: w.numpy(), lambda w: w.tolist()]
)
def test_reading_a_value_fails(read: Callable[[Tensor], object]) -> None:
    sources = Sources()
    with known_sources(sources), pytest.raises(Exception, match=r".+"):
        read(fake(sources, "w"))


def test_a_result_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="w has 16 bytes, and 12 without values"):
        Recipes({}, {"w": torch.ones(4)}).data("w", 12)
