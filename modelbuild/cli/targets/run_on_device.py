"""Build a bundle, run it on a device, and fetch its outputs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias

from modelbuild.cli.targets.device_specs import device_specs
from modelbuild.cli.targets.one_program import build_here, label_of, only_file, toolchain_of
from modelbuild.cli.targets.program_run import Run
from modelbuild.devices.device import local_file
from modelbuild.devices.pool import Pool, with_runners
from modelbuild.devices.problems import DeviceProblem, JobProblem, cut
from modelbuild.errors import EnvironmentProblem, ExitCode, UsageError, did_you_mean
from modelbuild.report.text import write
from modelbuild.user_files import copy_file
from modelbuild.wording import size_text

if TYPE_CHECKING:
    from modelbuild.devices.device import DeviceSession, EndedRun
    from modelbuild.labels import Label
    from modelbuild.session.request import Flags, Request
    from modelbuild.workspace.workspace import Workspace

# The path where a program on the device writes its events, and the file's name among the outputs.
EVENTS = "profile.json"

# Writes HTML pages about a program, from its file and its profile's file.
WritePages: TypeAlias = Callable[[Path, Path], object]


@dataclass(frozen=True, slots=True)
class _DeviceProfile:
    """A profile to make.

    command      the start of the command that runs programs here, with the program: it reads the events
    outputs      the files to write, relative to `folder`; pages are written by `write_pages`
    """

    command: Sequence[str]
    program: Path
    outputs: Sequence[Path]
    folder: Path
    write_pages: WritePages

    def write(self, events: Path, method: str, quiet: bool) -> dict[str, Any] | int:
        """Write the files, and print the table unless `quiet`. Returns the profile, or the exit code of the process
        that reads the events. No byte of the events is trusted."""

        sys.stdout.flush()
        with TemporaryDirectory() as temporary:
            made = Path(temporary) / "profile.json"
            others = [path for path in self.outputs if path.suffix != ".html"]
            arguments = [f"--profile-output={path}" for path in (made, *others)]
            process = subprocess.run(
                [*self.command, str(self.program), f"--events={events}", f"--method={method}", *arguments],
                cwd=self.folder,
                stdout=subprocess.DEVNULL if quiet else None,
                check=False,
            )
            if process.returncode:
                return process.returncode
            if len(others) < len(self.outputs):
                self.write_pages(self.program, made)
            found: dict[str, Any] = json.loads(made.read_bytes())
            return found


# Seconds that a program may run, without --action-timeout.
_LIMIT = 3600.0
_RUNNER = "bin/modelbuild-run"


def run_on_device(
    workspace: Workspace,
    folder: Path,
    bundle: Label,
    device: str,
    run: Run,
    flags: Flags,
    program: Callable[[Workspace, Label | None], Sequence[str]],
    write_pages: WritePages,
) -> int:
    """Build and run; return the exit code. `device` is the device's label, and `folder` the user's. `program` returns
    the start of the command that runs programs here, which reads the inputs and the profile. Raises UsageError for a
    target that is not a bundle, and DeviceProblem if the device cannot be used."""

    package = workspace.package_of(folder)
    ((label, declared),) = device_specs(workspace, package, [device])
    files = run.files()
    labels = {name: label_of(file, package) for name, file in files.items() if file.startswith(("//", ":"))}
    wanted = [(bundle, ""), *((each, "") for each in labels.values())]
    request, built = build_here(workspace, folder, wanted, flags)
    if built.code != ExitCode.OK:
        return built.code
    root = workspace.root / only_file(built, bundle)
    pte = _program_of(bundle, root, run.program)
    given = {**files, **{name: str(workspace.root / only_file(built, each)) for name, each in labels.items()}}
    with TemporaryDirectory() as temporary:
        command = program(workspace, toolchain_of(built, bundle))
        made = _read_inputs([*command, str(pte)], run, given, Path(temporary), folder)
        if isinstance(made, int):
            return made
        spec = with_runners(label, declared, [(str(each), runner) for each, runner in request.means.runners])
        pool = Pool(label, spec, workspace.root)
        if pool.unmet:
            raise EnvironmentProblem(pool.unmet)
        try:
            with pool.session(str(bundle), lambda text: write(sys.stderr, f"note: {label}: {text}")) as session:
                profile = _DeviceProfile(command, pte, run.profile_outputs, folder, write_pages)
                return _run(session, run, root, made, request, profile)
        except DeviceProblem as problem:
            raise DeviceProblem(f"{label}: {problem}") from problem
        finally:
            pool.close()


def _program_of(bundle: Label, root: Path, name: str | None) -> Path:
    """Return the .pte of a bundle. Raises UsageError for a target that is not a bundle, and for a program that the
    bundle lacks."""

    found = {path.stem: path for path in sorted(root.glob("program/*.pte"))}
    if not found or not (root / _RUNNER).is_file():
        raise UsageError(f"{bundle}: expected a runtime_bundle, a folder with a program and its runtime")
    if name is None and len(found) > 1:
        raise UsageError(f"{bundle} has several programs; expected --program with one of: {', '.join(found)}")
    if name is not None and name not in found:
        raise UsageError(f"no program '{name}'; programs: {', '.join(found)}{did_you_mean(name, found)}")
    return next(iter(found.values())) if name is None else found[name]


def _read_inputs(
    command: Sequence[str], run: Run, given: Mapping[str, str], temporary: Path, folder: Path
) -> dict[str, Path] | int:
    """Write the inputs as .npy files, in a separate process as for a run on this machine. Returns their paths, or the
    exit code of that process."""

    inputs = [f"--input={name}={file}" for name, file in given.items()]
    method = [] if run.method is None else ["--method", run.method]
    resize = ["--resize"] if run.resize else []
    save = f"--save-inputs={temporary / 'inputs'}"
    done = subprocess.run([*command, *inputs, *resize, *method, save], cwd=folder, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        return done.returncode
    return {name: Path(path) for name, path in json.loads(done.stdout)["inputs"].items()}


def _run(
    session: DeviceSession,
    run: Run,
    bundle: Path,
    inputs: Mapping[str, Path],
    request: Request,
    profile: _DeviceProfile,
) -> int:

    if run.profiles and session.shell.emulator:
        raise EnvironmentProblem(f"--profile measures nothing in {session.shell.emulator}; expected a device")
    with TemporaryDirectory() as temporary:
        files = {f"bundle/{path.relative_to(bundle).as_posix()}": path for path in bundle.rglob("*") if path.is_file()}
        files |= {f"inputs/{path.name}": path for path in inputs.values()}
        session.put({place: local_file(path) for place, path in files.items()})
        command = [*session.shell.prefix, *_command(run, inputs, bool(session.shell.emulator))]
        ended = session.run("run", command, request.means.action_timeout or _LIMIT)
        state = {} if session.shell.emulator else session.state()
        outputs = Path(temporary)
        session.get(outputs, lambda text: write(sys.stderr, f"note: {text}"))
        return _report(run, ended, outputs / "run", request.display.json, session, profile, state)


def _command(run: Run, inputs: Mapping[str, Path], emulated: bool) -> list[str]:
    """Return the command in a job's folder. An emulator measures nothing."""
    return [
        f"bundle/{_RUNNER}",
        "bundle" if run.program is None else f"bundle/{run.program}",
        *([] if run.method is None else [f"--method={run.method}"]),
        *(f"--input={name}=inputs/{path.name}" for name, path in inputs.items()),
        *([] if run.output_dir is None else ["--output-dir=out/run"]),
        f"--repeat={0 if emulated else run.repeat}",
        f"--warmup={run.warmup}",
        *([f"--profile=out/run/{EVENTS}"] if run.profiles else []),
        "--json",
    ]


