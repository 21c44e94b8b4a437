"""Build a target, and gather the facts for its provenance and its SBOM."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from modelbuild.actions import Action, Artifact, DerivedArtifact, FileEntry, SourceArtifact, Value
from modelbuild.analysis.analyze import ConfiguredTarget
from modelbuild.api.providers import Component, Contents, Origin
from modelbuild.code.interpreter import installed
from modelbuild.errors import BuildError, ExitCode, UsageError
from modelbuild.events import Reporter
from modelbuild.history.action_facts import ActionFacts, gather
from modelbuild.history.action_records import Records
from modelbuild.history.measurements import Measures
from modelbuild.labels import Label
from modelbuild.redaction import redacted
from modelbuild.session.request import Request
from modelbuild.session.session import Session, in_session
from modelbuild.testing.passed import PassedTest, passed_tests
from modelbuild.trust.packages import PythonPackage, packages_of
from modelbuild.trust.revision import Revision, find_revision
from modelbuild.workspace.workspace import WORKSPACE_FILE, Workspace


@dataclass(frozen=True, slots=True)
class File:
    """A file by content, with its licence (SPDX, or '') and declared addresses."""

    name: str
    sha256: str
    license: str = ""
    uris: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ActionRun:
    """The run that made an action's result: `local`, `remote` (with the worker), or `cached` if another workspace or
    machine made it; and its time in seconds since 1970, if known."""

    where: str
    worker: str = ""
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """The facts about one built target.

    outputs     its files, by path below the target's folder
    actions     all actions that it depends on, by id
    runs        where they ran
    sources     the workspace's files that they read
    downloads   files that they fetched
    packages    the Python packages in the keys of the actions
    components  the parts of the outputs that rules describe
    tests       tests that passed on files with the outputs' bytes
    """

    label: str
    device: str
    attributes: Mapping[str, object]
    outputs: Mapping[str, str]
    actions: Mapping[str, ActionFacts]
    runs: Mapping[str, ActionRun]
    sources: Sequence[File]
    downloads: Sequence[File]
    packages: Sequence[PythonPackage]
    components: Sequence[Component]
    tests: Sequence[PassedTest]
    revision: Revision | None


def gather_evidence(workspace: Workspace, request: Request, reporter: Reporter) -> Evidence:
    """Build the request's only target and return the facts about it. Raises BuildError if it does not build, and
    UsageError for a request of several targets."""

    def work(session: Session) -> Evidence:
        plan = session.make_plan()
        if len(plan.targets) != 1:
            raise UsageError(f"expected one target for one device, got {len(plan.targets)}")
        session.run(plan.targets)
        built = session.finish(session.result(session.lay_out(plan.targets)))
        if built.code != ExitCode.OK:
            raise BuildError(f"{plan.targets[0].node.label} was not built")
        return _Gatherer(session).gather(plan.targets[0], request)

    return in_session(workspace, request, reporter, work)


class _Gatherer:
    """Reads the facts from a finished build."""

    def __init__(self, session: Session) -> None:
        self._workspace = session.workspace
        self._engine = session.engine
        self._analyzer = session.plan.analyzer
        self._scheduler = session.scheduler
        self._toolchains: dict[str, str] = {each.owner: each.toolchain for each in self._analyzer.graph.nodes.values()}
        self._origins = self._find_origins()

    def gather(self, target: ConfiguredTarget, request: Request) -> Evidence:
        outputs = dict(self._outputs(target))
        if not outputs:
            raise UsageError(f"{target.node.label} has no files")
        facts = gather(self._scheduler, self._engine.code)
        actions = {name: facts[name] for name in sorted(facts)}
        config = self._workspace.config
        records = Records(config.cache_dir, self._workspace.root)
        measures = Measures(config.cache_dir, self._workspace.root)
        label = str(target.node.label)
        digests, devices = frozenset(outputs.values()), request.targets.devices
        return Evidence(
            label=label,
            device=str(target.device) if target.configured and target.device else "",
            attributes=redacted(target.attrs.model_dump(mode="json", by_alias=True, exclude_defaults=True)),
            outputs=outputs,
            actions=actions,
            runs={name: _run(records, measures, each) for name, each in actions.items()},
            sources=sorted(self._sources(target, actions), key=lambda file: file.name),
            downloads=sorted(self._downloads(actions), key=lambda file: (file.name, file.sha256)),
            packages=packages_of(actions.values(), self._import_path),
            components=self._components(target),
            tests=passed_tests(self._workspace, self._engine, devices, digests, self._embedded(digests)),
            revision=find_revision(self._workspace.root, self._read()),
        )

    def _read(self) -> Mapping[str, str]:
        """Return the SHA-256 of each file of the workspace that decided the build, by its absolute path: sources, local
        modules, declarations, settings, and rules of the workspace."""
        root, rules = self._workspace.root, self._workspace.config.rules
        decided = {WORKSPACE_FILE, *self._analyzer.loader.files_read(), *self._analyzer.toolchain_files}
        folders = [root / reference[2:] for reference in rules if reference.startswith("//")]
        paths = [*(root / path for path in decided), *(path for folder in folders for path in folder.rglob("*.py"))]
        return {**{str(path): _sha256(path) for path in paths}, **self._engine.sources.digests()}

    def _import_path(self, owner: str) -> tuple[str, ...]:
        """Return the folders with the packages of a target's steps, also modelbuild's own folders, which have
        modelbuild-runtime for toolchains without it."""
        return (*self._analyzer.toolchains.python(self._toolchains[owner]).path, *installed().path)

    def _outputs(self, target: ConfiguredTarget) -> Iterator[tuple[str, str]]:
        """Yield the path of each output file below the target's folder, and its SHA-256."""
        for artifact in target.files():
            resolved = self._scheduler.values.resolve(artifact)
            yield from flat(self._analyzer.graph.basename(resolved), self._scheduler.values.value(resolved))

    def _embedded(self, digests: frozenset[str]) -> set[str]:
        """Return the labels of targets with a file whose bytes are among `digests`: the program in a bundle."""
        found = set()
        for target in self._analyzer.targets.values():
            files = [each for each in target.files() if self._scheduler.values.has(each)]
            values = [self._scheduler.values.value(each) for each in files]
            if digests.intersection(sha for value in values for _, sha in flat("", value)):
                found.add(str(target.node.label))
        return found

    def _find_origins(self) -> Mapping[Artifact, Origin]:
        """Return the origin of each file: the origin of the target nearest to the file."""
        found: dict[Artifact, Origin] = {}
        for target in self._analyzer.targets.values():  # dependencies come first
            for origin in target.providers:
                if isinstance(origin, Origin):
                    for artifact in origin.files:
                        found.setdefault(artifact, origin)
        return found

    def _file(self, name: str, artifact: Artifact, sha256: str) -> File:
        origin = self._origins.get(artifact)
        return File(name, sha256, origin.license, origin.uris) if origin else File(name, sha256)

    def _nodes(self, actions: Iterable[str]) -> Iterator[Action]:
        for name in actions:
            node = self._analyzer.graph.nodes[name]
            assert isinstance(node, Action)
            yield node

    def _sources(self, target: ConfiguredTarget, actions: Iterable[str]) -> Iterator[File]:
        """Yield each file of the workspace that an action reads, or that is itself an output, and the lock files of
        toolchains."""
        pythons = [self._analyzer.toolchains.python(node.toolchain) for node in self._nodes(actions)]
        for lock, toolchain in sorted({(python.lock, python.toolchain) for python in pythons if python.lock}):
            yield File(_lock_name(lock, toolchain), self._engine.sources.entry(lock)[1].digest.hash)
        named = {item.artifact for node in self._nodes(actions) for item in node.inputs}
        named.update(target.files())
        for artifact in {self._scheduler.values.resolve(each) for each in named}:
            if isinstance(artifact, SourceArtifact):
                value = self._scheduler.values.value(artifact)
                assert isinstance(value, FileEntry)
                yield self._file(artifact.path, artifact, value.digest.hash)

    def _downloads(self, actions: Iterable[str]) -> Iterator[File]:
        """Yield each file that an action with a network made."""
        for node in self._nodes(actions):
            for output in node.outputs if node.network else ():
                artifact = DerivedArtifact(node.id, output.name)
                path = output.path.rpartition("/")[2]
                for name, sha256 in flat(path, self._scheduler.values.value(artifact)):
                    yield self._file(name, artifact, sha256)

    def _components(self, target: ConfiguredTarget) -> Sequence[Component]:
        """Return the components that the target and its dependencies describe."""
        found: dict[tuple[str, str], Component] = {}
        for each in self._analyzer.targets.values():
            contents = next((p for p in each.providers if isinstance(p, Contents)), None)
            if contents is not None and all(map(self._scheduler.values.has, contents.reads)):
                for component in self._scheduler.keeping(partial(self._described, contents)):
                    found[component.kind, component.name] = component
        return [found[key] for key in sorted(found)]

    def _described(self, contents: Contents) -> Sequence[Component]:
        files = [dict(self._blobs(self._scheduler.values.value(read))) for read in contents.reads]
        return contents.components(*files)

    def _blobs(self, value: Value) -> Iterator[tuple[str, Path]]:
        """Yield the path of each file in a folder ('' for a file), and a file with its bytes."""
        for name, entry in [("", value)] if isinstance(value, FileEntry) else value.files:
            yield name, self._engine.store.blob_path(entry.digest, entry.executable)


def _lock_name(lock: str, toolchain: str) -> str:
    """Return the path of a lock file in the workspace, or below the repository of a toolchain in the built-in rule
    package."""
    label = Label.parse_toolchain(toolchain)
    return f"{label.repository}//{label.package}/{Path(lock).name}" if label.repository else lock


def _sha256(path: Path) -> str:
    """Return a file's SHA-256; '' for a file that cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def flat(name: str, value: Value) -> Iterator[tuple[str, str]]:
    """Yield the path and the SHA-256 of each file of a value."""
    if isinstance(value, FileEntry):
        yield name, value.digest.hash
    else:
        yield from ((f"{name}/{path}", entry.digest.hash) for path, entry in value.files)


def _run(records: Records, measures: Measures, facts: ActionFacts) -> ActionRun:
    """Return where and when an action with this key last ran, according to the history."""
    at = measures.ran(facts.id, facts.key)
    if at is None:
        return ActionRun("cached")
    places = [row.facts.place for row in records.rows(facts.id) if row.facts.key == facts.key]
    worker = next((place.worker for place in places if place is not None), None)
    return ActionRun("local", "", at) if worker is None else ActionRun("remote", worker, at)
