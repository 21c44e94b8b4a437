"""Read a workspace's earlier builds from the history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelbuild.history.action_facts import ActionFacts, TargetFacts
from modelbuild.history.database import open_history, read_object, unpack
from modelbuild.history.identity import stored_path
from modelbuild.history.stored_facts import check_target, facts_of
from modelbuild.ids import ActionId, TargetId


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """An action with one key, and the first and the last build with this key."""

    facts: ActionFacts
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Build:
    """A recorded build: its number, its end in seconds since 1970, its duration, and whether it succeeded."""

    number: int
    at: float
    seconds: float
    ok: bool


class Records:
    """The history of one workspace."""

    def __init__(self, directory: Path, workspace: Path) -> None:
        self._problems: list[str] = []
        self._database = open_history(directory, self._problems.append)
        self._workspace = stored_path(workspace)
        self._known: dict[str, list[ActionRecord]] = {}

    def problem(self) -> str:
        """Return the reason why builds cannot be read; '' when they can."""
        return "".join(self._problems[:1])

    def rows(self, action: str) -> list[ActionRecord]:
        """Return all stored rows of an action, the newest first."""
        if action not in self._known:
            self._known[action] = list(self._rows("id = ?", action))
        return self._known[action]

    def actions_of(self, label: str) -> list[str]:
        """Return a target's actions, in every configuration, in the last build that contained any of them."""
        found = self._read(
            f"SELECT id, max(CAST(last AS INTEGER)) FROM actions WHERE workspace = ? AND {_OWNED} GROUP BY id",
            (self._workspace, *_owned(label)),
        )
        newest = max((last for _, last in found), default=0)
        return sorted(name for name, last in found if last == newest)

    def elsewhere(self, action: str) -> list[ActionRecord]:
        """Return the rows of the same action in other configurations of the target, the newest first."""
        this = ActionId(action)
        rows = self._rows(_OWNED, *_owned(this.label))
        return [row for row in rows if row.facts.id != this and row.facts.id.name == this.name]

    def newest(self) -> Build | None:
        """Return the last build that was recorded."""
        sql = "SELECT build, CAST(at AS REAL), CAST(seconds AS REAL), ok FROM builds WHERE workspace = ?"
        rows = self._read(f"{sql} ORDER BY build DESC LIMIT 1", (self._workspace,))
        return Build(rows[0][0], rows[0][1], rows[0][2], bool(rows[0][3])) if rows else None

    def actions_in(self, build: int) -> list[str]:
        """Return the actions whose last build is this build."""
        sql = "SELECT id FROM actions WHERE workspace = ? AND CAST(last AS INTEGER) = ? ORDER BY id"
        return [str(name) for (name,) in self._read(sql, (self._workspace, build))]

    def built_at(self, build: int) -> float:
        """Return the time of a build, in seconds since 1970."""
        rows = self._read("SELECT CAST(at AS REAL) FROM builds WHERE build = ?", (build,))
        return rows[0][0] if rows and 0 <= rows[0][0] < _LATEST else 0.0

    def target(self, node: str, build: int) -> TargetFacts | None:
        """Return a target's stored attributes from the last build up to `build` that contained it."""
        rows = self._read(
            "SELECT data FROM targets JOIN parts ON hash = parts WHERE workspace = ? AND node = ? AND first <= ?"
            " ORDER BY first DESC LIMIT 1",
            (self._workspace, node, build),
        )
        for (data,) in rows:
            with suppress(ValueError):
                return check_target(unpack(data))
        return None

    def _read(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return self._database.read(sql, values) or []

    def _rows(self, condition: str, *values: str) -> Iterator[ActionRecord]:
        for name, owner, key, status, seconds, first, last, place, parts, code in self._read(
            "SELECT id, owner, key, status, seconds, CAST(first AS INTEGER), CAST(last AS INTEGER), place, p.data,"
            " c.data FROM actions"
            " JOIN parts AS p ON p.hash = parts JOIN parts AS c ON c.hash = code"
            f" WHERE workspace = ? AND {condition} ORDER BY last DESC, first DESC",
            (self._workspace, *values),
        ):
            columns = {"id": name, "owner": owner, "key": key, "status": status, "seconds": seconds}
            with suppress(ValueError):  # a damaged row is skipped
                own = {"modules": unpack(code), "place": read_object(place)}
                yield ActionRecord(facts_of({**unpack(parts), **columns, **own}), first, last)


# Most seconds since 1970 that a calendar can represent.
_LATEST = 1e11

# The owner of a target's actions is its label, or its label followed by a configuration.
_OWNED = "(owner = ? OR substr(owner, 1, length(?)) = ?)"


def _owned(label: str) -> tuple[str, str, str]:
    configured = TargetId.of(label, "").removesuffix(")")
    return label, configured, configured
