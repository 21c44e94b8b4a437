"""Analyse targets for a configuration: resolve selects, validate attributes, analyse dependencies, call the rule."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from modelbuild.action_graph import ActionGraph
from modelbuild.actions import INSTALLED, Artifact, SourceArtifact
from modelbuild.analysis.call_rule import call_rule
from modelbuild.analysis.configuration import ANY, DEVICE, Configuration, Configurations
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
from modelbuild.errors import LoadingError, UsageError
from modelbuild.ids import TargetId
from modelbuild.labels import Label
from modelbuild.loading.loader import Loader
from modelbuild.loading.references import parse_label
from modelbuild.loading.select import Selected, resolve_selects, select_labels
from modelbuild.loading.visibility import check_visible
from modelbuild.paths import PathError
from modelbuild.wording import chain_text
from modelbuild.workspace.toml_document import Stamp, Where
from modelbuild.workspace.workspace import BUILT_IN, default_workspace

TOOLCHAIN = "toolchain"


@dataclass(frozen=True, slots=True, order=True)
class Node:
    """A target, and its requested configuration."""

    label: Label
    configuration: Configuration = ANY

    def __str__(self) -> str:
        return self.id

    @property
    def id(self) -> TargetId:
        return TargetId.of(self.label, str(self.configuration) or None)

    @property
    def without_device(self) -> Node:
        return Node(self.label, replace(self.configuration, device=None))


@dataclass(frozen=True, slots=True)
class ConfiguredTarget:
    """A target after analysis. `device` is the device that it is configured for; `configured` is whether the device
    makes a difference to it or to its dependencies. `toolchain` is the name of the toolchain that its actions run
    in."""

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
        return self.node.id if self.configured else self.node.without_device.id

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
    passed: Configuration
    references: dict[tuple[type, Reference], Path]
    configurable: bool
    dependencies: Iterator[tuple[Node, Path]]
    found: dict[str, Node] = field(default_factory=dict)


class Analyzer:
    """Analyses targets on demand, each once per configuration, and collects the actions that they declare.

    test_filter  the cases that tests run, see Context.test_filter

    entries          the Python files of entries
    toolchains       the Python that the actions of each target run in; by default, the workspace's
    toolchain_files  stamps of the files that decided the toolchains
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
        loader.extensions = {name for extensions in rules.extensions.values() for name in extensions}
        self.rules = rules
        self.test_filter = test_filter
        self.toolchains = toolchains or Toolchains(loader.workspace.config.toolchain)
        self._configurations = Configurations(loader, rules, self.toolchains, default_device)
        self.default_device = default_device
        self.toolchain_files: dict[str, Stamp] = {}
        self.graph = ActionGraph(Steps(rules.packages, loader.workspace.root, self.toolchains.python).complete)
        self.entries = EntryFiles(loader)
        self.targets: dict[Node, ConfiguredTarget] = {}
        self.dependencies: dict[Node, tuple[Node, ...]] = {}
        self._failed: dict[Node, LoadingError] = {}
        self._unconfigured: dict[Node, ConfiguredTarget] = {}
        self._own: Analyzer | None = None

    def analyze(self, label: Label, device: Label | None = None) -> ConfiguredTarget:
        """Return a target configured for a device. Raises LoadingError, located, for any error in BUILD files."""
        if device is not None:
            self._platform(device)
        return self._analyze(Node(label, Configuration(device)), None)

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
        target = self._analyze(Node(label), at)
        for provider in target.providers:
            if isinstance(provider, PythonToolchain):
                return provider
        message = f"{label} is a {target.rule}, not a toolchain; expected a target of python_toolchain"
        raise LoadingError(message, at()) if at else UsageError(message)

    def _brought(self, label: Label, at: Where | None) -> PythonToolchain:
        """Return the provider of a toolchain in the built-in rule package; the path of its lock file is absolute."""
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
        self._check_failed(root)
        stack = [self._open(root, at)]
        try:
            self._close_all(stack)
        except LoadingError as error:
            self._failed |= {each.node: error for each in stack}
            raise
        return self.targets[root]

    def _check_failed(self, node: Node) -> None:
        """Raise the error of an earlier analysis: thousands of targets may depend on one that fails."""
        if node in self._failed:
            raise self._failed[node].with_traceback(None)

    def _close_all(self, stack: list[_Pending]) -> None:
        open_nodes = {each.node: None for each in stack}
        while stack:
            pending = stack[-1]
            for node, path in pending.dependencies:
                if node in open_nodes:
                    edges = {each.node: [below for below, _ in self._dependencies(each)] for each in stack}
                    cycle = [*shortest_chain(node, pending.node, edges), node]
                    names = chain_text([str(each.label) for each in cycle])
                    raise LoadingError(f"dependency cycle: {names}", pending.selected.location(path))
                if node not in self.targets:
                    self._check_failed(node)
                    stack.append(self._open(node, partial(pending.selected.location, path)))
                    open_nodes[node] = None
                    break
            else:
                self.targets[pending.node] = self._close(pending)
                del open_nodes[pending.node]
                stack.pop()

    def _open(self, node: Node, at: Where | None) -> _Pending:
        target = self.loader.target(node.label, at)
        rule = self.rules.by_name[target.rule]
        passed = self._configurations.passed(target, node.configuration)
        # The workspace's default is not passed down: it would override a dependency's own device.
        device = passed.device or self.default_device
        selecting = list(select_labels(target))
        for label, path in selecting:
            self.loader.target(label, partial(target.location, path))
        selected = resolve_selects(target, device)
        attrs = validate(target.rule, target.label.name, rule.attrs, selected.attributes, selected.location)
        found: dict[tuple[type, Reference], Path] = {}
        for path, reference in references(attrs):
            found.setdefault((type(reference), reference), path)
        configurable = self._configurations.has_device(target) or bool(selecting)
        pending = _Pending(node, selected, rule, attrs, device, passed, found, configurable, iter(()))
        pending.dependencies = iter(list(self._dependencies(pending)))
        return pending

    def _dependencies(self, pending: _Pending) -> Iterator[tuple[Node, Path]]:
        asked, passed, target = pending.node.configuration, pending.passed, pending.selected.target
        package = pending.node.label.package
        for (_, reference), path in pending.references.items():
            if isinstance(reference, (Entry, Glob)) or (isinstance(reference, Source) and not reference.is_label):
                continue
            at = partial(pending.selected.location, path)
            label = parse_label(reference, package, at)
            dependency = self.loader.target(label, at)
            node = Node(label, self._configurations.transition(asked, passed, target, path[0], dependency))
            if path == (DEVICE,):
                # A device target is not built for a device, and a requested device overrides this attribute.
                node = Node(pending.device or label)
            check_visible(dependency, package, at)
            pending.found[reference] = node
            yield node, path
        toolchain = _toolchain_label(pending.passed.toolchain)
        if toolchain is not None and not toolchain.repository:
            at = partial(pending.selected.location, (TOOLCHAIN,))
            if target.toolchain == passed.toolchain:
                check_visible(self.loader.target(toolchain, at), package, at)
            yield Node(toolchain), (TOOLCHAIN,)

    def _close(self, pending: _Pending) -> ConfiguredTarget:
        needed = list(pending.found.values())
        label = _toolchain_label(pending.passed.toolchain)
        if label is not None:
            self.toolchain(label, partial(pending.selected.location, (TOOLCHAIN,)))
            needed += [] if label.repository else [Node(label)]
        self.dependencies[pending.node] = tuple(dict.fromkeys(needed))
        configured = pending.configurable or any(self.targets[n].configured for n in pending.found.values())
        if configured:
            return self._apply_rule(pending, pending.node, configured=True)
        # The same for every device, so it is analysed and its actions are declared only once.
        node = pending.node.without_device
        if node not in self._unconfigured:
            self._unconfigured[node] = self._apply_rule(pending, node, configured=False)
        return replace(self._unconfigured[node], node=pending.node, device=pending.device)

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
        toolchain = pending.passed.toolchain or self.toolchains.base
        room = pending.rule.room
        declaration = Declaration(node.id, node.label, room, toolchain, pending.attrs, device, locate, self.test_filter)
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
        target = self._analyze(Node(label), at)
        for provider in target.providers:
            if isinstance(provider, Platform):
                return provider
        message = f"{label} is a {target.rule}, not a device"
        raise LoadingError(message, at()) if at else UsageError(message)


def _toolchain_label(name: str) -> Label | None:
    """Return the label of a named toolchain; None for the base, and for the Python of modelbuild."""
    return None if name in ("", INSTALLED) else Label.parse_toolchain(name)


def _in_workspace(path: str, at: Where) -> SourceArtifact:
    try:
        check_source(path)
    except PathError as error:
        raise LoadingError(str(error), at()) from None
    return SourceArtifact(path)


T = TypeVar("T", bound=Hashable)


def shortest_chain(start: T, end: T, edges: Mapping[T, Iterable[T]]) -> list[T]:
    """Return the nodes on the shortest way from `start` to `end`, which exists, over nodes that `edges` has."""
    before: dict[T, T | None] = {start: None}
    waiting = [start]
    for node in waiting:  # also those added meanwhile
        if node == end:
            break
        for below in edges[node]:
            if below in edges and below not in before:
                before[below] = node
                waiting.append(below)
    chain: list[T] = []
    at: T | None = end
    while at is not None:
        chain.append(at)
        at = before[at]
    return chain[::-1]
