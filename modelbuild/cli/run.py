"""`modelbuild run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelbuild.building.request import Flags
from modelbuild.cli.group import COMMANDS, Settings
from modelbuild.cli.options import building
from modelbuild.errors import ExitCode

if TYPE_CHECKING:
    from modelbuild.building.request import Result
    from modelbuild.labels import Label

# ExecuTorch's libraries greet the processor with lines of this kind on stderr, whatever the program.
_NOISE = b"[cpuinfo_utils.cpp:"


@click.command("run", short_help=COMMANDS["run"])
@click.argument("target", metavar="TARGET")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=FILE",
    help="A file for an input: .npy, .json, .png or .jpg; or the label of a target that gives one.",
)
@click.option("--method", default="forward", show_default=True, help="The method of the program.")
@click.option("--output-dir", type=click.Path(file_okay=False, path_type=Path), help="Write each output there.")
@click.option("--output-format", type=click.Choice(["npy", "json"]), default="npy", show_default=True)
@click.option("--repeat", type=click.IntRange(min=1), default=10, show_default=True, help="Runs that are measured.")
@click.option("--warmup", type=click.IntRange(min=0), default=3, show_default=True, help="Runs before those.")
@building
@click.pass_obj
def command(
    settings: Settings,
    target: str,
    inputs: tuple[str, ...],
    method: str,
    output_dir: Path | None,
    output_format: str,
    repeat: int,
    warmup: int,
    flags: Flags,
) -> int:
    """Build a program, run it on inputs, and print what went in, what came out and how long a run takes.

    TARGET is the label of one target that gives a .pte. The outputs are those of the first run. Paths are relative to
    the folder the command runs in.
    """
    import sys
    from dataclasses import replace

    from modelbuild.building.build import build
    from modelbuild.building.request import make_request
    from modelbuild.errors import UsageError
    from modelbuild.report import make_reporter
    from modelbuild.workspace import find_root, load_workspace

    workspace = load_workspace(find_root(settings.directory))
    package = workspace.package_of(settings.directory)
    label = _label(target, package)
    files = _files(inputs)
    labels = {name: _label(file, package) for name, file in files.items() if file.startswith(("//", ":"))}
    patterns = tuple(dict.fromkeys(str(one) for one in (label, *labels.values())))
    request = make_request(workspace, settings.directory, patterns, flags)
    if request.remote.leaves_outputs:
        request = replace(request, remote=replace(request.remote, download="toplevel"))
    if len(request.devices) > 1:
        raise UsageError(f"a program runs for one device at a time, got {len(request.devices)}")
    reporter = make_reporter(quiet=request.quiet or request.json, results=sys.stderr)
    try:
        built = build(workspace, request, reporter)
    finally:
        reporter.close()
    if built.code != ExitCode.OK:
        return built.code

    root = workspace.root
    files.update({name: str(root / _only_file(built, one)) for name, one in labels.items()})
    arguments = [str(root / _only_file(built, label, ".pte")), "--method", method]
    arguments += [f"--input={name}={file}" for name, file in files.items()]
    arguments += ["--repeat", str(repeat), "--warmup", str(warmup), "--output-format", output_format]
    arguments += ["--output-dir", str(output_dir)] if output_dir is not None else []
    arguments += ["--json"] if request.json else []
    return _run(label, arguments, settings.directory)


def _label(text: str, package: str) -> Label:
    from modelbuild.errors import UsageError
    from modelbuild.labels import Label
    from modelbuild.loading.patterns import parse_pattern

    pattern = parse_pattern(text, package)
    if pattern.name is None or pattern.subtract:
        raise UsageError(f"'{text}' means several targets; expected the label of one, such as //package:name")
    return Label(pattern.package, pattern.name)


def _files(inputs: tuple[str, ...]) -> dict[str, str]:
    files: dict[str, str] = {}
    for text in inputs:
        name, equals, file = text.partition("=")
        if not (equals and name and file):
            raise click.UsageError(f"--input {text}: expected name=file")
        if name in files:
            raise click.UsageError(f"--input {text}: '{name}' is given twice")
        files[name] = file
    return files


def _only_file(built: Result, label: Label, suffix: str = "") -> str:
    """The one output of a target (that ends in `suffix`), relative to the workspace."""
    from modelbuild.errors import UsageError

    outputs = next(target.outputs for target in built.targets if target.label == str(label))
    found = [path for path in outputs if path.endswith(suffix)]
    if len(found) == 1:
        return found[0]
    given = ", ".join(path.rpartition("/")[2] for path in outputs) or "no file"
    raise UsageError(f"{label}: expected a target that gives one {suffix or 'file'}, but it gives {given}")


def _run(label: Label, arguments: list[str], folder: Path) -> ExitCode:
    """Run the program in a process of its own: torch stays out of this one, and a crash is told as such."""
    import signal
    import subprocess
    import sys

    # -P: modules of the user's folder are not to be taken for numpy or torch.
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "modelbuild_runtime", *arguments], cwd=folder, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if not line.startswith(_NOISE):
                sys.stderr.write(line.decode(errors="replace"))
                sys.stderr.flush()
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        click.echo(f"error: {label}: the program was killed by {name} while it ran", err=True)
        return ExitCode.BUILD_FAILED
    return ExitCode(process.returncode)
