"""Compile the C++ of a library, without the machine's own tools: its own source, and what all libraries have in common.

The output does not depend on paths: sources have fixed names in one folder, and headers' paths are mapped to names.
"""

from __future__ import annotations

from pathlib import Path

from modelbuild_rules.backend_api.steps.cpp_compiler import compile_object
from modelbuild_rules.backends.cuda.steps.library.cuda_home import cuda_home, package_home
from modelbuild_rules.backends.cuda.steps.library.shims import SOURCE

INTERFACE = "_inductor/codegen/aoti_runtime/interface.cpp"
"""The source, in torch, of AOTInductor's C interface, which each of its wrappers contains."""

_DEVICE = "#include <torch/csrc/inductor/aoti_include/cuda.h>\n"
_DEFINED = (
    "C10_USING_CUSTOM_GENERATED_MACROS",
    "STANDALONE_TORCH_HEADER",
    "TORCH_INDUCTOR_CPP_WRAPPER",
    "USE_CUDA",
    "USE_MMAP_EXTERNAL",
)


def interface() -> str:
    """Return the source of AOTInductor's C interface."""
    return (package_home("torch") / INTERFACE).read_text()


def compile_wrapper(source: str, target: str, folder: Path) -> Path:
    """Return the object of a library's own source, compiled in a folder for a machine."""
    return _compiled("wrapper.cpp", source, target, folder)


def compile_interface(target: str, folder: Path) -> list[Path]:
    """Return the objects that all libraries for a machine have in common, compiled in a folder."""
    (folder / "shims.cpp").write_text(SOURCE)
    shims = compile_object(folder / "shims.cpp", target, ["-std=c++20", "-O1", "-ffunction-sections"], folder)
    return [_compiled("interface.cpp", _DEVICE + interface(), target, folder), shims]


def _compiled(name: str, source: str, target: str, folder: Path) -> Path:
    (folder / name).write_text(source)
    return compile_object(folder / name, target, _flags(folder), folder)


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
