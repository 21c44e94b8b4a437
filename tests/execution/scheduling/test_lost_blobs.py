"""Lost blobs are made again by the action that made them first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modelbuild.actions import Action, ActionResult, Digest, FileEntry
from modelbuild.errors import EnvironmentProblem, ResultDiffers
from modelbuild.execution.executor import Outcome, Request
from modelbuild.execution.scheduling.lost_blobs import Found, Remaker
from modelbuild.store.interface import MissingBlob
from modelbuild.store.local import LocalStore, open_store


class Actions:
    """`first` writes a word; `second` reads it and writes the same word again."""

    def __init__(self, store: LocalStore, word: bytes = b"word") -> None:
        self.store = store
        self.word = word
        self.ran: list[str] = []

    def run(self, request: Request) -> Outcome:
        name = request.action.id
        word = self.word if name == "first" else self.store.read_bytes(digest_of(self.store))
        self.ran.append(name)
        return Outcome(ActionResult((("out", FileEntry(self.store.put_bytes(word))),)))


def digest_of(store: LocalStore) -> Digest:
    from modelbuild.store.digests import digest_bytes

    return digest_bytes(b"word")


@pytest.fixture
def made(tmp_path: Path) -> Any:
    with open_store(tmp_path / "cache") as store:
        actions = Actions(store)
        remaker = Remaker(store, actions.run)
        for name in ("first", "second"):
            request = Request(Action(name, "//:a", "m", "s"), ())
            outcome = actions.run(request)
            assert outcome.result is not None
            remaker.know(Found(request, name, {}, outcome.result))
        actions.ran.clear()
        yield store, actions, remaker


def lose(store: LocalStore) -> None:
    store.blob_path(digest_of(store)).unlink()


def test_a_shared_blob_is_made_again_by_the_first_of_its_makers(made: Any) -> None:
    store, actions, remaker = made
    lose(store)
    assert remaker.keeping(lambda: store.read_bytes(digest_of(store))) == b"word"
    assert actions.ran == ["first"]


def test_other_bytes_than_before_are_an_error(made: Any) -> None:
    store, actions, remaker = made
    lose(store)
    actions.word = b"another"
    with pytest.raises(ResultDiffers):
        remaker.keeping(lambda: store.read_bytes(digest_of(store)))


def test_blobs_without_a_maker_are_an_error(made: Any) -> None:
    _, _, remaker = made

    def work() -> None:
        raise MissingBlob(Digest("0" * 64, 1))

    with pytest.raises(EnvironmentProblem, match="the cache lost 0000"):
        remaker.keeping(work)
