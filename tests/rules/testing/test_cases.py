"""The calls of a pte_test's cases: inputs from files, generators, counts and outputs of calls before."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from modelbuild.step import Step, StepError
from modelbuild_rules.testing.steps.parity.cases import Plan, cases
from modelbuild_rules.testing.steps.parity.programs import latencies
from modelbuild_runtime.describe import Description, MethodDescription, Port
from modelbuild_runtime.files.pte import Moved
from modelbuild_runtime.shapes import Dim

N, ONE = Dim(2, 8, "n"), Dim.fixed(1)
IMAGE = Port("image", "tensor", "float32", (Dim(1, 8, "batch"), Dim(3, 3)), range=(0.0, 255.0))
METHODS = {
    "forward": (IMAGE,),
    "prefill": (Port("tokens", "tensor", "int64", (ONE, N), range=(0, 9)),),
    "decode": (Port("token", "tensor", "int32", (ONE, ONE)), Port("position", "tensor", "int64", (ONE,))),
}
SEED: Mapping[str, Any] = {
    "seed": 1,
    "distribution": "uniform",
    "range": None,
    "mean": 0.0,
    "std": 1.0,
    "sizes": {},
}


def step_of(method: str, **given: Any) -> dict[str, Any]:
    plain = {"method": method, "calls": 1, "files": [], "feed": {}, "count": {}, "generator": None}
    return plain | given


def plans(folder: Path, *listed: dict[str, Any], **files: Path) -> dict[str, Plan]:
    """Return the calls of each case."""
    methods = tuple(MethodDescription(name, ports, (), (), (), 0, Moved()) for name, ports in METHODS.items())
    program = Description("program.pte", 0, (), (), methods)
    params = {"cases": [{"drawn": 0, **each} for each in listed]}
    return dict(cases(Step(params, {name: (path,) for name, path in files.items()}, {}, folder), program))


def generated(folder: Path, seed: int = 1, count: int = 1, calls: int = 1) -> list[np.ndarray]:
    steps = [step_of("forward", calls=calls, generator={**SEED, "seed": seed})]
    found = plans(folder, {"name": "a", "drawn": count, "steps": steps})
    return [planned.call({}).inputs["image"] for plan in found.values() for planned in plan]


def test_a_generator_draws_each_case_by_its_seed_and_number(tmp_path: Path) -> None:
    one, two = generated(tmp_path, count=2)
    assert not np.array_equal(one, two)
    np.testing.assert_array_equal(one, *generated(tmp_path))
    np.testing.assert_array_equal(two, *generated(tmp_path, seed=2))


def test_each_call_of_a_case_has_inputs_of_its_own(tmp_path: Path) -> None:
    (one,), (first, second) = (generated(tmp_path, calls=calls) for calls in (1, 2))
    np.testing.assert_array_equal(one, first)
    assert not np.array_equal(first, second)


def test_steps_have_the_same_inputs_in_any_case(tmp_path: Path) -> None:
    steps = [step_of("prefill", generator={**SEED, "sizes": {"n": 5}})]
    drawn = {"name": "a", "drawn": 3, "steps": [step_of("forward", generator=SEED)]}
    alone = plans(tmp_path, {"name": "b", "steps": steps})["b"]
    behind = plans(tmp_path, drawn, {"name": "b", "steps": steps})["b"]
    assert alone[0].inputs["tokens"].shape == (1, 5)
    np.testing.assert_array_equal(alone[0].inputs["tokens"], behind[0].inputs["tokens"])


def decoding(folder: Path, calls: int = 3, argmax: bool = True, **given: Any) -> Plan:
    fed = {"token": {"output": "logits", "argmax": argmax}}
    decode = step_of("decode", calls=calls, feed=fed, **{"count": {"position": 5}, **given})
    steps = [step_of("prefill", generator={**SEED, "sizes": {"n": 5}}), decode]
    return plans(folder, {"name": "chat", "steps": steps})["chat"]


def test_counts_go_on_and_outputs_are_fed(tmp_path: Path) -> None:
    prefill, *decode = decoding(tmp_path)
    assert [planned.method for planned in (prefill, *decode)] == ["prefill", "decode", "decode", "decode"]
    assert [planned.inputs["position"].tolist() for planned in decode] == [[5], [6], [7]]
    call = decode[0].call({"logits": np.array([[0.1, 0.7, 0.7]], np.float32)})
    assert list(call.inputs) == ["token", "position"]
    assert (call.inputs["token"].tolist(), call.inputs["token"].dtype) == ([[1]], np.int32)
    fed = decoding(tmp_path, argmax=False)[1].call({"logits": np.array([4], np.int32)})
    assert fed.inputs["token"].tolist() == [[4]]


@pytest.mark.parametrize(
    ("outputs", "problem"),
    [
        ({"logit": np.zeros((1, 3))}, "no call before it returns 'logits'; did you mean 'logit'?"),
        ({"logits": np.zeros((2, 3))}, r"input 'token': expected shape \[1, 1\], got \[2\]"),
        ({"logits": np.zeros((1, 0))}, r"'logits' has the shape \[1, 0\]; expected rows"),
        ({"logits": np.array(1.0)}, r"'logits' has the shape \[\]; expected rows"),
    ],
)
def test_an_output_that_does_not_fit_is_one_line(tmp_path: Path, outputs: dict[str, np.ndarray], problem: str) -> None:
    with pytest.raises(StepError, match=f"^call 2 of case 'chat': {problem}"):
        decoding(tmp_path)[1].call(outputs)


def test_another_type_of_an_output_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(StepError, match=r"^call 2 of case 'chat': input 'token': expected int32, got float32"):
        decoding(tmp_path, argmax=False)[1].call({"logits": np.zeros(1, np.float32)})


def test_a_size_that_is_not_allowed_has_its_call(tmp_path: Path) -> None:
    steps = [step_of("prefill", generator={**SEED, "sizes": {"n": n}}) for n in (8, 9)]
    with pytest.raises(StepError, match=r"^call 2 of case 'a': input 'tokens': dimension n is 9; expected 2 to 8"):
        plans(tmp_path, {"name": "a", "steps": steps})


def test_counts_end_with_their_type(tmp_path: Path) -> None:
    with pytest.raises(
        StepError, match="input 'position': 9223372036854775808 to 9223372036854775808 are no values of"
    ):
        decoding(tmp_path, count={"position": 2**63 - 1})
    with pytest.raises(StepError, match="input 'image' has values of float32; expected integers to count"):
        plans(tmp_path, {"name": "a", "steps": [step_of("forward", count={"image": 1})]})


@pytest.mark.parametrize(
    ("array", "problem"),
    [
        (np.zeros((2, 4), np.float32), r"expected shape \[batch=1..8, 3\], got \[2, 4\]"),
        (np.zeros((2, 3), np.float64), "expected float32, got float64"),
    ],
)
def test_a_file_that_an_input_does_not_take_is_the_users_mistake(
    tmp_path: Path, array: np.ndarray, problem: str
) -> None:
    path = tmp_path / "photo.npy"
    np.save(path, array)
    case = {"name": "photo", "steps": [step_of("forward", files=["image"])]}
    with pytest.raises(StepError, match=f"case 'photo': input 'image': {path}: {problem}"):
        plans(tmp_path, case, **{"case.0.0.image": path})


def test_the_first_call_of_each_method_is_measured(tmp_path: Path) -> None:
    calls: list[Any] = [SimpleNamespace(method=name) for name in ("prefill", "decode", "decode", "prefill", "read")]
    assert latencies(calls) == {"latency_ms": 0, "latency_ms_decode": 1, "latency_ms_read": 4}
