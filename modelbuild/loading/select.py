"""Resolve values by device: `{ select = { "//devices:a" = 1, "default" = 2 } }` anywhere in an attribute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from modelbuild.errors import Location
from modelbuild.labels import Label
from modelbuild.loading.package import Target
from modelbuild.loading.references import parse_label
from modelbuild.workspace.toml_document import show
from modelbuild.workspace.toml_tokens import KeyPath

SELECT = "select"
DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Selected:
    """A target's attributes for one device. `moved` maps each path of a select to the path of the chosen value."""

    target: Target
    attributes: Mapping[str, Any]
    moved: Mapping[KeyPath, KeyPath] = field(default_factory=dict)

    def location(self, path: KeyPath = ()) -> Location:
        """Return the location of an attribute, inside the chosen branch; as `Target.location` does."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.moved:
                return self.target.location(self.moved[path[:length]] + path[length:])
        return self.target.location(path)


def select_labels(target: Target) -> Iterator[tuple[Label, KeyPath]]:
    """Yield every device in the selects of a target, in all branches, with its path.

    Raises LoadingError for a malformed select.
    """
    for key, value in target.attributes.items():
        yield from _labels(target, value, (key,))


def resolve_selects(target: Target, device: Label | None) -> Selected:
    """Return the target's attributes with each select replaced by its value for a device (None: no device configured).

    Raises LoadingError for a malformed select, and for a select without a value for the device.
    """
    moved: dict[KeyPath, KeyPath] = {}
    attributes = {k: _resolve(target, device, v, (k,), (k,), moved) for k, v in target.attributes.items()}
    return Selected(target, attributes, moved)


def _labels(target: Target, value: Any, path: KeyPath) -> Iterator[tuple[Label, KeyPath]]:
    if isinstance(value, dict):
        if SELECT in value:
            branches = _branches(target, value, path)
            value, path = value[SELECT], (*path, SELECT)
            yield from ((label, (*path, key)) for label, key in branches.items() if label is not None)
        for key, item in value.items():
            yield from _labels(target, item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _labels(target, item, (*path, index))


def _resolve(
    target: Target, device: Label | None, value: Any, path: KeyPath, written: KeyPath, moved: dict[KeyPath, KeyPath]
) -> Any:
    """Return `value`, written at `written`, resolved for `path`."""
    if isinstance(value, list):
        return [
            _resolve(target, device, item, (*path, index), (*written, index), moved) for index, item in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value
    if SELECT not in value:
        return {
            key: _resolve(target, device, item, (*path, key), (*written, key), moved) for key, item in value.items()
        }
    branches = _branches(target, value, written)
    key = branches.get(device) or branches.get(None)
    if key is None:
        wanted = f"value for {device}" if device else "default, and no device is configured"
        known = ", ".join(str(label) for label in branches)
        raise target.document.error((*target.path, *written, SELECT), f"this select has no {wanted}; it has {known}")
    moved[path] = written = (*written, SELECT, key)
    return _resolve(target, device, value[SELECT][key], path, written, moved)


def _branches(target: Target, value: Mapping[str, Any], path: KeyPath) -> Mapping[Label | None, str]:
    """Return the keys of a select as written, by device; None is the default."""
    if len(value) > 1:
        other = next(key for key in value if key != SELECT)
        raise target.document.error((*target.path, *path, other), f"a select must be the only key; also got {other!r}")
    path = (*path, SELECT)
    branches = value[SELECT]
    if not isinstance(branches, dict) or not branches:
        expected = 'a table such as { "//devices:a" = 1, default = 2 }'
        raise target.document.error((*target.path, *path), f"'select': expected {expected}, got {show(branches)}")
    found: dict[Label | None, str] = {}
    for key in branches:
        label = None
        if key != DEFAULT:
            label = parse_label(key, target.label.package, partial(target.location, (*path, key)))
        other = found.setdefault(label, key)
        if other != key:
            raise target.document.error((*target.path, *path, key), f"{key!r} is the same device as {other!r}")
    return found
