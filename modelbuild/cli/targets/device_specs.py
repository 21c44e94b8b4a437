"""Find the devices that a command names, or all of a workspace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from modelbuild.cli.targets.one_program import label_of

if TYPE_CHECKING:
    from modelbuild.device_runners import DeviceSpec
    from modelbuild.workspace.workspace import Workspace


def device_specs(
    workspace: Workspace, package: str, labels: Sequence[str], given: Sequence[str] = ()
) -> Iterator[tuple[str, DeviceSpec]]:
    """Yield devices by label: those of `labels`, or all. Raises UsageError for a label that is no device on which
    programs can run, also among those of `--runner`, which are `given`."""
    from modelbuild.analysis.open import open_analyzer
    from modelbuild.api.providers import Platform
    from modelbuild.errors import UsageError, did_you_mean
    from modelbuild.loading.patterns import expand_patterns

    analyzer = open_analyzer(workspace)
    wanted = [label_of(text, package) for text in labels]
    every = wanted or [target.label for target in expand_patterns(analyzer.loader, ["//..."])]
    specs = {}
    for label in every:
        target = analyzer.analyze(label)
        platform = next((each for each in target.providers if isinstance(each, Platform)), None)
        if platform is not None and platform.spec is not None:
            specs[str(label)] = platform.spec
        elif wanted:
            raise UsageError(f"{label} is a {target.rule}; expected a device that programs can run on")
    for name in given:
        if name not in specs and not wanted:
            raise UsageError(f"--runner {name}: no device of this label{did_you_mean(name, specs)}")
    yield from specs.items()
