"""modelbuild-out/: exactly the built files, each whole, and no change to other files."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from modelbuild.actions import FileEntry, Tree
from modelbuild.errors import EnvironmentProblem
from modelbuild.store.cas import mark
from modelbuild.store.digests import digest_bytes
from modelbuild.store.interface import MissingBlob
from modelbuild.store.local import LocalStore, open_store
from modelbuild.store.output_tree import clean, lay_out


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "modelbuild-out"


Put = Callable[..., FileEntry]


@pytest.fixture
def put(store: LocalStore) -> Put:
    def put(data: bytes, executable: bool = False) -> FileEntry:
        return FileEntry(store.put_bytes(data), executable)

    return put


def contents(root: Path) -> dict[str, bytes]:
    """Return the files that a user sees."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not path.name.startswith(".") and ".modelbuild" not in path.parts
    }


def folders(root: Path) -> set[str]:
    found = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_dir()}
    return {path for path in found if not path.startswith(".modelbuild")}


def test_files_and_folders_are_hard_links_of_blobs(store: LocalStore, root: Path, put: Put) -> None:
    tree = Tree((("a/run", put(b"run", True)), ("b", put(b"b"))))
    lay_out(store, root, "cpu/models/detector", {"detector.pte": put(b"pte"), "weights": tree})
    assert contents(root) == {
        "cpu/models/detector/detector.pte": b"pte",
        "cpu/models/detector/weights/a/run": b"run",
        "cpu/models/detector/weights/b": b"b",
    }
    folder = root / "cpu/models/detector"
    assert (folder / "detector.pte").samefile(store.blob_path(digest_bytes(b"pte")))
    assert (folder / "weights/a/run").samefile(store.blob_path(digest_bytes(b"run"), executable=True))
    assert (root / ".gitignore").read_text() == "*\n"


def refuse_links_into(root: Path) -> Callable[[str, str], None]:
    """Return os.link for a file system other than that of `root`."""
    real = os.link

    def link(source: str, target: str) -> None:
        if str(root) in str(target):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        real(source, target)

    return link


