"""Compile, link and check a library from source text and kernels, without the machine's own tools.

Each kernel becomes one image: SASS for every capability, and PTX of the lowest if newer GPUs can compile it. The output
does not depend on paths: sources have fixed names in one folder, and headers' paths are mapped to names.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path

from modelbuild.step import StepError
from modelbuild_rules.backend_api.steps.cpp_compiler import compile_object, link_library, stub_library
from modelbuild_rules.backend_api.steps.elf import Needs, machine, needs
from modelbuild_rules.backends.cuda.steps.generate.generate import Generated, Kernel
from modelbuild_rules.backends.cuda.steps.generate.missing_kernels import PROVIDED
from modelbuild_rules.backends.cuda.steps.kernels.assembler import assembler
from modelbuild_rules.backends.cuda.steps.kernels.cubin import architectures
from modelbuild_rules.backends.cuda.steps.library.shims import SOURCE

DRIVER = "libcuda.so.1"

_DEFINED = (
    "C10_USING_CUSTOM_GENERATED_MACROS",
    "STANDALONE_TORCH_HEADER",
    "TORCH_INDUCTOR_CPP_WRAPPER",
    "USE_CUDA",
    "USE_MMAP_EXTERNAL",
)
_CUDA = re.compile(r"cu(da)?[A-Z]\w+\Z")
_DRIVER = re.compile(r"cu[A-Z]\w+\Z")


def link(generated: Generated, capabilities: Sequence[int], target: str, runtime: Path, folder: Path) -> Path:
    """Return the path of a library that is linked in `folder` for capabilities (as 86) and a machine. `runtime` is a
    folder of backend_api/steps/cpp_compiler.py (make_runtime).

    Raises StepError if the library needs symbols or a glibc that are missing at run time.
    """
    images = [_image(kernel, number, capabilities, folder) for number, kernel in enumerate(generated.kernels)]
    (folder / "kernels.S").write_text(_embedded(generated, images))
    (folder / "wrapper.cpp").write_text(generated.source)
    (folder / "shims.cpp").write_text(SOURCE)
    objects = [
        compile_object(folder / "wrapper.cpp", target, _flags(folder), folder),
        compile_object(folder / "shims.cpp", target, ["-std=c++20", "-O1", "-ffunction-sections"], folder),
        compile_object(folder / "kernels.S", target, [], folder),
    ]
    symbols = sorted(name for name in needs(objects[0]).undefined if _DRIVER.match(name))
    driver = stub_library(DRIVER, symbols, target, folder)
    made = folder / "library.so"
    link_library(objects, runtime, [driver], "AOTInductor*", target, made)
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


def _image(kernel: Kernel, number: int, capabilities: Sequence[int], folder: Path) -> Path:
    """Return an image of a kernel for all capabilities, in the format of cuModuleLoadData."""
    lowest, *others = sorted(capabilities)
    text = kernel.ptx.read_text()
    (target,) = re.findall(r"^\.target (sm_\w+)", text, re.MULTILINE)
    specific = not target[-1].isdigit()
    if specific and others:
        raise StepError(
            f"code for compute capability {lowest / 10} runs only there; expected one device_target for each capability"
        )
    kinds = [("elf", target, kernel.cubin)]
    if not specific:
        kinds.append(("ptx", target, kernel.ptx))
    for capability in others:
        kinds.append(("elf", f"sm_{capability}", _assemble(kernel, capability, folder)))
    made = folder / f"kernel.{number}.bin"
    images = [f"--image3=kind={kind},sm={name.removeprefix('sm_')},file={file}" for kind, name, file in kinds]
    _tool(_fatbinary(), "-64", f"--create={made}", *images)
    found = architectures(made)
    asked = {name for kind, name, _ in kinds if kind == "elf"}
    if found != asked:
        raise StepError(f"kernel {kernel.name} is for {', '.join(sorted(found))}; expected {', '.join(sorted(asked))}")
    return made


def _assemble(kernel: Kernel, capability: int, folder: Path) -> Path:
    """Return a kernel's SASS for a capability other than the target GPU's."""
    made = folder / f"{kernel.name}.{capability}.cubin"
    # Uses Triton's level of register allocation, because of an error of ptxas 13.
    options = ("--regAllocOptLevel=2", f"--gpu-name=sm_{capability}")
    _tool(assembler(capability).path, *options, "-o", made, kernel.ptx)
    return made


def _embedded(generated: Generated, images: Sequence[Path]) -> str:
    """Return assembly with the images and the size of the library's own weights, 0, under the names in the source."""
    lines = ['.section .note.GNU-stack,"",%progbits', ".section .rodata", ".balign 64"]
    lines += [".global _binary_constants_bin_start", "_binary_constants_bin_start:", ".quad 0"]
    for kernel, image in zip(generated.kernels, images, strict=True):
        lines += [".balign 64", f".global __{kernel.name}_start", f"__{kernel.name}_start:", f'.incbin "{image.name}"']
    return "\n".join(lines) + "\n"


def _flags(folder: Path) -> list[str]:
    """Return compiler flags for the wrapper, with upstream's optimization level: the wrapper only launches kernels."""
    torch, cuda = _home("torch") / "include", cuda_home() / "include"
    folders = {torch: "torch", torch / "torch/csrc/api/include": "torch", cuda: "cuda", cuda / "cccl": "cuda"}
    mapped = [f"-ffile-prefix-map={path}={name}" for path, name in folders.items()]
    included = [part for path in folders for part in ("-isystem", str(path))]
    defined = [f"-D{name}" for name in _DEFINED]
    return [
        "-std=c++20",
        "-O1",
        "-w",
        "-fvisibility=hidden",
        f"-ffile-prefix-map={folder}=.",
        *mapped,
        *defined,
        *included,
    ]


def cuda_home() -> Path:
    """Return the folder of the CUDA packages' tools and headers."""
    return _home("nvidia") / "cu13"


def _home(package: str) -> Path:
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise StepError(f"the package '{package}' is not installed; install modelbuild[cuda]")
    return Path(next(iter(found.submodule_search_locations)))


def _fatbinary() -> Path:
    tool = cuda_home() / "bin" / "fatbinary"
    if not tool.is_file():
        raise StepError("the package 'nvidia-cuda-nvcc' is not installed; install modelbuild[cuda]")
    return tool


def _tool(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise StepError(f"{Path(command[0]).name} failed:\n{(done.stderr or done.stdout).strip()}")
