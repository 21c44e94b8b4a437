"""The patched parts of torch and Triton exist in the checked versions, and are restored."""

from __future__ import annotations

import inspect
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._inductor.kernel

from modelbuild.step import StepError
from modelbuild_rules.backends.cuda.steps.generate import target_gpu as replaced
from modelbuild_rules.backends.cuda.steps.generate.corrections import ALIGNED
from modelbuild_rules.backends.cuda.steps.generate.requests import Requests
from modelbuild_rules.backends.cuda.steps.kernels.choice import Chooser
from modelbuild_rules.backends.cuda.steps.kernels.compiler import PRODUCTS
from modelbuild_rules.backends.cuda.steps.kernels.device import GPUS, common_gpu, number, registers_allow
from modelbuild_rules.backends.cuda.steps.kernels.tuning import Tuning
from tests.private_names import is_there, missing


def test_the_versions_are_those_checked() -> None:
    assert {name: version(name).partition("+")[0] for name in ("torch", "triton")} in replaced.CHECKED


@pytest.mark.parametrize("name", [*replaced.PATCHED, *replaced.USED])
def test_a_name_is_there(name: str) -> None:
    assert is_there(name)


@pytest.mark.parametrize("name", replaced.INSTANCES)
def test_attributes_of_instances_are_there(name: str) -> None:
    assert missing(name, replaced.INSTANCES[name]) == []


def test_every_hint_of_alignment_in_a_template_is_known() -> None:
    """Templates have hints that are false if no block divides the rows; another form would not be left out."""
    home = Path(inspect.getfile(torch._inductor.kernel)).parent
    texts = [path.read_text() for path in home.rglob("*") if path.suffix in (".py", ".jinja")]
    lines = [line for text in texts for line in text.splitlines() if "tl.multiple_of(" in line.partition("#")[0]]
    assert len(lines) >= 8
    assert [line for line in lines if "tl.multiple_of(" in ALIGNED.sub("", line)] == []


@pytest.mark.parametrize(
    ("installed", "expected"),
    [
        ({"torch": "2.13.0"}, r"torch 2.13.0 is installed; .* expects torch==2.14.0 or torch==2.15.0"),
        ({"torch": "2.15.0+cu132", "triton": "3.8.0"}, r"triton 3.8.0 is installed; .* expects triton==3.9.0"),
        ({"torch": "2.14.0"}, r"triton is not installed; expected triton==3.8.0"),
    ],
)
def test_other_versions_are_refused(installed: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(name: str) -> str:
        if name not in installed:
            raise PackageNotFoundError
        return installed[name]

    monkeypatch.setattr(replaced, "version", found)
    with pytest.raises(StepError, match=expected):
        replaced.require()
    installed.update(torch="2.15.0+cu132", triton="3.9.0")
    replaced.require()


def target(capability: int, folder: Path, precision: str = "fp32") -> tuple[Any, ...]:
    """Return the arguments of target_gpu, which do nothing with kernels."""
    gpu = GPUS[capability]
    requests = Requests(PRODUCTS[precision], folder)
    return gpu, Chooser(gpu, Tuning()), requests, lambda *_: None, lambda *_, **__: []


def test_everything_is_put_back(tmp_path: Path) -> None:
    import triton
    from torch._inductor import graph, utils
    from torch._inductor.codecache import AotCodeCompiler

    before = (
        torch.cuda.get_device_capability,
        torch.cuda.device_count,
        utils.is_big_gpu,
        graph.is_same_tensor,
        AotCodeCompiler.compile,
        triton.runtime.driver._active,
    )
    with replaced.target_gpu(*target(86, tmp_path)):
        assert torch.cuda.get_device_capability() == (8, 6)
        assert torch.cuda.get_device_properties(0).multi_processor_count == GPUS[86].processors
        assert triton.runtime.driver.active.get_current_target().arch == 86
    after = (
        torch.cuda.get_device_capability,
        torch.cuda.device_count,
        utils.is_big_gpu,
        graph.is_same_tensor,
        AotCodeCompiler.compile,
        triton.runtime.driver._active,
    )
    assert before == after


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_small_products_are_of_tf32(precision: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Inductor leaves those out, which would be computed without tensor cores: the fp32 that means three of TF32 is
    not set for this precision."""
    import triton
    from torch._inductor.heuristics.template.triton import CUDAMMTemplateConfigHeuristic

    monkeypatch.setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32" if precision == "tf32" else "ieee")
    with replaced.target_gpu(*target(90, tmp_path, precision), precision=precision):
        options = CUDAMMTemplateConfigHeuristic().get_extra_kwargs(object(), "mm")
        tensor_cores = options["ALLOW_TF32"] or triton.knobs.language.fp32_default == "tf32x3"
    assert options == {"ALLOW_TF32": precision == "tf32"}
    assert tensor_cores


def test_one_gpu_stands_for_several() -> None:
    assert common_gpu([90]) == GPUS[90]
    several = common_gpu([89, 80])
    assert several.capability == 80
    assert several.shared_memory == GPUS[89].shared_memory < GPUS[80].shared_memory


def test_capabilities_are_numbers() -> None:
    assert [number(each) for each in ("8.6", "12.0")] == [86, 120]


@pytest.mark.parametrize(("registers", "threads"), [(32, 1024), (64, 1024), (65, 992), (255, 256)])
def test_registers_bound_threads(registers: int, threads: int) -> None:
    assert registers_allow(registers) == threads
