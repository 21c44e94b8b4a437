"""Several programs as methods of one: results, state, and data that is there once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from modelbuild.step import Step
from modelbuild_rules.program.partitioned_program import conflict
from modelbuild_rules.program.steps import emit
from modelbuild_rules.program.steps.linking import flatbuffer
from modelbuild_rules.program.steps.linking.link import read_file

PORTS = {"version": 2, "methods": {"forward": {"inputs": [], "outputs": []}}}


@pytest.fixture
def together(tmp_path: Path) -> Callable[..., Path]:
    """Make one program of lowered ones, by method."""

    def run(methods: Mapping[str, Any], external: bool = False) -> Path:
        plans = {name: json.loads((each.folder / "plan.json").read_text()) for name, each in methods.items()}
        ids = {name: [each["id"] for each in own] for name, own in plans.items()}
        signature = tmp_path / "given.json"
        signature.write_text(json.dumps(PORTS))
        outputs = {name: tmp_path / name for name in ("pte", "delegation", "signature")}
        emit.run(
            Step(
                {"partitions": ids, "sidecars": {}},
                {
                    "residual": tuple(each.folder / "residual" for each in methods.values()),
                    "report": tuple(each.folder / "report.json" for each in methods.values()),
                    "signature": (signature,) * len(methods),
                    "parts": tuple(each.folder / "compiled" / id for name, each in methods.items() for id in ids[name]),
                },
                outputs | ({"ptd": tmp_path / "ptd"} if external else {}),
                tmp_path,
            )
        )
        return tmp_path / "pte"

    return run


def loaded(pte: Path, ptd: Path | None = None) -> Callable[..., list[torch.Tensor]]:
    from executorch.extension.pybindings._C import _load_for_executorch

    program = _load_for_executorch(str(pte), str(ptd) if ptd else None)
    return lambda method, inputs: list(program.run_method(method, tuple(each.clone() for each in inputs)))


def close(found: Sequence[torch.Tensor], wanted: Any) -> None:
    for one, other in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_each_method_computes_its_model(
    together: Callable[..., Path], lowered: Callable[[str], Any], model: Callable[[str], Any]
) -> None:
    """A program with constants in kernels and partitions between, one with states, and one without data."""
    names = {"a": "multi", "b": "counter", "c": "portable"}
    run = loaded(together({method: lowered(name) for method, name in names.items()}))
    made = {method: model(name) for method, name in names.items()}
    with torch.no_grad():
        for method in "abcbab":
            close(run(method, made[method].inputs), made[method].module(*made[method].inputs))


def test_a_method_has_its_own_state(
    together: Callable[..., Path], lowered: Callable[[str], Any], model: Callable[[str], Any]
) -> None:
    run = loaded(together({"one": lowered("counter"), "two": lowered("counter")}))
    counter = model("counter")
    with torch.no_grad():
        first = counter.module(*counter.inputs)
        second = counter.module(*counter.inputs)
    close(run("one", counter.inputs), first)
    close(run("two", counter.inputs), first)
    close(run("one", counter.inputs), second)


def test_equal_data_is_there_once(together: Callable[..., Path], lowered: Callable[[str], Any]) -> None:
    pte = together({"one": lowered("multi"), "two": lowered("multi")})
    alone, _ = read_file(lowered("multi").pte)
    table, blobs = read_file(pte)
    assert len(table.constant_segment.offsets) == len(alone.constant_segment.offsets)
    assert [each.key for each in table.named_data] == [each.key for each in alone.named_data]
    assert len(blobs) == len(alone.segments)
    one, two = table.execution_plan
    assert [each.processed.index for each in one.delegates] == [each.processed.index for each in two.delegates]
    totals = json.loads((pte.parent / "delegation").read_text())["totals"]["xnnpack"]
    assert totals["bytes"] == lowered("multi").delegation["totals"]["xnnpack"]["bytes"]


def test_constants_outside_the_program_that_differ_keep_their_values(
    together: Callable[..., Path], lower: Callable[..., Any], model: Callable[[str], Any], tmp_path: Path
) -> None:
    """Both have a `table.weight`, with other values."""
    one = model("multi")
    other = torch.export.export(_other_table(one.module), one.inputs)
    methods = {
        "one": lower(one.program, tmp_path / "one", external=True),
        "two": lower(other, tmp_path / "two", external=True),
    }
    run = loaded(together(methods, external=True), tmp_path / "ptd")
    with torch.no_grad():
        close(run("two", one.inputs), other.module()(*one.inputs))
        close(run("one", one.inputs), one.program.module()(*one.inputs))
    keys = {entry["key"] for entry in _tensors(tmp_path / "ptd")}
    assert {"table.weight", "two/table.weight"} <= keys


def _other_table(module: Any) -> Any:
    import copy

    changed = copy.deepcopy(module)
    with torch.no_grad():
        changed.table.weight += 1
    return changed


def _tensors(ptd: Path) -> list[dict[str, str]]:
    from executorch.extension.flat_tensor.serialize.serialize import FlatTensorSerializer

    return [{"key": key} for key in FlatTensorSerializer().deserialize(ptd.read_bytes()).named_data]


def test_executorch_reads_the_program_back(together: Callable[..., Path], lowered: Callable[[str], Any]) -> None:
    """Its serialization of a program that it read has equal bytes: headers and segments are those that it writes."""
    from executorch.exir._serialize._program import deserialize_pte_binary, serialize_pte_binary

    data = together({"one": lowered("multi"), "two": lowered("counter")}).read_bytes()
    read = deserialize_pte_binary(data)
    assert [plan.name for plan in read.program.execution_plan] == ["one", "two"]
    again = flatbuffer.read_program(bytes(serialize_pte_binary(read, extract_delegate_segments=True)))
    assert len(again.segments) == len(flatbuffer.read_program(data).segments)


def test_the_delegation_names_methods(together: Callable[..., Path], lowered: Callable[[str], Any]) -> None:
    pte = together({"one": lowered("multi"), "two": lowered("portable")})
    found = json.loads((pte.parent / "delegation").read_text())
    assert [each["id"] for each in found["partitions"]] == ["one.p0", "one.p1"]
    assert {node["method"] for node in found["nodes"]} == {"one", "two"}
    assert {node["partition"] for node in found["nodes"] if "partition" in node} == {"one.p0", "one.p1"}
    ports = {"inputs": [], "outputs": []}
    assert json.loads((pte.parent / "signature").read_text()) == {
        "version": 2,
        "methods": {"one": ports, "two": ports},
    }


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        (
            {"changed": ["cache"], "inside": ["cache"], "common": {}, "read": []},
            "'one' changes the buffer 'cache' inside a partition",
        ),
        (
            {"changed": [], "inside": [], "common": {}, "read": ["cache"]},
            "'two' changes the buffer 'cache', and method 'one' only reads",
        ),
        (
            {"changed": ["kept"], "inside": [], "common": {"kept": "cuda:1"}, "read": []},
            "'one' changes the buffer 'kept' in cuda:1, inside a partition, and method 'two' uses it in cuda:0;",
        ),
        (
            {"changed": ["cache"], "inside": [], "common": {"cache": "cuda:0"}, "read": []},
            "'one' changes the buffer 'cache' in cuda:0, inside a partition, and method 'two' uses it outside of",
        ),
    ],
)
def test_a_buffer_that_methods_cannot_share(state: Any, problem: str) -> None:
    other: Any = {"changed": ["cache", "kept", "more"], "inside": ["more"], "common": {"kept": "cuda:0"}, "read": []}
    assert problem in conflict(["one", "two"], [0, 0], [state, other])
    assert conflict(["one", "two"], [0, 1], [state, other]) == ""
    assert conflict(["one", "two"], [0, 0], [other, {**other, "inside": [], "changed": ["cache", "kept"]}]) == ""
