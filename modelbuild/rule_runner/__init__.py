"""Test a rule without a build: declare targets, inspect their providers and actions, run single steps.

A test of a rule package imports `RuleRunner` from here. It uses no keys, caches or sandbox.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from contextlib import chdir
from pathlib import Path
from typing import TypeVar

from modelbuild.action_graph import ActionGraph
from modelbuild.actions import Action, Artifact, Expansion, SourceArtifact
from modelbuild.analysis.analyze import Analyzer, ConfiguredTarget
from modelbuild.analysis.rules import load_rules
from modelbuild.analysis.undeclared_reads import refused_reads
from modelbuild.api.context import Expander
from modelbuild.api.providers import Provider
from modelbuild.labels import Label
from modelbuild.loading.loader import Loader
from modelbuild.step import Step
from modelbuild.workspace.workspace import OUTPUT_FOLDER, load_workspace

P = TypeVar("P", bound=Provider)

__all__ = ["AnalysedTarget", "RuleRunner"]


class AnalysedTarget:
    """A target whose rule has been called.

    id         the beginning of its actions' ids: `//:net`, or with a device `//:net (//:jetson)`
    providers  the providers that its rule returned
    files      its files, which a build lays out
    """

    def __init__(self, target: ConfiguredTarget, graph: ActionGraph) -> None:
        self.id = target.id
        self.providers: Sequence[Provider] = target.providers
        self.files: Sequence[Artifact] = target.files()
        self._graph = graph

    def provider(self, kind: type[P]) -> P:
        """Return the provider of a kind, or raise LookupError."""
        for provider in self.providers:
            if isinstance(provider, kind):
                return provider
        raise LookupError(f"{self.id} provides no {kind.__name__}")

    @property
    def actions(self) -> Mapping[str, Action]:
        """The actions that it has declared, by name: `export`, `compile:p0`."""
        nodes = self._graph.nodes.values()
        return {node.id.name: node for node in nodes if isinstance(node, Action) and node.owner == self.id}

    def expand(self, *contents: bytes, name: str = "expand") -> Mapping[str, Artifact]:
        """Declare the actions of `ctx.expand(name=...)` for these contents of the files that it reads. Return the
        artifact of each promise. Raises KeyError for an unknown name."""
        expansion = self._graph.nodes[f"{self.id}#{name}"]
        assert isinstance(expansion, Expansion)
        with refused_reads():
            return expansion.then(
                Expander(self._graph, expansion.owner, expansion.room, expansion.toolchain), *contents
            )


class RuleRunner:
    """A workspace whose targets are analysed and not built.

    folder       the workspace, such as pytest's `tmp_path`
    files        texts of its files by path. A missing MODELBUILD.toml is empty
    rules_of     the workspace with further rule packages; by default `folder`
    device       label of the device for targets without a device
    test_filter  the value of --test-filter
    """

    def __init__(
        self,
        folder: Path,
        files: Mapping[str, str],
        *,
        rules_of: Path | None = None,
        device: str | None = None,
        test_filter: str = "",
    ) -> None:
        self.folder = folder
        for name, text in {"MODELBUILD.toml": "", **files}.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        workspace = load_workspace(folder)
        own = workspace if rules_of is None else load_workspace(rules_of)
        rules = load_rules(own.root, own.config.rules, own.rule_locations())
        default = Label.parse(device, "") if device else workspace.config.default_device
        self._analyzer = Analyzer(Loader(workspace, rules.by_name), rules, default, test_filter)

    def target(self, label: str, device: str | None = None) -> AnalysedTarget:
        """Return a target after analysis, for a device. Raises LoadingError for an error in a BUILD file, with its
        place."""
        asked = Label.parse(device, "") if device else None
        return AnalysedTarget(self._analyzer.analyze(Label.parse(label, ""), asked), self._analyzer.graph)

    @property
    def actions(self) -> Mapping[str, Action]:
        """The actions of all targets that were analysed, by id: `//:net#export`."""
        return {str(node.id): node for node in self._analyzer.graph.nodes.values() if isinstance(node, Action)}

    def run(self, action: Action, **inputs: Path | Sequence[Path]) -> Mapping[str, Path]:
        """Run the step of an action in this process. Return the paths of its outputs by name. Raises the step's
        StepError, and ValueError for a missing input of another action.

        inputs  files or folders of inputs that other actions make; files of the workspace are found automatically
        """
        paths = {name: (each,) if isinstance(each, Path) else tuple(each) for name, each in inputs.items()}
        for each in action.inputs:
            if each.name in inputs:
                continue
            if not isinstance(each.artifact, SourceArtifact):
                raise ValueError(f"{action.id} reads '{each.name}' of another action; expected {each.name}=PATH")
            paths[each.name] = (*paths.get(each.name, ()), self.folder / each.artifact.path)
        outputs = {}
        for output in action.outputs:
            path = self.folder / OUTPUT_FOLDER / action.id.replace("/", "_") / output.path
            (path if output.kind == "tree" else path.parent).mkdir(parents=True, exist_ok=True)
            outputs[output.name] = path
        step = importlib.import_module(action.step)
        with chdir(self.folder):
            step.run(Step({**action.params, **action.unkeyed}, paths, outputs, self.folder))
        return outputs
