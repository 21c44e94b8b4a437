"""The configuration of a target, its device and its toolchain, and how it passes to dependencies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from modelbuild.analysis.rules import Rules
from modelbuild.analysis.toolchains import Toolchains
from modelbuild.api.attrs import Path
from modelbuild.labels import Label
from modelbuild.loading.loader import Loader
from modelbuild.loading.package import Target
from modelbuild.loading.references import parse_label
from modelbuild.loading.select import resolve_selects

DEVICE = "device"


@dataclass(frozen=True, slots=True, order=True)
class Configuration:
    """A device and the name of a toolchain, from the command line or a dependent target. None and '' leave the choice
    to the target's own attributes, and then to the workspace."""

    device: Label | None = None
    toolchain: str = ""

    def __str__(self) -> str:
        return ", ".join(str(part) for part in (self.device, self.toolchain) if part)


ANY = Configuration()


class Configurations:
    """The configurations of targets. `default_device` is the workspace's."""

    def __init__(self, loader: Loader, rules: Rules, toolchains: Toolchains, default_device: Label | None) -> None:
        self._loader = loader
        self._rules = rules
        self._toolchains = toolchains
        self._default_device = default_device

    def has_device(self, target: Target) -> bool:
        """Return whether a target has the attribute `device`."""
        return DEVICE in self._rules.by_name[target.rule].attrs.model_fields

    def passed(self, target: Target, asked: Configuration) -> Configuration:
        """Return the configuration that a target passes down, given the requested configuration. The workspace's
        default device is not passed down: it would override a dependency's own device."""
        device = asked.device or (self._own_device(target) if self.has_device(target) else None)
        return Configuration(device, asked.toolchain or self._own_toolchain(target, asked.device))

    def transition(
        self, asked: Configuration, passed: Configuration, target: Target, attribute: object, dependency: Target
    ) -> Configuration:
        """Return the configuration that an attribute of a target requests from a dependency. The target was requested
        with `asked`, and passes `passed` down. A dependency whose own device the target takes needs no other
        configuration; neither does a dependency that is in the toolchain anyway."""
        taken: tuple[str, ...] = ()
        if not asked.device and target.attributes.get(DEVICE) is None:
            taken = self._rules.by_name[target.rule].device_from
        device = None if attribute in taken else passed.device
        toolchain = passed.toolchain
        if toolchain and toolchain == (self._own_toolchain(dependency, device) or self._toolchains.base):
            toolchain = ""
        return Configuration(device, toolchain)

    def _own_toolchain(self, target: Target, device: Label | None) -> str:
        """Return the toolchain that a target for a device names, or else the toolchain of a target from which its rule
        takes it; '' for the base."""
        if self._toolchains.for_all:
            return ""
        waiting, seen = [(target, device)], {target.label}
        while waiting:
            each, asked = waiting.pop()
            if each.toolchain:
                return each.toolchain
            rule = self._rules.by_name[each.rule]
            if not rule.toolchain_from:
                continue
            asked = asked or self._own_device(each) if self.has_device(each) else asked
            selected = resolve_selects(each, asked or self._default_device)
            labels = [pair for name in rule.toolchain_from for pair in _labels(name, selected.attributes.get(name))]
            for path, text in reversed(labels):
                at = partial(selected.location, path)
                named = self._loader.target(parse_label(text, each.label.package, at), at)
                if named.label not in seen:
                    seen.add(named.label)
                    waiting.append((named, asked))
        return ""

    def _own_device(self, target: Target) -> Label | None:
        """Return the attribute `device`, or else the device of the target from which the rule takes it. Devices are
        read before selects are resolved, because selects depend on the device."""
        waiting, seen = [target], {target.label}
        while waiting:
            each = waiting.pop()
            text = each.attributes.get(DEVICE)
            if isinstance(text, str):
                return parse_label(text, each.label.package, partial(each.location, (DEVICE,)))
            names = self._rules.by_name[each.rule].device_from if text is None else ()
            labels = [pair for name in names for pair in _labels(name, each.attributes.get(name))]
            for path, named in reversed(labels):
                at = partial(each.location, path)
                other = self._loader.target(parse_label(named, each.label.package, at), at)
                if other.label not in seen and self.has_device(other):
                    seen.add(other.label)
                    waiting.append(other)
        return None


def _labels(name: str, given: object) -> Iterator[tuple[Path, str]]:
    """Yield the labels of an attribute, a label or a table of labels, with their places."""
    named = {(name, key): each for key, each in given.items()} if isinstance(given, dict) else {(name,): given}
    for path, text in named.items():
        if isinstance(text, str):
            yield path, text
