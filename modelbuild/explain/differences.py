"""Differences between two actions, part by part of their keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from modelbuild.actions import Material
from modelbuild.history.action_facts import ActionFacts, TargetFacts

Kind: TypeAlias = Literal[
    "input",
    "parameter",
    "step",
    "module",
    "local",
    "tool",
    "output",
    "environment",
    "threads",
    "gpu",
    "device",
    "python",
    "machine",
    "format",
]


@dataclass(frozen=True, slots=True)
class Difference:
    """One part of a key, before and after; None for a missing part.

    name    an input's path (its name, if an action made it), a parameter such as `inputs[0].shape[2]`, a module, a
            local module or a file in a local module, a distribution
    maker   the action that makes the input
    """

    kind: Kind
    name: str
    old: Any
    new: Any
    maker: str = ""


# All differences of two keys whose records are equal: see modelbuild.redaction.
SECRET = Difference("parameter", "the user, password or query of an address", "not recorded", "not recorded")


def differences(old: ActionFacts, new: ActionFacts) -> list[Difference]:
    """Return the differences in order of relevance: the user's own files and attributes before the environment."""
    found = list(materials(old.material, new.material, old.makers, new.makers))
    modules = [
        Difference("module", name, old.modules.get(name), new.modules.get(name))
        for name in sorted(old.modules.keys() | new.modules.keys())
        if old.modules.get(name) != new.modules.get(name)
    ]
    found = [each for each in found if each.name != "code" or not modules] + modules
    return found or ([SECRET] if old.key != new.key else [])


def materials(
    old: Material, new: Material, old_makers: tuple[str, ...] = (), new_makers: tuple[str, ...] = ()
) -> Iterator[Difference]:
    """Yield the differences between the contents of two keys."""
    before = _inputs(old, old_makers)
    after = _inputs(new, new_makers)
    for place in before.keys() | after.keys():
        was, maker = before.get(place, (None, ""))
        now, maker = after.get(place, (None, maker))
        if was != now:
            yield Difference("input", place, was, now, maker)
    if before == after and old["inputs"] != new["inputs"]:
        yield Difference("input", "order", [i[1] for i in old["inputs"]], [i[1] for i in new["inputs"]])
    yield from _values("parameter", "", old["params"], new["params"])
    if old["step"] != new["step"]:
        yield Difference("step", "step", old["step"], new["step"])
    elif old["code"] != new["code"]:
        yield Difference("module", "code", old["code"], new["code"])
    yield from _local(old.get("local", {}), new.get("local", {}))
    yield from _values("device", "", old.get("device", {}), new.get("device", {}))
    for kind, part in _TABLES.items():
        yield from _values(kind, "", old[part], new[part])
    for kind, scalar in _SCALARS.items():
        if old.get(scalar) != new.get(scalar):
            yield Difference(kind, scalar, old.get(scalar), new.get(scalar))


_TABLES: Mapping[Kind, Literal["tools", "env", "outputs"]] = {
    "tool": "tools",
    "environment": "env",
    "output": "outputs",
}
_SCALARS: Mapping[Kind, Literal["cpu", "gpu", "python", "machine", "format"]] = {
    "threads": "cpu",
    "gpu": "gpu",
    "python": "python",
    "machine": "machine",
    "format": "format",
}


def _inputs(material: Material, makers: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    """Return digest and maker by path, or by name (and number) for inputs that actions make."""
    found = {}
    inputs = material["inputs"]
    for (name, path, digest), maker in zip(inputs, makers or [""] * len(inputs), strict=True):
        derived = path.startswith(".inputs/")
        place = f"{name} {path.removeprefix(f'.inputs/{name}.').partition('/')[0]}" if derived else path
        found[place.removesuffix(" 0") if derived else place] = (digest, maker)
    return found


def _local(old: Mapping[str, Mapping[str, str]], new: Mapping[str, Mapping[str, str]]) -> Iterator[Difference]:
    """Yield the differences between local modules: files by path, and modules that appeared or disappeared."""
    for module in sorted(old.keys() | new.keys()):
        before, after = old.get(module), new.get(module)
        if before is None or after is None:
            yield Difference("local", module, before and len(before), after and len(after))
        else:
            yield from _values("local", "", before, after)


def _values(kind: Kind, name: str, old: Any, new: Any) -> Iterator[Difference]:
    """Yield the smallest differing parts of two JSON values."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _values(kind, f"{name}.{key}" if name else key, old.get(key), new.get(key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (was, now) in enumerate(zip(old, new, strict=True)):
            yield from _values(kind, f"{name}[{index}]", was, now)
    elif old != new:
        yield Difference(kind, name, old, new)


def attribute_differences(old: TargetFacts, new: TargetFacts) -> list[Difference]:
    """Return the differences between two targets, or between two versions of one target (see
    action_facts.attributes_of)."""
    return list(_values("parameter", "", old["attributes"], new["attributes"]))
