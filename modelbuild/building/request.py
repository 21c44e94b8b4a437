"""What a build is asked for, and what it answers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from modelbuild.errors import ExitCode, UsageError, did_you_mean
from modelbuild.labels import Label
from modelbuild.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Flags:
    """Flags of the command line that a profile may set as well. None, or no device, means: not given."""

    devices: tuple[str, ...] = ()
    jobs: int | None = None
    keep_going: bool | None = None
    sandbox_debug: bool | None = None
    quiet: bool | None = None
    json: bool | None = None
    profile: str | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """What to build and how: the command line before the profile before MODELBUILD.toml.

    package   the package that relative patterns start from
    patterns  target patterns as typed
    devices   device targets to build for, each on its own; none leaves it to the targets and the workspace
    """

    package: str
    patterns: tuple[str, ...]
    devices: tuple[Label, ...] = ()
    jobs: int = 1
    keep_going: bool = False
    sandbox_debug: bool = False
    quiet: bool = False
    json: bool = False


def make_request(workspace: Workspace, directory: Path, patterns: tuple[str, ...], flags: Flags) -> Request:
    """Raises UsageError for a profile that MODELBUILD.toml does not have, and for a device that is no label."""
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
        int(jobs) if not isinstance(jobs, tuple) else 1,
        flag("keep_going", config.keep_going),
        flag("sandbox_debug"),
        flag("quiet"),
        flag("json"),
    )


@dataclass(frozen=True, slots=True)
class BuiltTarget:
    """A target that was asked for and its outputs, relative to the workspace."""

    label: str
    config: str
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """How a build ended. `actions` counts what the outputs stand on."""

    targets: tuple[BuiltTarget, ...]
    code: ExitCode = ExitCode.OK
    actions: int = 0
    up_to_date: bool = False
