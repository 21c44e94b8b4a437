"""The sensitivity report of a quantized model: each layer's error, measured by an action, and the layers to leave in
floating point."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from modelbuild.api import Artifact, DerivedArtifact, Expander, Output, Resources
from modelbuild_rules.backend_api.preload import PRELOAD
from modelbuild_rules.method_names import named

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import ResultMetricParams
    from modelbuild_rules.quantization.documents import Layer, Layers, Sensitivity, Table, UsedQuantizer


@dataclass(frozen=True)
class SensitivityActions:
    """Declares the actions of a report.

    program     the inputs `program`, `weights` and `modules`
    samples     the inputs that contain samples
    signature   the model's signature
    quantizers  quantizers of the recipe, with all their attributes
    tools       distributions that the steps use
    plugins     the modules of the quantizers
    metrics     the parameters of the metrics to compute
    metric_srcs  the metrics' Python files
    model       the model's label, for descriptions
    method      the name of the model's method
    """

    program: Mapping[str, Artifact]
    samples: Mapping[str, Artifact | tuple[Artifact, ...]]
    signature: Artifact
    quantizers: Sequence[UsedQuantizer]
    tools: tuple[str, ...]
    plugins: Sequence[str]
    metrics: Sequence[ResultMetricParams]
    metric_srcs: tuple[Artifact, ...]
    model: str
    method: str

    def declare(self, ctx: Expander) -> DerivedArtifact:
        """Return the report."""
        layers = ctx.action(
            "layers",
            name=named("layers", self.method),
            step="layers",
            inputs=self.program,
            outputs=[Output("layers", "layers.json")],
            params={"quantizers": self.quantizers},
            tools=self.tools,
            plugins=self.plugins,
            preload=PRELOAD,
            resources=Resources(memory=2 << 30),
            description=f"list the layers of {self.model}",
        )["layers"]

        def measure(ctx: Expander, data: bytes) -> Mapping[str, Artifact]:
            return {"report": self.rank(ctx, layers, json.loads(data))}

        return ctx.expand(reads=layers, promises=[_REPORT], then=measure, name=named("sensitivity", self.method))[
            "report"
        ]

    def rank(self, ctx: Expander, listed: Artifact, layers: Layers) -> Artifact:
        """Declare the measurements of the recipe and of each layer alone; return the report about them."""
        alone = [self._measure(ctx, self._alone(each), each["name"] or "the model's own") for each in layers]
        whole = self._measure(ctx, self.quantizers)
        inputs = {"layers": listed, "whole": whole, "alone": alone}
        tables: list[Table] = [{"kind": u["kind"], "excludes": "exclude" in u["attributes"]} for u in self.quantizers]
        ranked = self._report(ctx, "rank", inputs, {"tables": tables})

        def complete(ctx: Expander, data: bytes) -> Mapping[str, Artifact]:
            report: Sensitivity = json.loads(data)
            if report["leave"] is None:
                return {"report": ranked}
            left = list(report["leave"]["exclude"])
            without = self._measure(ctx, self._without(left), f"all but {len(left)}")
            return {"report": self._report(ctx, "complete", {"report": ranked, "without": without})}

        return ctx.expand(reads=ranked, promises=[_REPORT], then=complete, name=named("leave", self.method))["report"]

    def _alone(self, layer: Layer) -> list[UsedQuantizer]:
        """Return the tables that quantize a layer, for this layer alone. They lack the lists of submodules, so a layer
        is measured once although recipes exclude different layers."""
        found: list[UsedQuantizer] = []
        for index in layer["tables"]:
            used = self.quantizers[index]
            lists: dict[str, list[str]] = {name: [] for name in ("modules", "exclude") if name in used["attributes"]}
            found.append({**used, "attributes": {**used["attributes"], **lists, "only": layer["name"]}})
        return found

    def _without(self, left: Sequence[str]) -> list[UsedQuantizer]:
        found: list[UsedQuantizer] = []
        for used in self.quantizers:
            own = used["attributes"].get("exclude")
            excluding = {} if own is None else {"exclude": sorted({*own, *left})}
            found.append({**used, "attributes": {**used["attributes"], **excluding}})
        return found

    def _measure(self, ctx: Expander, quantizers: Sequence[UsedQuantizer], layer: str = "") -> DerivedArtifact:
        return ctx.action(
            "measure",
            name=named("measure", self.method) + (f":{layer}" if layer else ""),
            step="measure",
            inputs={
                **self.program,
                "signature": self.signature,
                **self.samples,
                **({"metric_srcs": self.metric_srcs} if self.metrics else {}),
            },
            outputs=[Output("measured", "measured.json")],
            params={"quantizers": quantizers, **({"metrics": self.metrics} if self.metrics else {})},
            tools=self.tools,
            python=("metric_srcs",) if self.metrics else (),
            plugins=self.plugins,
            preload=PRELOAD,
            resources=Resources(memory=2 << 30),
            description=f"measure {layer + ' of ' if layer else ''}{self.model}, quantized",
        )["measured"]

    def _report(
        self,
        ctx: Expander,
        name: str,
        inputs: Mapping[str, Artifact | Sequence[Artifact]],
        params: Mapping[str, object] = MappingProxyType({}),
    ) -> DerivedArtifact:
        return ctx.action(
            "sensitivity",
            name=named(name, self.method),
            step="sensitivity",
            inputs=inputs,
            outputs=[_REPORT],
            params=dict(params),
            description=f"{name} the layers of {self.model}",
        )["report"]


_REPORT = Output("report", "sensitivity.json")
