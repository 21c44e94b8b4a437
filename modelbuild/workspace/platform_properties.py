"""What an action asks of a worker, as platform properties under the names that the server has for them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from modelbuild.actions import Action
from modelbuild.errors import UsageError, did_you_mean

# What a value of [remote.platform] may stand for. Those in the second tuple are asked for under their own name where no
# value does.
FIELDS = ("cpu", "memory", "gpu", "compute_capability", "network")
_OWN = ("gpu", "compute_capability", "network")
_FIELD = re.compile(r"\{(\w*)\}")


def check_value(text: str) -> str:
    """Raises UsageError for a value of [remote.platform] with a field that is none."""
    for name in _FIELD.findall(text):
        if name not in FIELDS:
            expected = ", ".join(f"{{{field}}}" for field in FIELDS)
            raise UsageError(
                f"'{{{name}}}' is nothing that an action takes; expected {expected}{did_you_mean(name, FIELDS)}"
            )
    return text


def properties(action: Action, platform: Mapping[str, str]) -> dict[str, str]:
    """The properties by name. `platform` is what every worker has to have; one that comes to nothing is left out."""
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
