"""The verification of a program: a fault planted in any part of a build ends it with the node's name."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelbuild.step import Step, StepError
from tests.rules.model.conftest import Exported, run_export
from tests.rules.xnnpack_steps import compile_xnnpack

NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, image):
        y = torch.sigmoid(self.conv(image))
        return torch.sin(y).cumsum(-1), torch.tanh(y).flip(-1)
"""
INPUT = {"name": "image", "shape": [1, 3, 8, 8], "dtype": "float32", "range": None}
XNNPACK: dict[str, Any] = {
    "kind": "xnnpack",
    "partitioning": "modelbuild_rules.backends.xnnpack.steps.partitioning",
    "compiling": "modelbuild_rules.backends.xnnpack.steps.compile",
    "storing": "modelbuild_rules.backends.xnnpack.steps.storing",
    "compiled": {},
}
PORTABLE = {
    "kind": "portable",
    "partitioning": "",
    "compiling": "",
    "storing": "",
    "compiled": {},
    "attributes": {"ops": None},
}


def backends(exclude: Sequence[str] = ()) -> list[dict[str, Any]]:
    from modelbuild_rules.backends.xnnpack.backend import XNNPACK as DECLARED
    from modelbuild_rules.backends.xnnpack.backend import Xnnpack

    attributes = Xnnpack(type="xnnpack", exclude_ops=tuple(exclude)).model_dump(mode="json")
    return [{**XNNPACK, "attributes": DECLARED.partition_attributes(attributes, {})}, PORTABLE]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return run_export(tmp_path_factory.mktemp("model"), NET, [INPUT])


def linked(model: Exported, folder: Path, exclude: Sequence[str] = ()) -> dict[str, Path]:
    """Partition, compile and link a model; return the outputs of linking."""
    from modelbuild_rules.program.steps import emit, partition

    made = {name: folder / name for name in ("residual", "partitions", "plan", "report", "notes")}
    for name in ("residual", "partitions"):
        made[name].mkdir()
    given = {name: (model.folder / name,) for name in ("program", "weights")}
    partition.run(Step({"backends": backends(exclude), "external_weights": False}, given, made, folder))
    parts = []
    for each in json.loads(made["plan"].read_text()):
        parts.append(folder / "compiled" / each["id"])
        compile_xnnpack(made["partitions"] / each["id"], parts[-1])
    inputs = {
        "residual": (made["residual"],),
        "report": (made["report"],),
        "signature": (model.folder / "signature.json",),
        "parts": tuple(parts),
    }
    outputs = {"pte": folder / "net.pte", **{name: folder / f"{name}.json" for name in ("delegation", "signature")}}
    emit.run(Step({"partitions": {"forward": [each.name for each in parts]}, "sidecars": {}}, inputs, outputs, folder))
    return outputs


def verified(model: Exported, program: dict[str, Path], folder: Path, exclude: Sequence[str] = ()) -> dict[str, Any]:
    """Verify a program; return verified.json."""
    from modelbuild_rules.testing.steps import verify

    inputs = {
        "program.pte": (program["pte"],),
        "program.delegation": (program["delegation"],),
        "program.signature": (model.folder / "signature.json",),
        "calls.forward": (model.folder / "calls",),
        "lowered.forward.program": (model.folder / "program",),
        "lowered.forward.weights": (model.folder / "weights",),
    }
    params = {
        "methods": {"forward": {"eager": {}, "module": 0}},
        "backends": {"forward": backends(exclude)},
        "modules": {"forward": 0},
        "installed": "modelbuild_runtime_native",
        "arch": None,
        "gpu": {"count": 0, "index": 0, "capabilities": []},
        "libraries": [],
        "place": "BUILD.toml:1:1",
        "library_places": [],
    }
    outputs = {"verified": folder / "verified.json", "notes": folder / "notes.txt"}
    verify.run(Step(params, inputs, outputs, folder))
    found: dict[str, Any] = json.loads(outputs["verified"].read_text())
    return found


def test_the_calls_of_a_right_program_are_listed(exported: Exported, tmp_path: Path) -> None:
    found = verified(exported, linked(exported, tmp_path), tmp_path)
    calls = ["the example inputs", "other values", "other values again"]
    assert found == {"version": 1, "methods": {"forward": {"calls": calls, "random": False}}}


