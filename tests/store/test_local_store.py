"""The local store as the engine sees it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from modelbuild.actions import ActionResult, FileEntry, Tree
from modelbuild.errors import EnvironmentProblem
from modelbuild.store.digests import digest_bytes
from modelbuild.store.files import remove
from modelbuild.store.interface import MissingBlob
from modelbuild.store.local import LocalStore, open_store

Write = Callable[..., Path]


def entry(data: bytes, executable: bool = False) -> FileEntry:
    return FileEntry(digest_bytes(data), executable)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def output(tmp_path: Path, write: Write) -> Path:
    """Return a folder as a step leaves it."""
    write("output/b.txt", b"b")
    write("output/a/run.sh", b"a", executable=True)
    write("output/a/z/same", b"b")
    (tmp_path / "output" / "empty").mkdir()
    return tmp_path / "output"


def test_a_folder_goes_in_and_comes_out(store: LocalStore, output: Path, tmp_path: Path) -> None:
    value = store.put_output(output)
    assert value == Tree((("a/run.sh", entry(b"a", True)), ("a/z/same", entry(b"b")), ("b.txt", entry(b"b"))))
    assert contents(output) == {}
    store.place(value, tmp_path / "placed")
    assert contents(tmp_path / "placed") == {"a/run.sh": b"a", "a/z/same": b"b", "b.txt": b"b"}
    assert os.access(tmp_path / "placed/a/run.sh", os.X_OK)
    assert not os.access(tmp_path / "placed/b.txt", os.X_OK)
    assert isinstance(value, Tree)
    store.place(value.under("a"), tmp_path / "part")
    assert contents(tmp_path / "part") == {"run.sh": b"a", "z/same": b"b"}


def test_files_are_hard_links_to_read_only_blobs(store: LocalStore, tmp_path: Path) -> None:
    digest = store.put_bytes(b"data")
    for name in ("one", "two"):
        store.place(FileEntry(digest), tmp_path / name)
    assert store.blob_path(digest).samefile(tmp_path / "one")
    assert (tmp_path / "one").samefile(tmp_path / "two")
    assert (tmp_path / "one").stat().st_mode & 0o222 == 0


def test_the_same_folder_written_in_another_order_is_the_same_value(store: LocalStore, write: Write) -> None:
    for name in ("x/a-b", "x/a/b", "x/a.b", "x/é"):
        write(name, name[-1:].encode())
    for name in reversed(("x/a-b", "x/a/b", "x/a.b", "x/é")):
        write(name.replace("x/", "y/"), name[-1:].encode())
    root = write("z").parent
    assert store.put_output(root / "x") == store.put_output(root / "y")


def link(path: Path) -> None:
    path.symlink_to("b.txt")


def link_to_folder(path: Path) -> None:
    path.symlink_to("/usr")


def dangling(path: Path) -> None:
    path.symlink_to("nothing")


def bind(path: Path) -> None:
    os.chdir(path.parent)  # Socket paths may not be long.
    socket.socket(socket.AF_UNIX).bind(path.name)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (link, "a symbolic link"),
        (link_to_folder, "a symbolic link"),
        (dangling, "a symbolic link"),
        (os.mkfifo, "neither a file nor a folder"),
        (bind, "neither a file nor a folder"),
    ],
)
def test_only_files_and_folders_are_taken_and_nothing_moves_before_a_refusal(
    store: LocalStore, output: Path, make: Callable[[Path], None], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(output)  # To return from the folder that bind() enters.
    before = contents(output)
    make(output / "a" / "odd")
    with pytest.raises(ValueError, match=f"^output/a/odd is {kind}; an output is made of plain files and folders$"):
        store.put_output(output)
    with pytest.raises(ValueError, match=f"^odd is {kind}; an output is made of plain files and folders$"):
        store.put_output(output / "a" / "odd")
    (output / "a" / "odd").unlink()
    assert contents(output) == before


def test_a_name_that_is_not_utf_8_is_refused(store: LocalStore, output: Path) -> None:
    Path(os.fsdecode(os.fsencode(output) + b"/\xff")).touch()
    with pytest.raises(ValueError, match=r"^'output/\\udcff': the name is not UTF-8$"):
        store.put_output(output)


def test_a_folder_too_deep_for_others_is_refused_and_can_be_removed(
    store: LocalStore, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(output)
    for _ in range(1100):
        os.mkdir("d")
        os.chdir("d")
    Path("file").touch()
    monkeypatch.chdir(output)
    with pytest.raises(ValueError, match=r"2049 bytes of path; expected at most 2048$"):
        store.put_output(output)
    remove(str(output))
    assert not output.exists()


def test_an_output_that_is_not_there(store: LocalStore, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        store.put_output(tmp_path / "nothing")


def test_a_tree_with_a_missing_blob_is_not_begun(store: LocalStore, output: Path, tmp_path: Path) -> None:
    value = store.put_output(output)
    store.blob_path(digest_bytes(b"b")).unlink()
    with pytest.raises(MissingBlob):
        store.place(value, tmp_path / "placed")
    assert not (tmp_path / "placed").exists()


def test_existing_blobs_are_not_replaced(store: LocalStore, write: Write, output: Path) -> None:
    path = write("mine", b"mine")
    digest = store.put_bytes(b"data")
    with pytest.raises(FileExistsError):
        store.place(FileEntry(digest), path)
    with pytest.raises(FileExistsError):
        store.place(store.put_output(output), path)
    assert path.read_bytes() == b"mine"


def test_place_into_a_folder_that_is_not_there(store: LocalStore, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        store.place(FileEntry(store.put_bytes(b"data")), tmp_path / "nothing" / "f")


@pytest.mark.parametrize("lost", ["file", "in tree", "stdout", "stderr"])
def test_a_result_of_which_a_blob_is_lost_is_a_miss(store: LocalStore, lost: str) -> None:
    digests = {name: store.put_bytes(name.encode()) for name in ("file", "in tree", "stdout", "stderr")}
    outputs = (("f", FileEntry(digests["file"])), ("t", Tree((("x", FileEntry(digests["in tree"])),))))
    result = ActionResult(outputs, digests["stdout"], digests["stderr"])
    store.put_action("k", result, {"step": "s"})
    assert store.get_action("k") == result
    store.blob_path(digests[lost]).unlink()
    assert store.get_action("k") is None
    store.put_bytes(lost.encode())
    assert store.get_action("k") == result


def test_results_survive_the_store(cache: Path, remember: Callable[..., ActionResult]) -> None:
    with open_store(cache) as store:
        result = remember(store, "k", b"data")
    with open_store(cache) as store:
        assert store.get_action("k") == result
        assert store.read_bytes(digest_bytes(b"data")) == b"data"


def test_a_cache_is_marked_as_one(store: LocalStore, cache: Path) -> None:
    assert (cache / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55\n")


def test_many_threads(store: LocalStore, tmp_path: Path, remember: Callable[..., ActionResult]) -> None:
    def work(thread: int) -> None:
        for i in range(60):
            datas = [str(i % 20).encode(), f"{thread} {i}".encode()]
            result = remember(store, f"{thread} {i}", *datas)
            assert store.get_action(f"{thread} {i}") == result
            store.place(result.output("o0"), tmp_path / f"{thread}-{i}")
            assert (tmp_path / f"{thread}-{i}").read_bytes() == datas[0]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    stat = store.stat()
    assert (stat.actions, stat.blobs, stat.temporary) == (480, 500, 0)


def test_a_cache_that_cannot_be_made(
    tmp_path: Path, write: Write, as_user: Callable[[Callable[[], None]], int]
) -> None:
    (tmp_path / "closed").mkdir(mode=0o555)

    def work() -> None:
        for path, message in (
            (write("file"), f"{tmp_path}/file is a file; expected a folder for the cache"),
            (tmp_path / "file" / "x", f"{tmp_path}/file/x: Not a directory"),
            (tmp_path / "closed" / "x", f"{tmp_path}/closed/x: Permission denied"),
            (tmp_path / "closed", f"{tmp_path}/closed is read-only; expected a writable folder for the cache"),
        ):
            with pytest.raises(EnvironmentProblem) as caught:
                open_store(path)
            assert str(caught.value) == message

    assert as_user(work) == 0


def test_a_forked_process_may_use_and_close_it(
    store: LocalStore, cache: Path, child: Callable[[Callable[[], None]], int], remember: Callable[..., ActionResult]
) -> None:
    result = remember(store, "k", b"data")

    def work() -> None:
        assert store.get_action("k") == result
        remember(store, "k2", b"data2")
        store.close()

    assert child(work) == 0
    with open_store(cache) as other:
        assert other.collect().busy, "the child must not have let go of the parent's lock"
    assert store.get_action("k2") is not None


def test_importing_it_is_cheap() -> None:
    """A build with nothing to do pays for this import: hashing, SQLite and temporary files are imported on use."""
    heavy = "{'hashlib', 'sqlite3', 'shutil', 'tempfile', 'zlib', 'pydantic', 'networkx', 'rich', 'logging'}"
    code = (
        "import sys; before = set(sys.modules); import modelbuild.store.local, modelbuild.store.output_tree;"
        f"print(sorted((set(sys.modules) - before) & {heavy}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
