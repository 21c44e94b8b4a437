"""Making again what a cache lost: blobs that results name may be gone, or never come, when somebody reads them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from modelbuild.actions import ActionResult, Digest
from modelbuild.errors import EnvironmentProblem, ResultDiffers
from modelbuild.execution.executor import Outcome, Request
from modelbuild.store.codec import blobs_of
from modelbuild.store.interface import MissingBlob, Store

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Found:
    """A result of an action, and what it takes to make it again."""

    request: Request
    key: str
    material: Mapping[str, Any]
    result: ActionResult


class Remaker:
    """Runs the actions of results whose blobs turn out to be gone. Steps make the same bytes each time, so what
    was built on them stays right; where it does not, ResultDiffers is raised, and the cache has what was made now.
    Safe for many threads; makes one at a time.

    run   runs an action, with the resources that it takes; called by a thread that holds none
    """

    def __init__(self, store: Store, run: Callable[[Request], Outcome]) -> None:
        self._store = store
        self._run = run
        self._lock = threading.RLock()
        self._makers: dict[Digest, Found] = {}

    def know(self, found: Found) -> None:
        """Remember what gives some blobs. Of those that several actions give it is the first one's: what comes later
        may read them."""
        for digest in blobs_of(found.result):
            self._makers.setdefault(digest, found)

    def keeping(self, work: Callable[[], T]) -> T:
        """Do something that reads blobs, and may be done again; lost ones are made first. Raises EnvironmentProblem
        when one cannot be made."""
        lost: set[Digest] = set()
        while True:
            try:
                return work()
            except MissingBlob as error:
                if error.digest in lost:
                    raise _gone(error.digest) from error
                lost.add(error.digest)
                self._make(error.digest)

    def _make(self, digest: Digest) -> None:
        with self._lock:
            if not self._store.missing([digest]):
                return  # Another thread made it while this one waited.
            found = self._makers.get(digest)
            if found is None:
                raise _gone(digest)
            outcome = self.keeping(lambda: self._run(found.request))
            if outcome.result is None:
                raise _gone(digest)
            self._store.put_action(found.key, outcome.result, found.material)
            if outcome.result.outputs != found.result.outputs:
                raise ResultDiffers(f"{found.request.action.id} gave something else than a result in the cache says")


def _gone(digest: Digest) -> EnvironmentProblem:
    return EnvironmentProblem(f"the cache lost {digest} during the build; build again")