def _report(
    run: Run,
    ended: EndedRun,
    returned: Path,
    as_json: bool,
    session: DeviceSession,
    profile: _DeviceProfile,
    state: Mapping[str, float],
) -> int:
    """Print the end of the program; return the exit code. The outputs are moved to the folder for outputs."""

    name = session.runner.name.partition("?")[0]
    if ended.timed_out:
        write(sys.stderr, f"error: {name}: the program ran longer than {ended.seconds:.0f} s; expected less")
        return ExitCode.BUILD_FAILED
    if ended.status:
        text = (returned / "stderr").read_text(errors="replace").strip().splitlines() or ["without a message"]
        write(sys.stderr, f"error: {name}: the program ended with exit status {ended.status}: {cut(text[-1])}")
        return ExitCode.USAGE if ended.status == ExitCode.USAGE else ExitCode.BUILD_FAILED
    try:
        document = json.loads((returned / "stdout").read_bytes())
        for output in document["outputs"]:
            if run.output_dir is not None:
                output["path"] = str(run.output_dir / Path(output["path"]).name)
        method, lines = str(document["method"]), list(_lines(document, session, state))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise JobProblem(f"{name} returned no report of modelbuild-run; expected one JSON object") from error
    if run.output_dir is not None:
        target = profile.folder / run.output_dir
        target.mkdir(parents=True, exist_ok=True)
        _take_outputs(returned, target, [profile.folder / file for file in run.files().values()])
    if not as_json:
        write(sys.stdout, "\n".join([f"on {name}: {session.facts.name()}", *lines]))
    if run.profiles:
        made = profile.write(returned / EVENTS, method, as_json)
        if isinstance(made, int):
            return made
        document["profile"] = made
    if as_json:
        print(json.dumps({**document, "runner": name, "identity": session.facts.identity(), "state": state}))
    return ExitCode.OK


