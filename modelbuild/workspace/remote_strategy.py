"""The strategy: the places where each kind of action runs, as text."""

from __future__ import annotations

from collections.abc import Sequence

from modelbuild.errors import UsageError, did_you_mean
from modelbuild.workspace.remote_settings import PLACES


def parse_strategy(text: str) -> tuple[str, tuple[str, ...]]:
    """Parse `compile=remote,local`: kind of action ('*': every other kind), and places in order. Raises UsageError."""
    kind, equals, places = text.partition("=")
    if not equals or not kind:
        raise UsageError(
            f"'{text}' is not a strategy; expected a kind of action and places, as in compile=remote,local"
        )
    return kind, check_places(places.split(","))


def check_places(places: Sequence[str]) -> tuple[str, ...]:
    """Return places in order. Raises UsageError for an unknown, repeated or missing place."""
    for place in places:
        if place not in PLACES:
            raise UsageError(f"'{place}' is an unknown place; expected remote or local{did_you_mean(place, PLACES)}")
    if not places or len(set(places)) != len(places):
        raise UsageError("expected remote, local, or both in the order to try")
    return tuple(places)
