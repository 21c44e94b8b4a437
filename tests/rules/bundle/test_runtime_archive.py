"""Unpacking a runtime: only the files that a program needs, or an error of one line."""

from __future__ import annotations

import io
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest

from modelbuild.step import Step, StepError
from modelbuild_rules.bundle.steps.runtime.archive import Calls, MissingBackend, calls_of, lay_out
from modelbuild_rules.bundle.steps.runtime.source import runtime_of

RUNTIME: dict[str, Any] = {
    "version": 2,
    "cudart": "lib/cudart.so",
    "backends": {
        "CudaBackend": {"files": ["lib/CudaBackend.delegate.json", "lib/cuda.so"]},
        "OwnBackend": {"files": ["lib/own.so"], "flavours": ["lib/own_10.so", "lib/own_11.so"], "no_flavour": "none"},
        "BareBackend": {"files": ["lib/own.so"], "flavours": [], "no_flavour": "needs a flavour"},
    },
    "kernel_libraries": {"boxes": {"files": ["lib/boxes.kernels.json", "lib/boxes.so"], "operators": ["own::a.out"]}},
    "kernels": "lib/kernels.so",
    "quantized_kernels": "lib/quantized.so",
    "files": {
        "bin/modelbuild-run": {"needs": ["lib/core.so"]},
        "lib/core.so": {"needs": []},
        "lib/cuda.so": {"needs": ["lib/cudart.so"]},
        "lib/cudart.so": {"needs": []},
        "lib/kernels.so": {"needs": ["lib/core.so"]},
        "lib/quantized.so": {"needs": []},
        "lib/own.so": {"needs": ["lib/cudart.so"]},
        "lib/own_10.so": {"needs": []},
        "lib/own_11.so": {"needs": []},
        "lib/CudaBackend.delegate.json": {"needs": []},
        "lib/boxes.so": {"needs": ["lib/core.so"]},
        "lib/boxes.kernels.json": {"needs": []},
    },
}


X86, ARM, ALPHA = 62, 183, 0x9026


def elf(machine: int, big: bool = False) -> str:
    """Return the first bytes of an ELF file for a machine."""
    number = machine.to_bytes(2, "big" if big else "little").decode("latin-1")
    return f"\x7fELF\x02{chr(1 + big)}\x01" + "\0" * 11 + number + "\0" * 44


def packed(folder: Path, runtime: Any = RUNTIME, **content: str) -> Path:
    """Return an archive whose runner is for x86-64. `content` has files by stem."""
    files = dict.fromkeys(RUNTIME["files"], "") | {"runtime.json": json.dumps(runtime)}
    files["bin/modelbuild-run"] = elf(X86)
    files = {name: content.get(Path(name).stem, text) for name, text in files.items()}
    made = folder / "runtime.tar"
    with tarfile.open(made, "w") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode("latin-1")))
    return made


def calls(backends: tuple[str, ...] = (), operators: tuple[str, ...] = (), **libraries: str) -> Calls:
    """Return the calls of a program. `libraries` has the kernel library of operators in the namespace `own`."""
    return Calls(frozenset(backends), frozenset(operators), {f"own::{name}.out": of for name, of in libraries.items()})


@pytest.mark.parametrize(
    ("backends", "operators", "libraries"),
    [
        ((), ("aten::add.out",), {"core", "kernels"}),
        ((), ("quantized_decomposed::add.out",), {"core", "quantized"}),
        (("CudaBackend",), (), {"core", "cuda", "cudart", "CudaBackend.delegate"}),
        (("OwnBackend",), ("aten::add.out",), {"core", "kernels", "own", "own_10", "own_11", "cudart"}),
    ],
)
def test_requirements_of_the_program_are_laid_out(
    tmp_path: Path, backends: tuple[str, ...], operators: tuple[str, ...], libraries: set[str]
) -> None:
    (tmp_path / "out").mkdir()
    made = lay_out(packed(tmp_path), calls(backends, operators), tmp_path / "out")
    assert {path.stem for path in (tmp_path / "out/lib").iterdir()} == libraries
    assert [Path(name).stem for name in made.needed] == ["modelbuild-run", *sorted(libraries)]
    assert made.backends == set(backends)
    assert made.missing_flavour() == ""
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "out/lib").iterdir()}
    assert all(mode == (0o644 if name.endswith(".json") else 0o755) for name, mode in modes.items())


