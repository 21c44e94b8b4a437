"""Import executorch.exir without Inductor, in the process that workers are forked from.

ExecuTorch imports torch.export._remove_auto_functionalized_pass for one function, which needs one function of Inductor
and only for nodes that few programs have. Importing Inductor takes as long as importing torch.

Private names used, checked on torch 2.14.0 and executorch 1.5.1: torch._higher_order_ops.auto_functionalize
(auto_functionalized, auto_functionalized_v2) and torch.export._remove_auto_functionalized_pass
(unsafe_remove_auto_functionalized_pass), which is replaced in executorch.exir.program._program.
"""

from __future__ import annotations

import sys
from types import ModuleType

import torch
from torch._higher_order_ops.auto_functionalize import auto_functionalized, auto_functionalized_v2
from torch.export import ExportedProgram

_REPLACED = "torch.export._remove_auto_functionalized_pass"


def unsafe_remove_auto_functionalized_pass(program: ExportedProgram) -> ExportedProgram:
    """Do what torch's function of this name does; without the nodes that it replaces, that is to remove unused ones."""
    graphs = [module.graph for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule)]
    replaced = (auto_functionalized, auto_functionalized_v2, torch.ops.aten.copy_.default)
    if any(node.target in replaced for graph in graphs for node in graph.nodes):
        from torch.export import _remove_auto_functionalized_pass

        return _remove_auto_functionalized_pass.unsafe_remove_auto_functionalized_pass(program)
    with program.graph_module._set_replace_hook(program.graph_signature.get_replace_hook()):
        program.graph.eliminate_dead_code()
    return program


def _import() -> None:
    if "executorch.exir" in sys.modules or _REPLACED in sys.modules:
        return
    module = ModuleType(_REPLACED)
    vars(module)["unsafe_remove_auto_functionalized_pass"] = unsafe_remove_auto_functionalized_pass
    sys.modules[_REPLACED] = module
    try:
        import executorch.exir  # noqa: F401
        import torch._functorch.aot_autograd  # noqa: F401  # torch imports it with the first export
    finally:
        del sys.modules[_REPLACED]


_import()
