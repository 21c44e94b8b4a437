"""A remote worker's platform properties, from an action's resources and [remote.platform]."""

from __future__ import annotations

import re
from collections.abc import Mapping

from modelbuild.actions import Action
from modelbuild.errors import UsageError, did_you_mean

# The fields that a value of [remote.platform] may contain. Fields in the second tuple become properties with their own
# name if no value contains them.
FIELDS = ("cpu", "memory", "gpu", "compute_capability", "network")
_OWN = ("gpu", "compute_capability", "network")
_FIELD = re.compile(r"\{(\w*)\}")


def check_value(text: str) -> str:
    """Return the text. Raises UsageError for a value of [remote.platform] with an unknown field."""
    for name in _FIELD.findall(text):
        if name not in FIELDS:
            expected = ", ".join(f"{{{field}}}" for field in FIELDS)
            raise UsageError(f"'{{{name}}}' is an unknown field; expected {expected}{did_you_mean(name, FIELDS)}")
    return text


def properties(action: Action, platform: Mapping[str, str]) -> dict[str, str]:
    """Return the properties by name. `platform` applies to every worker; a property with an empty value is omitted."""
    takes = action.resources
    facts = {
        "cpu": str(takes.cpu),
        "memory": str(takes.memory),
        "gpu": str(takes.gpu or ""),
        "compute_capability": takes.compute_capability,
        "network": "on" if action.network else "",
    }
    named = {name for value in platform.values() for name in _FIELD.findall(value)}
    asked = {name: f"{{{name}}}" for name in _OWN if name not in named} | dict(platform)
    found = {name: _FIELD.sub(lambda field: facts[field[1]], value) for name, value in sorted(asked.items())}
    return {name: value for name, value in found.items() if value}