def snapshot(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns


@pytest.mark.parametrize("linked", [True, False])
def test_right_outputs_are_not_touched(
    store: LocalStore, root: Path, put: Put, monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    values = {"same": put(b"same"), "tree": Tree((("x", put(b"x", True)),)), "other": put(b"one")}
    if not linked:
        monkeypatch.setattr(os, "link", refuse_links_into(root))
    lay_out(store, root, "c/p/n", values)
    folder = root / "c/p/n"
    before = {name: snapshot(folder / name) for name in ("same", "tree/x", "other", ".", "tree")}
    lay_out(store, root, "c/p/n", values)
    assert {name: snapshot(folder / name) for name in before} == before
    lay_out(store, root, "c/p/n", {**values, "other": put(b"two")})
    after = {name: snapshot(folder / name) for name in before}
    assert {name for name in before if after[name] != before[name]} == {"other", "."}
    assert (folder / "other").read_bytes() == b"two"
    assert (after["same"][0] == store.blob_path(digest_bytes(b"same")).stat().st_ino) == linked


def test_files_beside_a_part_of_a_target_stay_if_the_part_is_the_same(store: LocalStore, root: Path, put: Put) -> None:
    def laid(*names: str, whole: bool) -> set[str]:
        lay_out(store, root, "c/p/n", {name[0]: put(name.encode()) for name in names}, whole)
        return {path.rpartition("/")[2] for path in contents(root)}

    assert laid("a1", "b1", "c1", whole=True) == {"a", "b", "c"}
    assert laid("a1", "b1", whole=False) == {"a", "b", "c"}
    assert laid("a1", "b2", whole=False) == {"a", "b"}
    assert laid("a1", whole=True) == {"a"}


@pytest.mark.parametrize("data", [b"ONE", b"longer"])
def test_a_file_that_the_user_wrote_over_is_put_right(store: LocalStore, root: Path, put: Put, data: bytes) -> None:
    """The file replaces the link, and is not written through it: here the blob was damaged too, and was built again."""
    lay_out(store, root, "c/p/n", {"f": put(b"one")})
    path = root / "c/p/n/f"
    path.chmod(0o644)
    path.write_bytes(data)
    with pytest.raises(MissingBlob):
        lay_out(store, root, "c/p/n", {"f": FileEntry(digest_bytes(b"one"))})
    lay_out(store, root, "c/p/n", {"f": put(b"one")})
    assert path.read_bytes() == b"one"


def test_a_copy_that_the_user_wrote_over_is_put_right(store: LocalStore, root: Path, put: Put) -> None:
    lay_out(store, root, "c/p/n", {"f": put(b"one")})
    path = root / "c/p/n/f"
    path.unlink()
    path.write_bytes(b"ONE")
    lay_out(store, root, "c/p/n", {"f": put(b"one")})
    assert path.read_bytes() == b"one"


def test_stale_files_go_and_so_do_folders_left_empty(store: LocalStore, root: Path, put: Put) -> None:
    lay_out(store, root, "c/p/n", {"a": put(b"a"), "t": Tree((("d/x", put(b"x")), ("d/y", put(b"y"))))})
    lay_out(store, root, "c/p/n", {"b": put(b"b"), "t": Tree((("e/x", put(b"x")), ("z", put(b"y"))))})
    assert contents(root) == {"c/p/n/b": b"b", "c/p/n/t/e/x": b"x", "c/p/n/t/z": b"y"}
    assert folders(root) == {"c", "c/p", "c/p/n", "c/p/n/t", "c/p/n/t/e"}
    lay_out(store, root, "c/p/n", {})
    assert contents(root) == {}
    assert folders(root) == set()


def test_a_file_becomes_a_folder_and_back(store: LocalStore, root: Path, put: Put) -> None:
    for _ in range(2):
        lay_out(store, root, "c/p/n", {"x": put(b"file")})
        assert contents(root) == {"c/p/n/x": b"file"}
        lay_out(store, root, "c/p/n", {"x": Tree((("y", put(b"in folder")),))})
        assert contents(root) == {"c/p/n/x/y": b"in folder"}


def test_targets_whose_folders_lie_in_each_other(store: LocalStore, root: Path, put: Put) -> None:
    """//a:b and //a/b:c."""
    lay_out(store, root, "cpu/a/b", {"x": put(b"1")})
    lay_out(store, root, "cpu/a/b/c", {"y": put(b"2")})
    lay_out(store, root, "cpu/a/b", {"z": put(b"3")})
    assert contents(root) == {"cpu/a/b/z": b"3", "cpu/a/b/c/y": b"2"}
    lay_out(store, root, "cpu/a/b", {})
    assert contents(root) == {"cpu/a/b/c/y": b"2"}


def test_other_configurations_are_left_alone(store: LocalStore, root: Path, put: Put) -> None:
    lay_out(store, root, "cpu/a/b", {"x": put(b"1")})
    lay_out(store, root, "gpu/a/b", {"x": put(b"2")})
    lay_out(store, root, "cpu/a/b", {})
    assert contents(root) == {"gpu/a/b/x": b"2"}


def test_a_users_own_files_are_never_removed(store: LocalStore, root: Path, put: Put) -> None:
    lay_out(store, root, "c/p/n", {"t": Tree((("x", put(b"x")),))})
    (root / "c/p/n/t/notes").write_text("mine")
    lay_out(store, root, "c/p/n", {})
    assert contents(root) == {"c/p/n/t/notes": b"mine"}
    with pytest.raises(EnvironmentProblem) as caught:
        lay_out(store, root, "c/p/n", {"t": put(b"file")})
    assert str(caught.value) == f"{root}/c/p/n/t is a folder in the place of an output file; remove it"
    assert contents(root) == {"c/p/n/t/notes": b"mine"}


def test_a_file_where_a_folder_has_to_go(store: LocalStore, root: Path, put: Put) -> None:
    root.mkdir()
    (root / "c").write_text("mine")
    with pytest.raises(EnvironmentProblem) as caught:
        lay_out(store, root, "c/p/n", {"f": put(b"f")})
    assert str(caught.value) == f"{root}/c is a file in the place of a folder; remove it"
    assert (root / "c").read_text() == "mine"


@pytest.mark.parametrize("at", ["c", "c/p", "c/p/n", "c/p/n/t", "c/p/n/t/d"])
def test_links_to_folders_are_not_followed(store: LocalStore, root: Path, put: Put, tmp_path: Path, at: str) -> None:
    values = {"t": Tree((("d/x", put(b"x")),))}
    lay_out(store, root, "c/p/n", values)
    elsewhere = tmp_path / "elsewhere"
    (root / at).rename(elsewhere)
    (root / at).symlink_to(elsewhere)
    before = contents(elsewhere)
    for now in ({"t": Tree((("d/x", put(b"new")),))}, {"t": Tree((("d/z", put(b"z")),))}):
        with pytest.raises(EnvironmentProblem) as caught:
            lay_out(store, root, "c/p/n", now)
        assert str(caught.value) == f"{root / at} is a symbolic link in the place of a folder; remove it"
        assert contents(elsewhere) == before
    lay_out(store, root, "c/p/n", {})
    assert contents(elsewhere) == before


def test_a_link_in_place_of_a_file_is_replaced_or_removed_itself(
    store: LocalStore, root: Path, put: Put, tmp_path: Path
) -> None:
    lay_out(store, root, "c/p/n", {"f": put(b"f"), "g": put(b"g")})
    for name in ("f", "g"):
        (tmp_path / name).write_bytes(b"mine")
        (root / "c/p/n" / name).unlink()
        (root / "c/p/n" / name).symlink_to(tmp_path / name)
    lay_out(store, root, "c/p/n", {"f": put(b"f")})
    assert contents(root) == {"c/p/n/f": b"f"}
    assert not (root / "c/p/n/f").is_symlink()
    assert [(tmp_path / name).read_bytes() for name in ("f", "g")] == [b"mine", b"mine"]


def test_the_root_itself_may_be_a_link(store: LocalStore, root: Path, put: Put, tmp_path: Path) -> None:
    (tmp_path / "big disk").mkdir()
    root.symlink_to(tmp_path / "big disk")
    lay_out(store, root, "c/p/n", {"f": put(b"f")})
    assert contents(tmp_path / "big disk") == {"c/p/n/f": b"f"}


def test_clean_removes_nothing_through_a_link(store: LocalStore, root: Path, put: Put, tmp_path: Path) -> None:
    (tmp_path / "big disk").mkdir()
    (tmp_path / "big disk/notes").write_text("mine")
    root.symlink_to(tmp_path / "big disk")
    for before in ({"notes": b"mine"}, {"notes": b"mine", "c/p/n/f": b"f"}):
        with pytest.raises(EnvironmentProblem) as caught:
            clean(root)
        assert str(caught.value) == f"{root} is a symbolic link; expected a folder, since clean follows no links"
        assert contents(tmp_path / "big disk") == before
        lay_out(store, root, "c/p/n", {"f": put(b"f")})


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("unmounted"), lambda path: path.touch()])
def test_a_root_that_is_no_folder(store: LocalStore, root: Path, put: Put, make: Callable[[Path], None]) -> None:
    make(root)
    if not root.is_symlink():
        assert clean(root) == []
    with pytest.raises(EnvironmentProblem) as caught:
        lay_out(store, root, "c/p/n", {"f": put(b"f")})
    assert str(caught.value) in (f"{root}: Not a directory", f"{root}/.modelbuild: Not a directory")


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", ""])
def test_names_that_leave_the_folder_are_refused(store: LocalStore, root: Path, put: Put, name: str) -> None:
    with pytest.raises(ValueError, match="is not a path within a folder"):
        lay_out(store, root, "c/p/n", {name: put(b"f")})
    with pytest.raises(ValueError, match="is not a path within a folder"):
        lay_out(store, root, name, {"f": put(b"f")})


