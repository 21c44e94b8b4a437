"""Compile and link C++ for a target machine with the compiler of the package `ziglang` (Clang, LLD, libc++).

The machine's own compiler, headers and libraries are not used: libc++ is linked statically, and the target states the
version of glibc's symbols ("x86_64-linux-gnu.2.28").
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from modelbuild.step import StepError

_LINK = "link.json"
_PROBE = "#include <iostream>\nvoid probe() { std::cout << 1; }\n"
_EMULATION = {"x86_64": "elf_x86_64", "aarch64": "aarch64linux"}


def zig(arguments: Sequence[str | Path], folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """Run zig in a folder, with its caches there, and return its output. Raises StepError if it fails."""
    found = find_spec("ziglang")
    if found is None or found.origin is None:
        raise StepError("the package 'ziglang' is not installed; install modelbuild[kernels]")
    caches = {f"ZIG_{which}_CACHE_DIR": str(folder / ".zig") for which in ("GLOBAL", "LOCAL")}
    done = subprocess.run(
        [Path(found.origin).parent / "zig", *arguments],
        cwd=folder,
        env={**os.environ, **caches, **(environment or {})},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise StepError(f"zig {arguments[0]} failed:\n{done.stderr.strip()}")
    return done.stdout + done.stderr


def make_runtime(target: str, folder: Path) -> None:
    """Build the libraries that every C++ library of a target links with (libc++, glibc's symbols, ...) in a folder.

    Takes a minute of CPU. `link.json` in the folder lists the libraries in the order in which to link them.
    """
    with TemporaryDirectory() as made:
        work = Path(made)
        (work / "probe.cpp").write_text(_PROBE)
        command = ["c++", "-target", target, "-shared", "-fPIC", "-O1", "-g0", "probe.cpp", "-o", "probe.so"]
        printed = zig(command, work, {"ZIG_VERBOSE_LINK": "1"})
        (line,) = (line for line in printed.splitlines() if " -o probe.so " in line)
        libraries = [work / word for word in line.partition("--as-needed ")[2].split()]
        for library in libraries:
            (folder / library.name).write_bytes(library.read_bytes())
    (folder / _LINK).write_text(json.dumps([library.name for library in libraries], indent=1) + "\n")


def compile_object(source: Path, target: str, flags: Iterable[str], folder: Path) -> Path:
    """Compile a C, C++ or assembly file below the folder, and return the object next to it."""
    made = source.with_suffix(".o")
    language = "c++" if source.suffix in (".cc", ".cpp", ".cxx") else "cc"
    paths = (str(each.relative_to(folder)) for each in (source, made))
    zig([language, "-target", target, "-c", "-fPIC", "-g0", *flags, next(paths), "-o", next(paths)], folder)
    return made


def link_library(
    objects: Iterable[Path], runtime: Path, needed: Iterable[Path], exported: str, target: str, made: Path
) -> None:
    """Link a shared library that exports the symbols of a pattern (as "Model*"); undefined symbols are allowed.

    runtime   a folder of make_runtime
    needed    libraries, or stubs of them, that the loader must load with it
    """
    script = made.with_suffix(".map")
    script.write_text(f"{{ global: {exported}; local: *; }};\n")
    options = f"-shared -m {_EMULATION[target.partition('-')[0]]} -O2 -s --build-id=none --gc-sections --eh-frame-hdr"
    libraries = [runtime / name for name in json.loads((runtime / _LINK).read_text())]
    command = [*options.split(), "-z", "lazy", f"--version-script={script.name}", "-o", made.name]
    zig(["ld.lld", *command, *objects, *needed, "--as-needed", *libraries], made.parent)


def stub_library(soname: str, symbols: Iterable[str], target: str, folder: Path) -> Path:
    """Return a library with only a soname and symbols, to link against instead of a missing library."""
    source = folder / "stub.c"
    source.write_text("".join(f"void {symbol}(void) {{}}\n" for symbol in symbols))
    made = folder / soname
    zig(["ld.lld", "-shared", f"-soname={soname}", "-o", made.name, compile_object(source, target, [], folder)], folder)
    return made
