"""Addresses of models in a hub: hf://ORG/REPO[@BRANCH]."""

from __future__ import annotations

import re
from dataclasses import dataclass

from modelbuild.errors import UsageError

_NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,95}"
_HUB = re.compile(rf"hf://(?P<repository>{_NAME}/{_NAME})(?:@(?P<branch>{_NAME}(?:/{_NAME})*))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class HubAddress:
    """A repository in a hub, and a branch of it. `version` is the tag of a release, or ''."""

    repository: str
    branch: str = "main"
    version: str = ""

    def __str__(self) -> str:
        return f"hf://{self.repository}" + (f"@{self.branch}" if self.branch != "main" else "")


def parse_hub_address(text: str, version: str) -> HubAddress:
    """Parse an address. Raises UsageError for any other text."""
    found = _HUB.fullmatch(text)
    if found is None or ".." in text:
        raise UsageError(f"--to {text}: expected hf://ORG/REPO[@BRANCH]")
    return HubAddress(found["repository"], found["branch"] or "main", version)
