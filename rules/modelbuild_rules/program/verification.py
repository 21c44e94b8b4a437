"""Declare the action that runs a program and compares it with its module."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from modelbuild.api import Artifact, Context, Output, Resources
from modelbuild_rules.installed_runtime import installed_runtime
from modelbuild_rules.kernels.libraries import eager_files, given_libraries, kernel_inputs
from modelbuild_rules.model import source_places
from modelbuild_rules.providers import ExportedMethod, Lowering, Program, StackEntry


def runs_here(program: Program, stacks: Mapping[str, tuple[StackEntry, ...]]) -> bool:
    """Return whether the machine of the build can run all partitions of a program and its kernel libraries."""
    here = program.device is None or program.device.arch == os.uname().machine or not program.kernels
    return here and all(entry.backend.runs_here for stack in stacks.values() for entry in stack)


def verify_action(ctx: Context[Any], program: Program, models: Mapping[str, ExportedMethod]) -> Artifact:
    """Declare the action that verifies a program against the models by method; return its output."""
    runtime = installed_runtime(None)
    if runtime.folder() is None:
        problem = f"runs the program with the C++ runtime, and no {runtime.distribution} with it is installed"
        raise ctx.error("verify", f"verify {problem}; expected its wheel, `pip install ./runtime`, or verify = false")
    lowerings: dict[str, Lowering] = {
        name: each.lowering for name, each in program.methods.items() if each.lowering is not None
    }
    kernels = tuple(dict.fromkeys(each for model in models.values() for each in model.kernels))
    backends = [backend for each in lowerings.values() for backend in each.backends]
    return ctx.action(
        "verify",
        step="modelbuild_rules.testing.steps.verify",
        inputs={
            "program.pte": program.pte,
            "program.delegation": program.delegation,
            "program.signature": program.signature,
            **({"program.ptd": program.ptd} if program.ptd else {}),
            **{f"calls.{name}": model.calls for name, model in models.items()},
            **{f"lowered.{name}.program": model.program for name, model in models.items()},
            **{f"lowered.{name}.weights": model.weights for name, model in models.items()},
            **{
                f"backend.{method}.{number}.{name}": artifact
                for method, each in lowerings.items()
                for number, needed in enumerate(each.prerequisites)
                for name, artifact in needed.items()
            },
            **kernel_inputs(program.kernels),
            **({"eager": eager_files(kernels)} if kernels else {}),
        },
        outputs=[Output("verified", "verified.json"), Output("notes", "notes.txt")],
        params={
            "methods": {
                name: {
                    "eager": {"kernels": given_libraries(models[name].kernels)},
                    "module": method.module,
                }
                for name, method in program.methods.items()
            },
            "backends": {name: list(each.backends) for name, each in lowerings.items()},
            "modules": {name: method.module for name, method in program.methods.items()},
            "installed": runtime.module,
            "arch": None,
            "gpu": {"count": 0, "index": 0, "capabilities": []},
            "libraries": [],
        },
        unkeyed={"place": str(ctx.error("verify", "").location), "library_places": []},
        plugins=sorted({each[part] for each in backends for part in ("partitioning", "compiling", "storing")} - {""}),
        tools=(
            *("flatbuffers", "numpy", "safetensors"),
            *dict.fromkeys(tool for each in lowerings.values() for tool in each.tools),
            *runtime.tools,
        ),
        python=("eager",) if kernels else (),
        resources=Resources(memory=2 << 30),
        description=f"verify {ctx.label.name}.pte",
        notes="notes",
        error_text=source_places.of_programs(models.values()),
    )["verified"]
