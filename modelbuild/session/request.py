"""The request of a build: targets, options for building them, and output."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelbuild.actions import INSTALLED
from modelbuild.device_runners import DeviceRunner, parse_runner
from modelbuild.durations import parse_duration
from modelbuild.errors import UsageError
from modelbuild.labels import Label
from modelbuild.workspace.flags import DEFAULT_GROUP
from modelbuild.workspace.remote_address import GRPC, parse_address
from modelbuild.workspace.remote_settings import NO_REMOTE, RemoteSettings
from modelbuild.workspace.remote_strategy import parse_strategy
from modelbuild.workspace.workspace import Workspace

if TYPE_CHECKING:
    from modelbuild.analysis.toolchains import Toolchains


@dataclass(frozen=True, slots=True)
class Flags:
    """Values of BUILD_FLAGS, from the command line or a profile. None, or an empty tuple: not given."""

    devices: tuple[str, ...] = ()
    runners: tuple[str, ...] = ()
    toolchain: str | None = None
    jobs: int | None = None
    keep_going: bool | None = None
    action_timeout: str | None = None
    sandbox_debug: bool | None = None
    verify_sources: bool | None = None
    show_outputs: str | None = None
    quiet: bool | None = None
    json: bool | None = None
    remote_cache: str | None = None
    remote_upload: str | None = None
    remote_download: str | None = None
    remote_executor: str | None = None
    remote_jobs: int | None = None
    strategies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Targets:
    """The targets to build.

    package   the package that relative patterns start from
    patterns  target patterns as typed
    devices   device targets to build for, each separately; none leaves the choice to the targets and the workspace
    places    the place of each pattern in a file, as `file:line`; () for patterns of a command line
    groups    names of the output groups to build; `default` is the group of the targets' files
    """

    package: str
    patterns: tuple[str, ...]
    devices: tuple[Label, ...] = ()
    places: tuple[str, ...] = ()
    groups: tuple[str, ...] = (DEFAULT_GROUP,)


@dataclass(frozen=True, slots=True)
class Means:
    """How to build the targets.

    remote          the remote cache and workers
    runners         ways to reach devices, instead of the declared ways
    action_timeout  seconds that an action may run; None: no limit
    toolchain       the toolchain that steps run in; None: the Python that modelbuild runs in
    for_all         whether it is also the toolchain of targets that name a toolchain
    verify_sources  whether all sources are read, even if their times did not change
    """

    jobs: int = 1
    keep_going: bool = False
    sandbox_debug: bool = False
    action_timeout: float | None = None
    remote: RemoteSettings = NO_REMOTE
    runners: tuple[tuple[Label, DeviceRunner], ...] = ()
    toolchain: Label | None = None
    for_all: bool = False
    verify_sources: bool = False

    def toolchains(self) -> Toolchains:
        """Return the toolchains of targets, before any target is analysed."""
        # A build with nothing to do does not need this.
        from modelbuild.analysis.toolchains import Toolchains

        return Toolchains(self.toolchain, self.for_all)


@dataclass(frozen=True, slots=True)
class Display:
    """The output of a command. `outputs`, one of flags.SHOWN_OUTPUTS, selects the built targets to list."""

    quiet: bool = False
    json: bool = False
    outputs: str = "summary"

    @property
    def only_results(self) -> bool:
        """Return whether nothing is printed about the work itself."""
        return self.quiet or self.json


@dataclass(frozen=True, slots=True)
class Request:
    """The request of a command that builds: flags override MODELBUILD.toml."""

    targets: Targets
    means: Means
    display: Display = field(default_factory=Display)

    def of(self, patterns: Iterable[str]) -> Request:
        """Return the request with other targets."""
        return replace(self, targets=replace(self.targets, patterns=tuple(patterns), places=()))

    def of_groups(self, groups: Iterable[str]) -> Request:
        """Return the request with other output groups."""
        return replace(self, targets=replace(self.targets, groups=tuple(groups)))

    def keeping_going(self) -> Request:
        """Return the request with --keep-going."""
        return replace(self, means=replace(self.means, keep_going=True))

    def with_remote(self, remote: RemoteSettings) -> Request:
        """Return the request with other remotes."""
        return replace(self, means=replace(self.means, remote=remote))

    def with_outputs_here(self) -> Request:
        """Return the request, with the targets' outputs on this machine."""
        remote = self.means.remote
        return self.with_remote(replace(remote, download="toplevel")) if remote.leaves_outputs else self

    def identity(self) -> list[object]:
        """Return the values that decide which outputs are laid out, as JSON values."""
        targets, means = self.targets, self.means
        devices = [str(device) for device in targets.devices]
        toolchain = str(means.toolchain or "")
        what = [targets.package, targets.patterns, devices, targets.groups]
        return [*what, toolchain, means.for_all, means.remote.leaves_outputs]


def make_request(
    workspace: Workspace,
    directory: Path,
    patterns: tuple[str, ...],
    flags: Flags,
    places: tuple[str, ...] = (),
) -> Request:
    """Return the request for flags. Raises UsageError for a device or toolchain that is not a label, a malformed
    address, and a malformed duration."""
    config = workspace.config
    package = workspace.package_of(directory)
    devices = tuple(dict.fromkeys(Label.parse(text, package) for text in flags.devices))
    return Request(
        Targets(package, patterns, devices, places),
        Means(
            flags.jobs or config.jobs or len(os.sched_getaffinity(0)),
            config.keep_going if flags.keep_going is None else flags.keep_going,
            bool(flags.sandbox_debug),
            config.action_timeout if flags.action_timeout is None else _seconds(flags.action_timeout),
            remote_settings(config.remote, flags),
            parse_runners(flags.runners, package),
            _toolchain(workspace, package, flags.toolchain),
            flags.toolchain is not None,
            bool(flags.verify_sources),
        ),
        Display(bool(flags.quiet), bool(flags.json), flags.show_outputs or "summary"),
    )


def _toolchain(workspace: Workspace, package: str, text: str | None) -> Label | None:
    if text is None:
        return workspace.config.toolchain
    return None if text == INSTALLED else Label.parse_toolchain(text, package)


def parse_runners(texts: tuple[str, ...], package: str) -> tuple[tuple[Label, DeviceRunner], ...]:
    """Return the values of --runner, each a device's label and a runner. Raises UsageError for malformed values."""
    pairs = [parse_runner(text) for text in dict.fromkeys(texts)]
    return tuple((Label.parse(label, package), runner) for label, runner in pairs)


def _seconds(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--action-timeout: {error}") from None


def remote_settings(file: RemoteSettings, flags: Flags) -> RemoteSettings:
    """Return the settings of remotes from MODELBUILD.toml and flags."""
    changes: dict[str, Any] = {"strategy": (*file.strategy, *map(parse_strategy, flags.strategies))}
    changes |= {"upload": flags.remote_upload or file.upload, "download": flags.remote_download or file.download}
    changes["jobs"] = flags.remote_jobs or file.jobs
    if flags.remote_cache is not None:
        changes["cache"] = parse_address(flags.remote_cache) if flags.remote_cache else None
    if flags.remote_executor is not None:
        changes["executor"] = parse_address(flags.remote_executor, GRPC) if flags.remote_executor else None
    return replace(file, **changes)
