"""The targets whose action keys can be others than at a base revision."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import modelbuild
from modelbuild.affected.contents import only_contents, touched_by_contents
from modelbuild.affected.git import Change, find_change, lay_out, show
from modelbuild.affected.locks import LOCKS
from modelbuild.affected.signatures import signatures
from modelbuild.affected.versions import Versions, compare_locks
from modelbuild.analysis.analyze import Analyzer, ConfiguredTarget
from modelbuild.errors import EnvironmentProblem, ModelbuildError
from modelbuild.labels import Label
from modelbuild.loading.package import Target
from modelbuild.loading.patterns import expand_patterns
from modelbuild.query.opened import open_analyzer
from modelbuild.workspace import Workspace, load_workspace


@dataclass(frozen=True, slots=True)
class Touched:
    """A target that a change touches, and whether the base had it at all."""

    label: str
    rule: str
    new: bool


@dataclass(frozen=True, slots=True)
class Affected:
    """The answer. `everything` says why all targets are touched, '' where each was compared."""

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
    """Compare the working tree with a revision (see git.find_change). No target of the patterns whose actions, or whose
    files, can come out differently is left out.

    Raises UsageError for git, LoadingError for what is wrong in the working tree; what is wrong at the base only makes
    targets count as touched.
    """
    change = find_change(workspace.root, since, exact)
    if only_contents(change):
        quick = _in_child(lambda: _by_contents(workspace, patterns, current, devices, change))["touched"]
        if quick is not None:
            return Affected(change.base, tuple(Touched(label, rule, new=False) for label, rule in quick), ())
    old_versions, new_versions = compare_locks(*_locks(change))
    with tempfile.TemporaryDirectory(prefix="modelbuild-") as folder:
        root = lay_out(change, Path(folder))
        before = _in_child(lambda: _base(root, devices, change.same, old_versions))
    analyzer = open_analyzer(workspace)
    targets = expand_patterns(analyzer.loader, patterns, current)
    configured = [analyzer.analyze(target.label, device) for device in devices or (None,) for target in targets]
    after = signatures(analyzer, configured, change.same, new_versions)
    everything = _changed_engine(analyzer, change)
    touched: dict[str, Touched] = {}
    for each in configured:
        node, label = str(each.node), str(each.node.label)
        old = before["signatures"].get(node)
        if everything or node not in after or old != after[node].text:
            touched.setdefault(label, Touched(label, each.rule, label not in before["labels"]))
    return Affected(change.base, tuple(touched.values()), _deleted(before["labels"], analyzer), everything)


def _by_contents(
    workspace: Workspace, patterns: Sequence[str], current: str, devices: Sequence[Label], change: Change
) -> dict[str, Any]:
    """The label and rule of each target touched; None where both revisions have to be compared, which also says what
    is wrong."""
    try:
        analyzer = open_analyzer(workspace)
        targets = expand_patterns(analyzer.loader, patterns, current)
        if _changed_engine(analyzer, change):
            return {"touched": None}
        touched = touched_by_contents(analyzer, change, targets, devices)
    except ModelbuildError:
        return {"touched": None}
    return {"touched": touched and [[str(target.label), target.rule] for target in touched]}


def _base(root: Path, devices: Sequence[Label], same: Callable[[str], bool], versions: Versions) -> dict[str, Any]:
    """Signatures by node and all labels of the base revision, as far as it can be loaded."""
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
                except (ModelbuildError, ValueError):  # ValueError: analysed before, and failed half way
                    continue
    signed = signatures(analyzer, configured, same, versions)
    return {"labels": labels, "signatures": {node: signature.text for node, signature in signed.items()}}


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
    """Lock files at the root of the workspace and of the repository, as they were and as they are."""
    paths = dict.fromkeys(prefix + name for prefix in ("", change.prefix) for name in LOCKS)
    moved = [path for path in paths if path in change.changed]
    now = {path: change.top / path for path in moved}
    return (
        {path: show(change, path) for path in moved},
        {path: file.read_text(errors="replace") if file.is_file() else None for path, file in now.items()},
    )


def _changed_engine(analyzer: Analyzer, change: Change) -> str:
    """Whether modelbuild itself, or a rule package that is imported by name, lies in the repository and was changed."""
    folders = {"modelbuild": Path(modelbuild.__file__).parent}
    by_folder = {name for name in analyzer.loader.workspace.config.rules if name.startswith("//")}
    own = {analyzer.loader.workspace.root / name.removeprefix("//") for name in by_folder}
    folders.update((n, folder) for n, folder in analyzer.rules.packages.items() if folder not in own)
    for name, folder in folders.items():
        real = Path(os.path.realpath(folder))
        top = Path(os.path.realpath(change.top))
        if real.is_relative_to(top):
            below = f"{real.relative_to(top).as_posix()}/"
            if any(path.startswith(below) for path in change.changed):
                return f"{name}, which makes every target, was changed"
    return ""


def _in_child(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run in a forked process, so that the base's rule packages are not mixed up with ours."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reader)
            with os.fdopen(writer, "w") as pipe:
                json.dump(work(), pipe)
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    if os.waitpid(child, 0)[1] != 0:
        raise EnvironmentProblem("a revision could not be analysed: its process ended early")
    found: dict[str, Any] = json.loads(text)
    return found
