"""Text that messages of every room use: quantities, and the names of actions."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # a build with nothing to do imports only modules that it needs
    from collections.abc import Sequence

    from modelbuild.actions import Action
    from modelbuild.events import ActionFinished, ActionStarted

# Names at each end of a chain.
_ENDS = 5


def duration(seconds: float) -> str:
    """Return `0.04 s`, `1.2 s`, `2 min 03 s` or `1 h 02 min`."""
    if seconds < 0.0995:
        return f"{seconds:.2f} s"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def count(number: int, noun: str) -> str:
    """Return `1 target` or `2 targets`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def chain_text(names: Sequence[str]) -> str:
    """Return `a -> b -> c`; of a long chain, the names at its ends: `a -> ... (2,990 more) ... -> z`."""
    if len(names) > 2 * _ENDS:
        more = f"... ({len(names) - 2 * _ENDS:,} more) ..."
        names = [*names[:_ENDS], more, *names[-_ENDS:]]
    return " -> ".join(names)


def size_text(count: int) -> str:
    """Return `12 bytes`, `3.4 KiB` or `1.0 GiB`."""
    if count < 1024:
        return f"{count} bytes"
    value = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if value < 1023.95 or unit == "TiB":
            break
    return f"{value:.1f} {unit}"


def number(value: float) -> str:
    """Return a measured number as `1,234,567` or `0.1235`."""
    if value - value != 0:  # not finite
        return str(value)
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:.4g}"


def action_line(event: ActionStarted | ActionFinished | Action) -> str:
    """Return `compile //models:detector p0 (xnnpack)`."""
    detail = event.description.removeprefix(event.mnemonic).strip()
    return " ".join(part for part in (event.mnemonic, event.owner, detail) if part)
