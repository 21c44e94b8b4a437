"""Ids of configured targets and of actions: strings as printed for users, with properties for their parts.

Because they are strings, they serve as keys, columns and JSON. Labels contain neither a space nor a '#', so the parts
of an id are unambiguous; only this module parses ids."""

from __future__ import annotations


class TargetId(str):
    """A target in a configuration: `//models:detector (//:jetson)`, or only the label if there is one configuration."""

    __slots__ = ()

    @classmethod
    def of(cls, label: object, configuration: object | None) -> TargetId:
        """Return the id of a label in a configuration: a device, its folder in the output tree, or None."""
        return cls(label if configuration is None else f"{label} ({configuration})")

    @property
    def label(self) -> str:
        return self.partition(" ")[0]

    @property
    def configuration(self) -> str:
        """The configuration; '' if there is only one."""
        return self.partition(" (")[2].removesuffix(")")


class ActionId(str):
    """An action of a target: `//models:detector (//:jetson)#compile:p0`. The name of a target's id is ''."""

    __slots__ = ()

    @classmethod
    def of(cls, owner: TargetId, name: str) -> ActionId:
        return cls(f"{owner}#{name}")

    @property
    def owner(self) -> TargetId:
        """The target that declares the action."""
        return TargetId(self.partition("#")[0])

    @property
    def label(self) -> str:
        return self.owner.label

    @property
    def name(self) -> str:
        """The action's name in its target: `compile:p0`."""
        return self.partition("#")[2]

    @property
    def kind(self) -> str:
        """The name without its number: `compile`. Actions of one kind take similar times."""
        return self.name.partition(":")[0]
