"""`modelbuild fetch`."""

from __future__ import annotations

import click

from modelbuild.actions import Action, Artifact, DerivedArtifact
from modelbuild.analysis.make_toolchain import make_toolchain
from modelbuild.api.providers import PythonToolchain
from modelbuild.cli.completion import TARGET
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.options import building, no_options
from modelbuild.cli.settings import Settings
from modelbuild.errors import ExitCode
from modelbuild.events import Notice, Reporter
from modelbuild.ids import TargetId
from modelbuild.report import make_reporter
from modelbuild.report.reporter_scope import reporting
from modelbuild.session.request import Flags, Request, make_request
from modelbuild.session.session import Session, in_session
from modelbuild.workspace.workspace import Workspace


@click.command("fetch", short_help=COMMANDS["fetch"], context_settings={"ignore_unknown_options": True})
@click.argument("patterns", nargs=-1, required=True, metavar="TARGET...", type=TARGET)
@building
@click.pass_obj
def command(settings: Settings, /, patterns: tuple[str, ...], flags: Flags) -> int:
    """Bring what targets need from elsewhere, for work without a network.

    Makes toolchains, and downloads files that targets pin. Nothing else is built.
    """
    no_options(patterns)

    workspace = settings.workspace()
    request = make_request(workspace, settings.directory, patterns, flags)
    display = request.display
    reporter = make_reporter(quiet=display.quiet, as_json=display.json)
    with reporting(reporter) as reporter:
        return _fetch(workspace, request, reporter)


def _fetch(workspace: Workspace, request: Request, reporter: Reporter) -> ExitCode:
    """Make the request's toolchain and the toolchains among its targets, and run the downloads that the targets depend
    on; lay nothing out. Afterwards a build of the targets needs no network, unless an action adds further downloads
    when it runs. Raises ModelbuildError for errors before any action runs."""

    def work(session: Session) -> ExitCode:
        plan = session.make_plan()
        toolchains = [each for each in plan.targets if any(isinstance(p, PythonToolchain) for p in each.providers)]
        for target in toolchains:
            make_toolchain(plan.analyzer, target.node.label, lambda text: reporter.emit(Notice(text)))
        downloads: dict[TargetId, list[Artifact]] = {}
        for node in plan.graph.nodes.values():
            if isinstance(node, Action) and node.network:
                outputs = [DerivedArtifact(node.id, output.name) for output in node.outputs]
                downloads.setdefault(node.owner, []).extend(outputs)
        owners = {target.id: target for target in plan.analyzer.targets.values()}
        others = [*((target, []) for target in toolchains), *((owners[name], each) for name, each in downloads.items())]
        session.run((), others)
        for target, artifacts in others:
            session.end(target, artifacts)
        return session.finish(session.result()).code

    return in_session(workspace, request, reporter, work)
