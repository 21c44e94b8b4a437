"""Analyse targets for a configuration: resolve selects, validate attributes, analyse dependencies, call the rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from modelbuild.action_graph import ActionGraph
from modelbuild.actions import Artifact, SourceArtifact
from modelbuild.analysis.call_rule import call_rule
from modelbuild.analysis.entry_files import EntryFiles
from modelbuild.analysis.rules import Rules
from modelbuild.analysis.steps import Steps
from modelbuild.analysis.toolchains import Toolchains
from modelbuild.analysis.validate import validate
from modelbuild.api.attrs import Attrs, Entry, Glob, Path, Reference, Source, references
from modelbuild.api.context import Context, Declaration, Resolved
from modelbuild.api.providers import Files, Platform, Provider, PythonToolchain
from modelbuild.api.rule import Rule
from modelbuild.declarations import check_source
from modelbuild.errors import LoadingError, Location, UsageError
from modelbuild.ids import TargetId
from modelbuild.labels import Label
from modelbuild.loading.loader import Loader
from modelbuild.loading.package import Target
from modelbuild.loading.references import parse_label
from modelbuild.loading.select import Selected, resolve_selects, select_labels
from modelbuild.loading.visibility import check_visible
from modelbuild.paths import PathError
from modelbuild.workspace.flags import INSTALLED
from modelbuild.workspace.toml_document import Stamp, Where
from modelbuild.workspace.workspace import BUILT_IN, default_workspace

DEVICE = "device"
TOOLCHAIN = "toolchain"


@dataclass(frozen=True, slots=True, order=True)
class Node:
    """A target in a configuration. `device` comes from the command line or a depending target; None leaves the choice
    to the target's own attribute and the workspace's default. So it is with `toolchain`, the name of one or ''."""

    label: Label
    device: Label | None
    toolchain: str = ""

    def __str__(self) -> str:
        return self.id

    @property
    def id(self) -> TargetId:
        parts = [str(part) for part in (self.device, self.toolchain) if part]
        return TargetId.of(self.label, ", ".join(parts) if parts else None)


@dataclass(frozen=True, slots=True)
class ConfiguredTarget:
    """A target after analysis. `device` is the one it is configured for; `configured` is whether the device makes a
    difference to it or to its dependencies. `toolchain` is the name of the one that its actions run in."""

    node: Node
    rule: str
    device: Label | None
    attrs: Attrs
    providers: tuple[Provider, ...]
    configured: bool
    toolchain: str

    @property
    def id(self) -> TargetId:
        """The owner of the target's actions."""
        return self.node.id if self.configured else replace(self.node, device=None).id

    def files(self) -> tuple[Artifact, ...]:
        return next((p.files for p in self.providers if isinstance(p, Files)), ())


@dataclass(slots=True)
class _Pending:
    """A target with validated attributes and some dependencies still to be analysed."""

    node: Node
    selected: Selected
    rule: Rule
    attrs: Attrs
    device: Label | None
    toolchain: str
    references: dict[tuple[type, Reference], Path]
    configurable: bool
    dependencies: Iterator[tuple[Node, Path]]
    found: dict[str, Node] = field(default_factory=dict)


