"""The result of capture, compile and link equals executorch's own lowering byte for byte, except for the digest in the
manifest: executorch gets the same nodes for XNNPACK, rewritten in the same way, and the manifest as one more entry of
named data."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from executorch.backends.xnnpack.xnnpack_preprocess import XnnpackBackend
from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.extension.flat_tensor.serialize.serialize import FlatTensorSerializer

from modelbuild_rules.backends.xnnpack.steps.compile import rewrite
from modelbuild_rules.backends.xnnpack.steps.layouts import layouts_apart
from modelbuild_rules.backends.xnnpack.steps.partitioning import PARTITIONING
from modelbuild_rules.model.steps.exported.program import load_program
from modelbuild_rules.program.steps.linking.manifest import KEY, key_beside, seal, unsealed
from modelbuild_rules.program.steps.lowering.patches.arrange import sorted_stably
from modelbuild_rules.program.steps.lowering.patches.passes import typed_numbers
from modelbuild_rules.program.steps.lowering.pipeline import rewrite_delegated
from modelbuild_rules.program.steps.lowering.rewrites.nonzero import correct_nonzero, has_nonzero
from modelbuild_runtime.files.manifest import read_manifest
from tests.rules.program.conftest import XNNPACK

PTD_MANIFEST = unsealed({"version": 1})


def _manifest(pte: Path) -> bytes:
    """Return a program's own manifest, which ExecuTorch's lowering gets as an entry of named data."""
    found = read_manifest(memoryview(pte.read_bytes()), verify=True)
    assert found is not None
    return unsealed(found)  # type: ignore[arg-type]


@contextmanager
def _rewritten() -> Iterator[None]:
    """Rewrite partitions, and number their nodes, before ExecuTorch compiles them; keep the program's order."""
    preprocess = XnnpackBackend.preprocess

    def compiled(program: Any, specs: Any) -> Any:
        rewrite(program)
        return preprocess(program, specs)

    with patch.object(XnnpackBackend, "preprocess", staticmethod(compiled)), layouts_apart(), sorted_stably():
        yield


def _by_executorch(folder: Path, manifest: bytes, external: bool, beside: str | None = None) -> Any:
    """`beside` is the key of the manifest in the .ptd."""
    program = load_program(folder / "program", folder / "weights")
    program = PARTITIONING.prepare(correct_nonzero(program) if has_nonzero(program) else program)
    if external:
        for node in program.graph.nodes:
            if node.op == "placeholder":
                node.meta["custom"] = {"delegate_constant_tag": "weights"}
    with _rewritten(), typed_numbers():
        edge = to_edge_transform_and_lower(program, partitioner=[PARTITIONING.partitioner(XNNPACK, {})])
    rewrite_delegated(edge.exported_program())
    edge._named_data_store.add_named_data(KEY, manifest)
    if beside is not None:
        edge._named_data_store.add_named_data(beside, PTD_MANIFEST, external_tag="weights")
    outside = (lambda node: "weights") if external else False
    return edge.to_executorch(ExecutorchBackendConfig(external_constants=outside))


def _sealed(content: bytes, path: Path) -> bytes:
    path.write_bytes(content)
    seal(path)
    return path.read_bytes()


@pytest.mark.sampled
def test_the_program_is_executorchs_with_a_manifest(
    unchanged_model: str, lowered: Callable[[str], Any], tmp_path: Path
) -> None:
    made = lowered(unchanged_model)
    expected = _by_executorch(made.folder, _manifest(made.pte), external=False).buffer
    assert made.pte.read_bytes() == _sealed(expected, tmp_path / "expected.pte")


@pytest.mark.parametrize(
    "name", [pytest.param("depthwise", marks=pytest.mark.exhaustive), "multi", "conv_static_quant", "counter"]
)
def test_weights_outside_are_executorchs_with_a_manifest(
    name: str, model: Callable[[str], Any], lower: Callable[..., Any], tmp_path: Path
) -> None:
    made = lower(model(name).program, tmp_path / "made", external=True)
    *keys, manifest = FlatTensorSerializer().deserialize(made.ptd.read_bytes()).named_data
    assert manifest == key_beside(keys)
    expected = _by_executorch(made.folder, _manifest(made.pte), external=True, beside=manifest)
    expected.write_tensor_data_to_file(tmp_path)
    assert made.ptd.read_bytes() == _sealed((tmp_path / "weights.ptd").read_bytes(), tmp_path / "expected.ptd")
    assert made.pte.read_bytes() == _sealed(expected.buffer, tmp_path / "expected.pte")


@pytest.mark.sampled
def test_results_are_those_of_eager_pytorch(
    every_model: str, model: Callable[[str], Any], lowered: Callable[[str], Any], execute: Callable[..., Any]
) -> None:
    made = model(every_model)
    module = copy.deepcopy(made.module)
    for _ in range(2):
        expected = module(*made.inputs)
    results = execute(lowered(every_model).pte, made.inputs, times=2)
    tolerance = {"mlp_half": 5e-4, "mlp_dynamic_quant": 2e-3}.get(every_model, 1e-5)
    torch.testing.assert_close(
        results, list(expected) if isinstance(expected, tuple) else [expected], atol=tolerance, rtol=tolerance
    )


@pytest.mark.parametrize("batch", [1, 3, 16])
def test_a_dynamic_batch_runs(
    batch: int, model: Callable[[str], Any], lowered: Callable[[str], Any], execute: Callable[..., Any]
) -> None:
    module = model("mlp_dynamic").module
    inputs = torch.randn(batch, 16)
    (result,) = execute(lowered("mlp_dynamic").pte, [inputs])
    torch.testing.assert_close(result, module(inputs))


def test_weights_outside_are_found_at_run_time(
    model: Callable[[str], Any], lower: Callable[..., Any], execute: Callable[..., Any], tmp_path: Path
) -> None:
    made = model("multi")
    lowered = lower(made.program, tmp_path / "made", external=True)
    torch.testing.assert_close(execute(lowered.pte, made.inputs, lowered.ptd), list(made.module(*made.inputs)))
    with pytest.raises(RuntimeError):
        execute(lowered.pte, made.inputs)
