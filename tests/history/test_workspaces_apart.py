"""One history for several workspaces: what is measured in one is not another's, and clones of one are the same."""

from __future__ import annotations

import sqlite3
import subprocess
from pathlib import Path

import pytest

from modelbuild.history.action_facts import Facts
from modelbuild.history.database import HistoryFile
from modelbuild.history.identity import identity, plain_address
from modelbuild.history.measurements import Measures
from modelbuild.history.revisions import remember_revision, values_at
from modelbuild.history.write import remember

BYTES = ("//m:a (cpu)", "bytes")


def clone(folder: Path, address: str = "") -> Path:
    """A repository with that origin."""
    folder.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    if address:
        subprocess.run(["git", "-C", str(folder), "remote", "add", "origin", address], check=True)
    return folder


@pytest.mark.parametrize(
    ("address", "plain"),
    [
        ("https://git.example/team/models.git", "git.example/team/models"),
        ("https://job:s3cret@Git.example/team/models/", "git.example/team/models"),
        ("ssh://git@git.example/team/models.git", "git.example/team/models"),
        ("git@git.example:team/models.git", "git.example/team/models"),
        ("git.example:team/models", "git.example/team/models"),
        ("https://git.example:8443/team/models", "git.example:8443/team/models"),
        ("/srv/git/models.git", "/srv/git/models"),
    ],
)
def test_an_address_whatever_way_leads_there(address: str, plain: str) -> None:
    assert plain_address(address) == plain


def test_clones_of_one_repository_are_one_workspace(tmp_path: Path) -> None:
    one = clone(tmp_path / "one", "https://job:s3cret@git.example/team/models.git")
    two = clone(tmp_path / "deep/two", "git@git.example:team/models.git")
    other = clone(tmp_path / "other", "git@git.example:team/others.git")
    alone, plain = clone(tmp_path / "alone"), tmp_path / "plain"
    for folder in (one, two, other):
        (folder / "vision").mkdir()
    assert identity(one) == identity(two)
    assert identity(one / "vision") == identity(two / "vision")
    apart = (one, one / "vision", other, other / "vision", alone, plain)
    assert len({identity(each) for each in apart}) == len(apart)


def build(cache: Path, root: Path, size: float) -> None:
    """Note a build in which BYTES was measured."""
    facts = Facts("//m:a#emit", "//m:a", "emit", "k", "ran", 1.0, {}, {}, {}, {})
    remember(cache, root, 1.0, True, {"//m:a#emit": facts}, {}, {BYTES: size})


def test_what_is_measured_in_one_workspace_is_not_another_s(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    build(tmp_path, here, 1.0)
    build(tmp_path, there, 2.0)
    assert Measures(tmp_path, here).last(*BYTES) == 1
    assert Measures(tmp_path, there).last(*BYTES) == 2
    assert [point.value for point in Measures(tmp_path, here).series("//m:a")[BYTES]] == [1]
    for root, size in ((here, 1.0), (there, 2.0)):
        remember_revision(tmp_path, root, "c1", {BYTES: size})
    assert values_at(tmp_path, here, ["c2", "c1"]) == {BYTES: 1}
    assert values_at(tmp_path, there, ["c2", "c1"]) == {BYTES: 2}
    assert values_at(tmp_path, tmp_path / "third", ["c2", "c1"]) == {}


VERSION_2 = """
CREATE TABLE builds (
    build INTEGER PRIMARY KEY, workspace TEXT NOT NULL, at REAL NOT NULL, seconds REAL NOT NULL, ok INTEGER NOT NULL);
CREATE TABLE parts (hash TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE actions (
    workspace TEXT NOT NULL, id TEXT NOT NULL, owner TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
    key TEXT NOT NULL, status TEXT NOT NULL, seconds REAL NOT NULL, parts TEXT NOT NULL, code TEXT NOT NULL,
    place TEXT NOT NULL,
    PRIMARY KEY (workspace, id, first)) WITHOUT ROWID;
CREATE TABLE targets (
    workspace TEXT NOT NULL, node TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, parts TEXT NOT NULL,
    PRIMARY KEY (workspace, node, first)) WITHOUT ROWID;
CREATE TABLE measures (
    subject TEXT NOT NULL, name TEXT NOT NULL, at REAL NOT NULL, value REAL NOT NULL, key TEXT NOT NULL,
    PRIMARY KEY (subject, name, at)) WITHOUT ROWID;
CREATE TABLE revisions (
    revision TEXT NOT NULL, subject TEXT NOT NULL, name TEXT NOT NULL, value REAL NOT NULL, at REAL NOT NULL,
    PRIMARY KEY (revision, subject, name)) WITHOUT ROWID;
INSERT INTO builds VALUES (7, '/w', 1.0, 2.0, 1);
INSERT INTO parts VALUES ('p', x'00');
INSERT INTO actions VALUES ('/w', '//m:a#emit', '//m:a', 7, 7, 'k', 'ran', 1.0, 'p', 'p', 'null');
INSERT INTO targets VALUES ('/w', '//m:a', 7, 7, 'p');
INSERT INTO measures VALUES ('//m:a (cpu)', 'bytes', 1.0, 5.0, '');
INSERT INTO revisions VALUES ('c1', '//m:a (cpu)', 'bytes', 5.0, 1.0);
"""
TABLES = ("builds", "parts", "actions", "targets", "measures", "revisions")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """What version 2 left; its folder is the cache's."""
    connection = sqlite3.connect(tmp_path / "history-v2.db")
    connection.executescript(VERSION_2)
    connection.close()
    return tmp_path


def test_what_version_2_wrote_is_every_workspace_s(old: Path) -> None:
    here = old / "here"
    assert Measures(old, here).last(*BYTES) == 5
    assert values_at(old, here, ["c1"]) == {BYTES: 5}
    file = HistoryFile(old)
    assert [file.read(f"SELECT count(*) FROM {table}") for table in TABLES] == [[(1,)]] * len(TABLES)
    file.close()
    build(old, here, 6.0)
    remember_revision(old, here, "c1", {BYTES: 6.0})
    assert [point.value for point in Measures(old, here).series("//m:a")[BYTES]] == [5, 6]
    assert values_at(old, here, ["c1"]) == {BYTES: 6}
    assert values_at(old, old / "there", ["c1"]) == {BYTES: 5}


def test_it_is_taken_over_once(old: Path) -> None:
    file = HistoryFile(old)
    assert file.begin()
    file.write("DELETE FROM measures", [()])
    file.commit()
    file.close()
    assert Measures(old, old).series("//m:a") == {}
    assert (old / "history-v2.db").exists()


def test_one_that_is_being_written_is_taken_over_later(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelbuild.history.database._PATIENCE", 0.01)
    writer = sqlite3.connect(old / "history-v2.db", isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    assert Measures(old, old).last(*BYTES) is None
    writer.execute("ROLLBACK")
    writer.close()
    assert Measures(old, old).last(*BYTES) == 5


@pytest.mark.parametrize("content", [b"", b"no database at all, but long enough to be read as one" * 20])
def test_one_that_is_broken_is_left_out(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "history-v2.db").write_bytes(content)
    build(tmp_path, tmp_path, 6.0)
    assert Measures(tmp_path, tmp_path).last(*BYTES) == 6
