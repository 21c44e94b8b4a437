"""A workspace: the folder with MODELBUILD.toml, and the settings in that file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelbuild import sizes
from modelbuild.errors import EnvironmentProblem, Location, UsageError
from modelbuild.labels import Label
from modelbuild.workspace.flags import MOST_JOBS
from modelbuild.workspace.remote_settings import RemoteSettings
from modelbuild.workspace.remote_table import read_settings
from modelbuild.workspace.toml_document import Document, Stamp, read_document, show
from modelbuild.workspace.toml_table import Table

if TYPE_CHECKING:
    from modelbuild.workspace.flags import FlagValue

WORKSPACE_FILE = "MODELBUILD.toml"
# The rule package of every workspace.
BUILT_IN = "modelbuild_rules"
# Its module with the files of new workspaces.
STARTER = f"{BUILT_IN}.starter"
# Steps of every rule package may import this in addition to their own package; it counts as part of their source.
LIBRARY = "modelbuild_runtime"
OUTPUT_FOLDER = "modelbuild-out"
CACHE_VARIABLE = "MODELBUILD_CACHE_DIR"
DEFAULT_CACHE_SIZE = 20 << 30

_RULE_PACKAGE = re.compile(r"//[\w+@-][\w.+@-]*(/[\w+@-][\w.+@-]*)*\Z|[^\W\d]\w*(\.[^\W\d]\w*)*\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Config:
    """The settings in MODELBUILD.toml.

    rules           rule packages in addition to the built-in package: import names, or folders such as `//tools/rules`
    default_device  the device of a target when neither the command line nor the target names a device
    toolchain       the toolchain that steps run in; None: the Python that modelbuild runs in
    jobs            number of actions that may run at once; None: decided by the machine
    action_timeout  seconds that an action may run; None: no limit
    cache_dir       absolute; MODELBUILD_CACHE_DIR overrides the file, which overrides ~/.cache/modelbuild
    cache_size      bytes above which the least recently used results are deleted
    remote          the remote cache and workers
    profiles        values of flags by profile and argument (see profiles.py)
    """

    rules: tuple[str, ...]
    default_device: Label | None
    toolchain: Label | None
    jobs: int | None
    keep_going: bool
    action_timeout: float | None
    cache_dir: Path
    cache_size: int
    remote: RemoteSettings
    profiles: Mapping[str, Mapping[str, FlagValue]]


@dataclass(frozen=True, slots=True)
class Workspace:
    """An open workspace. `root` is absolute; `document` and `stamp` describe MODELBUILD.toml when it was read."""

    root: Path
    config: Config
    document: Document
    stamp: Stamp

    def package_of(self, folder: Path) -> str:
        """Return the package that relative patterns refer to in a folder: its path below the root, '' at the root or
        outside."""
        below = os.path.relpath(os.path.realpath(folder), os.path.realpath(self.root))
        return "" if below == "." or below.split(os.sep)[0] == ".." else below

    def rule_locations(self) -> Mapping[str, Location]:
        """Return the location of each rule package in MODELBUILD.toml."""
        return {name: self.document.location(("rules", index)) for index, name in enumerate(self.config.rules)}


def find_root(folder: Path) -> Path:
    """Return the nearest folder, from this one upwards, that contains MODELBUILD.toml. Raises UsageError if there is
    none."""
    start = Path(os.path.abspath(folder))
    if not start.is_dir():
        raise UsageError(f"no folder {str(folder)!r}")
    for candidate in (start, *start.parents):
        if (candidate / WORKSPACE_FILE).is_file():
            return candidate
    raise UsageError(f"no {WORKSPACE_FILE} in {start} or a folder above it; expected one at the root of the workspace")


def load_workspace(root: Path, environ: Mapping[str, str] = os.environ) -> Workspace:
    """Read the MODELBUILD.toml of `root`. Raises LoadingError, located, for any error in it."""
    return _workspace(root, *read_document(root, WORKSPACE_FILE), environ)


def default_workspace(root: Path, environ: Mapping[str, str] = os.environ) -> Workspace:
    """Return a workspace with an empty MODELBUILD.toml, for commands that also work outside of one."""
    return _workspace(root, Document(WORKSPACE_FILE, ""), {}, Stamp(0, 0, 0), environ)


def _workspace(
    root: Path, document: Document, values: Mapping[str, Any], stamp: Stamp, environ: Mapping[str, str]
) -> Workspace:
    top = Table(document, (), values)
    rules = _rules(top)
    build = top.table("build") or Table(document, ("build",), {})
    cache = top.table("cache") or Table(document, ("cache",), {})
    remote = top.table("remote") or Table(document, ("remote",), {})
    config = Config(
        rules=rules,
        default_device=_label(build, "default_device"),
        toolchain=_label(build, "toolchain", Label.parse_toolchain),
        jobs=build.count("jobs", MOST_JOBS),
        keep_going=build.boolean("keep_going") or False,
        action_timeout=build.duration("action_timeout"),
        cache_dir=_cache_dir(root, cache, environ),
        cache_size=_size(cache, "max_size", DEFAULT_CACHE_SIZE),
        remote=read_settings(remote, root),
        profiles=_profiles(top, root),
    )
    for table in (top, build, cache):
        table.finish((top, build, cache))
    return Workspace(root, config, document, stamp)


def _rules(top: Table) -> tuple[str, ...]:
    rules = top.strings("rules") or ()
    for index, name in enumerate(rules):
        if not _RULE_PACKAGE.match(name):
            expected = "expected a Python package or a folder such as '//tools/rules'"
            raise top.error(f"'rules': {expected}, got {show(name)}", "rules", index)
        if name in rules[:index]:
            raise top.error(f"'rules': {show(name)} is listed twice", "rules", index)
    return rules


def _label(table: Table, key: str, parse: Callable[[str], Label] = Label.parse) -> Label | None:
    value = table.string(key, "a label")
    try:
        return None if value is None else parse(value)
    except UsageError as error:
        raise table.error(f"'{key}': {error}", key) from None


def _profiles(top: Table, root: Path) -> Mapping[str, Mapping[str, FlagValue]]:
    profiles = top.table("profile")
    if profiles is None:
        return {}
    # Builds without profiles do not need this.
    from modelbuild.workspace.profiles import read_profiles

    return read_profiles(profiles, root)


def _cache_dir(root: Path, cache: Table, environ: Mapping[str, str]) -> Path:
    written = cache.line("dir", "a path")
    chosen = environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(os.path.abspath(os.path.expanduser(chosen)))
    if written is None:
        shared = environ.get("XDG_CACHE_HOME", "")
        written = os.path.join(shared if os.path.isabs(shared) else "~/.cache", "modelbuild")
    path = os.path.expanduser(written)
    if path.startswith("~"):
        raise EnvironmentProblem(f"no home folder for the cache {written!r}; set {CACHE_VARIABLE}")
    return Path(os.path.abspath(os.path.join(root, path)))


def _size(table: Table, key: str, default: int) -> int:
    value = table.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise table.wrong(key, sizes.EXPECTED)
    try:
        return sizes.parse_size(value)
    except ValueError as error:
        raise table.error(f"'{key}': {error}", key) from None
