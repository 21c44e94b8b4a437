"""Find the files of a program, and load or describe it."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from modelbuild_runtime.describe import Description, describe
from modelbuild_runtime.errors import InputError, ProgramError
from modelbuild_runtime.files.data_file import check_data_file
from modelbuild_runtime.files.pte import ProgramFile, read_program_file
from modelbuild_runtime.native.library import LIBRARY, Handle, library_file, library_in_process
from modelbuild_runtime.program import Program

Verify = bool | str | Path | Sequence[str | Path]
"""True: check the SHA-256 in files' manifests. False: do not. Paths: check it, and load only files that one of these
public keys signed."""


def load(
    path: str | Path,
    data_paths: Sequence[str | Path] = (),
    *,
    runtime: str | Path | None = None,
    plugin_dirs: Sequence[str | Path] = (),
    verify: Verify = True,
    profile: bool = False,
    threads: int = 0,
) -> Program:
    """Load a .pte or a program of a bundle, and the .ptd next to it: the .ptd of the same name, or the only .ptd if the
    program may need one. `path` is a .pte, a bundle's folder or, for a bundle with several programs, FOLDER/NAME.

    The C++ runtime runs the program, also on GPUs. `runtime` is a folder that `make runtime` or `runtime_bundle` made,
    or the library in it. By default it is the runtime that this process already has, the bundle's, or the installed
    runtime. Keys are never checked by the bundle's runtime.

    The runtime searches `plugin_dirs` first for libraries of the program's backends and kernels.

    With `verify` the SHA-256 in the files' manifests is checked. If it is the path of a public key, or several paths,
    the runtime loads only files that one of the keys signed. With `profile` the time of each instruction is recorded:
    see Program.take_profile().

    `threads` is the number of threads of this process that compute on the CPU, which all its programs share: the first
    load sets it. 0: as they are, and at first one per core.

    Raises InputError for another number of threads than that of a program in this process, and ProgramError if there
    is no runtime, or if the files are damaged, not signed, or not a program that it supports.
    """
    digests, keys = _keys(verify)
    folders = [Path(folder) for folder in plugin_dirs]
    named = library_in_process() if runtime is None else Path(runtime)

    def handle(library: Path, data: Sequence[str | Path]) -> Handle:
        files = [Path(file) for file in data]
        return Handle(library_file(library), Path(path), files, digests, folders, profile, keys, threads)

    loaded = handle(named or _installed(), data_paths) if keys else None  # before anything else reads the files
    pte = _program_of(Path(path))
    program = read_program_file(pte, verify=False)  # the runtime checks the files itself
    found = _data_files(pte, data_paths, program)
    description = describe(pte, found, program)
    if loaded is None:
        own = _own_runtime(pte)
        folders += [own.parent] if own is not None and named is not None else []
        loaded = handle(named or own or _installed(), found)
    return Program(loaded, description)


def read_description(path: str | Path, data_paths: Sequence[str | Path] = (), *, verify: bool = True) -> Description:
    """Describe a program, found as load() finds it, without a runtime. Raises ProgramError if the files are damaged, or
    not a program."""
    pte = _program_of(Path(path))
    program = read_program_file(pte, verify=verify)
    data = _data_files(pte, data_paths, program)
    for file in data:
        check_data_file(file, verify)
    return describe(pte, data, program)


def _keys(verify: Verify) -> tuple[bool, list[Path]]:
    """Return whether manifests are checked, and the public keys."""
    if isinstance(verify, bool):
        return verify, []
    keys = [Path(verify)] if isinstance(verify, str | Path) else [Path(key) for key in verify]
    if not keys:
        raise InputError("verify is empty; expected a public key, True or False")
    return True, keys


def _program_of(path: Path) -> Path:
    """Return the .pte at a path: the file, the only .pte in a bundle's folder, or the .pte that FOLDER/NAME names."""
    if (path / "program").is_dir():
        found = sorted((path / "program").glob("*.pte"))
        if len(found) == 1:
            return found[0]
        expected = f"; expected one of: {', '.join(str(path / each.stem) for each in found)}" if found else ""
        raise ProgramError(f"{path / 'program'}: has {len(found)} programs{expected or '; expected one .pte'}")
    named = path.parent / "program" / f"{path.name}.pte"
    return named if named.is_file() and not path.exists() else path


def _data_files(pte: Path, given: Sequence[str | Path], program: ProgramFile) -> list[Path]:
    """Return the .ptd files of a program. Raises ProgramError if a file is missing."""
    data = [Path(file) for file in given] or _beside(pte, program)
    for file in data:
        if not file.is_file():
            raise ProgramError(f"{file}: no such file")
    if program.external and not data:
        raise ProgramError(f"{pte}: {len(program.external)} of its tensors are in a .ptd, and there is none beside it")
    return data


def _own_runtime(pte: Path) -> Path | None:
    """Return the runtime's library in a program's bundle for this machine; None if there is none."""
    folder = pte.absolute().parent
    library = folder.parent / "lib" / LIBRARY
    own = folder.name == "program" and library.is_file() and _machine(library) == _machine(Path("/proc/self/exe"))
    return library if own else None


def _machine(elf: Path) -> bytes:
    """Return e_machine of an ELF file."""
    with elf.open("rb") as file:
        return file.read(20)[18:]


def _installed() -> Path:
    """Return the folder of the installed runtime. Raises ProgramError if there is none."""
    # Not an import statement: actions never get here, and their keys contain no binaries.
    spec = importlib.util.find_spec("modelbuild_runtime_native")
    folder = Path(spec.origin).parent if spec is not None and spec.origin is not None else None
    if folder is None or not (folder / "runtime.json").is_file():
        raise ProgramError("no C++ runtime is installed; expected pip install 'modelbuild[runtime]'")
    return folder


def _beside(pte: Path, program: ProgramFile) -> list[Path]:
    """Return the .ptd files of a program. Any delegate may need a .ptd, because only the delegate knows its data."""
    own = pte.with_suffix(".ptd")
    if own.is_file():
        return [own]
    may_need = program.external or any(method.delegates for method in program.methods)
    others = sorted(pte.parent.glob("*.ptd"))
    return others if may_need and len(others) == 1 else []
