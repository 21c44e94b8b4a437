"""Make blobs again that a cache lost: blobs of cached results may be missing when they are read, or fail to arrive."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from modelbuild.actions import ActionResult, Digest, Material
from modelbuild.errors import EnvironmentProblem, ResultDiffers
from modelbuild.execution.executor import ActionRequest, Outcome
from modelbuild.execution.scheduling.loop import Promise
from modelbuild.store.codec import blobs_of
from modelbuild.store.interface import MissingBlob, Store

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Keyed:
    """An action with its key and, if the cache has it, its result; the lookup took `seconds`."""

    request: ActionRequest
    key: str
    material: Material
    result: ActionResult | None = None
    seconds: float = 0.0


class Remaker:
    """Runs the actions of results whose blobs are missing. Reproducible steps make the same bytes, so later results
    stay valid. For other steps ResultDiffers is raised, and the cache contains the new result.

    start   starts to run an action when the machine has room
    """

    def __init__(self, store: Store, start: Callable[[ActionRequest], Promise[Outcome]]) -> None:
        self._store = store
        self._start = start
        self._makers: dict[Digest, tuple[Keyed, ActionResult]] = {}
        self._running: dict[str, Promise[Outcome]] = {}

    def know(self, keyed: Keyed, result: ActionResult) -> None:
        """Remember the action that makes the result's blobs. The first action with a blob counts, because later actions
        may read it."""
        for digest in blobs_of(result):
            self._makers.setdefault(digest, (keyed, result))

    async def keeping(self, work: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `work`, which reads blobs. If blobs are lost, make them and call `work` again. Raises
        EnvironmentProblem for a blob that cannot be made."""
        lost: set[Digest] = set()
        while True:
            try:
                return await work()
            except MissingBlob as error:
                if error.digest in lost:
                    raise _gone(error.digest) from error
                lost.add(error.digest)
                await self._make(error.digest)

    async def _make(self, digest: Digest) -> None:
        if not self._store.missing([digest]):
            return  # another coroutine made it
        if digest not in self._makers:
            raise _gone(digest)
        keyed, expected = self._makers[digest]
        outcome = await self.keeping(lambda: self._run(keyed))
        if outcome.result is None:
            raise _gone(digest)
        self._store.put_action(keyed.key, outcome.result, keyed.material)
        if outcome.result.outputs != expected.outputs:
            raise ResultDiffers(f"the outputs of {keyed.request.action.id} differ from its cached result")

    async def _run(self, keyed: Keyed) -> Outcome:
        """Run an action once for all coroutines that wait for its blobs."""
        if keyed.key not in self._running:
            self._running[keyed.key] = self._start(keyed.request)
        try:
            return await self._running[keyed.key]
        finally:
            self._running.pop(keyed.key, None)


def _gone(digest: Digest) -> EnvironmentProblem:
    return EnvironmentProblem(f"the cache lost {digest} during the build; build again")
