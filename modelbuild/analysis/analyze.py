"""Targets and a configuration to actions: selects resolved, attributes validated, dependencies first, then the rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from modelbuild.actions import Artifact, SourceArtifact
from modelbuild.analysis.graph import ActionGraph
from modelbuild.analysis.rules import Rules
from modelbuild.analysis.validate import validate
from modelbuild.api.attrs import Attrs, Dep, Glob, Path, Source, references
from modelbuild.api.context import Context, Resolved
from modelbuild.api.providers import Files, Platform, Provider
from modelbuild.api.rule import Rule
from modelbuild.errors import LoadingError, Location, UsageError, did_you_mean
from modelbuild.labels import Label
from modelbuild.loading.loader import Loader
from modelbuild.loading.package import Target
from modelbuild.loading.select import resolve_selects
from modelbuild.loading.visibility import check_visible

DEVICE = "device"


@dataclass(frozen=True, slots=True, order=True)
class Node:
    """A target in a configuration. `device` is what the command line or a depending target asks for; None leaves it
    to the target's own attribute and the workspace's default."""

    label: Label
    device: Label | None

    def __str__(self) -> str:
        return f"{self.label} ({self.device})" if self.device else str(self.label)


@dataclass(frozen=True, slots=True)
class ConfiguredTarget:
    """A target after analysis. `device` is the one it is configured for."""

    node: Node
    rule: str
    device: Label | None
    attrs: Attrs
    providers: tuple[Provider, ...]

    def files(self) -> tuple[Artifact, ...]:
        return next((p.files for p in self.providers if isinstance(p, Files)), ())


@dataclass(slots=True)
class _Pending:
    """A target whose attributes are read and whose dependencies are not all analysed yet."""

    node: Node
    target: Target
    rule: Rule
    attrs: Attrs
    device: Label | None
    references: dict[tuple[type, Source | Dep | Glob], Path]
    dependencies: Iterator[tuple[Node, Path]]
    found: dict[str, Node] = field(default_factory=dict)


class Analyzer:
    """Analyses targets on demand, each once a configuration, and collects the actions that they declare."""

    def __init__(self, loader: Loader, rules: Rules, default_device: Label | None = None) -> None:
        self.loader = loader
        self.rules = rules
        self.default_device = default_device
        self.graph = ActionGraph()
        self.targets: dict[Node, ConfiguredTarget] = {}

    def analyze(self, label: Label, device: Label | None = None) -> ConfiguredTarget:
        """A target configured for a device. Raises LoadingError, located, for whatever is wrong in BUILD files."""
        if device is not None:
            self._platform(device, None)
        return self._analyze(Node(label, device), None)

    def _analyze(self, root: Node, referrer: Location | None) -> ConfiguredTarget:
        # An explicit stack: chains of targets may be longer than Python's recursion limit.
        if root in self.targets:
            return self.targets[root]
        stack = [self._open(root, referrer)]
        open_nodes = {root: None}
        while stack:
            pending = stack[-1]
            for node, path in pending.dependencies:
                if node in open_nodes:
                    self._fail_cycle([*open_nodes, node], pending.target.location(path))
                if node not in self.targets:
                    stack.append(self._open(node, pending.target.location(path)))
                    open_nodes[node] = None
                    break
            else:
                self.targets[pending.node] = self._close(pending)
                del open_nodes[pending.node]
                stack.pop()
        return self.targets[root]

    def _fail_cycle(self, nodes: list[Node], where: Location) -> None:
        cycle = nodes[nodes.index(nodes[-1]) :]
        raise LoadingError("dependency cycle: " + " -> ".join(str(n.label) for n in cycle), where)

    def _open(self, node: Node, referrer: Location | None) -> _Pending:
        target = self.loader.target(node.label, referrer)
        rule = self.rules.by_name.get(target.rule)
        if rule is None:
            hint = did_you_mean(target.rule, self.rules.by_name)
            raise LoadingError(f"unknown rule '{target.rule}'{hint}", target.location(()))
        has_device = DEVICE in rule.attrs.model_fields
        device = node.device or self._own_device(target) if has_device else node.device
        device = device or self.default_device
        raw = {name: self._resolve(target, name, value, device) for name, value in target.attributes.items()}
        attrs = validate(target.rule, target.label.name, rule.attrs, raw, target.location)
        found: dict[tuple[type, Source | Dep | Glob], Path] = {}
        for path, reference in references(attrs):
            found.setdefault((type(reference), reference), path)
        pending = _Pending(node, target, rule, attrs, device, found, iter(()))
        passed_on = device if has_device else node.device
        pending.dependencies = iter(list(self._dependencies(pending, passed_on)))
        return pending

    def _own_device(self, target: Target) -> Label | None:
        """The attribute `device`, read before selects are resolved because selects look at it."""
        text = target.attributes.get(DEVICE)
        return self._label(target, text, (DEVICE,)) if isinstance(text, str) else None

    def _resolve(self, target: Target, name: str, value: object, device: Label | None) -> object:
        if name == DEVICE:
            return value
        return resolve_selects(value, device, target.label.package, lambda path: target.location((name, *path)))

    def _label(self, target: Target, text: str, path: Path) -> Label:
        try:
            return Label.parse(text, target.label.package)
        except UsageError as error:
            raise LoadingError(f"attribute '{path[0]}': {error.message}", target.location(path)) from None

    def _dependencies(self, pending: _Pending, device: Label | None) -> Iterator[tuple[Node, Path]]:
        target = pending.target
        for (_, reference), path in pending.references.items():
            if isinstance(reference, Glob) or (isinstance(reference, Source) and not reference.is_label):
                continue
            label = self._label(target, reference, path)
            if path == (DEVICE,):
                # A device is not built for a device; and the one given on the command line stands in for this one.
                label = pending.device or label
                node = Node(label, None)
            else:
                node = Node(label, device)
            check_visible(self.loader.target(label, target.location(path)), target.label, target.location(path))
            pending.found[reference] = node
            yield node, path

    def _close(self, pending: _Pending) -> ConfiguredTarget:
        target, node = pending.target, pending.node
        files: dict[Source | Glob, tuple[Artifact, ...]] = {}
        for (_, reference), path in pending.references.items():
            if isinstance(reference, Glob):
                found = self.loader.glob(target.label.package, reference.glob, reference.exclude, target.location(path))
                if not found and not reference.allow_empty:
                    raise LoadingError(f"glob {list(reference.glob)} matches no file", target.location(path))
                files[reference] = tuple(SourceArtifact(p) for p in found)
            elif isinstance(reference, Source):
                files[reference] = self._source(pending, reference, path)
        resolved = Resolved(
            files,
            {text: self.targets[n].providers for text, n in pending.found.items()},
            {text: self.targets[n].rule for text, n in pending.found.items()},
            pending.references,
        )
        device = (pending.device, self._platform(pending.device, target.location(()))) if pending.device else None
        context = Context(
            self.graph, str(node), pending.rule.package, target.label, pending.attrs, resolved, device, target.location
        )
        providers = tuple(pending.rule.implementation(context))
        return ConfiguredTarget(node, target.rule, pending.device, pending.attrs, providers)

    def _source(self, pending: _Pending, reference: Source, path: Path) -> tuple[Artifact, ...]:
        where = pending.target.location(path)
        if not reference.is_label:
            return (SourceArtifact(self.loader.source_file(pending.target.label.package, reference, where)),)
        target = self.targets[pending.found[reference]]
        if not any(isinstance(p, Files) for p in target.providers):
            raise LoadingError(f"'{reference}' is a {target.rule}, which gives no files", where)
        return target.files()

    def _platform(self, label: Label, where: Location | None) -> Platform:
        target = self._analyze(Node(label, None), where)
        for provider in target.providers:
            if isinstance(provider, Platform):
                return provider
        raise LoadingError(f"'{label}' is a {target.rule}, not a device", where)
