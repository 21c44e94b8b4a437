"""The tools that actions require at a revision, as far as they are known without building."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from modelbuild.actions import Action, SourceArtifact
from modelbuild.code.tools import Needed, Tools, foreign, imported_modules
from modelbuild.errors import LoadingError


@dataclass(frozen=True, slots=True)
class NeededTools:
    """`tools` are from the working tree; `root` is the root of the revision's workspace."""

    tools: Tools
    root: Path

    def of(self, action: Action) -> tuple[Needed, bool]:
        """Return an action's tools, with tools that are not installed in `absent`, and whether it has Python inputs
        that are not built yet. Raises OSError for an unreadable source, and EnvironmentProblem."""
        python = [i for i in action.inputs if i.name in action.python and i.path.endswith(".py")]
        written = {i.path: i.artifact.path for i in python if isinstance(i.artifact, SourceArtifact)}
        sources = {path: (self.root / file).read_bytes() for path, file in written.items()}
        needed = self._needed(action, sources)
        own = {part for path in sources for part in path.removesuffix(".py").split("/")}
        absent = {*needed.missing, *needed.absent} - own
        return replace(needed, absent=tuple(sorted(absent))), len(sources) < len(python)

    def _needed(self, action: Action, sources: Mapping[str, bytes]) -> Needed:
        try:
            return self.tools.needed(action.tools, foreign(imported_modules(sources), sources))
        except LoadingError:  # not Python: the build will report it
            return self.tools.needed(action.tools, ())
