"""Link and check a library from objects and kernels, without the machine's own tools."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from modelbuild.step import StepError
from modelbuild_rules.backend_api.steps.cpp_compiler import compile_object, link_library, stub_library
from modelbuild_rules.backend_api.steps.elf import Needs, machine, needs
from modelbuild_rules.backends.cuda.steps.generate.missing_kernels import PROVIDED
from modelbuild_rules.backends.cuda.steps.generate.requests import shared_memory
from modelbuild_rules.backends.cuda.steps.library.images import IMAGE, read_usage

DRIVER = "libcuda.so.1"

_CUDA = re.compile(r"cu(da)?[A-Z]\w+\Z")
_DRIVER = re.compile(r"cu[A-Z]\w+\Z")


def link(objects: Sequence[Path], kernels: Mapping[str, Path], target: str, runtime: Path, folder: Path) -> Path:
    """Return the path of a library that is linked in `folder` for a machine.

    objects  of its source, and of what all libraries have in common
    kernels  the folders of its compiled kernels, by the names in its source
    runtime  a folder of backend_api/steps/cpp_compiler.py (make_runtime)
    """
    (folder / "kernels.S").write_text(_embedded(kernels, folder))
    images = compile_object(folder / "kernels.S", target, [], folder)
    symbols = sorted({name for each in objects for name in needs(each).undefined if _DRIVER.match(name)})
    driver = stub_library(DRIVER, symbols, target, folder)
    made = folder / "library.so"
    link_library([*objects, images], runtime, [driver], "AOTInductor*", target, made)
    return made


def check(library: Path, target: str) -> Needs:
    """Return a library's requirements. Raises StepError for another machine, a symbol that the runtime lacks, and a
    glibc that is too new."""
    arch = target.partition("-")[0]
    if machine(library) != arch:
        raise StepError(f"the library is for {machine(library)}; expected {arch}")
    found = needs(library)
    unknown = sorted(name for name in found.undefined if name not in PROVIDED and not _CUDA.match(name))
    if unknown:
        raise StepError(f"the library needs {', '.join(unknown)}, which the CUDA delegate does not have")
    oldest = tuple(int(part) for part in target.partition("gnu.")[2].split("."))
    if found.glibc > oldest:
        raise StepError(f"the library needs glibc {dotted(found.glibc)}; expected no more than {dotted(oldest)}")
    return found


def dotted(version: Iterable[int]) -> str:
    return ".".join(str(part) for part in version)


def _embedded(kernels: Mapping[str, Path], folder: Path) -> str:
    """Return assembly with the kernels' images, the sizes of their shared memory, and the size of the library's own
    weights, 0, under the names in the source. The images are copied to `folder`."""
    lines = ['.section .note.GNU-stack,"",%progbits', ".section .rodata", ".balign 64"]
    lines += [".global _binary_constants_bin_start", "_binary_constants_bin_start:", ".quad 0"]
    for number, (name, kernel) in enumerate(kernels.items()):
        image, size = f"kernel.{number}.bin", shared_memory(name)
        (folder / image).write_bytes((kernel / IMAGE).read_bytes())
        lines += [".balign 64", f".global __{name}_start", f"__{name}_start:", f'.incbin "{image}"']
        lines += [".balign 4", f".global {size}", f".hidden {size}", f"{size}:", f".long {read_usage(kernel).shared}"]
    return "\n".join(lines) + "\n"
