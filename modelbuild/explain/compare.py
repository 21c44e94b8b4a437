"""Compare a target's last build with a build on another machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from modelbuild.errors import UsageError
from modelbuild.explain.causes import Causes, Times
from modelbuild.explain.verdicts import Verdict
from modelbuild.history.action_facts import ActionFacts, TargetFacts, dump
from modelbuild.history.action_records import Records
from modelbuild.history.stored_facts import load_dump
from modelbuild.user_files import write_file


def write_dump(records: Records, verdicts: Sequence[Verdict], path: Path) -> None:
    """Write the facts of the explained actions, and of the targets that own them, for `compare` on another machine.
    Raises as write_file does."""
    targets: dict[str, TargetFacts] = {}
    for verdict in verdicts:
        last = records.rows(verdict.facts.id)[0].last
        waiting: list[str] = [verdict.facts.owner]
        while waiting:
            node = waiting.pop()
            found = records.target(node, last)
            if node not in targets and found is not None:
                targets[node] = found
                waiting += found["needs"]
    write_file(path, dump([verdict.facts for verdict in verdicts], targets) + "\n")


def compare(records: Records, verdicts: Sequence[Verdict], path: Path) -> list[Verdict]:
    """Return verdicts on the same actions, each compared with its counterpart in a file. Raises UsageError for a file
    that write_dump did not write."""
    try:
        actions, targets = load_dump(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path}: {error}; expected a file that explain --dump wrote") from None
    mine: dict[str, ActionFacts] = {verdict.facts.id: verdict.facts for verdict in verdicts}
    last = max(records.rows(name)[0].last for name in mine)
    why = Causes(Times(actions.get, mine.get, targets.get, lambda node: records.target(node, last)))
    found = []
    for name, facts in mine.items():
        other = actions.get(name)
        if other is None:
            found.append(Verdict(facts, "first"))
        elif other.key == facts.key:
            found.append(Verdict(facts, "unchanged"))
        else:
            found.append(Verdict(facts, "changed", why.of(name)))
    return found
