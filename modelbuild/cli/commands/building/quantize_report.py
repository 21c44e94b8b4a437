"""`modelbuild quantize-report`."""

from __future__ import annotations

import click

from modelbuild.cli.group import Settings
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.options import building
from modelbuild.session.request import Flags


@click.command("quantize-report", short_help=COMMANDS["quantize-report"])
@click.argument("target", metavar="TARGET")
@click.option(
    "--layers", type=click.IntRange(0), default=20, metavar="N", help="List the N most sensitive layers (20)."
)
@click.option("--method", default="", metavar="NAME", help="The method, of a model with several.")
@building
@click.pass_obj
def command(settings: Settings, target: str, layers: int, method: str, flags: Flags) -> int:
    """Print the error of a quantized model by layer, and the layers to leave in floating point.

    TARGET is a quantized_model. Each layer is quantized alone, by an action of its own.
    """
    import json
    import sys

    from modelbuild.actions import Artifact
    from modelbuild.api.providers import Provider, Sensitivity
    from modelbuild.cli.targets.one_program import label_of
    from modelbuild.errors import ExitCode, UsageError, did_you_mean
    from modelbuild.lines import one_line
    from modelbuild.report import make_reporter
    from modelbuild.report.reporter_scope import reporting
    from modelbuild.report.sensitivity import lines, read_sensitivity
    from modelbuild.session.request import make_request
    from modelbuild.session.side_files import build_side_files
    from modelbuild.workspace.workspace import find_root, load_workspace

    workspace = load_workspace(find_root(settings.directory))
    label = str(label_of(target, workspace.package_of(settings.directory)))
    request = make_request(workspace, settings.directory, (label,), flags).keeping_going()
    nothing = f"{label} has no report about its layers; expected a quantized_model"
    methods: list[str] = []
    wanted = method or "forward"

    def files_of(provider: Provider) -> tuple[Artifact, ...]:
        if not isinstance(provider, Sensitivity):
            return ()
        methods.append(provider.method)
        return (provider.report,) if provider.method == wanted else ()

    with reporting(make_reporter(quiet=request.display.only_results, results=sys.stderr)) as reporter:
        try:
            code, contents = build_side_files(workspace, request, reporter, files_of, nothing)
        except UsageError:
            if not methods or wanted in methods:
                raise
            if not method:
                message = f"{label} has several methods; expected --method with one of: {', '.join(methods)}"
                raise UsageError(message) from None
            known = f"methods: {', '.join(methods)}{did_you_mean(method, methods)}"
            raise UsageError(f"no method '{method}'; {known}") from None
    if code != ExitCode.OK:
        return code
    report = read_sensitivity(label, contents[label])
    if request.display.json:
        click.echo(json.dumps({**report, "target": label, "method": wanted}))
        return code
    named = f"{label}, method {method}" if method else label
    for line in lines(report, named, layers):
        click.echo(one_line(line))
    return code
