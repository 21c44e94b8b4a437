"""The targets whose action keys may differ from a base revision."""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import modelbuild
from modelbuild.affected.git import Change, find_change, lay_out, show
from modelbuild.affected.signatures import Revision, signatures
from modelbuild.affected.tool_versions import compare_locks
from modelbuild.analysis.analyze import Analyzer, ConfiguredTarget
from modelbuild.analysis.open import open_analyzer
from modelbuild.errors import EnvironmentProblem, ModelbuildError
from modelbuild.labels import Label
from modelbuild.loading.package import Target
from modelbuild.loading.patterns import expand_patterns
from modelbuild.toolchain.lock_file import read_lock
from modelbuild.workspace.workspace import BUILT_IN, LIBRARY, Workspace, load_workspace

# Lock files at the root of the workspace and of the repository.
_LOCKS = ("requirements.lock", "requirements.txt", "uv.lock", "poetry.lock", "pdm.lock", "pylock.toml")


@dataclass(frozen=True, slots=True)
class Touched:
    """A target that a change affects; `new` if the base lacks it."""

    label: str
    rule: str
    new: bool


@dataclass(frozen=True, slots=True)
class Affected:
    """The affected targets. `everything` is the reason why all targets are affected, or '' if each was compared."""

    base: str
    targets: tuple[Touched, ...]
    deleted: tuple[str, ...]
    everything: str = ""


def affected(
    workspace: Workspace,
    patterns: Sequence[str],
    current: str,
    since: str,
    devices: Sequence[Label] = (),
    exact: bool = False,
) -> Affected:
    """Compare the working tree with a revision (see git.find_change). Both are loaded and analysed, at the same time.
    The result contains every target of the patterns whose actions or files may differ.

    Raises UsageError for git's errors, and LoadingError for errors in the working tree; after errors in the base,
    targets count as affected.
    """
    change = find_change(workspace.root, since, exact)
    old_versions, new_versions = compare_locks(*_locks(change))
    with tempfile.TemporaryDirectory(prefix="modelbuild-") as folder:
        root = lay_out(change, Path(folder))
        old = Revision(workspace.root, change.same_at(root), old_versions, change, "before")
        with _in_child(lambda: _base(root, devices, old)) as base:
            analyzer = open_analyzer(workspace)
            targets = expand_patterns(analyzer.loader, patterns, current)
            configured = [analyzer.analyze(target.label, device) for device in devices or (None,) for target in targets]
            new = Revision(workspace.root, change.same_at(workspace.root), new_versions, change, "after")
            after = signatures(analyzer, configured, new)
            before = base()
    everything = _changed_engine(workspace, change)
    if not everything and before.get("toolchain", "") != toolchain_text(analyzer):
        everything = "the toolchain, in which every step runs, was changed"
    touched: dict[str, Touched] = {}
    for each in configured:
        node, label = str(each.node), str(each.node.label)
        signed = before["signatures"].get(node)
        if everything or node not in after or signed != after[node].text:
            touched.setdefault(label, Touched(label, each.rule, label not in before["labels"]))
    return Affected(change.base, tuple(touched.values()), _deleted(before["labels"], analyzer), everything)


@contextmanager
def _in_child(work: Callable[[], dict[str, Any]]) -> Iterator[Callable[[], dict[str, Any]]]:
    """Call `work` in a forked process, so that rule packages of two revisions do not mix. Yield a function that waits
    for the result, and raises EnvironmentProblem if the process crashed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            gc.disable()  # all objects are needed to the end
            with os.fdopen(writer, "w") as pipe:
                json.dump(work(), pipe)
        finally:
            os._exit(0)
    os.close(writer)

    def result() -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(pipe.read())
        except ValueError:
            raise EnvironmentProblem("a revision could not be analysed: its process crashed") from None
        return found

    with os.fdopen(reader) as pipe:
        try:
            yield result
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _base(root: Path, devices: Sequence[Label], revision: Revision) -> dict[str, Any]:
    """Return signatures by node and all labels of the part of the base revision that loads."""
    labels: list[str] = []
    configured: list[ConfiguredTarget] = []
    try:
        analyzer = open_analyzer(load_workspace(root))
        packages = analyzer.loader.packages_below("")
    except ModelbuildError:
        return {"labels": labels, "signatures": {}}
    for package in packages:
        for target in _targets(analyzer, package):
            labels.append(str(target.label))
            for device in devices or (None,):
                try:
                    configured.append(analyzer.analyze(target.label, device))
                except (ModelbuildError, ValueError):  # ValueError: an earlier analysis failed halfway
                    continue
    signed = signatures(analyzer, configured, revision)
    texts = {node: signature.text for node, signature in signed.items()}
    return {"labels": labels, "signatures": texts, "toolchain": toolchain_text(analyzer)}


def _targets(analyzer: Analyzer, package: str) -> list[Target]:
    try:
        return list(analyzer.loader.package(package).targets.values())
    except ModelbuildError:
        return []


def _deleted(labels: Sequence[str], analyzer: Analyzer) -> tuple[str, ...]:
    names = analyzer.loader.packages_below("")
    now = {str(label.label) for name in names for label in _targets(analyzer, name)}
    return tuple(sorted(set(labels) - now))


def _locks(change: Change) -> tuple[dict[str, str | None], dict[str, str | None]]:
    """Return the lock files at the root of the workspace and of the repository, before and after."""
    paths = dict.fromkeys(prefix + name for prefix in ("", change.prefix) for name in _LOCKS)
    moved = [path for path in paths if path in change.changed]
    now = {path: change.top / path for path in moved}
    return (
        {path: show(change, path) for path in moved},
        {path: file.read_text(errors="replace") if file.is_file() else None for path, file in now.items()},
    )


def toolchain_text(analyzer: Analyzer) -> str:
    """Return a text that differs between two revisions if the workspace's toolchain does: its lock file's pins, its
    Python and its packages from source. '' for the Python that modelbuild runs in. Makes no environment."""
    workspace = analyzer.loader.workspace
    label = workspace.config.toolchain
    if label is None:
        return ""
    try:
        found = analyzer.toolchain(label, partial(workspace.document.location, ("build", "toolchain")))
        lock = read_lock(workspace.root, found.lock.path, found.from_source)
    except ModelbuildError as error:
        return f"error: {error}"
    return f"{lock.digest} {found.python} {' '.join(found.from_source)}"


def _engine_folders(workspace: Workspace) -> Mapping[str, Path]:
    """Return the folders of modelbuild itself and of the rule packages imported by name, if installed."""
    names = dict.fromkeys([BUILT_IN, *(name for name in workspace.config.rules if name[:2] != "//"), LIBRARY])
    found = {"modelbuild": Path(modelbuild.__file__).parent}
    for name in names:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            found[name] = Path(spec.origin).parent
    return found


def _changed_engine(workspace: Workspace, change: Change) -> str:
    """Return the reason why all targets are affected: one of these folders is in the repository and was changed. '' if
    none."""
    top = Path(os.path.realpath(change.top))
    for name, folder in _engine_folders(workspace).items():
        real = Path(os.path.realpath(folder))
        if real.is_relative_to(top):
            below = f"{real.relative_to(top).as_posix()}/"
            if any(path.startswith(below) for path in change.changed):
                return f"{name}, on which every target depends, was changed"
    return ""
