"""The request and the result of a build."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from modelbuild.durations import parse_duration
from modelbuild.errors import ExitCode, UsageError, did_you_mean
from modelbuild.labels import Label
from modelbuild.workspace.remote_address import GRPC, parse_address
from modelbuild.workspace.remote_settings import NO_REMOTE, RemoteSettings
from modelbuild.workspace.remote_strategy import parse_strategy
from modelbuild.workspace.workspace import Config, FlagValue, Workspace


@dataclass(frozen=True, slots=True)
class Flags:
    """Flags of the command line that a profile may set too. None, or no device: not given."""

    devices: tuple[str, ...] = ()
    jobs: int | None = None
    keep_going: bool | None = None
    action_timeout: str | None = None
    sandbox_debug: bool | None = None
    quiet: bool | None = None
    json: bool | None = None
    profile: str | None = None
    remote_cache: str | None = None
    remote_upload: str | None = None
    remote_download: str | None = None
    remote_executor: str | None = None
    strategies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """The targets to build, and options: the command line overrides the profile, which overrides MODELBUILD.toml.

    package   the package that relative patterns start from
    patterns  target patterns as typed
    devices   device targets to build for, each separately; none leaves the choice to the targets and the workspace
    remote    the remote cache and workers
    action_timeout  seconds that an action may run; None: no limit
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


def make_request(workspace: Workspace, directory: Path, patterns: tuple[str, ...], flags: Flags) -> Request:
    """Return the request for flags. Raises UsageError for an unknown profile, a device that is not a label, a malformed
    address, and a malformed duration."""
    config = workspace.config
    if flags.profile is not None and flags.profile not in config.profiles:
        hint = did_you_mean(flags.profile, config.profiles)
        raise UsageError(f"no [profile.{flags.profile}] in MODELBUILD.toml{hint}")
    profile = config.profiles.get(flags.profile or "", {})
    package = workspace.package_of(directory)

    def flag(name: str, default: bool = False) -> bool:
        given = getattr(flags, name)
        return bool(profile.get(name, default) if given is None else given)

    devices = tuple(Label.parse(text, package) for text in flags.devices) or profile.get("device", ())
    jobs = flags.jobs or profile.get("jobs") or config.jobs or len(os.sched_getaffinity(0))
    assert isinstance(devices, tuple)
    return Request(
        package,
        patterns,
        tuple(dict.fromkeys(devices)),
        jobs if isinstance(jobs, int) else 1,
        flag("keep_going", config.keep_going),
        flag("sandbox_debug"),
        flag("quiet"),
        flag("json"),
        remote_settings(config.remote, profile, flags),
        action_timeout=_action_timeout(config, profile, flags),
    )


def _action_timeout(config: Config, profile: Mapping[str, FlagValue], flags: Flags) -> float | None:
    if flags.action_timeout is not None:
        try:
            return parse_duration(flags.action_timeout)
        except ValueError as error:
            raise UsageError(f"--action-timeout: {error}") from None
    chosen = profile.get("action_timeout", config.action_timeout)
    return chosen if isinstance(chosen, float) else None


def remote_settings(file: RemoteSettings, profile: Mapping[str, FlagValue], flags: Flags) -> RemoteSettings:
    """Return the settings of remotes from MODELBUILD.toml, a profile and the command line."""
    changes: dict[str, Any] = {key: profile.get(f"remote_{key}") for key in ("cache", "upload", "download")}
    if flags.remote_cache is not None:
        changes["cache"] = parse_address(flags.remote_cache) if flags.remote_cache else None
    elif changes["cache"] is None:
        del changes["cache"]
    changes |= {"upload": flags.remote_upload or changes["upload"] or file.upload}
    changes |= {"download": flags.remote_download or changes["download"] or file.download}
    changes |= {"strategy": (*file.strategy, *map(parse_strategy, flags.strategies))}
    if flags.remote_executor is not None:
        changes["executor"] = parse_address(flags.remote_executor, GRPC) if flags.remote_executor else None
    return replace(file, **changes)


@dataclass(frozen=True, slots=True)
class ExpectedTarget:
    """The facts about a target that are known before the build: its files' names, and the names of its inputs when it
    is run. None is unknown."""

    label: str
    files: tuple[str, ...] | None
    inputs: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class BuiltTarget:
    """A requested target and its outputs, relative to the workspace."""

    label: str
    config: str
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a build. `actions` is the number of actions that the outputs depend on."""

    targets: tuple[BuiltTarget, ...]
    code: ExitCode = ExitCode.OK
    actions: int = 0
    up_to_date: bool = False