@pytest.mark.parametrize("junk", [b"", b"{", b"[1]", b'["../../../mine"]', b'{"a": 1}', b"null"])
def test_a_list_that_is_broken_removes_nothing(
    store: LocalStore, root: Path, put: Put, tmp_path: Path, junk: bytes
) -> None:
    lay_out(store, root, "c/p/n", {"f": put(b"f")})
    (tmp_path / "mine").write_bytes(b"mine")
    (list_of_files,) = (root / ".modelbuild/outputs").iterdir()
    list_of_files.write_bytes(junk)
    lay_out(store, root, "c/p/n", {"g": put(b"g")})
    assert contents(root)["c/p/n/g"] == b"g"
    assert (tmp_path / "mine").read_bytes() == b"mine"


def test_outputs_outlive_eviction(store: LocalStore, root: Path, put: Put) -> None:
    lay_out(store, root, "c/p/n", {"f": put(b"f")})
    store.collect()
    assert store.missing([digest_bytes(b"f")]) == {digest_bytes(b"f")}
    assert contents(root) == {"c/p/n/f": b"f"}


def test_an_output_folder_that_may_not_be_written(
    store: LocalStore, root: Path, put: Put, as_user: Callable[[Callable[[], None]], int]
) -> None:
    entry = put(b"f")
    root.mkdir(mode=0o555)

    def work() -> None:
        with pytest.raises(EnvironmentProblem, match=f"^{root}/.modelbuild: Permission denied$"):
            lay_out(store, root, "c/p/n", {"f": entry})

    assert as_user(work) == 0


