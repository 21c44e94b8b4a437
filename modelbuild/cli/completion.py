"""Completion of targets and profiles for shells, by click: `_MODELBUILD_COMPLETE=bash_source modelbuild` prints
its script."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class

from modelbuild.cli.names import COMMANDS
from modelbuild.errors import ModelbuildError
from modelbuild.loading.matrix import MATRIX, matrix_of, read_matrices
from modelbuild.loading.matrix_expansion import expand_matrix
from modelbuild.loading.package import OTHER_TABLES, PACKAGE_FILE
from modelbuild.workspace.toml_document import read_document
from modelbuild.workspace.toml_tokens import Kind, Role, read_tokens
from modelbuild.workspace.workspace import find_root, load_workspace

_SKIPPED = ("__pycache__", "modelbuild-out", "node_modules")


class _Workspace(click.ParamType[str]):
    """Text that is completed by names of the workspace around the command's folder."""

    name = "text"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        folder = Path(ctx.find_root().params.get("directory") or ".").resolve()
        try:
            root = find_root(folder)
            package = folder.relative_to(root).as_posix().removeprefix(".")
            found = [each for each in self.names(root, package, incomplete) if each.isprintable()]
        except ModelbuildError:
            return []
        return [CompletionItem(each) for each in found]

    def names(self, root: Path, package: str, incomplete: str) -> Iterable[str]:
        """Return the candidates. `package` is the package of the command's folder."""
        raise NotImplementedError


class TargetName(_Workspace):
    """A label or a pattern."""

    def names(self, root: Path, package: str, incomplete: str) -> Iterable[str]:
        if incomplete.startswith("//"):
            return [f"//{label}" for label in _labels(root, incomplete[2:])]
        return ["//"] * "//".startswith(incomplete) + list(_relative(root, package, incomplete))


class ProfileName(_Workspace):
    """The name of a profile in MODELBUILD.toml."""

    def names(self, root: Path, package: str, incomplete: str) -> Iterable[str]:
        return [name for name in load_workspace(root).config.profiles if name.startswith(incomplete)]


class Bash(BashComplete):
    """bash splits words at colons, and expects only the part after the last colon."""

    name = "bash"

    def get_completion_args(self) -> tuple[list[str], str]:
        words, index = os.environ.get("COMP_WORDS", "").split()[1:], _number(os.environ.get("COMP_CWORD", "")) - 1
        joined: list[str] = []
        glue = False
        for word in [*words[:index], words[index] if index < len(words) else ""]:
            if joined and (glue or (word == ":" and joined[-1] not in COMMANDS and not joined[-1].startswith("-"))):
                joined[-1] += word
            else:
                joined.append(word)
            glue = word == ":"
        self._known = joined[-1].rpartition(":")[0] + ":" if ":" in joined[-1] else ""
        return joined[:-1], joined[-1]

    def format_completion(self, item: CompletionItem) -> str:
        return f"{item.type},{str(item.value).removeprefix(self._known)}"


TARGET, PROFILE = TargetName(), ProfileName()


def use() -> None:
    """Register this completion with click for bash."""
    add_completion_class(Bash, "bash")


def _number(position: str) -> int:
    """Return the position of a word: at least 1, the first after the program's name; 1 for text that is not a
    number."""
    return max(1, int(position)) if position.isascii() and position.isdecimal() and len(position) < 10 else 1


def _relative(root: Path, package: str, current: str) -> Iterator[str]:
    """Yield labels relative to a package with a prefix: its targets with and without a colon, and the labels of
    packages below it."""
    colon = ":" if current.startswith(":") else ""
    if ":" not in current[len(colon) :]:
        yield from (f"{colon}{name}" for name in _targets(root, package) if name.startswith(current[len(colon) :]))
    if not colon and current:
        above = f"{package}/" if package else ""
        for label in _labels(root, f"{above}{current}"):
            yield label.removeprefix(above) + (":" if ":" not in label else "")


def _labels(root: Path, start: str) -> Iterator[str]:
    """Yield labels with a prefix, or packages while several packages have it, without the slashes before them."""
    package, colon, begun = start.partition(":")
    if not colon:
        packages = list(_packages(root, package))
        if len(packages) > 1:
            yield from packages
            return
        package = packages[0] if packages else package
    yield from (f"{package}:{name}" for name in _targets(root, package) if name.startswith(begun))


def _packages(root: Path, start: str) -> Iterator[str]:
    """Yield packages with a prefix, except packages below another package in the list."""
    above = start.rpartition("/")[0]
    try:
        with os.scandir(root / above) as entries:
            folders = sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))
    except OSError:
        return
    for folder in folders:
        path = f"{above}/{folder}".lstrip("/")
        if path.startswith(start) and folder[0] != "." and folder not in _SKIPPED:
            if (root / path / PACKAGE_FILE).is_file():
                yield path
                if path != start:
                    continue
            yield from _packages(root, f"{path}/")


def _targets(root: Path, package: str) -> list[str]:
    """Return the names of targets in a BUILD file, which may have an error. Only a file with a matrix is parsed."""
    try:
        tokens = read_tokens((root / package / PACKAGE_FILE).read_text(errors="replace"))
    except OSError:
        return []
    strings = [token for token in tokens if token.role is Role.VALUE and token.kind is Kind.STRING]
    named = [token for token in strings if len(token.path) == 3 and token.path[2] == "name"]
    names = [token.value for token in named if token.path[0] not in OTHER_TABLES]
    if any("{" in name for name in names):
        try:
            return list(_expanded(root, package))
        except Exception:  # an unfinished file
            names = [name.partition("{")[0] for name in names]
    return list(filter(None, names))


def _expanded(root: Path, package: str) -> Iterator[str]:
    """Yield the names of targets, with the names of each matrix."""
    document, values, _ = read_document(root, f"{package}/{PACKAGE_FILE}".lstrip("/"))
    matrices = read_matrices(document, values.get(MATRIX, ()))
    for rule, targets in values.items():
        tables: Sequence[Any] = targets if isinstance(targets, list) and rule not in OTHER_TABLES else ()
        for index, target in enumerate(tables):
            naming = {key: target[key] for key in ("name", MATRIX) if key in target}
            if MATRIX in naming:
                matrix = matrix_of(document, (rule, index), naming, matrices)
                yield from (each["name"] for each in expand_matrix(document, (rule, index), naming, matrix))
            elif isinstance(name := target.get("name"), str):
                yield name.partition("{")[0]
