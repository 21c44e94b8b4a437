"""The estimate of a method: of its partitions, calls and copies, and what of it is unknown."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from modelbuild.step import Step
from modelbuild_rules.program.steps.linking import estimates as module
from modelbuild_rules.testing.steps.parity.budgets import estimated_cases
from modelbuild_runtime.files.pte import Call, Delegate, Method, Moved, ProgramFile

if TYPE_CHECKING:
    from modelbuild_rules.backend_api.documents import Estimate, KernelEstimate
    from modelbuild_rules.program.documents import CompiledPartition, DelegationDocument


def partition(id: str, size: int, *seconds: float | None, content: bytes = b"") -> CompiledPartition:
    """Return a partition whose kernels take these seconds; without any, it has no estimate."""
    kernels: list[KernelEstimate] = [
        {"nodes": [0], "bytes": 1, **({} if each is None else {"seconds": each})} for each in seconds
    ]
    estimate: Estimate = {"device": "a GPU", "basis": "a guess", "call": 1e-3, "link": 1e6, "kernels": kernels}
    made: Any = {"id": id, "backend": "cuda", "nodes": 1, "processed_bytes": size, "named_bytes": 0}
    made["processed_sha256"] = hashlib.sha256(content).hexdigest()
    return {**made, "about": {"estimate": estimate}} if seconds else made  # type: ignore[no-any-return]


def method(*calls: str | int, moved: Moved = Moved()) -> Method:  # noqa: B008
    """Return a method with calls of kernels by name, and of delegates by size."""
    sizes = list(dict.fromkeys(each for each in calls if isinstance(each, int)))
    made = tuple(
        Call("", sizes.index(each), (), (0, n)) if isinstance(each, int) else Call(each, None, (), (0, n))
        for n, each in enumerate(calls)
    )
    return Method("forward", (), (), tuple(Delegate("CudaBackend", size) for size in sizes), (), 0, moved, made)


@pytest.fixture
def estimated(monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(program: Method, *partitions: CompiledPartition) -> Any:
        monkeypatch.setattr(module, "read_program_file", lambda path, verify: ProgramFile((program,), 0, ()))
        return module.estimates(Path("a.pte"), partitions)

    return run


def test_calls_kernels_and_copies_add_up(estimated: Any) -> None:
    moved = Moved(staged_in=1000, staged_out=500, copied_in=2000, copied_out=0)
    program = method(7, "et_copy::_d2h_copy.out", "executorch_prim::add.Scalar", 9, 7, moved=moved)
    parts = partition("p0", 7, 1e-3, 2e-3), partition("p1", 9, 4e-3)
    assert estimated(program, *parts) == {
        "forward": {"seconds": pytest.approx(0.0165, rel=0.01), "moved": [3000, 500], "unknown": []}
    }


def test_what_is_unknown_is_named(estimated: Any) -> None:
    program = method(7, "aten::nonzero.out", "aten::index.Tensor_out", 9)
    (found,) = estimated(program, partition("p0", 7, 1e-3, None), partition("p1", 9)).values()
    assert found["unknown"] == ["1 call of libraries in p0", "p1 (cuda)", "2 calls of kernels on the CPU"]
    assert found["seconds"] == pytest.approx(2e-3)
    assert estimated(program, partition("p0", 7), partition("p1", 9)) == {}


def test_partitions_of_one_size_are_told_apart_by_their_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of CUDA, whose blobs only name a library."""
    path = tmp_path / "a.pte"
    path.write_bytes(b"onetwo")
    delegates = Delegate("CudaBackend", 3, 0), Delegate("CudaBackend", 3, 3)
    calls = tuple(Call("", number, (), (0, place)) for place, number in enumerate((0, 1, 1)))
    program = Method("forward", (), (), delegates, (), 0, Moved(), calls)
    monkeypatch.setattr(module, "read_program_file", lambda path, verify: ProgramFile((program,), 6, ()))
    parts = partition("p0", 3, 1e-2, content=b"one"), partition("p1", 3, 3e-2, content=b"two")
    assert module.estimates(path, parts)["forward"]["seconds"] == pytest.approx(0.073)


@pytest.mark.parametrize(
    ("estimates", "message"),
    [
        ({"forward": {"seconds": 2e-3, "moved": [0, 0], "unknown": []}}, "2 ms, expected at most 1.5 ms"),
        ({"forward": {"seconds": 1e-3, "moved": [0, 0], "unknown": []}}, ""),
        (
            {
                "forward": {
                    "seconds": 1e-3,
                    "moved": [0, 0],
                    "unknown": ["p1 (xnnpack)", "1 call of kernels on the CPU"],
                }
            },
            "the time of p1 (xnnpack), 1 call of kernels on the CPU is unknown; expected on_device = true",
        ),
        ({}, "the time of every partition is unknown; expected on_device = true"),
    ],
)
def test_a_limit_needs_a_whole_estimate(estimates: Any, message: str, tmp_path: Path) -> None:
    document: DelegationDocument = {"version": 1, "totals": {}, "partitions": [], "nodes": [], "estimates": estimates}
    (case,) = estimated_cases(Step({"estimated": 1.5, "methods": {"forward": {}}}, {}, {}, tmp_path), document)
    assert (case.status, case.message) == ("failed" if message else "passed", message)
    assert estimated_cases(Step({"methods": {"forward": {}}}, {}, {}, tmp_path), document) == []
