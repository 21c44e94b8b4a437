"""Build files that targets have besides their outputs, such as checks and reports, without laying them out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from modelbuild.actions import Artifact, FileEntry
from modelbuild.api.providers import Provider
from modelbuild.errors import ExitCode, UsageError
from modelbuild.events import Reporter
from modelbuild.session.request import Request
from modelbuild.session.session import Session, in_session
from modelbuild.workspace.workspace import Workspace

FilesOf = Callable[[Provider], tuple[Artifact, ...]]
"""Returns the files of a provider; () for providers of other kinds."""


def build_side_files(
    workspace: Workspace, request: Request, reporter: Reporter, files_of: FilesOf, nothing: str
) -> tuple[ExitCode, Mapping[str, tuple[bytes, ...]]]:
    """Build the files of the requested targets, and of all of them although some fail. Returns the contents of those
    that are no folders, by the targets' labels. Raises ModelbuildError for errors before any action runs, and
    UsageError with the text `nothing` if no target has such files, and none was skipped for an error."""

    def work(session: Session) -> tuple[ExitCode, Mapping[str, tuple[bytes, ...]]]:
        plan = session.make_plan()
        found = [(target, files) for target in plan.targets for each in target.providers if (files := files_of(each))]
        if not found and not plan.incomplete:
            raise UsageError(nothing)
        session.run((), found)
        contents = {
            str(target.node.label): session.scheduler.keeping(partial(_read, session, files))
            for target, files in found
            if session.end(target, files)
        }
        return session.finish(session.result()).code, contents

    return in_session(workspace, request, reporter, work)


def _read(session: Session, files: Sequence[Artifact]) -> tuple[bytes, ...]:
    values = [session.scheduler.values.value(artifact) for artifact in files]
    return tuple(session.engine.store.read_bytes(value.digest) for value in values if isinstance(value, FileEntry))
