"""Compile Triton kernels for a GPU that the machine does not have.

Uses private parts of Triton; generate/target_gpu.py lists them.
"""

from __future__ import annotations

import importlib.util
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import CalledProcessError
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from modelbuild_rules.backends.cuda.steps.kernels.assembler import assembler
from modelbuild_rules.backends.cuda.steps.kernels.cubin import resources
from modelbuild_rules.backends.cuda.steps.kernels.device import Gpu, registers_allow
from modelbuild_rules.backends.cuda.steps.kernels.request import Request

LINE_NUMBERS = False
"""True if kernels shall contain the line numbers of their Python source, for tools that read them."""

PRODUCTS = {"fp32": "tf32x3", "tf32": None}
"""Triton's precision of float32 products that state none, by a backend's; None for Triton's default. tf32x3 computes
each as three TF32 products on tensor cores; without tensor cores it would be far slower."""


_SENT = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM, signal.SIGXCPU})
"""Signals that a user or the kernel of the system sends: for lack of memory, SIGKILL. The assembler's own faults raise
others."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The resources that a thread and a block of a kernel use.

    registers  of a thread
    spilled    bytes of registers that a thread keeps in memory
    shared     bytes of shared memory of a block
    """

    registers: int
    spilled: int
    shared: int


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel: PTX and SASS for the request's compute capability, and the name of its entry in both."""

    entry: str
    ptx: str
    cubin: bytes
    usage: Usage


def compile_kernel(request: Request, folder: Path) -> Compiled:
    """Compile a request, within `triton_compiler`. If the GPU's shared memory is too small for the pipeline's
    stages, the kernel has one stage. Raises OutOfResources of Triton if it is still too small. `folder` receives the
    kernel's module."""
    from triton.runtime.errors import OutOfResources

    try:
        made = compiled(request, request.options, folder)
        made._init_handles()
    except OutOfResources:
        if request.options.get("num_stages", 1) <= 1:
            raise
        made = compiled(request, {**request.options, "num_stages": 1}, folder)
        made._init_handles()
    metadata = made.metadata
    if metadata.global_scratch_size:
        raise ValueError(f"kernel {request.name} needs memory besides its arguments, which is not supported")
    usage = Usage(made.n_regs, made.n_spills, metadata.shared)
    return Compiled(metadata.name, made.asm["ptx"], made.asm["cubin"], usage)


def compiled(request: Request, options: Mapping[str, Any], folder: Path) -> Any:
    """Return Triton's CompiledKernel of a request, within `triton_compiler`. `folder` receives the kernel's module.
    Raises OSError if something ended the assembler, which says nothing about the kernel."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile
    from triton.runtime.errors import PTXASError

    file = module_file(request, folder)
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(request.source)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    constants, attributes = (
        {tuple(place): value for place, value in pairs} for pairs in (request.constants, request.attributes)
    )
    source = ASTSource(getattr(module, request.name), dict(request.signature), constants, attributes)
    try:
        return compile(source, target=GPUTarget("cuda", request.capability, 32), options=dict(options))
    except PTXASError as error:
        ended = error.__context__
        if isinstance(ended, CalledProcessError) and -ended.returncode in _SENT:
            name = signal.Signals(-ended.returncode).name
            raise OSError(f"{name} ended ptxas while it compiled kernel {request.name}") from error
        raise


def module_file(request: Request, folder: Path) -> Path:
    """Return the path of a request's module in a folder."""
    return folder / f"k{request.key}.py"


@contextmanager
def triton_compiler(
    gpu: Gpu, products: str | None, cache: Path, launch: Callable[..., Any] | None = None
) -> Iterator[None]:
    """Make Triton compile for a GPU while the context lasts.

    products  the precision of float32 products that state none, as in PRODUCTS
    cache     Triton's cache folder
    launch    returns Triton's launcher of a kernel: launch(source, metadata); None if no kernel is launched
    """
    import triton
    from triton.backends.nvidia import compiler
    from triton.compiler.compiler import max_shared_mem

    # Otherwise Triton and torch search the machine's CUDA for it.
    libdevice = Path(triton.__file__).parent / "backends/nvidia/lib/libdevice.10.bc"
    with ExitStack() as stack:
        for owner, name, value in (
            (triton.runtime.driver, "_active", _driver(gpu, launch or (lambda *_: refuse))),
            (triton.knobs.cache, "dir", str(cache)),
            (triton.runtime.cache, "triton_key", lambda: ""),  # hashes Triton's files, for its cache
            (triton.knobs.compilation, "disable_line_info", not LINE_NUMBERS),
            (triton.knobs.language, "fp32_default", products),
            (triton.knobs.nvidia, "libdevice_path", str(libdevice)),
            (compiler, "get_ptxas", assembler),
        ):
            stack.enter_context(patch.object(owner, name, value))
        max_shared_mem.cache_clear()
        stack.callback(max_shared_mem.cache_clear)
        yield


def refuse(*_: Any, **__: Any) -> Any:
    """Replacement of calls that must never happen. Raises RuntimeError."""
    raise RuntimeError("a kernel was launched while compiling without a GPU")


def _driver(gpu: Gpu, launch: Callable[..., Any]) -> Any:
    """Return a Triton driver that neither loads nor runs kernels."""
    import torch
    from triton.backends.compiler import GPUTarget

    def load(name: str, kernel: bytes, shared: int, device: int) -> tuple[None, tuple[str, bytes], int, int, int]:
        registers, spilled = resources(kernel)
        return None, (name, kernel), registers, spilled, registers_allow(registers)

    utils = SimpleNamespace(
        get_device_properties=lambda _: gpu.limits(), load_binary=load, unload_module=lambda *_: None
    )
    return SimpleNamespace(
        utils=utils,
        launcher_cls=launch,
        is_active=lambda: True,
        get_current_target=lambda: GPUTarget("cuda", gpu.capability, 32),
        get_current_device=lambda: 0,
        set_current_device=lambda _: None,
        get_current_stream=lambda _: 0,
        get_active_torch_device=lambda: torch.device("cuda", 0),
        get_device_interface=refuse,
        get_benchmarker=refuse,
    )
