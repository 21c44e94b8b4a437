"""The actions that compile a partition.

    choices        the products for which a kernel is chosen by cost
    choose         one choice: its candidates are compiled until the cheapest is known
    compile        generates C++ source, and a request for each Triton kernel
    kernel         one kernel
    wrapper        the C++ source
    interface      the C++ that all libraries have in common, once for a kind of machine
    link           the library

A choice and a kernel are keyed by what they are, so equal ones of all programs are compiled once.
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
        if self.attributes["candidates"]:
            return self._generate(ctx, ())
        outputs = [Output("choices", "choices", "tree"), Output("plan", "plan.json")]
        listed = self._lower(ctx, "choices", "choices", outputs, f"list choices of {self}")

        def choose(ctx: Expander, plan: bytes) -> Mapping[str, Artifact]:
            choices: list[PlannedWork] = json.loads(plan)
            usages = [
                self._on_kernels(ctx, "choose", "choice", listed["choices"], each, Output("usages", "usages.json"))
                for each in choices
            ]
            return {"code": self._generate(ctx, usages)}

        promised = ctx.expand(
            reads=listed["plan"], promises=[Output("code", "code")], then=choose, name=f"choose:{self.part.id}"
        )
        return promised["code"]

    def _generate(self, ctx: Expander, usages: Sequence[Artifact]) -> DerivedArtifact:
        """Declare the action that generates code, and those that follow it."""
        outputs = [_CODE, Output("requests", "requests", "tree")]
        outputs += [Output("plan", "plan.json"), Output("wrapper", "wrapper.cpp")]
        generated = self._lower(ctx, "compile", "generate_code", outputs, f"compile {self}", usages)

        def link(ctx: Expander, plan: bytes) -> Mapping[str, Artifact]:
            requests: list[PlannedWork] = json.loads(plan)
            kernels = [
                self._on_kernels(
                    ctx, "kernel", "request", generated["requests"], each, Output("kernel", "kernel", "tree")
                )
                for each in requests
            ]
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

    def _lower(
        self,
        ctx: Expander,
        mnemonic: str,
        step: str,
        outputs: Sequence[Output],
        description: str,
        usages: Sequence[Artifact] = (),
    ) -> Mapping[str, DerivedArtifact]:
        """Declare an action that lowers the partition."""
        inputs = {name: artifact for name, artifact in self.part.inputs.items() if name != "runtime"}
        return ctx.action(
            mnemonic,
            name=f"{mnemonic}:{self.part.id}",
            step=f"{_STEPS}.{step}",
            inputs={**inputs, **({"usages": usages} if usages else {})},
            outputs=outputs,
            params={"attributes": {name: each for name, each in self.attributes.items() if name != "target"}},
            tools=self.tools,
            preload=PRELOAD,
            resources=Resources(memory=self.part.memory(1)),
            description=description,
            error_text=self.part.error_text,
        )

    def _on_kernels(
        self, ctx: Expander, step: str, name: str, folder: DerivedArtifact, work: PlannedWork, output: Output
    ) -> Artifact:
        """Declare an action that compiles kernels, described by a part of a folder."""
        return ctx.action(
            step,
            name=f"{step}:{self.part.id}:{work['description']}:{work['id'][:8]}",
            step=f"{_STEPS}.{step}",
            inputs={name: replace(folder, subpath=work["id"])},
            outputs=[output],
            params={"capabilities": self.attributes["capabilities"]},
            tools=_KERNEL_TOOLS,
            preload=_KERNEL_PRELOAD,
            resources=Resources(memory=_KERNEL_MEMORY),
            description=f"{step} {work['description']}",
        )[output.name]

    def __str__(self) -> str:
        return self.part.describe("cuda")
