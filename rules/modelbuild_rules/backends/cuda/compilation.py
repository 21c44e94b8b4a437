"""The actions that compile a partition.

    compile        generates C++ source, and a request for each Triton kernel
    kernel         one kernel
    wrapper        the C++ source
    interface      the C++ that all libraries have in common, once for a kind of machine
    link           the library

A kernel is keyed by what it is, so equal kernels of all programs are compiled once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from modelbuild.api import Artifact, DerivedArtifact, Expander, Output, Resources
from modelbuild_rules.backend_api.backend import Part
from modelbuild_rules.backend_api.preload import PRELOAD

if TYPE_CHECKING:
    from modelbuild_rules.backends.cuda.documents import PlannedWork

_STEPS = "modelbuild_rules.backends.cuda.steps"

_KERNEL_TOOLS = ("nvidia-cuda-nvcc", "torch", "triton")
"""Distributions that decide the bytes of a compiled kernel. Kernels call functions of torch."""

_KERNEL_PRELOAD = ("torch", "torch._inductor.runtime.triton_heuristics", "triton.compiler.code_generator")
"""The imports of a compilation of a kernel; without executorch, a worker starts sooner."""

_KERNEL_MEMORY = 1 << 29

_CODE = Output("code", "code", "tree")


@dataclass(frozen=True)
class Compilation:
    """Declares the actions for a partition.

    tools       distributions that decide the bytes of a library
    attributes  of the compile step (backends/cuda/steps/compile.py)
    """

    part: Part
    tools: tuple[str, ...]
    attributes: Mapping[str, Any]

    def compile(self, ctx: Expander) -> DerivedArtifact:
        """Declare the actions; return the library and how its constants derive from weights."""
        outputs = [_CODE, Output("requests", "requests", "tree")]
        outputs += [Output("plan", "plan.json"), Output("wrapper", "wrapper.cpp")]
        inputs = {name: artifact for name, artifact in self.part.inputs.items() if name != "runtime"}
        generated = ctx.action(
            "compile",
            name=f"compile:{self.part.id}",
            step=f"{_STEPS}.generate_code",
            inputs=inputs,
            outputs=outputs,
            params={"attributes": {name: each for name, each in self.attributes.items() if name != "target"}},
            tools=self.tools,
            preload=PRELOAD,
            resources=Resources(memory=self.part.memory(1)),
            description=f"compile {self}",
            error_text=self.part.error_text,
        )

        def link(ctx: Expander, plan: bytes) -> Mapping[str, Artifact]:
            requests: list[PlannedWork] = json.loads(plan)
            kernels = [self._kernel(ctx, generated["requests"], each) for each in requests]
            return {"code": self._link(ctx, generated, kernels)}

        promised = ctx.expand(
            reads=generated["plan"], promises=[Output("code", "code")], then=link, name=f"kernels:{self.part.id}"
        )
        return promised["code"]

    def _link(self, ctx: Expander, generated: Mapping[str, Artifact], kernels: Sequence[Artifact]) -> Artifact:
        common: dict[str, Any] = {
            "params": {"target": self.attributes["target"]},
            "tools": self.tools,
            "preload": PRELOAD,
        }
        wrapper = ctx.action(
            "wrapper",
            name=f"wrapper:{self.part.id}",
            step=f"{_STEPS}.wrapper",
            inputs={"wrapper": generated["wrapper"]},
            outputs=[Output("object", "wrapper.o")],
            description=f"compile the C++ source of {self}",
            **common,
        )
        interface = ctx.action(
            "interface",
            name=f"interface:{self.part.id}",
            step=f"{_STEPS}.interface",
            inputs={},
            outputs=[Output("interface", "interface", "tree")],
            description=f"compile the C++ that libraries for {self.attributes['target']} have in common",
            **common,
        )
        inputs = {"code": generated["code"], "wrapper": wrapper["object"], "interface": interface["interface"]}
        return ctx.action(
            "link",
            name=f"link:{self.part.id}",
            step=f"{_STEPS}.link",
            inputs={**inputs, "kernels": kernels, "runtime": self.part.inputs["runtime"]},
            outputs=[_CODE],
            description=f"link {self}",
            **common,
        )["code"]

    def _kernel(self, ctx: Expander, requests: DerivedArtifact, work: PlannedWork) -> Artifact:
        """Declare the action that compiles a kernel, described by a part of a folder."""
        return ctx.action(
            "kernel",
            name=f"kernel:{self.part.id}:{work['description']}:{work['id'][:8]}",
            step=f"{_STEPS}.kernel",
            inputs={"request": replace(requests, subpath=work["id"])},
            outputs=[Output("kernel", "kernel", "tree")],
            params={"capabilities": self.attributes["capabilities"]},
            tools=_KERNEL_TOOLS,
            preload=_KERNEL_PRELOAD,
            resources=Resources(memory=_KERNEL_MEMORY),
            description=f"kernel {work['description']}",
        )["kernel"]

    def __str__(self) -> str:
        return self.part.describe("cuda")
