"""`modelbuild history`."""

from __future__ import annotations

from pathlib import Path

import click

from modelbuild.cli.group import Settings
from modelbuild.cli.names import COMMANDS


@click.command("history", short_help=COMMANDS["history"])
@click.argument("target", metavar="TARGET")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Draw it as SVG.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def command(settings: Settings, target: str, plot: Path | None, as_json: bool) -> None:
    """Show what earlier builds and tests measured of TARGET: seconds, memory, sizes, latencies."""
    import dataclasses
    import json
    from statistics import median

    from modelbuild.errors import UsageError
    from modelbuild.history.measures import Measures
    from modelbuild.labels import Label
    from modelbuild.loading.patterns import parse_pattern
    from modelbuild.workspace import find_root, load_workspace

    workspace = load_workspace(find_root(settings.directory))
    pattern = parse_pattern(target, workspace.package_of(settings.directory))
    if pattern.name is None or pattern.subtract:
        raise UsageError(f"'{target}' means several targets; expected the label of one, such as //package:name")
    label = str(Label(pattern.package, pattern.name))
    found = Measures(workspace.config.cache_dir).series(label)
    if not found:
        raise UsageError(f"{label}: no build has measured anything of it")
    if plot is not None:
        from modelbuild.report.plot import plot_svg

        (settings.directory / plot).write_text(plot_svg(label, found), encoding="utf-8")
    if as_json:
        rows = [
            {"subject": subject, "name": name, "points": [dataclasses.asdict(point) for point in points]}
            for (subject, name), points in found.items()
        ]
        click.echo(json.dumps({"version": 1, "label": label, "series": rows}))
        return
    for (subject, name), points in found.items():
        values = [point.value for point in points]
        shown = f"last {values[-1]:.6g}, median {median(values):.6g}, {min(values):.6g} to {max(values):.6g}"
        click.echo(f"{subject} {name}: {shown} ({len(values)})")