def _take_outputs(returned: Path, target: Path, inputs: Sequence[Path]) -> None:
    """Copy the outputs to the user's folder. Raises UsageError, and copies nothing, for one that would replace an
    input."""
    paths = sorted(returned.glob("*.npy"))
    for place in (target / path.name for path in paths):
        if place.exists() and any(each.exists() and each.samefile(place) for each in inputs):
            raise UsageError(f"--output-dir: {place} is an input of this run; expected another folder")
    for path in paths:
        copy_file(path, target / path.name)


def _lines(document: Mapping[str, Any], session: DeviceSession, state: Mapping[str, float]) -> Iterator[str]:

    for kind in ("inputs", "outputs"):
        for port in document[kind]:
            where = f" -> {port['path']}" if port.get("path") else ""
            sizes = ", ".join(str(int(size)) for size in port["shape"])
            yield cut(f"{kind[:-1]:<6} {port['name']}: {port['dtype']}[{sizes}]{where}")
    latency = document["latency"]
    if latency is not None:
        median, low, p95 = (float(latency[name]) for name in ("median_ms", "min_ms", "p95_ms"))
        runs = f"{int(latency['runs'])} runs after {int(latency['warmup'])}"
        yield f"latency {median:.3f} ms median, {low:.3f} min, {p95:.3f} p95 ({runs})"
    elif session.shell.emulator:
        yield f"latency is not measured in {session.shell.emulator}"
    memory, first = document.get("peak_memory"), document.get("first_ms", 0.0)
    found = []
    if isinstance(first, int | float) and 0 < first < 1e12 and not session.shell.emulator:
        found.append(f"first result after {first:.3g} ms")
    if isinstance(memory, int) and 0 < memory < 1 << 50 and not session.shell.emulator:
        found.append(f"peak memory {size_text(memory)}")
    for name, unit in (("temperature", "C"), ("clock", "MHz")):
        values = [value for each, value in state.items() if each.startswith(f"{name}.")]
        found += [f"{name} {max(values):.0f} {unit}"] if values else []
    if found:
        yield ", ".join(found)
