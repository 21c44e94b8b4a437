"""Complete commands, labels, profiles and inputs for a shell, without click: a shell calls this at every key press.

The protocol is that of click's scripts (`_MODELBUILD_COMPLETE=bash_source modelbuild` prints one). Options, files and
the scripts themselves are left to click.
"""

from __future__ import annotations

import os

from modelbuild.cli.names import COMMANDS
from modelbuild.cli.quick.declared_names import PACKAGE_FILE, WORKSPACE_FILE, input_names, profile_names, target_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Commands whose arguments are targets.
_OF_TARGETS = (
    *("affected", "aquery", "build", "check", "ci", "cquery", "fetch"),
    *("explain", "history", "inspect", "publish", "query", "release", "run", "test"),
)
# Options with values that are completed here.
_DEVICE, _PROFILE, _INPUT = "--device", "--config", "--input"

_SKIPPED = ("__pycache__", "modelbuild-out", "node_modules")


def complete(shell: str, words: str, position: str) -> str | None:
    """Return the completions in a shell's format (`bash_complete`, `zsh_complete`, `fish_complete`), given its words
    and the position of the one to complete (fish passes the word itself). None for cases that click handles."""
    name, _, what = shell.partition("_")
    if what != "complete" or name not in ("bash", "zsh", "fish"):
        return None
    given = words.split()[1:]
    if name == "fish":
        current, before = position, given[:-1] if position and given else given
    else:
        before, current = _joined(given, _number(position) - 1)
    found = _candidates(before, current)
    if found is None:
        return None
    found = [word for word in found if word.isprintable()]  # others cannot be on a command line
    # bash splits words at colons, and expects only the part after the last one.
    known = current.rpartition(":")[0] + ":" if name == "bash" and ":" in current else ""
    if name == "zsh":
        return "".join(f"plain\n{word}\n{COMMANDS.get(word, '_')}\n" for word in found)
    return "".join(f"plain,{word.removeprefix(known)}\n" for word in found)


def _number(position: str) -> int:
    """Return the position of a word: at least 1, the first after the program's name; 1 for anything but a number."""
    return max(1, int(position)) if position.isascii() and position.isdecimal() and len(position) < 10 else 1


def _joined(words: Sequence[str], index: int) -> tuple[list[str], str]:
    """Return the words before the one to complete, and that one, with split labels joined."""
    before: list[str] = []
    glue = False
    for word in [*words[:index], words[index] if index < len(words) else ""]:
        if before and (glue or (word == ":" and before[-1] not in COMMANDS and not before[-1].startswith("-"))):
            before[-1] += word
        else:
            before.append(word)
        glue = word == ":"
    return before[:-1], before[-1]


def _candidates(before: Sequence[str], current: str) -> list[str] | None:
    folder = "."
    if len(before) > 1 and before[0] in ("-C", "--workspace"):
        folder, before = before[1], before[2:]
    option = before[-1] if before and before[-1] in (_DEVICE, _PROFILE, _INPUT) else ""
    if current.startswith("-") or (before and before[-1].startswith("-") and not option):
        return None
    if not before:
        return [name for name in COMMANDS if name.startswith(current)]
    if before[0] not in _OF_TARGETS and not option:
        return None
    root = os.path.abspath(folder)
    package = ""
    while not os.path.isfile(f"{root}/{WORKSPACE_FILE}"):
        root, _, name = root.rpartition("/")
        if not root:
            return None
        package = f"{name}/{package}".strip("/")
    if option == _PROFILE:
        return [name for name in profile_names(root) if name.startswith(current)]
    if option == _INPUT:
        return [f"{name}=" for name in _inputs(root, package, before) if name.startswith(current)]
    if current.startswith("//"):
        return [f"//{label}" for label in _labels(root, current[2:])]
    return ["//"] * "//".startswith(current) + list(_relative(root, package, current))


def _inputs(root: str, package: str, before: Sequence[str]) -> list[str]:
    """Return the names of inputs of the first target on a command line, without those that it gives."""
    from itertools import pairwise

    from modelbuild.workspace.flags import FLAGS

    switches = {name for flag in FLAGS if flag.kind == "switch" for name in (f"--{flag.name}", f"-{flag.short}")}
    given = [word.partition("=")[0] for option, word in pairwise(before) if option == _INPUT]
    words = [word for option, word in pairwise(before) if option[0] != "-" or option in switches]
    targets = [word for word in words if word[0] != "-"]
    return [name for name in input_names(root, package, targets[0]) if name not in given] if targets else []


def _relative(root: str, package: str, current: str) -> Iterator[str]:
    """Yield labels relative to a package with a prefix: its targets with and without a colon, and those of packages
    below it."""
    colon = ":" if current.startswith(":") else ""
    if ":" not in current[len(colon) :]:
        yield from (f"{colon}{name}" for name in target_names(root, package) if name.startswith(current[len(colon) :]))
    if not colon and current:
        above = f"{package}/" if package else ""
        for label in _labels(root, f"{above}{current}"):
            yield label.removeprefix(above) + (":" if ":" not in label else "")


def _labels(root: str, start: str) -> Iterator[str]:
    """Yield labels with a prefix, or packages while several packages have it, without the slashes before them."""
    package, colon, begun = start.partition(":")
    if not colon:
        packages = list(_packages(root, package))
        if len(packages) > 1:
            yield from packages
            return
        package = packages[0] if packages else package
    for name in target_names(root, package):
        if name.startswith(begun):
            yield f"{package}:{name}"


def _packages(root: str, start: str) -> Iterator[str]:
    """Yield packages with a prefix, except those below another one in the list."""
    above = start.rpartition("/")[0]
    try:
        with os.scandir(f"{root}/{above}") as entries:
            folders = sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))
    except OSError:
        return
    for folder in folders:
        path = f"{above}/{folder}".lstrip("/")
        if path.startswith(start) and folder[0] != "." and folder not in _SKIPPED:
            if os.path.isfile(f"{root}/{path}/{PACKAGE_FILE}"):
                yield path
                if path != start:
                    continue
            yield from _packages(root, f"{path}/")
