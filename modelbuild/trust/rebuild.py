"""Build a target again, in a cache of its own, and compare its bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from modelbuild.build.engine import open_engine
from modelbuild.build.plan import make_plan
from modelbuild.build.request import Request
from modelbuild.errors import BuildError
from modelbuild.events import BuildStarted, Reporter
from modelbuild.history.action_facts import Facts, gather
from modelbuild.trust.documents import Statement
from modelbuild.trust.evidence import flat
from modelbuild.trust.revision import find_revision
from modelbuild.workspace.remote_settings import NO_REMOTE
from modelbuild.workspace.workspace import Workspace


def rebuild(workspace: Workspace, request: Request, reporter: Reporter, statement: Statement) -> list[str]:
    """Build the target of a request without any earlier result, and return the differences from a statement, one line
    each. No outputs are laid out. Raises BuildError if the target does not build."""
    with TemporaryDirectory(prefix="modelbuild-rebuild-") as folder:
        config = replace(workspace.config, cache_dir=Path(folder))
        fresh = replace(workspace, config=config)
        plan = make_plan(fresh, replace(request, remote=NO_REMOTE), reporter)
        (target,) = plan.targets
        with open_engine(fresh, replace(request, remote=NO_REMOTE), plan.analyzer, reporter) as engine:
            scheduler = engine.scheduler(plan.analyzer)
            needed = scheduler.actions(plan.graph.needed_for(target.files()))
            reporter.emit(BuildStarted((str(target.node.label),), len(needed), request.jobs, tuple(needed)))
            scheduler.build(target.files())
            if scheduler.culprit(target.files()) is not None:
                raise BuildError(f"{target.node.label} was not built")
            made: dict[str, str] = {}
            for artifact in target.files():
                resolved = scheduler.values.resolve(artifact)
                made.update(flat(plan.graph.basename(resolved), scheduler.values.value(resolved)))
            facts = gather(scheduler, engine.code)
    return [*_revisions(workspace, statement), *_differences(statement, made, facts)]


def _revisions(workspace: Workspace, statement: Statement) -> Iterator[str]:
    revision = find_revision(workspace.root)
    here = revision.commit if revision is not None else ""
    if statement.commit and here != statement.commit:
        yield f"the workspace is at {here[:12] or 'no commit'}; the attestation is of {statement.commit[:12]}"


def _differences(statement: Statement, made: Mapping[str, str], facts: Mapping[str, Facts]) -> Iterator[str]:
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
