"""Compute a signature of each target without building: targets with equal signatures build the same outputs."""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import modelbuild
from modelbuild.actions import INSTALLED, Action, Artifact, Expansion, FileEntry, SourceArtifact
from modelbuild.affected.git import Change
from modelbuild.affected.tool_versions import Versions
from modelbuild.analysis.analyze import Analyzer, ConfiguredTarget
from modelbuild.analysis.suites import SUITE, members
from modelbuild.code.corrected_requirements import corrections
from modelbuild.code.interpreter import installed
from modelbuild.code.step_sources import StepCode
from modelbuild.code.tools import Needed, Tools, foreign, imported_modules
from modelbuild.errors import EnvironmentProblem, LoadingError
from modelbuild.execution.keys import key_of, material
from modelbuild.labels import Label
from modelbuild.query.package_world import Packages, file_location
from modelbuild.store.digests import digest_file


@dataclass(frozen=True, slots=True)
class NeededTools:
    """`tools` are from the working tree; `root` is the root of the revision's workspace."""

    tools: Tools
    root: Path

    def of(self, action: Action) -> tuple[Needed, bool]:
        """Return an action's tools, with tools that are not installed in `absent`, and whether it has Python inputs
        that are not built yet. Raises OSError for an unreadable source, and EnvironmentProblem."""
        python = [i for i in action.inputs if i.name in action.python and i.path.endswith(".py")]
        written = {i.path: i.artifact.path for i in python if isinstance(i.artifact, SourceArtifact)}
        sources = {path: (self.root / file).read_bytes() for path, file in written.items()}
        needed = self._needed(action, sources)
        own = {part for path in sources for part in path.removesuffix(".py").split("/")}
        absent = {*needed.missing, *needed.absent} - own
        return replace(needed, absent=tuple(sorted(absent))), len(sources) < len(python)

    def _needed(self, action: Action, sources: Mapping[str, bytes]) -> Needed:
        try:
            return self.tools.needed(action.tools, foreign(imported_modules(sources), sources))
        except LoadingError:  # not Python: the build will report it
            return self.tools.needed(action.tools, ())


@dataclass(frozen=True, slots=True)
class Revision:
    """Facts about a revision, except the files of its workspace.

    root      root of the workspace in the working tree, from which Python imports
    same      whether a file of the workspace, by its path, is known to be the same at the other revision
    versions  of tools
    change    the difference between the revisions; changed local modules have a signature with the `side`; None if no
              local module changed
    """

    root: Path
    same: Callable[[str], bool]
    versions: Versions = field(default_factory=Versions)
    change: Change | None = None
    side: str = ""

    def local(self, path: str) -> str:
        """Return a text that differs from the other revision's if a local module, by its path, changed."""
        return self.side if self.change is not None and self.change.touches(path) else ""

    def any_local(self, tools: Tools) -> str:
        """Return a text that differs from the other revision's if any unknown local module changed."""
        changed = self.change.changed_files() if self.change is not None else ()
        return self.side if any(map(tools.may_be_local, changed)) else ""


@dataclass(frozen=True, slots=True)
class TargetSignature:
    """A target's signature; targets with the same text have the same actions with the same keys."""

    rule: str
    text: str


