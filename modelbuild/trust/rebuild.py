"""Build a target again, in a separate cache, and compare its bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from modelbuild.errors import BuildError
from modelbuild.events import Reporter
from modelbuild.history.action_facts import ActionFacts, gather
from modelbuild.session.request import Request
from modelbuild.session.session import Session, in_session
from modelbuild.trust.documents import Statement
from modelbuild.trust.evidence import flat
from modelbuild.trust.revision import find_revision
from modelbuild.workspace.remote_settings import NO_REMOTE
from modelbuild.workspace.workspace import Workspace


def rebuild(workspace: Workspace, request: Request, reporter: Reporter, statement: Statement) -> list[str]:
    """Build the target of a request without any earlier result, and return the differences from a statement, one line
    each. No outputs are laid out. Raises BuildError if the target does not build."""
    request = request.with_remote(NO_REMOTE)
    with TemporaryDirectory(prefix="modelbuild-rebuild-") as folder:
        fresh = replace(workspace, config=replace(workspace.config, cache_dir=Path(folder)))
        made, facts = in_session(fresh, request, reporter, _built_again)
    return [*_revisions(workspace, statement), *_differences(statement, made, facts)]


def _built_again(session: Session) -> tuple[Mapping[str, str], Mapping[str, ActionFacts]]:
    """Return the SHA-256 of each file of the only target, by its path, and the facts about its actions."""
    (target,) = session.make_plan().targets
    session.run((), [(target, target.files())])
    if not session.end(target, target.files()):
        raise BuildError(f"{target.node.label} was not built")
    made: dict[str, str] = {}
    for artifact in target.files():
        resolved = session.scheduler.values.resolve(artifact)
        made.update(flat(session.plan.graph.basename(resolved), session.scheduler.values.value(resolved)))
    return made, gather(session.scheduler, session.engine.code)


def _revisions(workspace: Workspace, statement: Statement) -> Iterator[str]:
    revision = find_revision(workspace.root)
    here = revision.commit if revision is not None else ""
    if statement.commit and here != statement.commit:
        yield f"the workspace is at {here[:12] or 'no commit'}; the attestation is of {statement.commit[:12]}"


def _differences(statement: Statement, made: Mapping[str, str], facts: Mapping[str, ActionFacts]) -> Iterator[str]:
    differing = [
        name
        for name in sorted(statement.subjects.keys() | made.keys())
        if statement.subjects.get(name) != made.get(name)
    ]
    for name in differing:
        if name not in made:
            yield f"{name} was not built again"
        elif name not in statement.subjects:
            yield f"{name} is not in the attestation"
        else:
            yield f"{name} differs: SHA-256 {made[name]}; the attestation has {statement.subjects[name]}"
    if not differing:
        return
    for name, (key, outputs) in sorted(statement.actions.items()):
        again = facts.get(name)
        if again is None:
            yield f"the action {name} is not part of the build"
        elif again.key != key:
            yield f"the action {name} has another key, {again.key[:12]}; the attestation has {key[:12]}"
        else:
            for output in sorted(each for each in outputs if again.outputs.get(each) != outputs[each]):
                yield f"the action {name} is not reproducible: its output '{output}' differs"
