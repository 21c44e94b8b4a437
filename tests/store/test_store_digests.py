"""Digests of bytes, files and values."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelbuild.actions import Digest, FileEntry, Tree, Value
from modelbuild.store.digests import FileChanged, digest_bytes, digest_file, value_digest

A = Digest("a" * 64, 3)
B = Digest("b" * 64, 3)


@pytest.mark.parametrize("size", [0, 1, 65536, 65537, 3_000_000])
def test_files_and_bytes_have_the_same_digest(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "f").write_bytes(data)
    expected = Digest(hashlib.sha256(data).hexdigest(), size)
    assert digest_bytes(data) == expected
    assert digest_file(tmp_path / "f") == expected


def test_a_file_that_changes_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    path.write_bytes(bytes(100_000))

    def digest_and_append(file: object, name: str) -> object:
        with path.open("ab") as other:
            other.write(b"more")
        return hashlib.new(name)

    monkeypatch.setattr(hashlib, "file_digest", digest_and_append)
    with pytest.raises(FileChanged, match=r"^f was written to while it was being read$"):
        digest_file(path)


entries = st.builds(FileEntry, st.sampled_from([A, B]), st.booleans())
names = st.text('ab/"\\, []0é', min_size=1, max_size=4)
trees = st.dictionaries(names, entries, max_size=4).map(lambda files: Tree(tuple(sorted(files.items()))))


@given(trees | entries, trees | entries)
def test_digests_are_equal_only_for_equal_values(a: Value, b: Value) -> None:
    assert (value_digest(a) == value_digest(b)) == (a == b)


def test_digest_of_a_value_is_the_same_everywhere() -> None:
    """Keys are shared between machines: this may change only with a new kind of key."""
    assert value_digest(FileEntry(A)) == hashlib.sha256(f'["file","{A.hash}",3,false]'.encode()).hexdigest()
    tree = f'["tree",[["f","{A.hash}",3,true]]]'
    assert value_digest(Tree((("f", FileEntry(A, True)),))) == hashlib.sha256(tree.encode()).hexdigest()
