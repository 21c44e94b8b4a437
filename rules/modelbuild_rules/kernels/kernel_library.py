"""kernel_library: operators of a workspace, with kernels in C++ for programs that call them."""

from __future__ import annotations

import os
import re
from typing import Annotated

from pydantic import AfterValidator, Field

from modelbuild.api import Attrs, Context, Files, Output, Provider, SourceArtifact, Sources, rule
from modelbuild_rules.backend_api.cpp import cpp_runtime, target_of
from modelbuild_rules.backend_api.preload import PRELOAD
from modelbuild_rules.backend_api.prerequisite import declare_prerequisites
from modelbuild_rules.distributions import Distribution
from modelbuild_rules.kernels.libraries import compile_kernels, given
from modelbuild_rules.providers import KernelLibrary

_OPERATOR = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*(\.[A-Za-z_]\w*)?\Z", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*\Z")
_RESERVED = ("modelbuild_", "executorch")
_SOURCES = (".cc", ".cpp", ".cxx")


def _operator(text: str) -> str:
    if not _OPERATOR.match(text):
        raise ValueError(f"'{text}' is not an operator; expected namespace::name, as in my_ops::scale")
    return text


class KernelLibraryAttrs(Attrs):
    """Your operators, registered with torch in Python, and computed by C++ kernels."""

    operators: tuple[Annotated[str, AfterValidator(_operator)], ...] = Field(min_length=1)
    """The operators, such as "my_ops::scale", or "my_ops::scale.wide" with an overload."""

    eager: Sources = ()
    """Python files that register the operators with torch.library; none for operators of torch."""

    srcs: Sources
    """C++ sources of the kernels."""

    headers: Sources = ()
    """C++ headers, included by workspace path or relative to the including file."""

    requires: tuple[Distribution, ...] = ()
    """Distributions that the code uses without import statements."""


EXAMPLE = """
[[kernel_library]]
name = "my_ops"
operators = ["my_ops::scale"]
eager = ["my_ops.py"]
srcs = ["scale.cpp"]
"""


@rule(attrs=KernelLibraryAttrs, example=EXAMPLE)
def kernel_library(ctx: Context[KernelLibraryAttrs]) -> tuple[Provider, ...]:
    attrs, name = ctx.attrs, ctx.label.name
    if not _NAME.match(name) or name.startswith(_RESERVED):
        message = f"'{name}' cannot be a kernel library's name; expected letters, digits, '_', '.', '+' or '-'"
        raise ctx.error("name", f"{message}, and neither 'modelbuild_' nor 'executorch' at its beginning")
    eager, srcs = ctx.files(attrs.eager), ctx.files(attrs.srcs)
    for each in eager:
        if not isinstance(each, SourceArtifact) or not each.path.endswith(".py"):
            shown = each.path if isinstance(each, SourceArtifact) else each.output
            raise ctx.error("eager", f"'{shown}' is not a Python file of the workspace; expected only Python files")
    for each in srcs:
        if isinstance(each, SourceArtifact) and not each.path.endswith(_SOURCES):
            raise ctx.error("srcs", f"'{each.path}' is not a C++ source; expected {', '.join(_SOURCES)}")
    if not srcs:
        raise ctx.error("srcs", "no C++ sources; expected one or more")
    operators = tuple(sorted(set(attrs.operators)))
    described = ctx.action(
        "operators",
        step="operators",
        inputs={"eager": eager},
        outputs=[Output("operators", "operators.json")],
        params={"library": given(name, operators, eager)},
        tools=("executorch", "torch", *attrs.requires),
        python=("eager",),
        preload=PRELOAD,
        description=f"describe the operators of {name}",
    )["operators"]
    library = KernelLibrary(name, operators, eager, described, srcs, ctx.files(attrs.headers), attrs.requires)
    # Programs compile the library for their devices. This action compiles it for the machine of the build, for a
    # build of the library alone.
    target = target_of(os.uname().machine)
    (needed,) = declare_prerequisites(ctx, [cpp_runtime(target)])
    compiled = compile_kernels(ctx, library, target, needed["runtime"])
    return library, Files((compiled.library, compiled.description))
