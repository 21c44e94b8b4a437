"""A reporter that writes the page of a build."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from modelbuild import __version__
from modelbuild.events import ActionFinished, BuildStarted, Event, Notice, TargetBuilt
from modelbuild.report.files.action_times import ActionTimes
from modelbuild.report.files.comparison import Comparison
from modelbuild.report.page.html import write
from modelbuild.report.progress import BuildProgress
from modelbuild.user_files import check_file

# Why an action ran or was cached: one word of `explain --json`, and lines.
Reason: TypeAlias = tuple[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class About:
    """The facts of a build that its events do not have.

    command    the command line
    commit     of the workspace, if known; `changed` if the workspace's files differ from the commit
    reasons    returns the reason for each action in the history, by id
    programs   returns the programs among the outputs of targets
    time       the start of the command, in seconds since 1970
    """

    workspace: str
    command: str
    commit: str | None
    changed: bool
    reasons: Callable[[Mapping[str, ActionFinished]], Mapping[str, Reason]]
    programs: Callable[[Sequence[TargetBuilt]], Iterable[Mapping[str, Any]]]
    time: float


class Page:
    """Collects events; close() writes the page. Both raise as write_file does."""

    def __init__(self, path: Path, about: About, comparison: Comparison) -> None:
        self._path = path
        self._about = about
        self._comparison = comparison
        self._began = time.monotonic()
        self._progress = BuildProgress()
        self._times = ActionTimes()
        self._notices: list[str] = []
        self._jobs = 0
        check_file(path)

    def emit(self, event: Event) -> None:
        self._progress.add(event)
        self._times.add(event)
        self._comparison.add(event)
        match event:
            case Notice(text=text):
                self._notices.append(text)
            case BuildStarted(jobs=jobs):
                self._jobs = jobs

    def close(self) -> None:
        write(self._path, self._data())

    def _data(self) -> dict[str, Any]:
        programs = list(self._about.programs(self._progress.built))
        return {"title": self._about.command, "build": self._build(), "programs": programs}

    def _build(self) -> dict[str, Any]:
        about, progress = self._about, self._progress
        end, aborted = progress.finished, progress.aborted
        cached = [event for event in progress.actions.values() if event.status == "cached"]
        fetched = sum(event.fetched for event in cached)
        order = {name: number for number, name in enumerate(progress.actions)}
        up_to_date = end is not None and end.up_to_date
        return {
            "modelbuild": __version__,
            "workspace": about.workspace,
            "command": about.command,
            "time": about.time,
            "commit": about.commit,
            "changed": about.changed,
            "ok": progress.ok,
            "exit": end.exit if end else aborted.exit if aborted else None,
            "problem": aborted.problem if aborted else None,
            "interrupted": aborted is not None and aborted.interrupted,
            "up_to_date": up_to_date,
            "seconds": end.seconds if end else None,
            "jobs": self._jobs,
            "counts": {
                "targets": len(progress.built),
                "unbuilt": len(progress.unbuilt) + len(progress.skipped),
                "actions": end.actions if end and up_to_date else progress.total,
                "ran": progress.ran,
                "local": len(cached) - fetched,
                "remote": fetched,
                "failed": progress.failed,
            },
            "saved": sum(event.saved for event in cached),
            "targets": [
                *({"label": t.label, "config": t.config, "outputs": t.outputs} for t in progress.built),
                *({"label": t.label, "config": t.config, "because": t.because} for t in progress.unbuilt),
                *(
                    {"label": t.label, "config": None, "because": t.problem, "location": t.location}
                    for t in progress.skipped.values()
                ),
            ],
            "actions": self._actions(order),
            "critical": [
                {"action": order[event.id], **self._span(start, end)}
                if isinstance(event, ActionFinished)
                else {"modules": event.modules, **self._span(start, end)}
                for event, start, end in self._times.critical()
            ],
            "starts": [
                {"modules": event.modules, **self._span(event.at - event.seconds, event.at)}
                for event in self._times.ready
            ],
            "tests": [{name: value for name, value in asdict(t).items() if name != "at"} for t in progress.tests],
            "base": self._comparison.title,
            "measures": [asdict(each) for each in self._comparison.measures()],
            "notices": self._notices,
        }

    def _span(self, start: float, end: float) -> dict[str, float]:
        return {"start": round(start - self._began, 4), "end": round(end - self._began, 4)}

    def _actions(self, order: Mapping[str, int]) -> list[dict[str, Any]]:
        actions = self._progress.actions
        reasons = self._about.reasons(actions)
        return [self._action(event, order, reasons.get(event.id)) for event in actions.values()]

    def _action(self, event: ActionFinished, order: Mapping[str, int], reason: Reason | None) -> dict[str, Any]:
        """Return an action, without members that have their default."""
        start = end = event.at
        if event.status != "cached":
            start, end = self._times.span(event)
        shown = {
            "id": event.id,
            "owner": event.owner,
            "mnemonic": event.mnemonic,
            "description": event.description.removeprefix(event.mnemonic).strip(),
            "status": "fetched" if event.fetched else event.status,
            **self._span(start, end),
            "saved": round(event.saved, 3),
            "worker": event.worker,
            "place": asdict(event.place) if event.place else None,
            "key": event.key,
            "makers": [order[maker] for maker in event.makers if maker in order],
            "reason": reason[0] if reason else "",
            "why": list(reason[1]) if reason else [],
            "problem": event.problem,
            "stdout": event.stdout,
            "stderr": event.stderr,
        }
        return {name: value for name, value in shown.items() if value or name in ("start", "end")}
