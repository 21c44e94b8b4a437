"""The toolchain of a revision: if it differs, all targets are affected."""

from __future__ import annotations

from functools import partial

from modelbuild.analysis.analyze import Analyzer
from modelbuild.errors import ModelbuildError
from modelbuild.toolchain.lock_file import read_lock


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
