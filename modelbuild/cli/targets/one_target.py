"""Documents about one target: its evidence, and the file to write."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from modelbuild.analysis.open import open_analyzer
from modelbuild.cli.targets.one_program import label_of
from modelbuild.errors import EnvironmentProblem, UsageError
from modelbuild.labels import Label
from modelbuild.report import make_reporter
from modelbuild.report.reporter_scope import reporting
from modelbuild.session.request import make_request
from modelbuild.user_files import write_file
from modelbuild.workspace.workspace import Workspace, find_root, load_workspace

if TYPE_CHECKING:
    from modelbuild.session.request import Flags, Request
    from modelbuild.trust.evidence import Evidence
    from modelbuild.trust.signatures import SigningKey
    from modelbuild.workspace.workspace import Workspace


def one_target(folder: Path, target: str, flags: Flags) -> tuple[Workspace, Request]:
    """Return the workspace around a folder, and the request to build one target on this machine. Raises UsageError for
    several targets."""
    workspace = load_workspace(find_root(folder))
    label = label_of(target, workspace.package_of(folder))
    request = make_request(workspace, folder, (str(label),), flags)
    if len(request.targets.devices) > 1:
        raise UsageError(f"expected one device for {label}, got {len(request.targets.devices)}")
    return workspace, request.with_outputs_here()


def evidence_of(folder: Path, target: str, flags: Flags) -> Evidence:
    """Build one target of the workspace around a folder, and return the facts about it. Prints only to stderr."""
    from modelbuild.trust.evidence import gather_evidence

    workspace, request = one_target(folder, target, flags)
    with reporting(make_reporter(quiet=request.display.only_results, results=sys.stderr)) as reporter:
        return gather_evidence(workspace, request, reporter)


@contextmanager
def needing_trust(command: str) -> Iterator[None]:
    """Name the extra with the package that an import lacks."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        message = f"{command} needs the package '{package}', which is not installed; install modelbuild[trust]"
        raise EnvironmentProblem(message) from None


def signing_key(key: Path, certificate: Path | None, chain: tuple[Path, ...]) -> SigningKey:
    """Return a private key and its certificates, with the passphrase of the environment."""
    from modelbuild.trust.signatures import SigningKey

    passphrase = os.environ.get("MODELBUILD_KEY_PASSPHRASE")
    return SigningKey(key, passphrase.encode() if passphrase else None, certificate, chain)


def write_document(text: bytes, path: Path | None) -> None:
    """Write a document to a file, or to stdout. Raises as write_file does."""
    if path is None:
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
        return
    write_file(path, text)


def check_there(workspace: Workspace, label: Label, acts: bool = False) -> None:
    """Raise UsageError, with the nearest name, for an unknown target; with `acts` also for a target without actions.
    Raises LoadingError when the workspace does not load."""
    analyzer = open_analyzer(workspace)
    analyzer.loader.target(label, None)
    if acts:
        target = analyzer.analyze(label)
        if not any(node.owner == target.id for node in analyzer.graph.nodes.values()):
            raise UsageError(f"{label}: a {target.rule} without actions of its own; there is nothing to explain")
