"""torch_model: the declared actions, and the effect of each attribute on them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from modelbuild.actions import Action, DerivedArtifact, SourceArtifact
from modelbuild.api import Files
from modelbuild.rule_runner import AnalysedTarget, RuleRunner
from modelbuild_rules.providers import BackendStack, DeviceTarget, EagerMethod, ExportedMethod, Model, ModelMethod

FILES = ("net.py", "util.py", "other.py", "w.safetensors", "w.pt", "table.json", "a.npy", "b.png")
LABELLED = '[[filegroup]]\nname = "weights"\nsrcs = ["w.pt"]\n'
BASE = {
    "entry": '"net.py:Net"',
    "srcs": '["util.py"]',
    "inputs": '[{ name = "x", shape = ["n", 3], dtype = "float32", range = [0, 255] }]',
    "dynamic": "{ n = { min = 1, max = 8 } }",
}


@pytest.fixture
def target(tmp_path: Path) -> Any:
    """Return a target of a BUILD.toml of package `pkg`, which has FILES."""

    def make(build: str, name: str) -> AnalysedTarget:
        files = {f"pkg/{file}": "" for file in FILES}
        return RuleRunner(tmp_path, {**files, "pkg/BUILD.toml": build}).target(f"//pkg:{name}")

    return make


@pytest.fixture
def export(target: Any) -> Any:
    """Return the action of a torch_model with the attributes of BASE and others."""

    def make(**changed: str) -> Action:
        attributes = BASE | changed
        build = LABELLED + '[[torch_model]]\nname = "net"\n' + "".join(f"{k} = {v}\n" for k, v in attributes.items())
        (action,) = target(build, "net").actions.values()
        return action

    return make


def decided(action: Action) -> dict[str, Any]:
    """Return the parts of an action in its key, except contents."""
    return {
        "params": dict(action.params),
        "inputs": [(i.name, i.path, i.artifact) for i in action.inputs],
        "tools": action.tools,
        "outputs": action.outputs,
    }


def test_the_action(export: Any) -> None:
    action = export()
    assert action.step == "modelbuild_rules.model.steps.export"
    assert action.params == {
        "entry": "pkg/net.py:Net",
        "method": "forward",
        "kwargs": {},
        "prepare": None,
        "weights": [],
        "allow_missing": False,
        "inputs": [{"name": "x", "shape": ["n", 3], "dtype": "float32", "range": [0, 255]}],
        "call": None,
        "dynamic": {"n": {"min": 1, "max": 8, "example": None}},
        "outputs": None,
        "seed": 0,
    }
    assert [(i.name, i.path) for i in action.inputs] == [("srcs", "pkg/net.py"), ("srcs", "pkg/util.py")]
    assert action.python == ("srcs",)
    assert not action.network
    assert action.unkeyed == {}


def test_providers_of_the_rule(target: Any) -> None:
    build = '[[torch_model]]\nname = "net"\n' + "".join(f"{k} = {v}\n" for k, v in BASE.items())
    net = target(build, "net")
    model, files, *_ = net.providers
    (action,) = net.actions.values()
    names = {field.name for field in dataclasses.fields(ExportedMethod)} - {"inputs", "kernels", "quantizers"}
    outputs = {name: DerivedArtifact("//pkg:net#export", name) for name in names}
    sources = {"srcs": (SourceArtifact("pkg/net.py"), SourceArtifact("pkg/util.py")), "data": ()}
    exported = ExportedMethod(**outputs, inputs=("x",))
    eager = EagerMethod(sources, action.params, action.tools)
    assert model == Model({"forward": ModelMethod(exported, eager)})
    assert files == Files((outputs["signature"], outputs["debug"]))


def test_files_of_targets_that_code_reads_lie_below_their_targets(target: Any) -> None:
    table = f'[[http_file]]\nname = "table"\nurls = ["https://host/table.json"]\nsha256 = "{"0" * 64}"\n'
    dataset = '[[dataset]]\nname = "samples"\nentry = "net.py:samples"\ndata = [":table"]\n'
    attributes = "".join(f"{k} = {v}\n" for k, v in (BASE | {"data": '[":table"]'}).items())
    program = '[[pte_program]]\nname = "program"\nmodel = ":net"\nstack = ["portable"]\n'
    test = '[[pte_test]]\nname = "test"\nprogram = ":program"\nmodel = ":net"\n'
    test += 'cases = [{ name = "a", generator = { seed = 0 } }]\n'
    build = f'{table}{dataset}[[torch_model]]\nname = "net"\n{attributes}{program}{test}'
    paths = {"net": "export", "samples": "generate", "test": "test"}
    for name, action in paths.items():
        inputs = target(build, name).actions[action].inputs
        assert [each.path for each in inputs if each.name == "data"] == ["pkg/table/table.json"]


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"entry": '"net.py:Other"'}, "params"),
        ({"entry": '"util.py:Net"'}, "params"),
        ({"srcs": '["util.py", "other.py"]'}, "inputs"),
        ({"seed": "1"}, "params"),
        ({"kwargs": "{ width = 3 }"}, "params"),
        ({"kwargs": '{ act = ["relu", 2, true] }'}, "params"),
        ({"outputs": '["y"]'}, "params"),
        ({"call": '"x=x"'}, "params"),
        ({"allow_missing": "true"}, "params"),
        ({"inputs": BASE["inputs"].replace('"x"', '"y"')}, "params"),
        ({"inputs": BASE["inputs"].replace("255", "1")}, "params"),
        ({"inputs": BASE["inputs"].replace("32", "64")}, "params"),
        ({"inputs": BASE["inputs"].replace('"n", 3', '3, "n"')}, "params"),
        ({"dynamic": "{ n = { min = 2, max = 8 } }"}, "params"),
        ({"dynamic": "{ n = { min = 1, max = 9 } }"}, "params"),
        ({"dynamic": "{ n = { min = 1, max = 8, example = 5 } }"}, "params"),
        ({"dynamic": '{ n = "2*m", m = { min = 1, max = 4 } }'}, "params"),
        ({"dynamic": '{ n = "2*m + 1", m = { min = 1, max = 4 } }'}, "params"),
        ({"requires": '["torchvision"]'}, "tools"),
        ({"prepare": '"util.py:run_once"'}, "params"),
        ({"data": '["table.json"]'}, "inputs"),
        ({"weights": '"w.safetensors"'}, "inputs"),
        ({"inputs": '[{ name = "x", shape = ["n", 3], file = "a.npy" }]'}, "inputs"),
    ],
)
def test_each_attribute_changes_the_key(export: Any, changed: dict[str, str], where: str) -> None:
    one, other = decided(export()), decided(export(**changed))
    assert one[where] != other[where]
    assert one["outputs"] == other["outputs"]


def test_another_file_for_the_same_weights(export: Any) -> None:
    one, other = decided(export(weights='"w.pt"')), decided(export(weights='"w.safetensors"'))
    assert {part for part in one if one[part] != other[part]} == {"inputs"}


def test_the_submodule_that_weights_are_for(export: Any) -> None:
    one, other = (export(weights=f'{{ {prefix} = "w.pt" }}') for prefix in ("body", "head"))
    assert [one.params["weights"], other.params["weights"]] == [["body"], ["head"]]
    assert [i.name for i in one.inputs] == ["srcs", "srcs", "weights.body"]
    nested = export(weights='{ "body.0.conv" = "w.pt" }')
    assert nested.params["weights"] == ["body.0.conv"]


def test_the_order_of_tables_does_not_matter(export: Any) -> None:
    def written(*names: str) -> dict[str, Any]:
        files = {"a": "w.pt", "b": "w.safetensors"}
        found = decided(export(weights="{ " + ", ".join(f'{n} = "{files[n]}"' for n in names) + " }"))
        return found["params"]

    assert written("a", "b") == written("b", "a")


def test_weights_that_another_target_gives(export: Any) -> None:
    (given,) = (i for i in export(weights='":weights"').inputs if i.name == "weights.")
    assert given.artifact == SourceArtifact("pkg/w.pt")


def test_example_files_are_inputs_by_place(export: Any) -> None:
    inputs = '[{ name = "x", shape = ["n", 3], file = "a.npy" }, { name = "y", file = "b.png" }]'
    action = export(inputs=inputs)
    assert [(i.name, i.path) for i in action.inputs[2:]] == [("example.0", "pkg/a.npy"), ("example.1", "pkg/b.png")]
    assert action.params["inputs"][1] == {"name": "y", "shape": None, "dtype": None, "range": None}


PROGRAM = """
[[torch_model]]
name = "net"
entry = "net.py:Net"
inputs = [{ name = "x", shape = [1], dtype = "float32" }]

