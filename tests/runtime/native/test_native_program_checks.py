"""Whole programs that would make a kernel or XNNPACK access memory out of its bounds are refused when they load."""

from __future__ import annotations

import copy
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.native.fuzz_programs import write_programs

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {path.stem: path for path in write_programs(tmp_path_factory.mktemp("programs"))}


def calls(plan: Any, operator: str) -> list[Any]:
    """Return the calls of an operator; of delegates for the empty string."""
    found = [each.instr_args for each in plan.chains[0].instructions]
    if not operator:
        return [each for each in found if type(each).__name__ == "DelegateCall"]
    numbers = {i for i, each in enumerate(plan.operators) if each.name == operator}
    return [each for each in found if getattr(each, "op_index", None) in numbers]


def index_in_the_output(file: Any) -> None:
    plan = file.program.execution_plan[0]
    _, _, index, out, _ = calls(plan, "aten::index_select")[0].args
    plan.values[index].val.allocation_info = plan.values[out].val.allocation_info


def output_is_a_constant(file: Any) -> None:
    plan = file.program.execution_plan[0]
    call = calls(plan, "aten::convolution")[0]
    call.args[-2] = call.args[1]


def argument_missing(file: Any) -> None:
    calls(file.program.execution_plan[0], "aten::index_select")[0].args.pop()


def argument_of_another_kind(file: Any) -> None:
    args = calls(file.program.execution_plan[0], "aten::index_select")[0].args
    args[1] = args[0]


def step_of_zero(file: Any) -> None:
    plan = file.program.execution_plan[0]
    for item in plan.values[calls(plan, "aten::convolution")[0].args[3]].val.items:
        plan.values[item].val.int_val = 0


def move_is_skipped(file: Any) -> None:
    """And the tensor that is moved to has no memory."""
    from executorch.exir.schema import JumpFalseCall, MoveCall

    plan = file.program.execution_plan[0]
    called = [each.instr_args for each in plan.chains[0].instructions]
    (target,) = {each.move_to for each in called if isinstance(each, MoveCall)}
    plan.values[target].val.allocation_info = None
    plan.outputs.clear()
    plan.chains[0].instructions.append(copy.deepcopy(plan.chains[0].instructions[0]))
    calls(plan, "aten::sum")[-1].args[0] = target
    next(each for each in called if isinstance(each, JumpFalseCall)).destination_instruction = len(called)


def tensor_is_freed(file: Any) -> None:
    from executorch.exir.schema import FreeCall, Instruction

    plan = file.program.execution_plan[0]
    plan.chains[0].instructions.insert(0, Instruction(FreeCall(calls(plan, "aten::index_select")[0].args[2])))


def partition_lacks_an_argument(file: Any) -> None:
    calls(file.program.execution_plan[0], "")[0].args.pop()


def partition_gets_another_shape(file: Any) -> None:
    args = calls(file.program.execution_plan[0], "")[0].args
    args[0] = args[-1]


def data_too_short(file: Any) -> None:
    file.named_data.buffers[0] = file.named_data.buffers[0][:4]


def data_missing(file: Any) -> None:
    file.named_data.pte_data.clear()


def backend_has_a_nul(file: Any) -> None:
    file.program.execution_plan[0].delegates[0].id += "\0more"


def operator_has_a_nul(file: Any) -> None:
    file.program.execution_plan[0].operators[0].name += "\0more"


CASES = [
    ("indices", index_in_the_output, "a call of aten::index_select.out: it writes memory of another argument"),
    ("windows", output_is_a_constant, "a call of aten::convolution.out: it writes a constant"),
    ("indices", argument_missing, "a call of aten::index_select.out: 4 arguments; expected 5"),
    ("indices", argument_of_another_kind, "a call of aten::index_select.out: argument 1 is of another kind"),
    ("windows", step_of_zero, "a call of aten::convolution.out: argument 3 is 0"),
    ("branches", move_is_skipped, "a tensor is read before it has elements"),
    ("indices", tensor_is_freed, "it frees a tensor"),
    ("xnnpack_elements", partition_lacks_an_argument, "a partition of XNNPACK: an input or output is no argument"),
    ("xnnpack_windows", partition_gets_another_shape, "an argument has another shape than the partition's value"),
    ("xnnpack_windows", backend_has_a_nul, "a name contains a NUL"),
    ("indices", operator_has_a_nul, "a name contains a NUL"),
    ("xnnpack_windows", data_too_short, " have 4 bytes; a partition reads "),
    ("xnnpack_windows", data_missing, " of a partition are in no file"),
]


def test_right_programs_load(programs: dict[str, Path], modelbuild_run: Run) -> None:
    """All but the one in which ExecuTorch gives one constant to two nodes, as the rules' compilation does not."""
    assert {name for name, path in programs.items() if modelbuild_run(path, "--describe").returncode} == {
        "xnnpack_shared"
    }
    refused = modelbuild_run(programs["xnnpack_shared"], "--describe").stderr
    assert "a partition of XNNPACK: a node reads a constant that another one packs" in refused


@pytest.mark.parametrize(("name", "change", "why"), CASES, ids=[change.__name__ for _, change, _ in CASES])
def test_it_is_refused_when_loaded(
    name: str,
    change: Callable[[Any], None],
    why: str,
    programs: dict[str, Path],
    modelbuild_run: Run,
    tmp_path: Path,
) -> None:
    from executorch.exir._serialize._program import deserialize_pte_binary, serialize_pte_binary

    assert modelbuild_run(programs[name], "--describe").returncode == 0
    file = deserialize_pte_binary(programs[name].read_bytes())
    change(file)
    path = tmp_path / "changed.pte"
    path.write_bytes(bytes(serialize_pte_binary(file, extract_delegate_segments=True)))
    done = modelbuild_run(path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith(f"error: {path}: ")
    assert why in done.stderr