def _rewrite(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from modelbuild_rules.program.steps.lowering import pipeline

    def wrong(lowering: pipeline.StackLowering) -> Any:
        for node in lowering.program.graph.nodes:
            if node.target is torch.ops.aten.sin.default:
                node.target = torch.ops.aten.cos.default
        return lowering.program

    fault = pipeline.Pass("sines", lambda lowering: True, wrong)
    monkeypatch.setattr(pipeline, "EXPORTED", (fault, *pipeline.EXPORTED))


def _compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    from modelbuild_rules.backends.xnnpack.steps import compile

    right = compile.preprocess

    def wrong(backend: Any, program: Any, specs: Any) -> Any:
        for name in program.state_dict:
            if "weight" in name or program.state_dict[name].dim() == 4:
                program.state_dict[name].mul_(1.5)
        return right(backend, program, specs)

    monkeypatch.setattr(compile, "preprocess", wrong)


FAULTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "a rewrite": (_rewrite, "sin"),
    "XNNPACK's compiler": (_compiler, "conv2d"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_an_error_with_the_node(
    exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    plant, node = FAULTS[fault]
    plant(monkeypatch)
    program = linked(exported, tmp_path)
    with pytest.raises(StepError) as error:
        verified(exported, program, tmp_path)
    assert "on the example inputs, the program's output 'output" in str(error.value)
    assert f"the first wrong node is node {node} from {node} (aten." in str(error.value)


def test_a_wrong_portable_kernel_is_an_error_with_the_node(
    exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each program calls the kernel of sine for the hyperbolic tangent."""
    from modelbuild_rules.program.steps.linking import link

    read = link.read_file

    def wrong(path: Path) -> Any:
        table, blobs = read(path)
        for operator in table.execution_plan[0].operators:
            operator.name = operator.name.replace("aten::tanh", "aten::sin")
        return table, blobs

    monkeypatch.setattr(link, "read_file", wrong)
    program = linked(exported, tmp_path, exclude=["aten.tanh.default"])
    with pytest.raises(StepError, match=r"the first wrong node is node tanh from tanh \(aten.tanh.default\), outside"):
        verified(exported, program, tmp_path, exclude=["aten.tanh.default"])


def test_a_fault_of_the_linker_is_an_error(exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The constants of the partition are those of another one."""
    from modelbuild_rules.program.steps.linking import link

    read = link.Part.read

    def wrong(folder: Path) -> Any:
        part = read(folder)
        for each in part.named:
            each.path.write_bytes(bytes(len(each.path.read_bytes())))
        return part

    with monkeypatch.context() as planted:
        planted.setattr(link.Part, "read", staticmethod(wrong))
        program = linked(exported, tmp_path)
    with pytest.raises(StepError, match="the first wrong node is node sigmoid from sigmoid"):
        verified(exported, program, tmp_path)


def test_a_fault_of_the_runtime_is_an_error(
    exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second call of a process returns the outputs of the first."""
    from modelbuild_rules.testing.steps.parity.runners import ProgramRunner

    run = ProgramRunner.run

    def wrong(self: ProgramRunner, calls: Any) -> Any:
        found = run(self, calls)
        return [found[0] for _ in found]

    monkeypatch.setattr(ProgramRunner, "run", wrong)
    with pytest.raises(StepError) as error:
        verified(exported, linked(exported, tmp_path), tmp_path)
    assert "on other values, the program's output 'output0' differs in" in str(error.value)
    assert "the program is right; the tested file is not" in str(error.value)


def test_a_choice_may_be_another_one_in_few_calls() -> None:
    from modelbuild_rules.testing.steps.verify import _first_wrong

    facts: Any = {"operators": 9, "precision": "float32", "quantized": False, "choices": [True]}
    wanted = [{"chosen": np.array([number])} for number in range(4)]
    for changed, expected in ((1, None), (2, None), (3, 1)):
        outputs = [{"chosen": each["chosen"] + 1} if 0 < n <= changed else each for n, each in enumerate(wanted)]
        found = _first_wrong(outputs, wanted, facts)
        assert (found and found[0]) == expected
    assert found is not None
    assert found[2] == "differs in 1 of 1 values, first at [0]: 2, expected 1, and other choices in 3 of 4 calls"
    order = [{"chosen": np.array([[3, 1, 2]])}] * 4
    assert _first_wrong(order, [{"chosen": np.array([[1, 2, 3]])}] * 4, facts) is None


def test_a_jump_may_move_a_few_rows_and_no_more() -> None:
    from modelbuild_rules.model.steps.calls.differences import difference

    facts: Any = {"operators": 9, "precision": "float32", "quantized": False, "choices": [True, False]}
    rows = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    moved = rows[::-1].copy()
    assert difference(moved, rows, facts, 0) == ""
    assert difference(moved[:-2], rows, facts, 0) == ""
    assert "has the shape [20, 5], expected [40, 5]" in difference(moved[:20], rows, facts, 0)
    assert "differs in" in difference(moved, rows, facts, 1)
    assert "differs in" in difference(rows + 1, rows, facts, 0)
    not_finite = rows.copy()
    not_finite[3, 3] = np.nan
    assert difference(not_finite, not_finite, facts, 1) == ""
    assert "infinities or NaNs" in difference(not_finite, rows, facts, 1)
