"""Find the devices that a command names, or all of a workspace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from modelbuild.analysis.open import open_analyzer
from modelbuild.api.providers import Platform
from modelbuild.cli.targets.one_program import label_of
from modelbuild.errors import UsageError, did_you_mean
from modelbuild.loading.patterns import expand_patterns

if TYPE_CHECKING:
    from modelbuild.device_runners import DeviceSpec
    from modelbuild.labels import Label
    from modelbuild.workspace.workspace import Workspace


def device_specs(
    workspace: Workspace, package: str, labels: Sequence[str], given: Sequence[str] = ()
) -> Iterator[tuple[str, DeviceSpec]]:
    """Yield the devices with these `labels`, or all devices, by label. `given` are the runners of `--runner`. Raises
    UsageError for a label, in `labels` or `given`, of a target that is not a device that runs programs."""

    analyzer = open_analyzer(workspace)
    wanted = [label_of(text, package) for text in labels]
    every = wanted or [target.label for target in expand_patterns(analyzer.loader, ["//..."])]

    def declared(label: Label) -> DeviceSpec | None:
        target = analyzer.analyze(label)
        platform = next((each for each in target.providers if isinstance(each, Platform)), None)
        if wanted and (platform is None or platform.spec is None):
            raise UsageError(f"{label} is a {target.rule}; expected a device that programs can run on")
        return platform.spec if platform is not None else None

    specs = {str(label): spec for label in every if (spec := declared(label)) is not None}
    for name in given:
        if name in specs:
            continue
        if not wanted:
            raise UsageError(f"--runner {name}: no device of this label{did_you_mean(name, specs)}")
        declared(label_of(name, package))
    yield from specs.items()
