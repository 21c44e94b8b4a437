"""Open a workspace: rules and packages, nothing built except toolchains."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from modelbuild.actions import INSTALLED
from modelbuild.analysis.analyze import Analyzer
from modelbuild.analysis.make_toolchain import make_toolchain
from modelbuild.analysis.rules import load_rules
from modelbuild.analysis.toolchains import Toolchains
from modelbuild.labels import Label
from modelbuild.loading.loader import Loader
from modelbuild.workspace.workspace import Workspace


def open_analyzer(workspace: Workspace, test_filter: str = "", toolchains: Toolchains | None = None) -> Analyzer:
    """Return an analyzer that makes no toolchain: keys are computed for the Python that modelbuild runs in. Raises
    LoadingError for a rule package that does not load.

    toolchains  by default the workspace's toolchains
    """
    rules = load_rules(workspace.root, workspace.config.rules, workspace.rule_locations())
    loader = Loader(workspace, rules.by_name)
    return Analyzer(loader, rules, workspace.config.default_device, test_filter, toolchains)


def open_to_build(
    workspace: Workspace,
    test_filter: str = "",
    toolchains: Toolchains | None = None,
    say: Callable[[str], object] = lambda text: None,
) -> Analyzer:
    """Return an analyzer whose actions run in their toolchains, which decide their keys. Raises as open_analyzer() and
    make_toolchain() do.

    say  called with lines about the progress of making toolchains
    """
    analyzer = open_analyzer(workspace, test_filter, toolchains)
    base = analyzer.toolchains.base
    if base != INSTALLED:
        analyzer.base_toolchain(Label.parse_toolchain(base))
    analyzer.toolchains.start(partial(make_toolchain, analyzer, say=say))
    return analyzer
