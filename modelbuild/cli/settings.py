"""The options before a command's name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modelbuild.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Settings:
    """The options before the command's name, and all `arguments`. `directory` is the current folder of the command."""

    directory: Path
    arguments: tuple[str, ...] = ()

    def workspace(self) -> Workspace:
        """Return the workspace that contains the folder. Raises UsageError outside of a workspace, and LoadingError."""
        from modelbuild.workspace.workspace import find_root, load_workspace  # completion does not need it

        return load_workspace(find_root(self.directory))
