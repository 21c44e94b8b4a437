"""Replace Triton's compiler while Inductor generates code: kernels are requested, and compiled elsewhere.

Uses private parts of torch; target_gpu.py lists them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from modelbuild_rules.backends.cuda.steps.kernels import compiler, request
from modelbuild_rules.backends.cuda.steps.kernels.request import Request


class Requests:
    """Replacement of triton.compile: it compiles a kernel, or returns one that stands for it.

    products  Triton's precision of float32 products that state none
    folder    receives the modules of kernels, and Triton's cache
    """

    def __init__(self, products: str | None, folder: Path) -> None:
        self.products, self.folder = products, folder
        self._defer = False

    def __call__(self, source: Any, target: Any = None, options: Any = None) -> Any:
        made = request.of(source, options, target.arch, self.products)
        if self._defer:
            return _Deferred(source, made)
        kernel = compiler.compiled(made, made.options, self.folder)
        kernel.src, kernel.request = source, made
        return kernel

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Compile no kernel while the context lasts."""
        self._defer = True
        try:
            yield
        finally:
            self._defer = False


def name_shared_memory(kernel: Any, name: str) -> None:
    """Make a kernel that is not compiled yet state its shared memory as a symbol of the library, for a numbered
    name."""
    if isinstance(kernel, _Deferred):
        kernel.shared = shared_memory(name)


def shared_memory(name: str) -> str:
    """Return the symbol of the bytes of shared memory of a block, for a kernel's numbered name."""
    return f"__{name}_shared"


class _Deferred:
    """Stands for Triton's CompiledKernel."""

    n_max_threads = 1024
    function = module = run = packed_metadata = None

    def __init__(self, source: Any, made: Request) -> None:
        self.src, self.request, self.hash, self.name = source, made, made.key, made.name
        self.n_regs = self.n_spills = 0
        self.shared: int | str = 0
        self.metadata = SimpleNamespace(
            name=made.name,
            num_warps=made.options["num_warps"],
            num_ctas=1,
            cluster_dims=(1, 1, 1),
            global_scratch_size=0,
            profile_scratch_size=0,
        )
        # Inductor writes them to files, which must differ.
        self.asm = {"cubin": made.key.encode(), "ptx": made.key}

    def _init_handles(self) -> None:
        """Load nothing."""

    def launch_metadata(self, *_: Any) -> None:
        """Describe no launch."""
