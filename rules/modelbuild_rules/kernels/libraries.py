"""Kernel libraries among the inputs of steps, and their compilation for a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from modelbuild.api import Artifact, Context, DerivedArtifact, Output, SourceArtifact
from modelbuild_rules.providers import CompiledKernels, KernelLibrary

if TYPE_CHECKING:
    from modelbuild_rules.kernels.documents import GivenLibrary


def given(name: str, operators: Sequence[str], eager: Sequence[Artifact]) -> GivenLibrary:
    """Return a library as a step's parameter."""
    paths = [each.path for each in eager if isinstance(each, SourceArtifact)]
    return {"library": name, "operators": list(operators), "eager": paths}


def given_libraries(libraries: Sequence[KernelLibrary]) -> list[GivenLibrary]:
    """Return libraries as a step's parameter `kernels`."""
    return [given(each.name, each.operators, each.eager) for each in libraries]


def eager_files(libraries: Sequence[KernelLibrary]) -> tuple[Artifact, ...]:
    """Return the Python files of libraries, without duplicates."""
    return tuple(dict.fromkeys(each for library in libraries for each in library.eager))


def compile_kernels(
    ctx: Context[Any], library: KernelLibrary, target: str, runtime: DerivedArtifact
) -> CompiledKernels:
    """Declare the action that compiles a library for a target. `runtime`: the prerequisite `cpp_runtime`."""
    made = ctx.action(
        "compile",
        name=f"kernels:{library.name}",
        step="modelbuild_rules.kernels.steps.compile",
        inputs={
            "operators": library.described,
            "srcs": library.srcs,
            "headers": library.headers,
            "runtime": runtime,
        },
        outputs=[Output("library", f"lib{library.name}.so"), Output("description", f"{library.name}.kernels.json")],
        params={"name": library.name, "target": target},
        tools=("executorch", "ziglang"),
        description=f"compile the kernels of {library.name} for {target}",
    )
    return CompiledKernels(library.name, made["library"], made["description"])


def kernel_inputs(libraries: Sequence[CompiledKernels]) -> dict[str, tuple[Artifact, ...]]:
    """Return the inputs of a step that lays out a runtime with libraries (bundle/steps/runtime/kernels.py)."""
    return {f"kernels.{each.name}": (each.library, each.description) for each in libraries}