class Signatures:
    """Signatures at one revision, with all targets analysed.

    revision  facts about the revision that are not in its workspace
    """

    def __init__(self, analyzer: Analyzer, revision: Revision) -> None:
        self._analyzer = analyzer
        self._root = Path(os.path.realpath(analyzer.loader.workspace.root))
        self._revision = revision
        roots = {"modelbuild": Path(modelbuild.__file__).parent, **analyzer.rules.packages}
        self._tools = NeededTools(Tools(revision.root, roots, corrections=corrections(roots)), self._root)
        self._code = StepCode(roots)
        self._python = installed().version
        self._sources = Packages(analyzer.loader, analyzer.rules, "")
        self._owners: dict[str, ConfiguredTarget] = {target.id: target for target in analyzer.targets.values()}
        self._own: dict[str, list[str]] = defaultdict(list)
        for node in analyzer.graph.nodes.values():
            self._own[node.owner].append(node.id)
        self._contents: dict[str, str] = {}
        self._nodes: dict[str, str] = {}
        self._closures: dict[str, str] = {}
        self._packages: dict[str, str] = {}

    def target(self, target: ConfiguredTarget) -> TargetSignature:
        """Return a target's signature; a suite's signature is computed from its members. Raises KeyError for a missing
        step, and OSError for a missing or unknown file."""
        if target.rule == SUITE:
            parts = [[each.id, self.target(each).text] for each in members(self._analyzer, target)]
            return TargetSignature(target.rule, _digest(parts))
        own = sorted(self._own[target.id])
        parts = [[name, self._node(name)] for name in own] + [[self._artifact(a)] for a in target.files()]
        return TargetSignature(target.rule, _digest(parts or [self._declared(target)]))

    def _artifact(self, artifact: Artifact) -> str:
        if isinstance(artifact, SourceArtifact):
            if artifact.path not in self._contents:
                self._contents[artifact.path] = f"{artifact.path} {self._content(artifact.path)}"
            return self._contents[artifact.path]
        return f"{self._node(artifact.action)} {artifact.output} {artifact.subpath}"

    def _content(self, path: str) -> str:
        """Return a file's content: `same` as at the other revision, or its digest and executable bit. Raises OSError
        for a file outside the workspace that is not known to be the same: a link from another revision leads to the
        current file."""
        real = Path(os.path.realpath(self._root / path))
        inside = real.is_relative_to(self._root)
        if real != self._root / path and inside:
            return self._content(real.relative_to(self._root).as_posix())
        if self._revision.same(path):
            return f"same {path}"
        if not inside:
            raise OSError(f"{path} leads to {real}")
        executable = os.stat(real).st_mode & 0o100 != 0
        return str(FileEntry(digest_file(real), executable))

    def _node(self, name: str) -> str:
        """Return a text like an action's key, with signatures instead of digests of outputs."""
        waiting = [] if name in self._nodes else [name]
        while waiting:
            node = self._analyzer.graph.nodes[waiting[-1]]
            missing = [made for made in self._analyzer.graph.makers(node.id) if made not in self._nodes]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            self._nodes[node.id] = self._action(node) if isinstance(node, Action) else self._expansion(node)
        return self._nodes[name]

    def _action(self, action: Action) -> str:
        needed, unknown = self._tools.of(action)
        inputs = [[i.name, i.path, self._artifact(i.artifact)] for i in action.inputs]
        tools = self._revision.versions.of(needed.distributions, needed.absent, unknown)
        local = {each.name: {"": self._revision.local(each.path)} for each in needed.local}
        toolchain = self._toolchain(action.toolchain)
        any_local = self._revision.any_local(self._tools.tools) if unknown else ""
        code = self._code.digest(*action.modules)
        return key_of([material(action, code, inputs, tools, self._python, local), toolchain, any_local])

    def _toolchain(self, name: str) -> list[object]:
        """Return everything that decides a toolchain, with the contents of its lock file; nothing for the workspace's
        toolchain."""
        base = self._analyzer.loader.workspace.config.toolchain
        if name == (INSTALLED if base is None else str(base)):
            return []  # compared for all targets at once
        if name == INSTALLED:
            return [name]
        label = Label.parse_toolchain(name)
        if label.repository:  # the same in both revisions, unless modelbuild itself changed
            return [name]
        found = self._analyzer.toolchain(label, None)
        return [self._content(found.lock.path), found.python, *found.from_source]

    def _expansion(self, expansion: Expansion) -> str:
        """Return a digest of everything that an expansion can depend on: attributes and files of all the target's
        dependencies, and its rule package, which contains all its possible steps."""
        return _digest([[*map(self._artifact, expansion.reads)], expansion.promises, self._closure(expansion.owner)])

    def _closure(self, owner: str) -> str:
        if owner not in self._closures:
            found: dict[str, ConfiguredTarget] = {}
            waiting = [self._owners[owner]]
            while waiting:
                target = waiting.pop()
                if target.id not in found:
                    found[target.id] = target
                    waiting += [self._analyzer.targets[n] for n in self._analyzer.dependencies[target.node]]
            parts = [[name, self._declared(found[name]), self._files(found[name])] for name in sorted(found)]
            self._closures[owner] = _digest(parts)
        return self._closures[owner]

    def _files(self, target: ConfiguredTarget) -> list[str]:
        """Return the workspace's files that a target names itself, with their contents."""
        declared = self._analyzer.loader.target(target.node.label)
        nodes = [node for _, node in self._sources.files(declared.label, target.attrs, declared.location)]
        return [f"{node} {self._content(file_location(node))}" for node in nodes]

    def _declared(self, target: ConfiguredTarget) -> list[Any]:
        """Return a target's attributes, and the source of its rule's package."""
        package = self._analyzer.rules.by_name[target.rule].package
        return [target.rule, target.attrs.model_dump(mode="json", by_alias=True), self._package(package)]

    def _package(self, name: str) -> str:
        if name not in self._packages:
            folder = self._analyzer.rules.packages[name]
            files = sorted(folder.rglob("*.py"))
            self._packages[name] = _digest([[str(f.relative_to(folder)), digest_file(f).hash] for f in files])
        return self._packages[name]


def signatures(
    analyzer: Analyzer, targets: Iterable[ConfiguredTarget], revision: Revision
) -> dict[str, TargetSignature]:
    """Return signatures by node. A target with a missing step, a missing file or unknown tools has none."""
    maker = Signatures(analyzer, revision)
    found = {}
    for target in targets:
        try:
            found[str(target.node)] = maker.target(target)
        except (KeyError, OSError, EnvironmentProblem):
            continue
    return found


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