[[backend_stack]]
name = "stack"
backends = [{ type = "xnnpack", per_op_mode = true }, "portable"]

[[device_target]]
name = "orin"
arch = "aarch64"
compute_capabilities = ["8.7"]
memory = "8GiB"
min_glibc = "2.31"

[[pte_program]]
name = "program"
model = ":net"
stack = ":stack"
"""


class TestProgram:
    def test_a_device_is_in_no_key_of_a_stack_that_does_not_ask_for_it(self, target: Any) -> None:
        def partition(build: str) -> dict[str, Any]:
            return decided(target(build, "program").actions["partition"])

        without = partition(PROGRAM)
        assert without == partition(PROGRAM + 'device = ":orin"\n')
        assert "examples" not in [name for name, _, _ in without["inputs"]]
        assert without["params"]["backends"][0]["attributes"]["per_op_mode"] is True

    def test_outputs(self, target: Any) -> None:
        def outputs(build: str) -> list[str]:
            _, files, *_ = target(build, "program").providers
            return [artifact.output for artifact in files.files]

        assert outputs(PROGRAM) == ["pte", "delegation", "signature", "verified"]
        assert outputs(PROGRAM + "verify = false\n") == ["pte", "delegation", "signature"]
        assert outputs(PROGRAM + "external_weights = true\n") == ["pte", "ptd", "delegation", "signature", "verified"]

    def test_a_device_and_its_units(self, target: Any) -> None:
        assert target(PROGRAM, "orin").providers == (DeviceTarget("aarch64", "linux", ("8.7",), 0, 8 << 30, "2.31"),)

    def test_a_set_of_a_backend_has_one_order(self, target: Any) -> None:
        def stack(precisions: str) -> Any:
            build = f'[[backend_stack]]\nname = "s"\nbackends = [{{ type = "xnnpack", precisions = {precisions} }}]\n'
            (provider,) = target(build, "s").providers
            assert isinstance(provider, BackendStack)
            return provider

        assert stack('["fp32", "dynamic_quant"]') == stack('["dynamic_quant", "fp32", "fp32"]')
        assert stack('["fp32"]') != stack('["dynamic_quant"]')
