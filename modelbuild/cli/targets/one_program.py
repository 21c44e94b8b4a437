"""Build targets for a command that uses their outputs itself, and find the single file of each."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modelbuild.actions import INSTALLED
from modelbuild.errors import UsageError, did_you_mean
from modelbuild.labels import Label
from modelbuild.loading.patterns import parse_pattern
from modelbuild.report import make_reporter
from modelbuild.report.reporter_scope import reporting
from modelbuild.session.build import build
from modelbuild.session.request import make_request

if TYPE_CHECKING:
    from modelbuild.session.request import Flags, Request
    from modelbuild.session.result import ExpectedTarget, Result
    from modelbuild.workspace.workspace import Workspace


def build_here(
    workspace: Workspace,
    folder: Path,
    wanted: Sequence[tuple[Label, str]],
    flags: Flags,
    inputs: Iterable[str] | None = None,
    method: str | None = None,
) -> tuple[Request, Result]:
    """Build targets, for one device at most, with their outputs on this machine. Prints only to stderr.

    wanted  labels, and the suffix of the single file that each must provide
    inputs  names of inputs for a method of the first program; None if it is not run
    method  the method's name; None for the only method, or `forward`

    Raises UsageError for a target without that file, method or input, if that is known before the build.
    """

    patterns = tuple(dict.fromkeys(str(label) for label, _ in wanted))
    request = make_request(workspace, folder, patterns, flags).with_outputs_here()
    if len(request.targets.devices) > 1:
        raise UsageError(f"expected one device for a program, got {len(request.targets.devices)}")

    def check(targets: Iterable[ExpectedTarget]) -> None:
        known = {target.label: target for target in targets}
        for label, suffix in wanted:
            files = known[str(label)].files
            if files is not None:
                _only(label, files, suffix)
        takes = None if inputs is None else _inputs(wanted[0][0], known[str(wanted[0][0])].inputs, method)
        for name in inputs or ():
            if takes is not None and name not in takes:
                raise UsageError(f"no input '{name}'; inputs: {', '.join(takes)}{did_you_mean(name, takes)}")

    with reporting(make_reporter(quiet=request.display.only_results, results=sys.stderr)) as reporter:
        return request, build(workspace, request, reporter, check)


def _inputs(label: Label, methods: Mapping[str, tuple[str, ...] | None], method: str | None) -> tuple[str, ...] | None:
    """Return the names of a method's inputs, None if they are unknown. Raises UsageError for an unknown method, and for
    None if several methods have other names than `forward`."""

    name = next(iter(methods)) if method is None and len(methods) == 1 else method or "forward"
    if not methods or name in methods:
        return methods.get(name)
    if method is None:
        raise UsageError(f"{label} has several methods; expected --method with one of: {', '.join(methods)}")
    raise UsageError(f"no method '{method}'; methods: {', '.join(methods)}{did_you_mean(method, methods)}")


def label_of(text: str, package: str) -> Label:
    """Return the label of one target. Raises UsageError for a pattern that matches several targets."""

    pattern = parse_pattern(text, package)
    if pattern.name is None or pattern.subtract:
        raise UsageError(f"'{text}' matches several targets; expected the label of one, such as //package:name")
    return Label(pattern.package, pattern.name)


def only_file(built: Result, label: Label, suffix: str = "") -> str:
    """Return the only output of a target (with this suffix), relative to the workspace."""
    return _only(label, next(target.outputs for target in built.targets if target.label == str(label)), suffix)


def toolchain_of(built: Result, label: Label) -> Label | None:
    """Return the toolchain that a target was built in; None for the Python that modelbuild runs in."""

    name = next(target.toolchain for target in built.targets if target.label == str(label))
    return None if name == INSTALLED else Label.parse_toolchain(name)


def _only(label: Label, outputs: Sequence[str], suffix: str) -> str:

    found = [path for path in outputs if path.endswith(suffix)]
    if len(found) == 1:
        return found[0]
    given = ", ".join(path.rpartition("/")[2] for path in outputs) or "no file"
    raise UsageError(f"{label}: expected a target with one {suffix or 'file'}, but it has {given}")
