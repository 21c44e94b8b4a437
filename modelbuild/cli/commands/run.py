"""`modelbuild run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelbuild.build.request import Flags
from modelbuild.cli.group import Settings
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.one_program import build_here, label_of, only_file
from modelbuild.cli.options import building
from modelbuild.errors import ExitCode

if TYPE_CHECKING:
    from modelbuild.labels import Label

_MOST_RUNS = 1_000_000

# ExecuTorch's libraries print lines of this kind about the processor on stderr, for any program.
_NOISE = b"[cpuinfo_utils.cpp:"


@click.command("run", short_help=COMMANDS["run"])
@click.argument("target", metavar="TARGET")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=FILE",
    help="Input file (.npy, .json, .png, .jpg), or a label that builds one.",
)
@click.option("--method", default="forward", show_default=True, help="The method of the program.")
@click.option("--output-dir", type=click.Path(file_okay=False, path_type=Path), help="Folder for the outputs.")
@click.option("--output-format", type=click.Choice(["npy", "json"]), default="npy", show_default=True)
@click.option("--repeat", type=click.IntRange(1, _MOST_RUNS), default=10, show_default=True, help="Measured runs.")
@click.option(
    "--warmup",
    type=click.IntRange(0, _MOST_RUNS),
    default=3,
    show_default=True,
    help="Runs before measuring.",
)
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
    """Build a program, run it on inputs, and print its inputs, outputs and latency.

    TARGET is the label of one target that builds a .pte. The outputs are those of the first run. Paths are relative to
    the current folder.
    """
    from modelbuild.workspace.workspace import find_root, load_workspace

    workspace = load_workspace(find_root(settings.directory))
    package = workspace.package_of(settings.directory)
    label = label_of(target, package)
    files = _files(inputs)
    labels = {name: label_of(file, package) for name, file in files.items() if file.startswith(("//", ":"))}
    wanted = [(label, ".pte"), *((one, "") for one in labels.values())]
    request, built = build_here(workspace, settings.directory, wanted, flags, files)
    if built.code != ExitCode.OK:
        return built.code

    root = workspace.root
    files.update({name: str(root / only_file(built, one)) for name, one in labels.items()})
    arguments = [str(root / only_file(built, label, ".pte")), "--method", method]
    arguments += [f"--input={name}={file}" for name, file in files.items()]
    arguments += ["--repeat", str(repeat), "--warmup", str(warmup), "--output-format", output_format]
    arguments += ["--output-dir", str(output_dir)] if output_dir is not None else []
    arguments += ["--json"] if request.json else []
    return _run(label, arguments, settings.directory)


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


def _run(label: Label, arguments: list[str], folder: Path) -> ExitCode:
    """Run the program in a separate process, so that torch stays out of this one and a crash is reported."""
    import signal
    import subprocess
    import sys

    # -P: modules in the user's folder must not replace numpy or torch.
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "modelbuild_runtime", *arguments], cwd=folder, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if not line.startswith(_NOISE):
                    sys.stderr.write(line.decode(errors="replace"))
                    sys.stderr.flush()
        except KeyboardInterrupt:
            process.kill()
            process.wait()
            raise
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        click.echo(f"error: {label}: the program was killed by {name} while it ran", err=True)
        return ExitCode.BUILD_FAILED
    return ExitCode(process.returncode)
