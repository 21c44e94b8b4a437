"""Complete command names and labels for a shell, without click: a shell calls this at every key press.

The protocol is that of click's scripts (`_MODELBUILD_COMPLETE=bash_source modelbuild` prints one). Options, files and
the scripts themselves are left to click. Labels come from the lines of BUILD files: a name with axes of a matrix is
completed up to its first brace.
"""

from __future__ import annotations

import os

from modelbuild.cli.names import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Commands whose arguments are targets.
_OF_TARGETS = ("aquery", "build", "check", "cquery", "explain", "history", "inspect", "query", "run", "test")

_PACKAGE_FILE, _WORKSPACE_FILE = "BUILD.toml", "MODELBUILD.toml"
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
        if before and (glue or (word == ":" and before[-1].startswith("//"))):
            before[-1] += word
        else:
            before.append(word)
        glue = word == ":"
    return before[:-1], before[-1]


def _candidates(before: Sequence[str], current: str) -> list[str] | None:
    folder = "."
    if len(before) > 1 and before[0] in ("-C", "--workspace"):
        folder, before = before[1], before[2:]
    device = len(before) > 1 and before[-1] == "--device"
    if current.startswith("-") or (before and before[-1].startswith("-") and not device):
        return None
    if not before:
        return [name for name in COMMANDS if name.startswith(current)]
    if before[0] not in _OF_TARGETS and not device:
        return None
    root = os.path.abspath(folder)
    package = ""
    while not os.path.isfile(f"{root}/{_WORKSPACE_FILE}"):
        root, _, name = root.rpartition("/")
        if not root:
            return None
        package = f"{name}/{package}".strip("/")
    if current.startswith(":"):
        return [f":{name}" for name in _names(root, package) if name.startswith(current[1:])]
    if not current.startswith("//"):
        return ["//"] if "//".startswith(current) else None
    return list(_labels(root, current[2:]))


def _labels(root: str, start: str) -> Iterator[str]:
    """Yield labels with a prefix, or packages while several packages have it."""
    package, colon, begun = start.partition(":")
    if not colon:
        packages = list(_packages(root, package))
        if len(packages) > 1:
            yield from (f"//{name}" for name in packages)
            return
        package = packages[0] if packages else package
    for name in _names(root, package):
        if name.startswith(begun):
            yield f"//{package}:{name}"


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
            if os.path.isfile(f"{root}/{path}/{_PACKAGE_FILE}"):
                yield path
                if path != start:
                    continue
            yield from _packages(root, f"{path}/")


def _names(root: str, package: str) -> Iterator[str]:
    """Yield the names of targets on the lines of a BUILD file."""
    try:
        with open(f"{root}/{package}/{_PACKAGE_FILE}", encoding="utf-8", errors="replace") as file:
            for line in file:
                key, equals, value = line.partition("=")
                if equals and key.strip() == "name" and (name := value.strip().strip("\"'").partition("{")[0]):
                    yield name
    except OSError:
        return
