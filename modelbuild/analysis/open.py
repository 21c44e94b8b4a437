"""Open a workspace: rules and packages, nothing built except a toolchain."""

from __future__ import annotations

from collections.abc import Callable

from modelbuild.analysis.analyze import Analyzer
from modelbuild.analysis.rules import load_rules
from modelbuild.labels import Label
from modelbuild.loading.loader import Loader
from modelbuild.workspace.workspace import Workspace


def open_analyzer(
    workspace: Workspace,
    test_filter: str = "",
    toolchain: Label | None = None,
    say: Callable[[str], object] = lambda text: None,
) -> Analyzer:
    """Return an analyzer. Raises LoadingError for a rule package that does not load, and what use_toolchain() does.

    toolchain  the toolchain that actions run in, which decides their keys; None: the Python that modelbuild runs in
    say        called with lines about the making of the toolchain
    """
    rules = load_rules(workspace.root, workspace.config.rules, workspace.rule_locations())
    analyzer = Analyzer(Loader(workspace, rules.by_name), rules, workspace.config.default_device, test_filter)
    if toolchain is not None:
        from modelbuild.analysis.use_toolchain import use_toolchain

        use_toolchain(analyzer, toolchain, say)
    return analyzer
