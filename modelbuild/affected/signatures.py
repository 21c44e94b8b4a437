"""A signature for each target, made without building: two revisions that have the same one build the same."""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import modelbuild
from modelbuild.actions import Action, Artifact, Digest, Expansion, FileEntry, SourceArtifact
from modelbuild.affected.git import Change
from modelbuild.affected.required_tools import NeededTools
from modelbuild.affected.tool_versions import Versions
from modelbuild.analysis.analyze import Analyzer, ConfiguredTarget
from modelbuild.code.tools import Tools
from modelbuild.errors import EnvironmentProblem
from modelbuild.execution.executor import Request
from modelbuild.execution.keys import Keys, key_of
from modelbuild.query.actions import owner_of
from modelbuild.query.package_world import Packages, file_location
from modelbuild.store.digests import digest_file


@dataclass(frozen=True, slots=True)
class Revision:
    """What is known of a revision besides the files of its workspace.

    root      of the workspace in the working tree, which is what Python imports from
    same      whether a file of the workspace, by its path, is known to be the same at the other revision
    versions  of tools
    change    what lies between the two; None where that is no local module's, whose content differs with the `side`
    """

    root: Path
    same: Callable[[str], bool]
    versions: Versions = field(default_factory=Versions)
    change: Change | None = None
    side: str = ""

    def local(self, path: str) -> str:
        """What tells the content of a local module, by its path, from that at the other revision."""
        return self.side if self.change is not None and self.change.touches(path) else ""

    def any_local(self, tools: Tools) -> str:
        """As local(), of all that are not known."""
        changed = self.change.changed_files() if self.change is not None else ()
        return self.side if any(map(tools.may_be_local, changed)) else ""


@dataclass(frozen=True, slots=True)
class Signature:
    """Of one target; two with the same text have the same actions with the same keys."""

    rule: str
    text: str


class Signatures:
    """Signatures of one revision, all of whose targets have been analysed.

    revision  what the revision has that cannot be seen in its workspace
    """

    def __init__(self, analyzer: Analyzer, revision: Revision) -> None:
        self._analyzer = analyzer
        self._root = Path(os.path.realpath(analyzer.loader.workspace.root))
        self._revision = revision
        roots = {"modelbuild": Path(modelbuild.__file__).parent, **analyzer.rules.packages}
        self._tools = NeededTools(Tools(revision.root, roots), self._root)
        self._keys = Keys.of(revision.root, roots, _not_there, _NoFiles())
        self._sources = Packages(analyzer.loader, analyzer.rules, "")
        self._owners = {owner_of(target): target for target in analyzer.targets.values()}
        self._own: dict[str, list[str]] = defaultdict(list)
        for node in analyzer.graph.nodes.values():
            self._own[node.owner].append(node.id)
        self._contents: dict[str, str] = {}
        self._nodes: dict[str, str] = {}
        self._closures: dict[str, str] = {}
        self._packages: dict[str, str] = {}

    def target(self, target: ConfiguredTarget) -> Signature:
        """Raises KeyError when a step's module is not there, OSError when a file is not or cannot be known."""
        own = sorted(self._own[owner_of(target)])
        parts = [[name, self._node(name)] for name in own] + [[self._artifact(a)] for a in target.files()]
        return Signature(target.rule, _digest(parts or [self._declared(target)]))

    def _artifact(self, artifact: Artifact) -> str:
        if isinstance(artifact, SourceArtifact):
            if artifact.path not in self._contents:
                self._contents[artifact.path] = f"{artifact.path} {self._content(artifact.path)}"
            return self._contents[artifact.path]
        return f"{self._node(artifact.action)} {artifact.output} {artifact.subpath}"

    def _content(self, path: str) -> str:
        """A file's content: that it is the same as at the other revision, or its digest and executable bit. Raises
        OSError for what is neither the same nor in the workspace: a link there from another revision leads to what
        there is now."""
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
        """Like an action's key, with signatures in place of digests of what is not built."""
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
        material = self._keys.material(Request(action, ()))
        needed, unknown = self._tools.of(action)
        return key_of(
            {
                **material,
                "inputs": [[i.name, i.path, self._artifact(i.artifact)] for i in action.inputs],
                "tools": self._revision.versions.of(needed.distributions, needed.absent, unknown),
                "local": [[local.name, self._revision.local(local.path)] for local in needed.local],
                **({"any local": self._revision.any_local(self._tools.tools)} if unknown else {}),
            }
        )

    def _expansion(self, expansion: Expansion) -> str:
        """What an expansion declares can depend on all that its rule saw: attributes and files of all that the target
        needs; and the steps that it will name are some of its rule package."""
        return _digest([self._artifact(expansion.reads), expansion.promises, self._closure(expansion.owner)])

    def _closure(self, owner: str) -> str:
        if owner not in self._closures:
            found: dict[str, ConfiguredTarget] = {}
            waiting = [self._owners[owner]]
            while waiting:
                target = waiting.pop()
                if owner_of(target) not in found:
                    found[owner_of(target)] = target
                    waiting += [self._analyzer.targets[n] for n in self._analyzer.dependencies[target.node]]
            parts = [[name, self._declared(found[name]), self._files(found[name])] for name in sorted(found)]
            self._closures[owner] = _digest(parts)
        return self._closures[owner]

    def _files(self, target: ConfiguredTarget) -> list[str]:
        """The files of the workspace that a target names itself, with their contents."""
        declared = self._analyzer.loader.target(target.node.label)
        nodes = [node for _, node in self._sources.files(declared.label, target.attrs, declared.location)]
        return [f"{node} {self._content(file_location(node))}" for node in nodes]

    def _declared(self, target: ConfiguredTarget) -> list[Any]:
        """A target itself: attributes, and all source of its rule's package."""
        package = self._analyzer.rules.by_name[target.rule].package
        return [target.rule, target.attrs.model_dump(mode="json", by_alias=True), self._package(package)]

    def _package(self, name: str) -> str:
        if name not in self._packages:
            folder = self._analyzer.rules.packages[name]
            files = sorted(folder.rglob("*.py"))
            self._packages[name] = _digest([[str(f.relative_to(folder)), digest_file(f).hash] for f in files])
        return self._packages[name]


class _NoFiles:
    """Contents of tools are not read: what lock files and git say of them has to do."""

    def entry(self, path: str) -> tuple[Path, FileEntry]:
        raise FileNotFoundError(path)

    def listing(self, folder: str) -> tuple[Sequence[str], Sequence[str]]:
        raise FileNotFoundError(folder)


def _not_there(digest: Digest) -> bytes:
    """What actions make: nothing is made here."""
    raise FileNotFoundError(digest)


def signatures(analyzer: Analyzer, targets: Iterable[ConfiguredTarget], revision: Revision) -> dict[str, Signature]:
    """Signatures by node, of those targets that have one: a target whose step or file is not there has none, nor one
    whose tools cannot be told."""
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
