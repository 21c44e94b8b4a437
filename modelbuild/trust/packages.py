"""The Python packages that decided a target's bytes, with their licences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.utils import canonicalize_name

from modelbuild.history.action_facts import ActionFacts

# Classifiers of licences with an unambiguous SPDX identifier.
_CLASSIFIERS = {
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "License :: OSI Approved :: ISC License (ISCL)": "ISC",
    "License :: OSI Approved :: Python Software Foundation License": "PSF-2.0",
}
# Texts that older metadata use instead of an identifier.
_TEXTS = {
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "mit license": "MIT",
}


@dataclass(frozen=True, slots=True)
class PythonPackage:
    """A distribution: its version, its state as in keys without the version ('' if unknown), and its licence as an SPDX
    expression ('' if its metadata have none)."""

    name: str
    version: str
    state: str
    license: str

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{canonicalize_name(self.name)}@{self.version}"


def packages_of(actions: Iterable[ActionFacts], path: Callable[[str], Sequence[str]]) -> list[PythonPackage]:
    """Return the packages in the keys of actions, sorted. `path` returns the folders that a target's steps import
    from."""
    states = {(name, state): facts.owner for facts in actions for name, state in facts.material["tools"].items()}
    found = []
    for name, state in sorted(states):
        version, _, digest = state.partition(" ")
        found.append(PythonPackage(name, version, digest, package_license(name, version, path(states[name, state]))))
    return found


def package_license(name: str, version: str, path: Sequence[str]) -> str:
    """Return the licence of an installed distribution of this version as an SPDX expression; '' if its metadata have
    none."""
    found = next(iter(metadata.distributions(name=name, path=list(path))), None)
    if found is None or found.version != version:
        return ""
    fields = found.metadata
    by_class = {_CLASSIFIERS[each] for each in fields.get_all("Classifier") or () if each in _CLASSIFIERS}
    texts = [text for name in ("License-Expression", "License") for text in fields.get_all(name) or ()]
    for text in (*texts, next(iter(by_class)) if len(by_class) == 1 else ""):
        text = _TEXTS.get(text.strip().lower(), text.strip())
        if text and len(text) < 200:
            try:
                return canonicalize_license_expression(text)
            except InvalidLicenseExpression:
                continue
    return ""
