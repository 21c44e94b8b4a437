"""Compile a library's C++ source, without the machine's own tools.

The output does not depend on paths: sources have fixed names in one folder, and headers' paths are mapped to names.
"""

from __future__ import annotations

from pathlib import Path

from modelbuild_rules.backend_api.steps.cpp_compiler import compile_object
from modelbuild_rules.backends.cuda.steps.library.cuda_home import cuda_home, package_home

WRAPPER = "wrapper.cpp"

_DEFINED = (
    "C10_USING_CUSTOM_GENERATED_MACROS",
    "STANDALONE_TORCH_HEADER",
    "TORCH_INDUCTOR_CPP_WRAPPER",
    "USE_CUDA",
    "USE_MMAP_EXTERNAL",
)


def compile_wrapper(source: Path, target: str, folder: Path) -> Path:
    """Return the object of a library's source, compiled in a folder for a machine."""
    (folder / WRAPPER).write_bytes(source.read_bytes())
    return compile_object(folder / WRAPPER, target, _flags(folder), folder)


def _flags(folder: Path) -> list[str]:
    """Return compiler flags for the wrapper, with upstream's optimization level: the wrapper only launches kernels."""
    torch, cuda = package_home("torch") / "include", cuda_home() / "include"
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
