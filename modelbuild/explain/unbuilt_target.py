"""Check a target without any known build."""

from __future__ import annotations

from modelbuild.analysis.open import open_analyzer
from modelbuild.errors import UsageError
from modelbuild.labels import Label
from modelbuild.workspace.workspace import Workspace


def check_there(workspace: Workspace, label: Label, acts: bool = False) -> None:
    """Raise UsageError, with the nearest name, for an unknown target; with `acts` also for a target without actions.
    Raises LoadingError when the workspace does not load."""
    analyzer = open_analyzer(workspace)
    analyzer.loader.target(label, None)
    if acts:
        target = analyzer.analyze(label)
        if not any(node.owner == target.id for node in analyzer.graph.nodes.values()):
            raise UsageError(f"{label}: a {target.rule} without actions of its own; there is nothing to explain")
