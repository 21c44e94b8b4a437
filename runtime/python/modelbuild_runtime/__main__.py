"""Run a program on files: `python -m modelbuild_runtime PROGRAM.pte --input name=file`.

Exit codes: 0 success, 1 loading or running failed, 2 invalid inputs or command line, 8 interrupted.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from modelbuild_runtime.describe import describe
from modelbuild_runtime.errors import InputError, ProgramError, one_line
from modelbuild_runtime.etdump import write_etdump
from modelbuild_runtime.files.pte import read_program_file
from modelbuild_runtime.inputs import read_inputs
from modelbuild_runtime.latency import Latency
from modelbuild_runtime.load import load
from modelbuild_runtime.outputs import write_outputs
from modelbuild_runtime.profile import Profile, summarize
from modelbuild_runtime.program import Program

# The version of both JSON documents: a run's, and a description.
VERSION = 1
# Profiled runs without --repeat.
_RUNS = 10


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        if options.events is not None:
            profile = _recorded(options)
            print(json.dumps(profile.to_json()) if options.json else "\n".join(map(one_line, profile.lines())))
            return 0
        program = load(
            options.program,
            options.data,
            plugin_dirs=options.plugin_dir,
            verify=options.keys or options.verify,
            profile=options.profile,
        )
        if options.describe:
            print(_description(program, options.json))
            return 0
        if options.save_inputs is not None:
            print(json.dumps({"version": VERSION, "inputs": _saved(program, options)}))
            return 0
        report = _run(program, options)
    except (ProgramError, OSError, MemoryError) as error:
        print(f"error: {one_line(_reason(error))}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    except KeyboardInterrupt:
        return 8
    print(json.dumps(report) if options.json else _text(report))
    return 0


def _description(program: Program, as_json: bool) -> str:
    described, unmet = program.describe(), program.unmet_requirements()
    if as_json:
        return json.dumps({"version": VERSION, **described.to_json(), "unmet": unmet})
    return "\n".join([str(described), *(one_line(f"  this machine cannot run it: {line}") for line in unmet)])


def _run(program: Program, options: argparse.Namespace) -> dict[str, Any]:
    method = program.describe().method(options.method)
    arrays = read_inputs(method.inputs, _files(options.input), options.resize)
    outputs = program.run(arrays, method.name)
    latency: Latency | None = None
    if options.repeat and not options.profile:  # recording takes time
        latency = program.measure(arrays, method.name, options.repeat, options.warmup)
    profile = _profile(program, options, method.name, arrays) if options.profile else None
    paths = {}
    if options.output_dir is not None:
        paths = write_outputs(outputs, options.output_dir, options.output_format)
    types = {port.name: port.dtype for port in method.outputs}
    return {
        "version": VERSION,
        "program": program.describe().path,
        "method": method.name,
        "inputs": [{"name": n, "dtype": str(a.dtype), "shape": list(a.shape)} for n, a in arrays.items()],
        "outputs": [
            {
                "name": name,
                "dtype": types[name] or str(array.dtype),
                "shape": list(array.shape),
                "path": str(paths[name]) if name in paths else None,
            }
            for name, array in outputs.items()
        ],
        "latency": None if latency is None else latency.to_json(),
        **({} if profile is None else {"profile": profile.to_json()}),
    }


def _saved(program: Program, options: argparse.Namespace) -> dict[str, str]:
    """Write the inputs to files; return the paths by name."""
    ports = program.describe().method(options.method).inputs
    arrays = read_inputs(ports, _files(options.input), options.resize)
    for port in ports:
        if port.kind == "tensor" and port.name not in arrays:
            raise InputError(f"missing input {port}")
    return {name: str(path) for name, path in write_outputs(arrays, options.save_inputs).items()}


def _profile(program: Program, options: argparse.Namespace, method: str, arrays: Any) -> Profile:
    """Run a program's method as --repeat and --warmup say, and write the events to the requested files."""
    for runs in (options.warmup, options.repeat or _RUNS):
        program.take_profile()
        for _ in range(runs):
            program.run(arrays, method)
    path = Path(program.describe().path)
    profile = summarize(events := program.take_profile(), path, read_program_file(path, verify=False), method)
    _write_profile(profile, events, options.profile_output)
    return profile


