"""The sources of a build are the commit's, whatever git ignores, assumes or filters."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from modelbuild.trust.revision import Revision, find_revision
from tests.trust.conftest import attested, named
from tests.workspace_builder import Workspace, write


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def repository(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path)
    made.write({"w.bin": "1", "a/b.txt": "2", ".gitignore": "*.out\n"})
    (made.root / "link").symlink_to("w.bin")
    made.git("init", "--quiet")
    made.commit()
    return made


def _find(repository: Workspace, *paths: str) -> Revision:
    found = find_revision(
        repository.root, {str(repository.root / path): _sha256(repository.root / path) for path in paths}
    )
    assert found is not None
    return found


def _pointer(repository: Workspace, data: bytes) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{hashlib.sha256(data).hexdigest()}\nsize 4\n"
    repository.write({"w.bin": pointer, ".gitattributes": "*.bin filter=lfs\n"})
    repository.commit()
    repository.git("config", "filter.lfs.clean", f"printf '%s' '{pointer}'")
    (repository.root / "w.bin").write_bytes(data)


def _submodule(repository: Workspace) -> None:
    other = Workspace(repository.folder / "other")
    other.write({"inner/x.txt": "x"})
    other.git("init", "--quiet")
    other.commit()
    repository.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other.root), "sub")
    repository.commit()


CHANGES: dict[str, tuple[Callable[[Workspace], object], str, bool]] = {
    "nothing": (lambda r: None, "w.bin", False),
    "a link of the commit": (lambda r: None, "link", False),
    "a change": (lambda r: r.write({"w.bin": "9"}), "w.bin", True),
    "a change that git assumes away": (
        lambda r: (r.git("update-index", "--assume-unchanged", "w.bin"), r.write({"w.bin": "9"})), "w.bin", True,
    ),
    "a change in a file outside the sparse tree": (
        lambda r: (r.git("update-index", "--skip-worktree", "w.bin"), r.write({"w.bin": "9"})), "w.bin", True,
    ),
    "an ignored file": (lambda r: r.write({"x.out": "9"}), "x.out", True),
    "a file that the clone ignores": (
        lambda r: r.write({".git/info/exclude": "x.txt", "x.txt": "9"}), "x.txt", True,
    ),
    "a link that leads elsewhere": (
        lambda r: (
            r.git("update-index", "--assume-unchanged", "link"),
            (r.root / "link").unlink(),
            (r.root / "link").symlink_to("a/b.txt"),
        ), "link", True,
    ),
    "a filter that hides a change": (
        lambda r: (
            r.git("config", "filter.x.clean", "echo 1 | tr -d '\\n'"),
            r.write({".git/info/attributes": "*.bin filter=x\n", "w.bin": "9"}),
        ), "w.bin", True,
    ),
    "a blob that the clone replaces": (
        lambda r: (
            r.write({"w.bin": "9"}),
            r.git("replace", r.git("rev-parse", "HEAD:w.bin").strip(), r.git("hash-object", "-w", "w.bin").strip()),
        ), "w.bin", True,
    ),
    "a file of Git LFS": (lambda r: _pointer(r, b"data"), "w.bin", False),
    "a changed file of Git LFS": (
        lambda r: (_pointer(r, b"data"), r.write({"w.bin": "9"})), "w.bin", True,
    ),
    "a pointer of Git LFS itself": (
        lambda r: (_pointer(r, b"data"), r.git("config", "--unset", "filter.lfs.clean"), r.git("checkout", "w.bin")),
        "w.bin", False,
    ),
    "a file of a submodule": (_submodule, "sub/inner/x.txt", False),
    "a changed file of a submodule": (
        lambda r: (_submodule(r), r.write({"sub/inner/x.txt": "9"})), "sub/inner/x.txt", True,
    ),
    "an ignored file of a submodule": (
        lambda r: (_submodule(r), r.write({".git/modules/sub/info/exclude": "y", "sub/y": "9"})), "sub/y", True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CHANGES)
def test_a_source_is_equal_to_its_blob_or_the_workspace_is_dirty(repository: Workspace, case: str) -> None:
    change, path, dirty = CHANGES[case]
    change(repository)
    found = _find(repository, path, "a/b.txt")
    assert found.changed == ((path,) if dirty else ())
    assert found.dirty or not dirty


def test_names_that_a_request_cannot_contain_differ(repository: Workspace) -> None:
    write(repository.root, {"a\nb": "1", "ä ö": "2", "x:y": "3"})
    (repository.root / os.fsdecode(b"\xff")).write_text("4")
    repository.commit()
    assert _find(repository, "a\nb", "ä ö", "x:y", os.fsdecode(b"\xff")).changed == ("a\nb",)


def test_files_outside_the_repository_are_in_no_commit(repository: Workspace, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("")
    assert _find(repository, "a/b.txt", f"{tmp_path}/elsewhere").changed == ()


IGNORED = ["a/s.py", "a/BUILD.toml", "MODELBUILD.toml", "tools/rules/script.py", "tools/rules/steps/script.py"]


@pytest.mark.parametrize(
    "path", [IGNORED[0], *(pytest.param(each, marks=pytest.mark.exhaustive) for each in IGNORED[1:])]
)
def test_a_source_that_git_overlooks_is_stated(trusted: Workspace, path: str) -> None:
    def stated() -> object:
        return named(attested(trusted)["predicate"]["buildDefinition"]["resolvedDependencies"])["workspace"][
            "annotations"
        ]

    trusted.git("update-index", "--assume-unchanged", path)
    trusted.add(path, "# changed\n")
    assert trusted.git("status", "--porcelain") == ""
    assert stated() == {"dirty": True, "path": ".", "changed": [path]}
    trusted.git("update-index", "--no-assume-unchanged", path)
    trusted.git("rm", "--quiet", "--cached", path)
    trusted.add(".gitignore", f"{path}\n")
    trusted.commit()
    assert trusted.git("status", "--porcelain") == ""
    assert stated() == {"dirty": True, "path": ".", "changed": [path]}
