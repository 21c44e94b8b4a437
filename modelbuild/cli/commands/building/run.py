"""`modelbuild run`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import fields, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from modelbuild.analysis.make_toolchain import make_toolchain
from modelbuild.analysis.open import open_analyzer
from modelbuild.cli.completion import TARGET
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.options import Command, building, gather
from modelbuild.cli.page import write_program
from modelbuild.cli.settings import Settings
from modelbuild.cli.targets.loaded_rules import extensions_here
from modelbuild.cli.targets.one_program import build_here, label_of, only_file, toolchain_of
from modelbuild.cli.targets.program_run import Run
from modelbuild.cli.targets.run_on_device import run_on_device
from modelbuild.cli.watch import watching
from modelbuild.code.interpreter import installed
from modelbuild.code.library import packages_beside
from modelbuild.errors import EnvironmentProblem, ExitCode, UsageError
from modelbuild.inspect.blobs import Blobs
from modelbuild.lines import NOISE
from modelbuild.report.text import write
from modelbuild.session.request import Flags
from modelbuild.toolchain import run_module
from modelbuild.workspace.workspace import LIBRARY

if TYPE_CHECKING:
    from modelbuild.labels import Label
    from modelbuild.workspace.workspace import Workspace

_MOST_RUNS = 1_000_000


_OPTIONS = [
    click.option(
        "--input",
        "inputs",
        multiple=True,
        metavar="NAME=FILE",
        help="Input file (.npy, .json, .png, .jpg), or a label that builds one.",
    ),
    click.option(
        "--resize", is_flag=True, help="Give pictures of another size the height and width of their input (bilinear)."
    ),
    click.option("--method", metavar="NAME", help="The method of the program: by default the only one, or forward."),
    click.option("--output-dir", type=click.Path(file_okay=False, path_type=Path), help="Folder for the outputs."),
    click.option(
        "--output-format",
        type=click.Choice(["npy", "json"]),
        default="npy",
        show_default=True,
        help="Format of the outputs.",
    ),
    click.option("--repeat", type=click.IntRange(1, _MOST_RUNS), default=10, show_default=True, help="Measured runs."),
    click.option(
        "--warmup",
        type=click.IntRange(0, _MOST_RUNS),
        default=3,
        show_default=True,
        help="Runs before measuring.",
    ),
    click.option(
        "--profile", "profiled", is_flag=True, help="Print the time of each operator and partition (C++ runtime)."
    ),
    click.option(
        "--profile-output",
        "profile_outputs",
        multiple=True,
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Write the profile: FILE.json, FILE.html, or FILE.etdp for ExecuTorch's Inspector.",
    ),
    click.option("--on", metavar="LABEL", help="Run a runtime_bundle on this device, by its runners."),
    click.option("--program", metavar="NAME", help="With --on: the program of a bundle with several."),
]


def running(function: Command) -> Command:
    """Add the options of a run; the function gets them as one argument, `run`."""
    return gather(function, _OPTIONS, "run", [field.name for field in fields(Run)], Run)


@click.command("run", short_help=COMMANDS["run"])
@click.argument("target", metavar="TARGET", type=TARGET)
@running
@building
@click.pass_obj
@watching
def command(settings: Settings, /, target: str, run: Run, flags: Flags) -> int:
    """Build a program, run it on inputs, and print its inputs, outputs and latency.

    TARGET builds a .pte, or with --on a runtime_bundle. The outputs are from the first run. Paths are relative to the
    current folder.
    """

    workspace = settings.workspace()
    package = workspace.package_of(settings.directory)
    label = label_of(target, package)
    files = run.files()
    if run.program is not None and run.on is None:
        raise click.UsageError("--program names a program of a bundle; expected --on, or the label of the program")
    if run.on is not None:
        return _run_there(workspace, settings.directory, label, run, flags)
    labels = {name: label_of(file, package) for name, file in files.items() if file.startswith(("//", ":"))}
    wanted = [(label, ".pte"), *((one, "") for one in labels.values())]
    request, built = build_here(workspace, settings.directory, wanted, flags, files, run.method)
    if built.code != ExitCode.OK:
        return built.code

    root = workspace.root
    files.update({name: str(root / only_file(built, one)) for name, one in labels.items()})
    arguments = run.arguments(root / only_file(built, label, ".pte"), files)
    arguments += ["--json"] if request.display.json else []
    command = [*_program(workspace, toolchain_of(built, label)), *arguments]
    if not run.pages():
        return _run(label, command, settings.directory)
    with TemporaryDirectory() as folder:
        profile = Path(folder) / "profile.json"
        code = _run(label, [*command, f"--profile-output={profile}"], settings.directory)
        if code == ExitCode.OK:
            _write_pages(run.pages(), label, root / only_file(built, label, ".pte"), profile, settings.directory)
    return code


def _run_there(workspace: Workspace, folder: Path, bundle: Label, run: Run, flags: Flags) -> int:
    """Run a bundle on a device. Raises UsageError for options that are for this machine only."""

    if run.output_format != "npy":
        raise UsageError("--on returns .npy files; expected no --output-format json")
    device = str(label_of(run.on or "", workspace.package_of(folder)))
    if any(str(label_of(each, workspace.package_of(folder))) != device for each in flags.devices):
        raise UsageError(f"--device differs from --on {device}; expected only --on")

    def write_pages(program: Path, profile: Path) -> None:
        _write_pages(run.pages(), bundle, program, profile, folder)

    return run_on_device(
        workspace, folder, bundle, device, run, replace(flags, devices=(device,)), _program, write_pages
    )


def _write_pages(pages: Iterable[Path], label: Label, program: Path, profile: Path, folder: Path) -> None:

    from modelbuild.inspect.facts import gather

    facts = gather(program, Blobs(lambda: extensions_here(folder)))
    for page in pages:
        write_program(folder / page, str(label), facts, json.loads(profile.read_text()))


def _program(workspace: Workspace, toolchain: Label | None) -> list[str]:
    """Return the start of the command that runs programs, in the Python of a toolchain. -P: modules in the user's
    folder must not replace numpy or torch."""

    if toolchain is None and find_spec(LIBRARY) is not None:
        return [sys.executable, "-P", "-m", LIBRARY]

    analyzer = open_analyzer(workspace)
    if LIBRARY not in analyzer.rules.packages:
        library = LIBRARY.replace("_", "-")
        expected = f"expected `pip install --no-deps {library}`"
        raise EnvironmentProblem(f"programs are run by {library}, which is not installed with modelbuild; {expected}")
    python = installed() if toolchain is None else make_toolchain(analyzer, toolchain, lambda text: None)
    folders = {**packages_beside(python), LIBRARY: str(analyzer.rules.packages[LIBRARY])}
    return [python.program, "-P", run_module.__file__, json.dumps(folders), LIBRARY]


def _run(label: Label, command: list[str], folder: Path) -> ExitCode:
    """Run the program in a separate process, so that this process does not import torch and can report a crash."""

    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if not line.startswith(NOISE.encode()):
                    sys.stderr.write(line.decode(errors="replace"))
                    sys.stderr.flush()
        except KeyboardInterrupt:
            process.kill()
            process.wait()
            raise
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        write(sys.stderr, f"error: {label}: the program was killed by {name} while it ran")
        return ExitCode.BUILD_FAILED
    return ExitCode(process.returncode)