def _recorded(options: argparse.Namespace) -> Profile:
    """Return the profile of events that modelbuild-run recorded, perhaps on another machine; write it to the requested
    files. The bytes are not trusted."""
    file = read_program_file(options.program, verify=False)
    method = describe(options.program, (), file).method(options.method).name
    try:
        events = options.events.read_text()
        profile = summarize(events, options.program, file, method)
        _write_profile(profile, events, options.profile_output)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, struct.error) as error:
        raise ProgramError(f"{options.events}: expected the events of `modelbuild-run --profile`") from error
    return profile


def _write_profile(profile: Profile, events: str, outputs: Sequence[Path]) -> None:
    for output in outputs:
        if output.suffix == ".json":
            output.write_text(json.dumps(profile.to_json(), indent=1) + "\n")
        else:
            write_etdump(events, output)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error) or "out of memory"


def _text(report: dict[str, Any]) -> str:
    lines = [f"input  {p['name']}: {p['dtype']}{p['shape']}" for p in report["inputs"]]
    for port in report["outputs"]:
        where = f" -> {port['path']}" if port["path"] else ""
        lines.append(f"output {port['name']}: {port['dtype']}{port['shape']}{where}")
    if report["latency"] is not None:
        lines.append(f"latency {Latency(**report['latency'])}")
    if "profile" in report:
        lines += Profile.from_json(report["profile"]).lines()
    return "\n".join(map(one_line, lines))


def _files(given: Sequence[str]) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for item in given:
        name, equals, path = item.partition("=")
        if not (equals and name and path):
            raise InputError(f"--input {item}: expected name=file")
        if name in files:
            raise InputError(f"--input {item}: '{name}' is given twice")
        files[name] = Path(path)
    return files


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m modelbuild_runtime", description="Run a .pte on files.")
    parser.add_argument("program", type=Path, metavar="PROGRAM.pte")
    parser.add_argument("--data", type=Path, action="append", default=[], metavar="FILE.ptd", help="external data")
    parser.add_argument(
        "--plugin-dir",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="search DIR first for libraries of the program's backends and kernels (C++ runtime)",
    )
    parser.add_argument("--input", action="append", default=[], metavar="NAME=FILE", help=".npy, .json, .png or .jpg")
    parser.add_argument(
        "--resize", action="store_true", help="give pictures of another size the height and width of their input"
    )
    parser.add_argument("--method", help="method of the program (the only one, or forward)")
    parser.add_argument("--output-dir", type=Path, metavar="DIR", help="write outputs to DIR")
    parser.add_argument("--output-format", choices=("npy", "json"), default="npy", help="format of the outputs (npy)")
    parser.add_argument("--repeat", type=int, default=0, metavar="N", help="number of measured runs")
    parser.add_argument("--warmup", type=int, default=3, metavar="N", help="number of runs before measuring (3)")
    parser.add_argument("--profile", action="store_true", help="print the time of each operator and partition")
    parser.add_argument(
        "--profile-output",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="write the profile: .json, or .etdp for ExecuTorch's Inspector",
    )
    parser.add_argument(
        "--events",
        type=Path,
        metavar="FILE",
        help="print the profile that modelbuild-run --profile FILE recorded; run nothing",
    )
    parser.add_argument(
        "--verify",
        dest="keys",
        type=Path,
        action="append",
        metavar="KEY",
        help="run only what this key signed: a public key in PEM",
    )
    parser.add_argument(
        "--no-verify", dest="verify", action="store_false", help="do not check the SHA-256 of the files' manifests"
    )
    parser.add_argument(
        "--describe", action="store_true", help="print inputs, outputs and unmet requirements; run nothing"
    )
    parser.add_argument(
        "--save-inputs",
        type=Path,
        metavar="DIR",
        help="write the inputs to DIR as .npy files, and print their paths; run nothing",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


if __name__ == "__main__":
    sys.exit(main())
