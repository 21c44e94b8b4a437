"""Lost blobs are made again by the action that made them first."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from modelbuild.actions import Action, ActionResult, Digest, FileEntry
from modelbuild.errors import EnvironmentProblem, ResultDiffers
from modelbuild.execution.executor import ActionRequest, Outcome
from modelbuild.execution.scheduling.loop import Loop
from modelbuild.execution.scheduling.lost_blobs import Keyed, Remaker
from modelbuild.store.interface import MissingBlob
from modelbuild.store.local import LocalStore, open_store


class Actions:
    """`first` writes a word; `second` reads it and writes the same word again."""

    def __init__(self, store: LocalStore, word: bytes = b"word") -> None:
        self.store = store
        self.word = word
        self.ran: list[str] = []

    def run(self, request: ActionRequest) -> Outcome:
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
        loop = Loop(ThreadPoolExecutor(1), lambda: None)
        remaker = Remaker(store, lambda request: loop.spawn(loop.call(lambda: actions.run(request))))
        for name in ("first", "second"):
            request = ActionRequest(Action(name, "//:a", "m", "s"), ())
            outcome = actions.run(request)
            assert outcome.result is not None
            remaker.know(Keyed(request, name, {}), outcome.result)
        actions.ran.clear()

        def keeping(work: Callable[[], object], times: int = 1) -> list[object]:
            async def once() -> object:
                return work()

            async def main() -> list[object]:
                return [await end for end in [loop.spawn(remaker.keeping(once)) for _ in range(times)]]

            return loop.run(main())

        yield store, actions, keeping


def lose(store: LocalStore) -> None:
    store.blob_path(digest_of(store)).unlink()


def test_the_first_action_that_made_a_blob_makes_it_again_once_for_all_readers(made: Any) -> None:
    """Later actions with the same blob may have read it."""
    store, actions, keeping = made
    lose(store)
    assert keeping(lambda: store.read_bytes(digest_of(store)), times=3) == [b"word"] * 3
    assert actions.ran == ["first"]


def test_a_result_that_differs_is_an_error(made: Any) -> None:
    store, actions, keeping = made
    lose(store)
    actions.word = b"another"
    with pytest.raises(ResultDiffers):
        keeping(lambda: store.read_bytes(digest_of(store)))


def test_a_blob_that_no_action_made_is_an_error(made: Any) -> None:
    _, _, keeping = made

    def work() -> None:
        raise MissingBlob(Digest("0" * 64, 1))

    with pytest.raises(EnvironmentProblem, match="the cache lost 0000"):
        keeping(work)
