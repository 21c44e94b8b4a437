"""Load a program for ExecuTorch's Python runtime, or for the C++ runtime."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import overload

from modelbuild_runtime.data_file import check_data_file
from modelbuild_runtime.describe import describe
from modelbuild_runtime.errors import ProgramError
from modelbuild_runtime.native_program import NativeProgram
from modelbuild_runtime.program import Program
from modelbuild_runtime.pte import ProgramFile, read_program_file

RUNTIME = "MODELBUILD_RUNTIME"
"""Environment variable: a folder that `make runtime` or the rule `runtime_bundle` made, or the library in it."""


@overload
def load(path: str | Path, data_paths: Sequence[str | Path] = (), *, verify: bool = True) -> Program: ...
@overload
def load(
    path: str | Path, data_paths: Sequence[str | Path] = (), *, runtime: str | Path, verify: bool = True
) -> NativeProgram: ...
def load(
    path: str | Path,
    data_paths: Sequence[str | Path] = (),
    *,
    runtime: str | Path | None = None,
    verify: bool = True,
) -> Program:
    """Load a .pte, and the .ptd beside it: the one of the same name, or the only one if the program may need one.

    `runtime` is a folder that `make runtime` or `runtime_bundle` made; by default that of MODELBUILD_RUNTIME. If there
    is one, the C++ runtime runs the program, on GPUs too. Otherwise ExecuTorch's Python bindings run it on the CPU; the
    first run imports torch.

    With `verify` the SHA-256 in the files' manifests is checked.

    Raises ProgramError if the files are damaged, or not a program that this runtime supports.
    """
    pte = Path(path)
    named = runtime if runtime is not None else os.environ.get(RUNTIME)
    native = Path(named) if named else None
    # The C++ runtime checks the files itself.
    program = read_program_file(pte, verify=verify and native is None)
    data = [Path(given) for given in data_paths] or _beside(pte, program)
    if len(data) > 1 and native is None:
        raise ProgramError(f"{pte}: ExecuTorch's Python runtime takes one .ptd, not {len(data)}")
    for file in data:
        if not file.is_file():
            raise ProgramError(f"{file}: no such file")
        if native is None:
            check_data_file(file, verify)
    if program.external and not data:
        raise ProgramError(f"{pte}: {len(program.external)} of its tensors are in a .ptd, and there is none beside it")
    description = describe(pte, data, program)
    if native is not None:
        from modelbuild_runtime.native import library_file

        return NativeProgram(library_file(native), pte, data, description, verify)
    return Program(pte, data[0] if data else None, description)


def _beside(pte: Path, program: ProgramFile) -> list[Path]:
    """Return the .ptd files of a program. Any delegate may need one, since only the delegate knows its data."""
    own = pte.with_suffix(".ptd")
    if own.is_file():
        return [own]
    may_need = program.external or any(method.delegates for method in program.methods)
    others = sorted(pte.parent.glob("*.ptd"))
    return others if may_need and len(others) == 1 else []
