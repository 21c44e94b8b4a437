"""Open a workspace for queries: rules and packages, nothing built."""

from __future__ import annotations

from modelbuild.analysis.analyze import Analyzer
from modelbuild.analysis.rules import load_rules
from modelbuild.loading.loader import Loader
from modelbuild.workspace.workspace import Workspace


def open_analyzer(workspace: Workspace, test_filter: str = "") -> Analyzer:
    """Return an analyzer. Raises LoadingError for a rule package that does not load."""
    rules = load_rules(workspace.root, workspace.config.rules, workspace.rule_locations())
    return Analyzer(Loader(workspace, rules.by_name), rules, workspace.config.default_device, test_filter)
