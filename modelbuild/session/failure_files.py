"""Keep long output of failed actions in files, and report a few lines of it with the file's path."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from modelbuild.events import ActionFinished, Event, Reporter
from modelbuild.redaction import without_secrets
from modelbuild.store.output_tree import keep_failure

# Maximum number of lines of a failed action's output, or of its reason, that are reported, and maximum number of
# characters in a line.
_LINES = 25
_COLUMNS = 1500


class FailureFiles:
    """A reporter that passes events on. Output and reasons that are too long for a screen are replaced by the path of a
    file with the whole text, in the output tree."""

    def __init__(self, reporter: Reporter, outputs: Path) -> None:
        """`outputs` is the root of the output tree."""
        self._reporter = reporter
        self._outputs = outputs

    def emit(self, event: Event) -> None:
        """Pass an event on."""
        if isinstance(event, ActionFinished) and event.status == "failed":
            event = self._shortened(event)
        self._reporter.emit(event)

    def close(self) -> None:
        """Close the reporter."""
        self._reporter.close()

    def _shortened(self, event: ActionFinished) -> ActionFinished:
        long = {name for name in ("problem", "stdout", "stderr") if _is_long(getattr(event, name))}
        if not long:
            return event
        sections = [(name, getattr(event, name)) for name in ("problem", "stdout", "stderr")]
        text = "".join(f"--- {name}\n{content.rstrip()}\n" for name, content in sections if content.strip())
        name = re.sub(r"[^\w.+@=-]+", "~", event.id).strip("~")
        where = keep_failure(self._outputs, name, without_secrets(text))
        problem = _problem(event.problem) if "problem" in long else event.problem.rstrip()
        return replace(
            event,
            problem=f"{problem} (all of its output: {where})",
            stdout="" if "stdout" in long else event.stdout,
            stderr="" if "stderr" in long else event.stderr,
        )


def _is_long(text: str) -> bool:
    lines = text.strip().splitlines()
    return len(lines) > _LINES or any(len(line) > _COLUMNS for line in lines)


def _problem(text: str) -> str:
    """Return the beginning of a reason. Its last line is the exception's first line, not the dump that follows it."""
    lines = text.strip().splitlines()
    number = next((i for i, line in enumerate(lines) if line and not line.startswith((" ", "Traceback "))), 0)
    shown = lines[: number + 1]
    if len(shown) > _LINES:
        shown = [*shown[: _LINES // 2], "  ...", *shown[-_LINES // 2 :]]
    return "\n".join(line if len(line) <= _COLUMNS else f"{line[:_COLUMNS]}..." for line in shown)
