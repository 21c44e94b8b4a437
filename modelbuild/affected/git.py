"""Git queries: the base revision, the files changed since then, and the base's files laid out in a folder."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from modelbuild.errors import EnvironmentProblem, UsageError

# Files of the base that are read even if unchanged; the contents of other unchanged files stay in git.
_READ = (".py", ".toml")


@dataclass(frozen=True, slots=True)
class Change:
    """The difference between a revision and the working tree. Paths are relative to the top of the repository.

    prefix   the workspace in the repository, '' or ending in '/'
    base     the base commit
    files    modes of the files of that commit, by path
    blobs    their contents' object ids, by path
    changed  files changed, added or removed since the base, committed or not, including untracked files unless ignored
    """

    top: Path
    prefix: str
    base: str
    files: dict[str, str]
    blobs: dict[str, str]
    changed: frozenset[str]

    def named(self, path: str) -> str:
        """Return a file's path in the repository, given the path relative to the workspace."""
        return os.path.normpath(self.prefix + path) if path.startswith("../") else self.prefix + path

    def changed_files(self) -> Iterator[str]:
        """Return the changed files' absolute paths."""
        return (f"{self.top}/{path}" for path in self.changed)

    def same(self, path: str) -> bool:
        """Return whether a file, by its path relative to the workspace, is unchanged."""
        return self.named(path) in self.files and self.named(path) not in self.changed

    def leads(self, root: str, path: str) -> str:
        """Return the destination of a path, relative to the workspace at `root`; '' for a path outside the repository.
        The root must not be a link."""
        real = os.path.realpath(f"{root}/{path}")
        if real.startswith(f"{root}/"):
            return real[len(root) + 1 :]
        outside = os.path.relpath(real, root)
        return "" if self.named(outside).startswith("../") else outside

    def touches(self, path: str) -> bool:
        """Return whether a file, by its absolute path, or a file in a folder, was changed, added or removed. Files that
        git ignores or does not know count as unchanged."""
        inside = os.path.relpath(os.path.realpath(path), os.path.realpath(self.top))
        return any(changed == inside or changed.startswith(f"{inside}/") for changed in self.changed)

    def same_at(self, root: Path) -> Callable[[str], bool]:
        """Return a function that returns whether a file of the workspace at `root` is unchanged; for a link, its
        destination, or the link itself if the destination is outside the repository."""
        real = os.path.realpath(root)
        return lambda path: self.same(self.leads(real, path) or path)


def find_change(root: Path, since: str, exact: bool = False) -> Change:
    """Compare the working tree with the merge base of `since` and HEAD, or with `since` itself.

    Raises UsageError if there is no repository, no such revision, or no common ancestor.
    """
    top = Path(_git(root, "rev-parse", "--show-toplevel").removesuffix("\n"))  # the path itself may contain line breaks
    below = os.path.relpath(os.path.realpath(root), os.path.realpath(top))
    prefix = "" if below == "." else f"{below}/"
    base = find_base(root, since, exact)
    flags = ("--no-ext-diff", "--no-renames", "--no-relative", "--ignore-submodules=none", "--name-only", "-z")
    # Started together, because each command reads every file.
    asked = (
        ("diff", *flags, base, "--"),
        ("ls-files", "--others", "--exclude-standard", "-z"),
        ("ls-tree", "-r", "-z", "--full-tree", base),
    )
    diff, untracked, tree = [_answer(started) for started in [_start(top, *arguments) for arguments in asked]]
    files, blobs = {}, {}
    for line in tree.split("\0")[:-1]:
        facts, _, path = line.partition("\t")
        files[path], _, blobs[path] = facts.split(" ")
    # Byte code of rules is not a change, except for a target that names such a file.
    new = [path for path in untracked.split("\0") if "__pycache__" not in path.split("/")]
    return Change(top, prefix, base, files, blobs, frozenset([*diff.split("\0"), *new]) - {""})


def find_base(root: Path, since: str, exact: bool = False) -> str:
    """Return the base commit: the merge base of `since` and HEAD, or `since` itself. Raises as find_change does."""
    commit = _git(root, "rev-parse", "--verify", "--quiet", f"{since}^{{commit}}", problem=f"no revision '{since}'")
    if exact:
        return commit.strip()
    problem = f"'{since}' and HEAD have no common ancestor here; a shallow clone needs more history"
    return _git(root, "merge-base", commit.strip(), "HEAD", problem=problem).strip()


def find_head(root: Path) -> str | None:
    """Return the commit of the workspace's files; None if a file was changed, or there is no repository."""
    commit, changed = describe_head(root)
    return None if changed else commit


def describe_head(root: Path) -> tuple[str | None, bool]:
    """Return the current commit, and whether a tracked file of the workspace was changed since; None if there is no
    repository."""
    try:
        changed = _git(root, "diff", "--no-ext-diff", "--name-only", "HEAD", "--", ".")
        return _git(root, "rev-parse", "HEAD").strip(), bool(changed)
    except (UsageError, EnvironmentProblem):
        return None, False


def find_ancestors(root: Path, commit: str, most: int = 1000) -> list[str]:
    """Return a commit and its ancestors, the newest first."""
    return _git(root, "rev-list", f"--max-count={most}", commit).split()


_MOST_LINKS = 60_000


def lay_out(change: Change, folder: Path) -> Path:
    """Lay out the base's files of the workspace in an empty folder. Returns the workspace's root there.

    Unchanged files that loading and analysis do not read are created empty.
    """
    tree, empty = folder / "tree", folder / "empty"
    read = []
    for path, mode in change.files.items():
        if not path.startswith(change.prefix):
            continue
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        if mode == "160000":  # a submodule: its files are not in this repository
            (tree / path).mkdir(exist_ok=True)
        elif mode == "120000" or path in change.changed or path.endswith(_READ):
            read.append(path)
        else:
            # Links take less time than files; ext4 allows 65,000 to one file.
            if not empty.exists() or empty.stat().st_nlink == _MOST_LINKS:
                empty.unlink(missing_ok=True)
                empty.touch()
            os.link(empty, tree / path)
    environ = {**os.environ, "GIT_INDEX_FILE": str(folder / "index")}
    _git(change.top, "read-tree", change.base, environ=environ)
    _git(change.top, "checkout-index", "-z", "--stdin", f"--prefix={tree}/", environ=environ, stdin=read)
    root = tree / change.prefix
    root.mkdir(parents=True, exist_ok=True)
    return root


def show(change: Change, path: str) -> str | None:
    """Return a file's text in the base; None if it is missing."""
    return _git(change.top, "show", f"{change.base}:{path}") if path in change.files else None


def _git(
    folder: Path,
    *arguments: str,
    problem: str = "",
    environ: dict[str, str] | None = None,
    stdin: Collection[str] = (),
) -> str:
    return _answer(_start(folder, *arguments, environ=environ), problem, stdin)


def _start(folder: Path, *arguments: str, environ: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    try:
        command = ("git", "-C", str(folder), *arguments)
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environ)
    except FileNotFoundError:
        raise EnvironmentProblem("git is not installed") from None


def _answer(git: subprocess.Popen[bytes], problem: str = "", stdin: Collection[str] = ()) -> str:
    out, err = git.communicate(os.fsencode("".join(f"{path}\0" for path in stdin)))
    if git.returncode != 0:
        said = err.decode(errors="replace").strip().partition("\n")[0]
        if problem and (git.returncode == 1 or not said):  # 128: git could not look, for example without a repository
            raise UsageError(problem)
        raise UsageError(f"git {cast(Sequence[str], git.args)[3]}: {said}")
    return os.fsdecode(out)
