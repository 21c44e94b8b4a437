"""The outcomes of actions, as events and as a report."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar

from modelbuild.actions import Action, ActionResult, Digest, ErrorText, Expansion, FileEntry, Material, Place
from modelbuild.events import ActionFinished, Notice, Reporter
from modelbuild.execution.executor import Outcome
from modelbuild.execution.scheduling.artifact_values import Values
from modelbuild.execution.scheduling.lost_blobs import Keyed
from modelbuild.lines import one_line, without_noise
from modelbuild.store.interface import MissingBlob, Store

T = TypeVar("T")


@dataclass(slots=True)
class Report:
    """The outcome of each action, by id: its key and key material, its result and status, and its place if it ran
    remotely. For an action that failed or could not run, it contains the id of the failed action that caused this."""

    keys: dict[str, str] = field(default_factory=dict)
    materials: dict[str, Material] = field(default_factory=dict)
    results: dict[str, ActionResult] = field(default_factory=dict)
    statuses: dict[str, Literal["ran", "cached"]] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


class Keeping(Protocol):
    """Returns the result of work that reads blobs, after lost blobs were made again."""

    def __call__(self, work: Callable[[], T]) -> Awaitable[T]: ...


class Reports:
    """Reports the ends of actions to a reporter and in a Report."""

    def __init__(self, report: Report, values: Values, store: Store, reporter: Reporter, keeping: Keeping) -> None:
        self._report = report
        self._values = values
        self._store = store
        self._reporter = reporter
        self._keeping = keeping

    async def succeeded(
        self, action: Action, keyed: Keyed, result: ActionResult, status: Literal["ran", "cached"], slot: int = 0
    ) -> None:
        """Add a result, and report the action with its notes."""
        cached = status == "cached"
        self._values.made(action.id, result)
        self._report.results[action.id] = result
        self._report.statuses[action.id] = status
        self._reporter.emit(
            ActionFinished(
                *named(action),
                status,
                seconds=0.0 if cached else result.seconds,
                key=keyed.key,
                worker=0 if cached else slot,
                makers=self._values.makers(action),
                place=self._report.places.get(action.id),
                saved=result.seconds if cached else 0.0,
                fetched=cached and keyed.key in self._store.fetched,
            )
        )
        for note in self._notes(action, result):
            text = await self._error_text(action.error_text, note)
            self._reporter.emit(Notice(one_line(f"{action.owner}: {text}")))

    async def failed(self, action: Action, outcome: Outcome, key: str = "", slot: int = 0) -> str:
        """Report a failed action, and return its id. An action without a key was not run."""
        ran = bool(key)
        problem = await self._error_text(action.error_text, outcome.problem) if ran else outcome.problem
        texts = self._text(outcome.stdout), self._text(outcome.stderr)
        makers = self._values.makers(action) if ran else ()
        self._reporter.emit(ActionFinished(*named(action), "failed", 0.0, problem, *texts, key, slot, makers))
        return action.id

    def expansion_failed(self, expansion: Expansion, problem: str) -> str:
        """Report a failed expansion, and return its id."""
        self._reporter.emit(ActionFinished(expansion.id, expansion.owner, "expand", "expand", "failed", 0.0, problem))
        return expansion.id

    async def _error_text(self, error_text: ErrorText | None, problem: str) -> str:
        """Return the error message for a problem; unchanged if the files for the text were not built."""
        if error_text is None:
            return problem
        made = [self._values.value(artifact) for artifact in error_text.reads if self._values.has(artifact)]
        files = [value for value in made if isinstance(value, FileEntry)]
        if len(files) != len(error_text.reads):
            return problem
        format_error = error_text.format
        return await self._keeping(lambda: format_error(problem, *(self._store.read_bytes(f.digest) for f in files)))

    def _notes(self, action: Action, result: ActionResult) -> list[str]:
        """Return the lines of the action's notes, which are usually none."""
        value = dict(result.outputs).get(action.notes) if action.notes else None
        if not isinstance(value, FileEntry) or not value.digest.size:
            return []
        return self._text(value.digest).splitlines()

    def _text(self, digest: Digest | None) -> str:
        try:
            return without_noise(self._store.read_bytes(digest).decode(errors="replace")) if digest else ""
        except MissingBlob:  # removed by another program
            return ""


def named(action: Action) -> tuple[str, str, str, str]:
    """Return the first members of an event about an action."""
    return action.id, action.owner, action.mnemonic, action.description or action.mnemonic
