"""Results as messages of the Remote Execution API and back; messages that cannot be right."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelbuild.actions import ActionResult, Digest, FileEntry, Tree
from modelbuild.remote import results
from modelbuild.remote.messages import message
from modelbuild.remote.problems import RemoteProblem
from modelbuild.remote.results import Blobs, action_of, decode, encode, keep, to_message, tree_message, tree_value
from modelbuild.store.codec import decode_result, encode_result


def digest(text: str) -> Digest:
    return Digest(hashlib.sha256(text.encode()).hexdigest(), len(text))


names = st.text("ab.-é", min_size=1, max_size=3).filter(lambda name: name not in (".", ".."))
entries = st.builds(FileEntry, st.text("xyz", max_size=2).map(digest), st.booleans())


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    files: dict[str, FileEntry] = {}
    for parts in draw(st.lists(st.lists(names, min_size=1, max_size=4), max_size=8)):
        path = "/".join(parts)
        taken = any(other == path or other.startswith(path + "/") or path.startswith(other + "/") for other in files)
        if not taken:
            files[path] = draw(entries)
    return Tree(tuple(sorted(files.items())))


@given(trees())
def test_a_folder_comes_back_as_it_was(tree: Tree) -> None:
    blobs: Blobs = {}
    made = tree_message(tree, blobs)
    assert tree_value(made.SerializeToString()) == tree
    folders = {made.root.SerializeToString(), *(child.SerializeToString() for child in made.children)}
    assert set(blobs.values()) == folders
    for data in folders:
        folder = message("Directory").FromString(data)
        for nodes in (folder.files, folder.directories):
            assert [n.name.encode() for n in nodes] == sorted({n.name.encode() for n in nodes})


RESULT = ActionResult(
    (
        ("program", FileEntry(digest("p"), True)),
        ("tree", Tree((("a/b", FileEntry(digest("b"))), ("c", FileEntry(digest("c"), True))))),
    ),
    stdout=digest("out"),
    seconds=1.25,
    max_rss=7 << 30,
)
DECLARED = [("program", "file"), ("tree", "tree")]


def test_a_result_comes_back_as_it_was() -> None:
    made, blobs = encode(RESULT)
    sent = message("ActionResult").FromString(made.SerializeToString())
    assert decode(sent, DECLARED, lambda digests: {d: blobs[d] for d in digests}) == RESULT


def test_an_action_is_not_one_of_bazel_s() -> None:
    key = "0" * 64
    found, blobs = action_of(key)
    action = message("Action").FromString(blobs[found])
    assert action.salt == b"modelbuild/1\0" + key.encode()
    assert {Digest(d.hash, d.size_bytes) for d in (action.command_digest, action.input_root_digest)} < blobs.keys()
    # Identifies results of earlier builds: a change invalidates all caches.
    assert found.hash == "a2c5b79260b76f7ebd900a8a2b9275808522e278c062d377e799b1a22b9a509a"
    assert action_of("1" * 64)[0] != found


def changed(change: Callable[[Any], Any]) -> Any:
    made, _ = encode(RESULT)
    change(made)
    return made


@pytest.mark.parametrize(
    "change",
    [
        lambda m: setattr(m, "exit_code", 1),
        lambda m: m.output_files.pop(),
        lambda m: m.output_files.add(path="more", digest=to_message(digest("m"))),
        lambda m: setattr(m.output_files[0], "path", "../program"),
        lambda m: setattr(m.output_files[0].digest, "hash", "0" * 63),
        lambda m: setattr(m.output_files[0].digest, "hash", "0" * 63 + "G"),
        lambda m: setattr(m.output_files[0].digest, "size_bytes", -1),
        lambda m: m.output_directories.pop(),
        lambda m: setattr(m.output_directories[0].tree_digest, "size_bytes", 1 << 40),
        lambda m: setattr(m.output_directories[0].tree_digest, "hash", "0" * 64),
        lambda m: m.output_directories[0].tree_digest.CopyFrom(to_message(digest("p"))),
        lambda m: setattr(m.stdout_digest, "hash", ""),
    ],
)
def test_a_result_that_cannot_be_right_is_refused(change: Callable[[Any], Any]) -> None:
    _, blobs = encode(RESULT)
    blobs[digest("p")] = b"p"
    with pytest.raises(RemoteProblem) as caught:
        decode(changed(change), DECLARED, lambda digests: {d: blobs[d] for d in digests if d in blobs})
    assert caught.value.kind == "wrong"


def test_outputs_of_another_kind_are_refused() -> None:
    made, blobs = encode(RESULT)
    with pytest.raises(RemoteProblem):
        decode(made, [("program", "tree"), ("tree", "file")], lambda digests: {d: blobs[d] for d in digests})


def folder(files: tuple[str, ...] = (), link: str = "", below: dict[str, Any] | None = None) -> Any:
    made = message("Directory")()
    for name in files:
        made.files.add(name=name, digest=to_message(digest(name)))
    if link:
        made.symlinks.add(name=link, target="/etc/passwd")
    for name, child in (below or {}).items():
        made.directories.add(name=name, digest=to_message(keep(child, {})))
    return made


def whole(root: Any, *children: Any) -> bytes:
    data: bytes = message("Tree")(root=root, children=children).SerializeToString()
    return data


def bomb() -> bytes:
    """A few hundred bytes that represent 2**40 files."""
    child, children = folder(("x",)), []
    for _ in range(40):
        children.append(child)
        child = folder(below={"a": child, "b": child})
    return whole(child, *children)


def deep() -> bytes:
    child, children = folder(("x",)), []
    for _ in range(250):
        children.append(child)
        child = folder(below={"a": child})
    return whole(child, *children)


def long() -> bytes:
    child, children = folder(("x",)), []
    for _ in range(20):
        children.append(child)
        child = folder(below={"a" * 200: child})
    return whole(child, *children)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\xff\xff", id="no message"),
        pytest.param(whole(folder(link="x")), id="a link"),
        pytest.param(whole(folder(("..",))), id="dots"),
        pytest.param(whole(folder(("a/b",))), id="a slash"),
        pytest.param(whole(folder(("",))), id="no name"),
        pytest.param(whole(folder(("a\0b",))), id="a zero"),
        pytest.param(whole(folder(("x", "x"))), id="twice"),
        pytest.param(whole(folder(("x",), below={"x": folder(("y",))}), folder(("y",))), id="a file and a folder"),
        pytest.param(
            whole(folder(("x", "x-"), below={"x": folder(("y",))}), folder(("y",))), id="a file and a folder, apart"
        ),
        pytest.param(whole(folder(("x" * 256,))), id="a long name"),
        pytest.param(whole(folder(("é" * 128,))), id="a name of many bytes"),
        pytest.param(long(), id="a long path"),
        pytest.param(whole(folder(below={"..": folder(("x",))}), folder(("x",))), id="a folder up"),
        pytest.param(whole(folder(below={"a": folder(("x",))})), id="a part that is not there"),
        pytest.param(bomb(), id="a bomb"),
        pytest.param(deep(), id="too deep"),
    ],
)
def test_a_folder_that_cannot_be_right_is_refused(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelbuild.remote.results.MAX_FILES", 10_000)
    with pytest.raises(ValueError):  # noqa: PT011
        tree_value(data)


# Many threads that need messages first; prints how many kinds of one message they got.
FIRST = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from modelbuild.remote.messages import message

sys.setswitchinterval(1e-6)
together = threading.Barrier(8)

def get(_):
    together.wait()
    return message("ActionResult")().output_files.add().digest.__class__

with ThreadPoolExecutor(8) as pool:
    print(len(set(pool.map(get, range(8)))))
"""


