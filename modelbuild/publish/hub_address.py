"""Addresses of models: in a hub, hf://ORG/REPO[@BRANCH], and in MLflow's registry, mlflow://HOST[:PORT]/MODEL."""

from __future__ import annotations

import re
from dataclasses import dataclass

from modelbuild.errors import UsageError

_NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,95}"
_HUB = re.compile(rf"hf://(?P<repository>{_NAME}/{_NAME})(?:@(?P<branch>{_NAME}(?:/{_NAME})*))?", re.ASCII)
_MLFLOW = re.compile(
    r"mlflow://(?P<host>(?:[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?)/(?P<model>[\w][\w. -]{0,250})", re.ASCII
)
_LOCAL = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class HubAddress:
    """A repository in a hub, and a branch of it. `version` is the tag of a release, or ''."""

    repository: str
    branch: str = "main"
    version: str = ""

    def __str__(self) -> str:
        return f"hf://{self.repository}" + (f"@{self.branch}" if self.branch != "main" else "")


@dataclass(frozen=True, slots=True)
class MlflowAddress:
    """A model in MLflow's registry at host:port. `version` is the version of a release, or ''."""

    host: str
    model: str
    version: str = ""

    @property
    def base(self) -> str:
        """The address of the server, which is used without TLS on this machine only."""
        local = self.host in _LOCAL or self.host.rpartition(":")[0] in _LOCAL
        return f"{'http' if local else 'https'}://{self.host}"

    def __str__(self) -> str:
        return f"mlflow://{self.host}/{self.model}"


def parse_hub_address(text: str, version: str) -> HubAddress:
    """Return the address that a text is. Raises UsageError for any other text."""
    found = _HUB.fullmatch(text)
    if found is None or ".." in text:
        raise UsageError(f"--to {text}: expected hf://ORG/REPO[@BRANCH]")
    return HubAddress(found["repository"], found["branch"] or "main", version)


def parse_mlflow_address(text: str, version: str) -> MlflowAddress:
    """Return the address that a text is. Raises UsageError for any other text."""
    found = _MLFLOW.fullmatch(text)
    if found is None:
        raise UsageError(f"--to {text}: expected mlflow://HOST[:PORT]/MODEL")
    return MlflowAddress(found["host"], found["model"], version)
