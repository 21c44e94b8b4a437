"""Every name that the rules import from torch and the packages of its versions is there, and the attributes that their
docstrings list. Each backend's tests check the names that it patches."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

import modelbuild_rules
from tests.private_names import missing

PACKAGES = {"executorch", "torch", "torchao", "torchgen", "triton"}

ATTRIBUTES = {
    "torch:SymInt": ("node",),
    "torch:UntypedStorage": ("_cdata",),
    "torch._ops:OpOverload": ("_dispatch_cache", "_overloadname", "_schema", "py_kernels"),
    "torch._subclasses.fake_tensor:FakeTensor": ("constant",),
    "torch.export:ExportedProgram": ("_constants", "_graph_signature", "_module_call_graph", "_state_dict"),
    "torch.export:ExportGraphSignature": ("input_specs",),
    "torch.fx.experimental.sym_node:SymNode": ("expr", "hint", "shape_env"),
    "torch.fx.experimental.symbolic_shapes:ShapeEnv": (
        "add_backed_var_to_val",
        "backed_var_to_val",
        "constrain_symbol_range",
        "create_symboolnode",
        "create_symfloatnode",
        "create_symintnode",
        "pending_fresh_unbacked_symbols",
        "unbacked_symfloat_counter",
        "unbacked_symint_counter",
        "var_to_range",
    ),
    "executorch.exir.dialects.edge._ops:EdgeOpOverload": ("_op",),
}


def imported() -> list[str]:
    """Return the names that the rules import, as `module` and `module:name`."""
    found = set()
    for path in Path(modelbuild_rules.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found |= {f"{node.module}:{each.name}" for each in node.names}
            elif isinstance(node, ast.Import):
                found |= {each.name for each in node.names}
    return sorted(name for name in found if name.partition(":")[0].partition(".")[0] in PACKAGES)


@pytest.mark.parametrize("name", imported())
def test_a_name_is_there(name: str) -> None:
    module, _, path = name.partition(":")
    found = importlib.import_module(module)
    if path and not hasattr(found, path):
        importlib.import_module(f"{module}.{path}")


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes_of_instances_are_there(name: str) -> None:
    assert missing(name, ATTRIBUTES[name]) == []


def test_an_attribute_that_is_not_there() -> None:
    assert missing("torch:SymInt", ["node", "nothing"]) == ["nothing"]