def test_a_kernel_library_is_laid_out_with_its_description(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    lay_out(packed(tmp_path), calls(operators=("own::a.out",), a="boxes"), tmp_path / "out")
    found = {path.name for path in (tmp_path / "out/lib").iterdir()}
    assert found == {"core.so", "boxes.so", "boxes.kernels.json"}


@pytest.mark.parametrize(
    ("runtime", "operator", "library"),
    [
        (RUNTIME, "b", "boxes"),
        (RUNTIME, "a", "others"),
        ({name: value for name, value in RUNTIME.items() if name != "kernel_libraries"}, "a", "boxes"),
    ],
    ids=["an operator", "a library", "all, of an older version"],
)
def test_a_kernel_that_the_runtime_lacks_is_named(tmp_path: Path, runtime: Any, operator: str, library: str) -> None:
    (tmp_path / "out").mkdir()
    called = calls(operators=(f"own::{operator}.out",), **{operator: library})
    expected = f"the program needs the kernel own::{operator}.out of {library}, which the runtime lacks"
    with pytest.raises(MissingBackend, match=re.escape(expected)):
        lay_out(packed(tmp_path, runtime), called, tmp_path / "out")


def test_a_delegate_without_a_flavour_is_said_in_the_runtime_s_words(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    made = lay_out(packed(tmp_path), calls(("BareBackend", "OwnBackend")), tmp_path / "out")
    assert made.missing_flavour() == "needs a flavour"


def test_a_folder_of_the_same_files_is_laid_out_alike(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with tarfile.open(packed(tmp_path)) as archive:
        archive.extractall(tmp_path / "folder")
    made = lay_out(tmp_path / "folder", calls(("OwnBackend",)), tmp_path / "out")
    assert made == lay_out(tmp_path / "runtime.tar", calls(("OwnBackend",)), tmp_path / "out")
    (tmp_path / "folder/lib/own.so").unlink()
    (tmp_path / "again").mkdir()
    with pytest.raises(StepError, match=r"the runtime has no file lib/own\.so"):
        lay_out(tmp_path / "folder", calls(("OwnBackend",)), tmp_path / "again")


def test_an_installed_package_without_a_runtime_is_an_error_with_the_targets_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runtime_without_files.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    step = Step({"installed": "runtime_without_files", "place": "BUILD.toml:3:1"}, {}, {}, tmp_path)
    with pytest.raises(StepError) as raised:
        runtime_of(step)
    assert str(raised.value) == (
        "BUILD.toml:3:1: the installed package runtime_without_files contains no C++ runtime; expected its wheel"
        " for Linux with glibc 2.35, or the attribute 'runtime'"
    )


@pytest.mark.parametrize("content", [b"", b"nothing", None])
def test_invalid_runtimes_are_reported(tmp_path: Path, content: bytes | None) -> None:
    archive = packed(tmp_path, {**RUNTIME, "version": 1})
    if content is not None:
        archive.write_bytes(content)
    with pytest.raises(StepError, match="expected the archive of this version's `make runtime`"):
        lay_out(archive, Calls(), tmp_path)


def test_a_backend_that_the_runtime_was_built_without(tmp_path: Path) -> None:
    with pytest.raises(MissingBackend) as raised:
        lay_out(packed(tmp_path), calls(("QnnBackend",)), tmp_path)
    had = "BareBackend, CudaBackend, OwnBackend"
    assert str(raised.value) == f"the program needs the backend QnnBackend; the runtime has: {had}"


def test_a_file_that_is_not_a_program(tmp_path: Path) -> None:
    (tmp_path / "p.pte").write_bytes(b"nothing")
    with pytest.raises(StepError, match=r"the program cannot be read: .*p\.pte"):
        calls_of(tmp_path / "p.pte")


@pytest.mark.parametrize(
    ("content", "arch", "problem"),
    [
        ({"modelbuild-run": elf(ARM)}, "x86_64", "bin/modelbuild-run of the runtime is for aarch64; expected x86_64: "),
        ({}, "aarch64", "for x86_64; expected aarch64: `make runtime ARCH=aarch64` builds that"),
        ({"core": elf(ARM)}, "x86_64", "lib/core.so of the runtime is for aarch64; expected x86_64"),
        (
            {"modelbuild-run": elf(ARM), "kernels": elf(X86)},
            "aarch64",
            "lib/kernels.so of the runtime is for x86_64; expected aarch64",
        ),
        (
            {"kernels": elf(ALPHA, big=True)},
            "x86_64",
            "lib/kernels.so of the runtime is for ELF machine 36902; expected",
        ),
        (
            {"modelbuild-run": elf(X86), "core": elf(ARM)},
            None,
            "lib/core.so of the runtime is for aarch64; expected x86_",
        ),
        ({"modelbuild-run": "#!/bin/sh"}, None, "bin/modelbuild-run of the runtime is not a program; expected the run"),
    ],
)
def test_a_file_for_another_machine_is_named(
    tmp_path: Path, content: dict[str, str], arch: str | None, problem: str
) -> None:
    archive = packed(tmp_path, **content)
    (tmp_path / "out").mkdir()
    with pytest.raises(StepError, match=problem):
        lay_out(archive, calls(operators=("aten::add.out",)), tmp_path / "out", arch)


def test_programs_without_foreign_files_are_laid_out(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    archive = packed(tmp_path, core=elf(X86), cuda=elf(ARM))
    assert lay_out(archive, calls(operators=("aten::add.out",)), tmp_path / "out", "x86_64").arch == "x86_64"
