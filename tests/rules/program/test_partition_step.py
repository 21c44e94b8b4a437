"""The partition step: the dependencies of a partition's bytes, attributes of backends, and errors."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from modelbuild.step import StepError
from modelbuild_rules.backend_api.steps import executorch_private

Files = Callable[[Path], dict[str, bytes]]


def changed(one: Mapping[str, bytes], other: Mapping[str, bytes]) -> set[str]:
    """Paths that are in one only, or have other bytes there."""
    return {path for path in {*one, *other} if one.get(path) != other.get(path)}


class Head(nn.Module):
    """As the model `head`; the names and the shape of its parts can be chosen."""

    def __init__(self, width: int = 3, body: str = "body") -> None:
        super().__init__()
        torch.manual_seed(1)
        setattr(self, body, nn.Linear(8, 8))
        self.head = nn.Linear(8, width)
        self._body = body

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.cumsum(torch.relu(getattr(self, self._body)(x)), -1))


def export(module: nn.Module, *inputs: torch.Tensor) -> Any:
    return torch.export.export(module.eval(), inputs)


INPUT = torch.ones(2, 8)


def test_it_shows_what_it_does(lower: Callable[..., Any], tmp_path: Path) -> None:
    parts: list[str] = []
    lower(export(Head(), INPUT), tmp_path / "made", show=parts.append)
    number, total = map(int, parts[6].removeprefix("pass ").split(" of "))
    assert parts == [
        *("reading the program", "rewriting operators for the backends", "lowering"),
        *("nodes for xnnpack", "partition 1 of 2", "partition 2 of 2"),
        *(f"pass {each} of {total}" for each in range(number, total + 1)),
        "planning memory",
    ]
    assert number == 1


@pytest.fixture(scope="module")
def base(lower: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    return lower(export(Head(), INPUT), tmp_path_factory.mktemp("base") / "made")


def test_another_head_is_another_partition_and_none_else(
    base: Any, lower: Callable[..., Any], files: Files, tmp_path: Path
) -> None:
    other = lower(export(Head(width=5), INPUT), tmp_path / "made")
    differ = changed(files(base.folder / "partitions"), files(other.folder / "partitions"))
    assert {path.partition("/")[0] for path in differ} == {"p1"}
    assert changed(files(base.folder / "compiled/p0"), files(other.folder / "compiled/p0")) == set()


def test_other_weights_are_another_partition_and_no_other_program(
    base: Any, lower: Callable[..., Any], files: Files, tmp_path: Path
) -> None:
    module = Head()
    with torch.no_grad():
        module.head.weight[0, 0] += 1
    other = lower(export(module, INPUT), tmp_path / "made")
    assert changed(files(base.folder / "partitions"), files(other.folder / "partitions")) == {"p1/weights/0"}
    for same in ("residual", "plan.json", "report.json"):
        paths = [made.folder / same for made in (base, other)]
        assert len({str(files(path) or path.read_bytes()) for path in paths}) == 1, same
    assert base.pte.read_bytes() != other.pte.read_bytes()


def test_weights_of_portable_operators_are_in_the_residual_program(
    model: Callable[[str], Any], lowered: Callable[[str], Any], lower: Callable[..., Any], files: Files, tmp_path: Path
) -> None:
    made = model("multi")
    with torch.no_grad():
        made.module.table.weight[0, 0] += 1
    other = lower(export(made.module, *made.inputs), tmp_path / "made")
    one = lowered("multi")
    assert changed(files(one.folder / "partitions"), files(other.folder / "partitions")) == set()
    assert changed(files(one.folder / "residual"), files(other.folder / "residual")) == {"program.pte"}


def test_names_in_the_model_are_not_in_partitions(
    base: Any, lower: Callable[..., Any], files: Files, tmp_path: Path
) -> None:
    other = lower(export(Head(body="trunk"), INPUT), tmp_path / "made")
    assert files(base.folder / "partitions") == files(other.folder / "partitions")
    assert base.pte.read_bytes() == other.pte.read_bytes()


def test_equal_blocks_are_one_partition(lowered: Callable[[str], Any]) -> None:
    twins = lowered("twins")
    assert [each["id"] for each in twins.plan] == ["p0"]
    delegation = twins.delegation
    assert [(node["op"], node["index"]) for node in delegation["nodes"] if node["backend"] == "xnnpack"] == [
        ("aten.linear.default", 0),
        ("aten.relu.default", 1),
    ] * 2
    assert delegation["partitions"][0]["nodes"] == 4
    size = sum(
        (twins.folder / "compiled/p0" / name).stat().st_size for name in ("processed.bin", "named.0.bin", "named.1.bin")
    )
    assert delegation["totals"]["xnnpack"] == {"nodes": 4, "partitions": 1, "bytes": size}


class Again(nn.Module):
    """A block that is called twice, in each of which one layer is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def block(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(torch.relu(self.layer(x)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.block(torch.cumsum(self.block(x), -1))


def test_a_block_that_is_called_twice_is_one_partition(
    lower: Callable[..., Any], execute: Callable[..., Any], tmp_path: Path
) -> None:
    """Executorch gives each use of a tensor that partitions share a separate input, in another order."""
    module = Again().eval()
    made = lower(export(module, INPUT), tmp_path / "made")
    assert [each["id"] for each in made.plan] == ["p0"]
    assert len(list((made.folder / "partitions/p0/weights").iterdir())) == 2
    torch.testing.assert_close(execute(made.pte, [INPUT]), [module(INPUT)])


SEEDED = """
import sys
from pathlib import Path
sys.path[:0] = {path!r}
import importlib.util
spec = importlib.util.spec_from_file_location("lowering", {conftest!r})
lowering = importlib.util.module_from_spec(spec)
sys.modules["lowering"] = lowering
spec.loader.exec_module(lowering)
stack = [
    {{"kind": "xnnpack", "partitioning": "modelbuild_rules.backends.xnnpack.steps.partitioning",
      "attributes": lowering.XNNPACK}},
    {{"kind": "portable", "partitioning": "", "attributes": {{"ops": None}}}},
]
for name in {names!r}:
    saved = Path({saved!r}, name)
    lowering.run_steps_on(saved / "program", saved / "weights", Path(name).absolute(), stack)
"""


@pytest.mark.slow
def test_the_bytes_depend_on_no_path_process_or_hash_seed(
    lowered: Callable[[str], Any], files: Files, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    names = ["branch", "mlp_dynamic"]
    saved = tmp_path_factory.mktemp("saved")
    for name in names:
        (saved / name).symlink_to(lowered(name).folder)
    folder = tmp_path / "some/longer path"
    folder.mkdir(parents=True)
    conftest = str(Path(__file__).with_name("conftest.py"))
    script = SEEDED.format(path=sys.path, conftest=conftest, names=names, saved=str(saved))
    environment = {**os.environ, "PYTHONHASHSEED": "11", "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], cwd=folder, env=environment, check=True)
    made = files(folder)
    for name in names:
        here = {p: data for p, data in files(lowered(name).folder).items() if not p.startswith(("program", "weights"))}
        there = {p.removeprefix(f"{name}/"): data for p, data in made.items() if p.startswith(f"{name}/")}
        assert changed(here, there) == set()
    assert not any(str(tmp_path).encode() in data for data in made.values())


class TestXnnpack:
    """Each attribute has the effect in its description."""

    @pytest.fixture
    def mlp(self, model: Callable[[str], Any], lower: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
        return lambda **attributes: lower(model("mlp").program, tmp_path / "made", xnnpack=attributes)

    def sizes(self, made: Any) -> list[int]:
        return [each["nodes"] for each in made.delegation["partitions"]]

    def test_by_default_all_is_one_partition(self, mlp: Callable[..., Any]) -> None:
        made = mlp()
        assert self.sizes(made) == [4]
        assert made.nodes("portable") == {}

    def test_per_op_mode(self, mlp: Callable[..., Any]) -> None:
        assert self.sizes(mlp(per_op_mode=True)) == [1, 1, 1, 1]

    def test_exclude_ops(self, mlp: Callable[..., Any]) -> None:
        made = mlp(exclude_ops=["aten.gelu.default"])
        assert made.nodes("portable") == {"aten.gelu.default": "listed in exclude_ops"}
        assert self.sizes(made) == [1, 2]

    def test_precisions_of_floating_point(self, mlp: Callable[..., Any]) -> None:
        made = mlp(precisions=["dynamic_quant", "static_quant"])
        assert made.nodes("portable") == {
            "aten.addmm.default": "fp32 is not among the precisions",
            "aten.gelu.default": "not enabled precision types",
            "aten._softmax.default": "not enabled precision types",
        }

    def test_precisions_of_dynamic_quantization(
        self, model: Callable[[str], Any], lower: Callable[..., Any], tmp_path: Path
    ) -> None:
        program = model("mlp_dynamic_quant").program
        made = lower(program, tmp_path / "made", xnnpack={"precisions": ["dynamic_quant"]})
        assert set(made.nodes("portable")) == {"aten.gelu.default", "aten._softmax.default"}

    def test_force_non_static_weights_for_f32_linear(self, mlp: Callable[..., Any]) -> None:
        made = mlp(force_non_static_weights_for_f32_linear=True)
        (partition,) = made.delegation["partitions"]
        assert partition["named_bytes"] == 0
        assert len((made.folder / "residual/program.pte").read_bytes()) > 4 * (16 * 32 + 32 * 8)

    def test_an_excluded_activation_is_not_fused(
        self, model: Callable[[str], Any], lower: Callable[..., Any], execute: Callable[..., Any], tmp_path: Path
    ) -> None:
        made = model("conv")
        lowered = lower(made.program, tmp_path / "made", xnnpack={"exclude_ops": ["aten.relu.default"]})
        assert lowered.nodes("portable") == {"aten.relu.default": "listed in exclude_ops"}
        torch.testing.assert_close(execute(lowered.pte, made.inputs), [made.module(*made.inputs)])

    def test_an_operator_that_it_does_not_know(self, mlp: Callable[..., Any]) -> None:
        message = (
            "attribute 'exclude_ops' of backend 0: XNNPACK takes no operator 'aten.gellu.default'; did you mean"
            " 'aten.gelu.default'?"
        )
        with pytest.raises(StepError) as error:
            mlp(exclude_ops=["aten.gellu.default"])
        assert str(error.value) == message

    def test_reasons_of_its_own_checks_are_told(self, lower: Callable[..., Any], tmp_path: Path) -> None:
        class Mean(nn.Module):
            def forward(self, x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
                return x.mean((2, 3)), i + i, torch.cumsum(x, 0)

        made = lower(export(Mean(), torch.ones(1, 2, 3, 3), torch.arange(3)), tmp_path / "made")
        assert made.nodes("portable") == {
            "aten.mean.dim": "mean.dim only supports keepdim=True",
            "aten.add.Tensor": "invalid dtype",
            "aten.cumsum.default": "no such XNNPACK operator",
        }


class TestPortable:
    """The nodes for portable kernels are the intended ones, and can run."""

    @pytest.fixture
    def problem(self, lower: Callable[..., Any], tmp_path: Path) -> Callable[..., str]:
        def run(program: Any, **attributes: Any) -> str:
            with pytest.raises(StepError) as error:
                lower(program, tmp_path / "made", **attributes)
            return str(error.value)

        return run

    def test_a_stack_without_portable_takes_all_or_fails(
        self, problem: Callable[..., str], model: Callable[[str], Any], lower: Callable[..., Any], tmp_path: Path
    ) -> None:
        assert lower(model("mlp").program, tmp_path / "whole", portable=False).nodes("xnnpack").keys() == {
            "aten.linear.default",
            "aten.gelu.default",
            "aten._softmax.default",
        }
        why = "xnnpack: no such XNNPACK operator"
        assert problem(model("multi").program, portable=False) == (
            f"no backend of the stack takes aten.cumsum.default (node aten_cumsum_default from cumsum; {why}),"
            f" aten.embedding.default (node aten_embedding_default from embedding of module table; {why}),"
            f" aten.topk.default (node aten_topk_default from topk; {why});"
            " expected a last backend of type 'portable', or a backend that takes them"
        )

    def test_only_operators_allowed(
        self, problem: Callable[..., str], model: Callable[[str], Any], lower: Callable[..., Any], tmp_path: Path
    ) -> None:
        allowed = ["aten.cumsum.default", "aten.embedding.default", "aten.topk.default"]
        assert lower(model("multi").program, tmp_path / "whole", ops=allowed).nodes("portable").keys() == set(allowed)
        assert problem(model("multi").program, ops=allowed[:2]) == (
            "aten.topk.default (node aten_topk_default from topk; xnnpack: no such XNNPACK operator) would run on"
            " portable kernels; expected only operators in the portable backend's 'ops'"
        )

    def test_an_allowed_operator_that_does_not_exist(
        self, problem: Callable[..., str], model: Callable[[str], Any]
    ) -> None:
        assert problem(model("multi").program, ops=["aten.embeding.default"]) == (
            "ops of the portable backend: no operator 'aten.embeding.default'; expected one like aten.add.Tensor;"
            " did you mean 'aten.embedding.default'?"
        )

    @pytest.mark.parametrize(
        ("function", "op"),
        [
            (torch.special.bessel_j0, "special_bessel_j0.default"),
            (torch.special.bessel_y0, "special_bessel_y0.default"),
            (torch.special.airy_ai, "special_airy_ai.default"),
        ],
    )
    def test_an_operator_without_a_kernel(self, function: Any, op: str, problem: Callable[..., str]) -> None:
        class Model(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return function(x)

        name = f"aten_{op}".replace(".", "_") + f" from {op.partition('.')[0]}"
        assert problem(export(Model(), torch.eye(3))) == (
            f"ExecuTorch 1.5.1 has no portable kernel for aten.{op} (node {name}; xnnpack: no such XNNPACK operator);"
            " expected a backend of the stack to take it"
        )

    def test_types_that_a_kernel_does_not_take(self, problem: Callable[..., str]) -> None:
        class Small(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x.to(torch.uint16) + x.to(torch.uint16)

        assert problem(export(Small(), torch.ones(4, 8))) == (
            "ExecuTorch 1.5.1's portable kernel of aten.add.Tensor (node aten_add_tensor from add; xnnpack: invalid"
            " dtype) does not support these types: self uint16, other uint16, result uint16; expected another type,"
            " such as float32, or a backend of the stack to take it"
        )


def test_nodes_of_branches_are_told_apart(lowered: Callable[[str], Any]) -> None:
    nodes = {node["name"]: node for node in lowered("branch").delegation["nodes"]}
    assert nodes["submodule_0.aten_sin_default"]["refused"] == [
        {"backend": "xnnpack", "why": "inside a branch of control flow"}
    ]
    assert nodes["aten_linear_default"]["backend"] == "xnnpack"
    assert nodes["aten_linear_default"]["module"] == "layer"
    assert nodes["cond"]["op"] == "higher_order.cond"


def test_another_version_of_executorch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    executorch_private.require()
    monkeypatch.setattr(executorch_private, "version", lambda name: "9.9")
    with pytest.raises(StepError) as error:
        executorch_private.require()
    assert str(error.value) == "executorch 9.9 is installed; expected executorch==1.5.1"
