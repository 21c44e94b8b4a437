"""Compile a kernel to one image: SASS for every capability, and PTX of the lowest if newer GPUs can compile it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from modelbuild.step import StepError
from modelbuild_rules.backends.cuda.steps.kernels.assembler import assembler
from modelbuild_rules.backends.cuda.steps.kernels.compiler import Compiled, Usage, compile_kernel, triton_compiler
from modelbuild_rules.backends.cuda.steps.kernels.cubin import architectures
from modelbuild_rules.backends.cuda.steps.kernels.device import common_gpu
from modelbuild_rules.backends.cuda.steps.kernels.request import Request
from modelbuild_rules.backends.cuda.steps.library.cuda_home import cuda_home

IMAGE, USAGE = "image.bin", "usage.json"
"""Files of a compiled kernel: its image in the format of cuModuleLoadData, and what it uses."""


def write_image(request: Request, capabilities: Sequence[int], work: Path, folder: Path) -> Compiled:
    """Compile a kernel for capabilities (as 86), and write its image and usage into a folder; return the kernel for the
    lowest. `work`: a folder to build in. Raises StepError if the kernel does not compile."""
    gpu = common_gpu(capabilities)
    try:
        with triton_compiler(gpu, request.products, work):
            compiled = compile_kernel(request, work)
    except (MemoryError, OSError):
        raise
    except Exception as error:  # Triton, LLVM and ptxas raise different types
        raise StepError(f"kernel {request.name} does not compile: {str(error).strip() or error!r}") from error
    (folder / IMAGE).write_bytes(_image(compiled, sorted(capabilities), work).read_bytes())
    (folder / USAGE).write_text(json.dumps(asdict(compiled.usage)) + "\n")
    return compiled


def read_usage(folder: Path) -> Usage:
    """Return the usage of a compiled kernel."""
    return Usage(**json.loads((folder / USAGE).read_text()))


def _image(kernel: Compiled, capabilities: Sequence[int], work: Path) -> Path:
    lowest, *others = capabilities
    (target,) = re.findall(r"^\.target (sm_\w+)", kernel.ptx, re.MULTILINE)
    specific = not target[-1].isdigit()
    if specific and others:
        raise StepError(
            f"code for compute capability {lowest / 10} runs only there; expected one device_target for each capability"
        )
    ptx, cubin, made = (work / name for name in ("kernel.ptx", "kernel.cubin", IMAGE))
    ptx.write_text(kernel.ptx)
    cubin.write_bytes(kernel.cubin)
    kinds = [("elf", target, cubin)]
    if not specific:
        kinds.append(("ptx", target, ptx))
    for capability in others:
        kinds.append(("elf", f"sm_{capability}", _assemble(ptx, capability)))
    images = [f"--image3=kind={kind},sm={name.removeprefix('sm_')},file={file}" for kind, name, file in kinds]
    _tool(_fatbinary(), "-64", f"--create={made}", *images)
    found = architectures(made)
    asked = {name for kind, name, _ in kinds if kind == "elf"}
    if found != asked:
        raise StepError(f"kernel {kernel.entry} is for {', '.join(sorted(found))}; expected {', '.join(sorted(asked))}")
    return made


def _assemble(ptx: Path, capability: int) -> Path:
    """Return a kernel's SASS for a capability other than the target GPU's."""
    made = ptx.with_suffix(f".{capability}.cubin")
    # Uses Triton's level of register allocation, because of an error of ptxas 13.
    options = ("--regAllocOptLevel=2", f"--gpu-name=sm_{capability}")
    _tool(assembler(capability).path, *options, "-o", made, ptx)
    return made


def _fatbinary() -> Path:
    tool = cuda_home() / "bin" / "fatbinary"
    if not tool.is_file():
        raise StepError("the package 'nvidia-cuda-nvcc' is not installed; install modelbuild[cuda]")
    return tool


def _tool(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise StepError(f"{Path(command[0]).name} failed:\n{(done.stderr or done.stdout).strip()}")