def test_threads_that_come_at_once_share_the_messages() -> None:
    done = subprocess.run([sys.executable, "-P", "-c", FIRST], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == "1\n"


def test_a_part_that_is_there_often_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost of refusing a folder is proportional to its description, not to its expanded size."""
    read: list[str] = []
    check = results.check_path
    monkeypatch.setattr(results, "check_path", lambda path: check(read.append(path) or path))
    with pytest.raises(ValueError, match="too many files"):
        tree_value(bomb())
    assert len(read) <= 81


def test_a_folder_made_of_parts_that_were_read_before_may_not_be_deeper() -> None:
    """No part is too deep at its first occurrence."""
    child, children, parts = folder(("x",)), [], {}
    for number in range(1500):
        children.append(child)
        child = folder(below={"a": child})
        if number % 150 == 149:
            parts[f"{number:04}"] = child
    children.append(child)
    with pytest.raises(ValueError, match="too deep"):
        tree_value(whole(folder(below=parts), *children))


def test_a_folder_full_of_empty_ones_is_empty() -> None:
    child, children = folder(), []
    for _ in range(40):
        children.append(child)
        child = folder(below={"a": child, "b": child})
    assert tree_value(whole(child, *children)) == Tree(())


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """Generate any folder, also ones that no disk can contain: with duplicate or too long names."""
    any_name = st.one_of(names, st.sampled_from(["a" * 255, "a" * 256, "é" * 128, "a", "a-", ".", "..", "a/b"]))
    children: list[Any] = []
    made = folder()
    for _ in range(draw(st.integers(1, 12))):
        below = {name: draw(st.sampled_from(children)) for name in draw(st.lists(any_name, max_size=2)) if children}
        made = folder(tuple(draw(st.lists(any_name, max_size=3))), below=below)
        children.append(made)
    return whole(made, *children)


@given(data=messages())
def test_a_folder_that_is_taken_can_be_laid_out_and_read_again(data: bytes, tmp_path_factory: Any) -> None:
    try:
        tree = tree_value(data)
    except ValueError:
        return
    result = ActionResult((("tree", tree),))
    assert decode_result(encode_result(result)) == result
    place = tmp_path_factory.mktemp("place")
    for path, _ in tree.files:
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).touch(exist_ok=False)
