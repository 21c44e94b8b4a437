"""Make blobs again that a cache lost: blobs of cached results may be gone, or fail to arrive, when they are read."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from modelbuild.actions import ActionResult, Digest, Material
from modelbuild.errors import EnvironmentProblem, ResultDiffers
from modelbuild.execution.executor import Outcome, Request
from modelbuild.store.codec import blobs_of
from modelbuild.store.interface import MissingBlob, Store

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Found:
    """A result of an action, and the request that makes it again."""

    request: Request
    key: str
    material: Material
    result: ActionResult


class Remaker:
    """Runs the actions of results whose blobs are gone. Reproducible steps make the same bytes, so later results stay
    valid. For other steps ResultDiffers is raised, and the cache contains the new result. Safe for many threads; makes
    one blob at a time.

    run   runs an action with its resources; called by a thread that holds no resources
    """

    def __init__(self, store: Store, run: Callable[[Request], Outcome]) -> None:
        self._store = store
        self._run = run
        self._lock = threading.RLock()
        self._makers: dict[Digest, Found] = {}

    def know(self, found: Found) -> None:
        """Remember the action that makes the result's blobs. The first action with a blob counts, because later ones
        may read it."""
        for digest in blobs_of(found.result):
            self._makers.setdefault(digest, found)

    def keeping(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, which reads blobs. If blobs are lost, make them and call `work` again. Raises
        EnvironmentProblem for a blob that cannot be made."""
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
                raise ResultDiffers(f"the outputs of {found.request.action.id} differ from its cached result")


def _gone(digest: Digest) -> EnvironmentProblem:
    return EnvironmentProblem(f"the cache lost {digest} during the build; build again")
