"""One history for several workspaces: measurements are separate, except for clones of one repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from modelbuild.history.action_facts import ActionFacts
from modelbuild.history.identity import identity, plain_address
from modelbuild.history.measurements import Measures
from modelbuild.history.revisions import remember_revision, values_at
from modelbuild.history.write import BuildFacts, remember

BYTES = ("//m:a (cpu)", "bytes")


def clone(folder: Path, address: str = "") -> Path:
    """Return a repository with that origin."""
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
    facts = ActionFacts("//m:a#emit", "//m:a", "emit", "k", "ran", 1.0, {}, {}, ())
    remember(cache, root, BuildFacts(1.0, True, {"//m:a#emit": facts}, {}, {BYTES: size}))


def test_measurements_belong_to_one_workspace(tmp_path: Path) -> None:
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