class Analyzer:
    """Analyses targets on demand, each once per configuration, and collects the actions that they declare.

    test_filter  the cases that tests run, see Context.test_filter

    entries          the Python files of entries
    toolchains       the Python that the actions of each target run in; by default, the workspace's
    toolchain_files  stamps of the files that decided which
    """

    def __init__(
        self,
        loader: Loader,
        rules: Rules,
        default_device: Label | None = None,
        test_filter: str = "",
        toolchains: Toolchains | None = None,
    ) -> None:
        self.loader = loader
        self.rules = rules
        self.default_device = default_device
        self.test_filter = test_filter
        self.toolchains = toolchains or Toolchains(loader.workspace.config.toolchain)
        self.toolchain_files: dict[str, Stamp] = {}
        self.graph = ActionGraph(Steps(rules.packages, loader.workspace.root, self.toolchains.python).complete)
        self.entries = EntryFiles(loader)
        self.targets: dict[Node, ConfiguredTarget] = {}
        self.dependencies: dict[Node, tuple[Node, ...]] = {}
        self._unconfigured: dict[tuple[Label, str], ConfiguredTarget] = {}
        self._own: Analyzer | None = None

    def analyze(self, label: Label, device: Label | None = None) -> ConfiguredTarget:
        """Return a target configured for a device. Raises LoadingError, located, for any error in BUILD files."""
        if device is not None:
            self._platform(device)
        return self._analyze(Node(label, device), None)

    def device(self, label: Label) -> Platform:
        """Return the provider of a device that the command line names. Raises UsageError for another target."""
        return self._platform(label)

    def base_toolchain(self, label: Label) -> PythonToolchain:
        """Return the provider of a toolchain that MODELBUILD.toml names, or the command line."""
        workspace = self.loader.workspace
        own = label == workspace.config.toolchain
        return self.toolchain(label, partial(workspace.document.location, ("build", TOOLCHAIN)) if own else None)

    def toolchain(self, label: Label, at: Where | None) -> PythonToolchain:
        """Return the provider of a toolchain, which `at` refers to (None: the command line)."""
        if label.repository:
            return self._brought(label, at)
        target = self._analyze(Node(label, None), at)
        for provider in target.providers:
            if isinstance(provider, PythonToolchain):
                return provider
        message = f"{label} is a {target.rule}, not a toolchain; expected a target of python_toolchain"
        raise LoadingError(message, at()) if at else UsageError(message)

    def _brought(self, label: Label, at: Where | None) -> PythonToolchain:
        """Return the provider of a toolchain that the built-in rule package brings; the path of its lock is
        absolute."""
        if self._own is None:
            folder = self.rules.packages[BUILT_IN]
            loader = Loader(default_workspace(folder), self.rules.by_name, repository=label.repository)
            self._own = Analyzer(loader, self.rules)
        root = self._own.loader.workspace.root
        found = self._own.toolchain(replace(label, repository=""), at)
        build_file = self._own.loader.package(label.package).file
        self.toolchain_files[str(root / build_file)] = self._own.loader.files_read()[build_file]
        return replace(found, lock=SourceArtifact(str(root / found.lock.path)))

    def _analyze(self, root: Node, at: Where | None) -> ConfiguredTarget:
        # An explicit stack, because chains of targets may be longer than Python's recursion limit.
        if root in self.targets:
            return self.targets[root]
        stack = [self._open(root, at)]
        open_nodes = {root: None}
        while stack:
            pending = stack[-1]
            for node, path in pending.dependencies:
                if node in open_nodes:
                    self._fail_cycle([*open_nodes, node], pending.selected.location(path))
                if node not in self.targets:
                    stack.append(self._open(node, partial(pending.selected.location, path)))
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

    def _open(self, node: Node, at: Where | None) -> _Pending:
        target = self.loader.target(node.label, at)
        rule = self.rules.by_name[target.rule]
        has_device = DEVICE in rule.attrs.model_fields
        asked = node.device or self._own_device(target) if has_device else node.device
        device = asked or self.default_device
        selecting = list(select_labels(target))
        for label, path in selecting:
            self.loader.target(label, partial(target.location, path))
        selected = resolve_selects(target, device)
        attrs = validate(target.rule, target.label.name, rule.attrs, selected.attributes, selected.location)
        found: dict[tuple[type, Reference], Path] = {}
        for path, reference in references(attrs):
            found.setdefault((type(reference), reference), path)
        toolchain = node.toolchain or self._own_toolchain(target, node.device)
        configurable = has_device or bool(selecting)
        pending = _Pending(node, selected, rule, attrs, device, toolchain, found, configurable, iter(()))
        # The workspace's default is not passed down: it would override a dependency's own device.
        # A dependency whose own device the target takes needs no other configuration.
        taken = rule.device_from if not node.device and target.attributes.get(DEVICE) is None else ()
        pending.dependencies = iter(list(self._dependencies(pending, asked, taken)))
        return pending

    def _own_toolchain(self, target: Target, device: Label | None) -> str:
        """Return the toolchain that a target for a device names, or one of the targets from which its rule takes it;
        '' for the base."""
        if self.toolchains.for_all:
            return ""
        waiting, seen = [(target, device)], {target.label}
        while waiting:
            each, asked = waiting.pop()
            if each.toolchain:
                return each.toolchain
            rule = self.rules.by_name[each.rule]
            if not rule.toolchain_from:
                continue
            asked = asked or self._own_device(each) if DEVICE in rule.attrs.model_fields else asked
            selected = resolve_selects(each, asked or self.default_device)
            labels = [pair for name in rule.toolchain_from for pair in _labels(name, selected.attributes.get(name))]
            for path, text in reversed(labels):
                at = partial(selected.location, path)
                named = self.loader.target(parse_label(text, each.label.package, at), at)
                if named.label not in seen:
                    seen.add(named.label)
                    waiting.append((named, asked))
        return ""

    def _passed_toolchain(self, wanted: str, target: Target, device: Label | None) -> str:
        """Return the toolchain that a dependency must be told of, to be in the `wanted` one; '' if it is in it anyway,
        or if there is none to pass down."""
        if not wanted or wanted == (self._own_toolchain(target, device) or self.toolchains.base):
            return ""
        return wanted

    def _own_device(self, target: Target) -> Label | None:
        """Return the attribute `device`, or else that of a target from which the rule takes it. They are read before
        selects are resolved, because selects depend on the device."""
        waiting, seen = [target], {target.label}
        while waiting:
            each = waiting.pop()
            text = each.attributes.get(DEVICE)
            if isinstance(text, str):
                return parse_label(text, each.label.package, partial(each.location, (DEVICE,)))
            names = self.rules.by_name[each.rule].device_from if text is None else ()
            labels = [pair for name in names for pair in _labels(name, each.attributes.get(name))]
            for path, named in reversed(labels):
                at = partial(each.location, path)
                other = self.loader.target(parse_label(named, each.label.package, at), at)
                if other.label not in seen and DEVICE in self.rules.by_name[other.rule].attrs.model_fields:
                    seen.add(other.label)
                    waiting.append(other)
        return None

    def _dependencies(
        self, pending: _Pending, device: Label | None, taken: tuple[str, ...]
    ) -> Iterator[tuple[Node, Path]]:
        package = pending.node.label.package
        for (_, reference), path in pending.references.items():
            if isinstance(reference, (Entry, Glob)) or (isinstance(reference, Source) and not reference.is_label):
                continue
            at = partial(pending.selected.location, path)
            label = parse_label(reference, package, at)
            asked = None if path[0] in taken else device
            node = Node(label, asked, self._passed_toolchain(pending.toolchain, self.loader.target(label, at), asked))
            if path == (DEVICE,):
                # A device is not built for a device; and a requested device overrides this one.
                node = Node(pending.device or label, None)
            check_visible(self.loader.target(label, at), package, at)
            pending.found[reference] = node
            yield node, path
        toolchain = _toolchain_label(pending.toolchain)
        if toolchain is not None and not toolchain.repository:
            at = partial(pending.selected.location, (TOOLCHAIN,))
            if pending.selected.target.toolchain == pending.toolchain:
                check_visible(self.loader.target(toolchain, at), package, at)
            yield Node(toolchain, None), (TOOLCHAIN,)

    def _close(self, pending: _Pending) -> ConfiguredTarget:
        needed = list(pending.found.values())
        label = _toolchain_label(pending.toolchain)
        if label is not None:
            self.toolchain(label, partial(pending.selected.location, (TOOLCHAIN,)))
            needed += [] if label.repository else [Node(label, None)]
        self.dependencies[pending.node] = tuple(dict.fromkeys(needed))
        configured = pending.configurable or any(self.targets[n].configured for n in pending.found.values())
        if configured:
            return self._apply_rule(pending, pending.node, configured=True)
        # The same for every device, so it is analysed and its actions are declared only once.
        name = (pending.node.label, pending.node.toolchain)
        if name not in self._unconfigured:
            node = replace(pending.node, device=None)
            self._unconfigured[name] = self._apply_rule(pending, node, configured=False)
        return replace(self._unconfigured[name], node=pending.node, device=pending.device)

    def _apply_rule(self, pending: _Pending, node: Node, configured: bool) -> ConfiguredTarget:
        locate = pending.selected.location
        files: dict[Source | Entry | Glob, tuple[Artifact, ...]] = {}
        for (_, reference), path in pending.references.items():
            if isinstance(reference, Glob):
                files[reference] = self._glob(node.label.package, reference, partial(locate, path))
            elif isinstance(reference, Entry):
                at = partial(locate, path)
                found = self.entries.find(node.label.package, reference.file, at)
                files[reference] = tuple(_in_workspace(file, at) for file in found)
            elif isinstance(reference, Source):
                files[reference] = self._source(pending, reference, partial(locate, path))
        device = pending.device if configured else None
        toolchain = pending.toolchain or self.toolchains.base
        self.toolchains.declare(node.id, toolchain)
        room = pending.rule.room
        declaration = Declaration(node.id, node.label, room, pending.attrs, device, locate, self.test_filter)
        resolved = Resolved(
            files,
            {text: self.targets[n].providers for text, n in pending.found.items()},
            {text: self.targets[n].rule for text, n in pending.found.items()},
            partial(self._platform, at=partial(locate, (DEVICE,))),
            self.rules.extensions,
        )
        context = Context(self.graph, declaration, resolved)
        folder = self.rules.packages[pending.rule.package]
        root = self.loader.workspace.root
        providers = call_rule(pending.rule, context, self.graph.check, folder, root, partial(locate, ()))
        return ConfiguredTarget(
            node, pending.rule.name, pending.device, pending.attrs, providers, configured, toolchain
        )

    def _glob(self, package: str, glob: Glob, at: Where) -> tuple[Artifact, ...]:
        found = self.loader.glob(package, glob.glob, glob.exclude, glob.allow_empty, at)
        return tuple(_in_workspace(path, at) for path in found)

    def _source(self, pending: _Pending, reference: Source, at: Where) -> tuple[Artifact, ...]:
        if not reference.is_label:
            try:
                return (_in_workspace(self.loader.source(pending.node.label.package, reference, at), at),)
            except LoadingError as error:
                hint = f"; {reference.where_from}" if reference.where_from else ""
                raise LoadingError(error.message + hint, error.location) from None
        target = self.targets[pending.found[reference]]
        if not any(isinstance(p, Files) for p in target.providers):
            raise LoadingError(f"'{reference}' is a {target.rule}, which provides no files", at())
        return target.files()

    def _platform(self, label: Label, at: Where | None = None) -> Platform:
        if at and label == self.default_device:
            at = partial(self.loader.workspace.document.location, ("build", "default_device"))
        target = self._analyze(Node(label, None), at)
        for provider in target.providers:
            if isinstance(provider, Platform):
                return provider
        message = f"{label} is a {target.rule}, not a device"
        raise LoadingError(message, at()) if at else UsageError(message)


def _toolchain_label(name: str) -> Label | None:
    """Return the label of a named toolchain; None for the base, and for the Python of modelbuild."""
    return None if name in ("", INSTALLED) else Label.parse_toolchain(name)


def _labels(name: str, given: object) -> Iterator[tuple[Path, str]]:
    """Yield the labels of an attribute, a label or a table of labels, with their places."""
    named = {(name, key): each for key, each in given.items()} if isinstance(given, dict) else {(name,): given}
    for path, text in named.items():
        if isinstance(text, str):
            yield path, text


def _in_workspace(path: str, at: Where) -> SourceArtifact:
    try:
        check_source(path)
    except PathError as error:
        raise LoadingError(str(error), at()) from None
    return SourceArtifact(path)
