"""The request and the result of a build."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelbuild.device_runners import DeviceRunner, parse_runner
from modelbuild.durations import parse_duration
from modelbuild.errors import ExitCode, UsageError
from modelbuild.labels import Label
from modelbuild.workspace.flags import INSTALLED
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
    show_outputs: str | None = None
    quiet: bool | None = None
    json: bool | None = None
    remote_cache: str | None = None
    remote_upload: str | None = None
    remote_download: str | None = None
    remote_executor: str | None = None
    strategies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """The targets to build, and options: flags override MODELBUILD.toml.

    package   the package that relative patterns start from
    patterns  target patterns as typed
    places    the place of each pattern in a file, as `file:line`; () for those of a command line
    devices   device targets to build for, each separately; none leaves the choice to the targets and the workspace
    remote    the remote cache and workers
    runners   ways to reach devices, in place of those that are declared
    action_timeout  seconds that an action may run; None: no limit
    toolchain the toolchain that steps run in; None: the Python that modelbuild runs in
    for_all   it is also that of targets that name one
    show_outputs    which built targets are listed: one of flags.SHOWN_OUTPUTS
    purpose   distinguishes requests for the same targets: '' to build them
    """

    package: str
    patterns: tuple[str, ...]
    devices: tuple[Label, ...] = ()
    jobs: int = 1
    keep_going: bool = False
    sandbox_debug: bool = False
    quiet: bool = False
    json: bool = False
    remote: RemoteSettings = NO_REMOTE
    purpose: str = ""
    action_timeout: float | None = None
    show_outputs: str = "summary"
    places: tuple[str, ...] = ()
    runners: tuple[tuple[Label, DeviceRunner], ...] = ()
    toolchain: Label | None = None
    for_all: bool = False

    def toolchains(self) -> Toolchains:
        """Return the toolchains of targets, before any is analysed."""
        # A build that finds nothing to do does not need this.
        from modelbuild.analysis.toolchains import Toolchains

        return Toolchains(self.toolchain, self.for_all)


def make_request(workspace: Workspace, directory: Path, patterns: tuple[str, ...], flags: Flags) -> Request:
    """Return the request for flags. Raises UsageError for a device or toolchain that is not a label, a malformed
    address, and a malformed duration."""
    config = workspace.config
    package = workspace.package_of(directory)
    return Request(
        package,
        patterns,
        tuple(dict.fromkeys(Label.parse(text, package) for text in flags.devices)),
        flags.jobs or config.jobs or len(os.sched_getaffinity(0)),
        config.keep_going if flags.keep_going is None else flags.keep_going,
        bool(flags.sandbox_debug),
        bool(flags.quiet),
        bool(flags.json),
        remote_settings(config.remote, flags),
        action_timeout=config.action_timeout if flags.action_timeout is None else _seconds(flags.action_timeout),
        show_outputs=flags.show_outputs or "summary",
        runners=parse_runners(flags.runners, package),
        toolchain=_toolchain(workspace, package, flags.toolchain),
        for_all=flags.toolchain is not None,
    )


def _toolchain(workspace: Workspace, package: str, text: str | None) -> Label | None:
    if text is None:
        return workspace.config.toolchain
    return None if text == INSTALLED else Label.parse_toolchain(text, package)


def parse_runners(texts: tuple[str, ...], package: str) -> tuple[tuple[Label, DeviceRunner], ...]:
    """Return the values of --runner, each a device's label and a runner. Raises UsageError for malformed ones."""
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
    if flags.remote_cache is not None:
        changes["cache"] = parse_address(flags.remote_cache) if flags.remote_cache else None
    if flags.remote_executor is not None:
        changes["executor"] = parse_address(flags.remote_executor, GRPC) if flags.remote_executor else None
    return replace(file, **changes)


@dataclass(frozen=True, slots=True)
class ExpectedTarget:
    """The facts about a target that are known before the build: its files' names, and the names of the inputs of each
    method when it is run. None is unknown."""

    label: str
    files: tuple[str, ...] | None
    inputs: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BuiltTarget:
    """A requested target, its outputs, relative to the workspace, and the name of its toolchain ('' for a test)."""

    label: str
    config: str
    outputs: tuple[str, ...]
    toolchain: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a build. `actions` is the number of actions that the outputs depend on."""

    targets: tuple[BuiltTarget, ...]
    code: ExitCode = ExitCode.OK
    actions: int = 0
    up_to_date: bool = False
