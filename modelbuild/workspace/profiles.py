"""The tables [profile.NAME] of MODELBUILD.toml: flags for `--config NAME`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from modelbuild.actions import INSTALLED
from modelbuild.device_runners import parse_runner
from modelbuild.errors import UsageError
from modelbuild.labels import Label
from modelbuild.workspace.flags import FLAGS, Flag, FlagValue
from modelbuild.workspace.remote_address import GRPC, SCHEMES, parse_address
from modelbuild.workspace.remote_strategy import parse_strategy
from modelbuild.workspace.remote_table import read_choice
from modelbuild.workspace.toml_table import Table


def read_profiles(profiles: Table, root: Path) -> dict[str, Mapping[str, FlagValue]]:
    """Return the flags that each profile sets, by the names of their arguments (see flags.Flag), with the values that
    the command line would give. Labels and paths are relative to the workspace. Raises LoadingError, located."""
    return {name: _profile(profiles.table(name), root) for name in profiles.values}


def _profile(profile: Table | None, root: Path) -> dict[str, FlagValue]:
    assert profile is not None
    found = {flag.argument: _value(profile, flag, root) for flag in FLAGS}
    profile.finish()
    return {argument: value for argument, value in found.items() if value is not None}


def _value(profile: Table, flag: Flag, root: Path) -> FlagValue | None:
    key = flag.key
    match flag.kind:
        case "switch":
            return profile.boolean(key)
        case "count":
            return profile.count(key, flag.most)
        case "choice":
            return read_choice(profile, key, flag.choices)
        case "duration":
            return None if profile.duration(key) is None else str(profile.values[key])
        case "file" | "input":
            path = profile.line(key, "a path")
            return None if path is None else os.path.abspath(os.path.join(root, os.path.expanduser(path)))
    several = flag.repeated and isinstance(profile.get(key), list)
    texts = profile.strings(key) if several else profile.text(key, _EXPECTED[flag.kind])
    if texts is None:
        return None
    if isinstance(texts, str):
        value = _checked(profile, flag, texts, key)
        return (value,) if flag.repeated else value
    return tuple(_checked(profile, flag, text, key, index) for index, text in enumerate(texts))


_EXPECTED = {
    "label": "a label",
    "toolchain": f"a label, or '{INSTALLED}'",
    "address": "an address",
    "strategy": "a kind of action and places, as in 'compile=remote,local'",
    "runner": "a device and an address, as in '//:orin=ssh://user@host'",
    "text": "a string",
}


def _checked(profile: Table, flag: Flag, text: str, *path: str | int) -> str:
    """Return the text if the command line accepts it."""
    try:
        if flag.kind == "label":
            return str(Label.parse(text))
        if flag.kind == "toolchain" and text != INSTALLED:
            return str(Label.parse_toolchain(text))
        if flag.kind == "runner":
            Label.parse(parse_runner(text)[0])
        if flag.kind == "strategy":
            parse_strategy(text)
        if flag.kind == "address" and text:  # an empty address disables it
            parse_address(text, GRPC if flag.key == "remote_executor" else SCHEMES)
    except UsageError as error:
        raise profile.error(f"'{flag.key}': {error}", *path) from None
    return text