def test_clean(store: LocalStore, root: Path, put: Put) -> None:
    assert clean(root) == []
    lay_out(store, root, "c/p/n", {"f": put(b"f"), "t": Tree((("d/x", put(b"x")),)), "empty": Tree(())})
    lay_out(store, root, "c/p/n/t", {"y": put(b"y")})
    assert clean(root) == []
    assert not root.exists()
    lay_out(store, root, "c/p/n", {"f": put(b"f")})
    assert contents(root) == {"c/p/n/f": b"f"}


def test_clean_removes_only_what_was_laid_out(store: LocalStore, root: Path, put: Put, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/f").write_text("mine")
    root.mkdir()
    (root / "before").write_text("mine")
    (root / ".gitignore").write_text("!before\n")
    assert clean(root) == [".gitignore", "before"]
    lay_out(store, root, "c/p/n", {"f": put(b"f"), "t": Tree((("x", put(b"x")),))})
    (root / "c/link").symlink_to(tmp_path / "mine")
    (root / "c/p/n/t/notes").write_text("mine")
    (root / "c/closed").mkdir(mode=0o555)
    assert clean(root) == [".gitignore", "before", "c/link", "c/p/n/t/notes"]
    assert contents(root) == {"before": b"mine", "c/p/n/t/notes": b"mine"}
    assert (root / "c/closed").is_dir()
    assert not (root / ".modelbuild").exists()
    assert (tmp_path / "mine/f").read_text() == "mine"


@pytest.mark.parametrize("make", [lambda path: path.write_text("mine"), lambda path: path.symlink_to("mine")])
def test_a_file_of_the_user_in_the_place_of_an_output_stays(
    store: LocalStore, root: Path, put: Put, make: Callable[[Path], None]
) -> None:
    path = root / "c/p/n/t/x"
    path.parent.mkdir(parents=True)
    make(path)
    for _ in range(2):  # the failed attempt makes no record of that file
        with pytest.raises(EnvironmentProblem) as caught:
            lay_out(store, root, "c/p/n", {"f": put(b"f"), "t": Tree((("x", put(b"x")),))})
        assert str(caught.value) == f"{path} is not a file that modelbuild laid out; remove it"
    assert path.is_symlink() or path.read_text() == "mine"
    path.unlink()
    lay_out(store, root, "c/p/n", {"t": Tree((("x", put(b"x")),))})
    assert path.read_bytes() == b"x"


def test_an_output_without_its_list_is_still_one(store: LocalStore, root: Path, put: Put) -> None:
    """The mark of its contents shows that it was laid out; a file that was written over has none."""
    lay_out(store, root, "c/p/n", {"f": put(b"f"), "g": put(b"g")})
    for path in (root / ".modelbuild/outputs").iterdir():
        path.unlink()
    lay_out(store, root, "c/p/n", {"f": put(b"new")})
    assert contents(root) == {"c/p/n/f": b"new", "c/p/n/g": b"g"}
    (root / "c/p/n/g").chmod(0o644)
    (root / "c/p/n/g").write_text("mine")
    with pytest.raises(EnvironmentProblem, match="g is not a file that modelbuild laid out"):
        lay_out(store, root, "c/p/n", {"f": put(b"new"), "g": put(b"g")})


@pytest.mark.parametrize("linked", [True, False])
def test_an_output_is_as_old_as_its_layout(
    store: LocalStore, root: Path, put: Put, linked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`cp -u` copies a result that comes back from the cache, and the blob's mark stays."""
    if not linked:
        monkeypatch.setattr(os, "link", refuse_links_into(root))
    path, copy = root / "c/p/n/f", root.parent / "copy"
    for data in (b"one", b"two", b"one", b"two"):
        stamps = lay_out(store, root, "c/p/n", {"f": put(data)})
        assert (
            path.stat().st_mtime_ns % 1_000_000_000 == stamps["c/p/n/f"].below_second == mark(digest_bytes(data).hash)
        )
        subprocess.run(["cp", "-u", path, copy], check=True)
        assert copy.read_bytes() == data
        assert lay_out(store, root, "c/p/n", {"f": put(data)}) == stamps


def test_killed_at_any_moment_files_are_whole_and_the_next_build_puts_all_right(
    cache: Path, root: Path, kill_at_each_call: Callable[..., int]
) -> None:
    with open_store(cache) as store:
        old = {name: FileEntry(store.put_bytes(b"old " + name.encode())) for name in ("a", "b", "t/x", "gone/y")}
        new = {name: FileEntry(store.put_bytes(b"new " + name.encode())) for name in ("a", "b", "t", "more/z")}

        def check() -> None:
            for path, data in contents(root).items():
                name = path.removeprefix("c/p/n/")
                assert data in (f"old {name}".encode(), f"new {name}".encode())
            lay_out(store, root, "c/p/n", old)
            assert set(contents(root)) == {f"c/p/n/{name}" for name in old}

        lay_out(store, root, "c/p/n", old)
        assert kill_at_each_call(lambda: lay_out(store, root, "c/p/n", new), check) > 10


def test_of_two_builds_at_once_one_wins_wholly(cache: Path, root: Path) -> None:
    """Many times over, two processes lay out one target with different results, and a third cleans."""
    with open_store(cache) as store:
        results = [
            {name: FileEntry(store.put_bytes(f"{only} {name}".encode())) for name in ("m.pte", "m.ptd", only)}
            for only in ("first", "second")
        ]

    def build(number: int) -> None:
        with open_store(cache) as store:
            for _ in range(150):
                lay_out(store, root, "c/p/n", results[number])

    def sweep() -> None:
        for _ in range(20):
            clean(root)

    pids = []
    for work in (lambda: build(0), lambda: build(1), sweep):
        pid = os.fork()
        if pid == 0:
            try:
                work()
            except BaseException:
                import traceback

                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        pids.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0, 0, 0]
    with open_store(cache) as store:
        lay_out(store, root, "c/other", {})
    seen = contents(root)
    assert seen in ({}, *({f"c/p/n/{n}": store.read_bytes(e.digest) for n, e in r.items()} for r in results))
