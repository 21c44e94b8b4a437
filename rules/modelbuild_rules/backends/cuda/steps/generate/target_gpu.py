"""Patch torch and Triton so that AOTInductor compiles for a target GPU on a machine without a GPU.

All patches were checked on the versions in CHECKED. They last as long as the context; no kernel runs on a device, and
weights stay on the CPU behind fake tensors. Where Inductor would time kernels, their launches are reported instead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from typing import Any
from unittest.mock import patch

from modelbuild.step import Progress, StepError, ignore_progress
from modelbuild_rules.backends.cuda.steps.generate.corrections import corrections
from modelbuild_rules.backends.cuda.steps.generate.lowerings.lowerings import lowered
from modelbuild_rules.backends.cuda.steps.generate.requests import Requests, name_shared_memory
from modelbuild_rules.backends.cuda.steps.kernels.choice import Chooser
from modelbuild_rules.backends.cuda.steps.kernels.compiler import refuse, triton_compiler
from modelbuild_rules.backends.cuda.steps.kernels.device import Gpu
from modelbuild_rules.backends.cuda.steps.kernels.launches import Launcher, arguments_of_kernels
from modelbuild_rules.backends.cuda.steps.kernels.request import Request
from modelbuild_rules.backends.cuda.steps.kernels.timing import Launch

CHECKED: tuple[dict[str, str], ...] = ({"torch": "2.14.0", "triton": "3.8.0"}, {"torch": "2.15.0", "triton": "3.9.0"})
"""Versions that were checked together."""

PATCHED = (
    # Properties of the device.
    "torch.cuda:get_device_properties",
    "torch.cuda:get_device_capability",
    "torch.cuda:get_device_name",
    "torch.cuda:current_device",
    "torch.cuda:device_count",
    "torch.cuda:is_bf16_supported",
    "torch._dynamo.device_interface:CudaInterface.get_device_properties",
    "torch._dynamo.device_interface:CudaInterface.get_compute_capability",
    "torch._dynamo.device_interface:CudaInterface.current_device",
    "torch._dynamo.device_interface:CudaInterface.device_count",
    "torch._dynamo.device_interface:CudaInterface.exchange_device",
    "torch._dynamo.device_interface:CudaInterface.maybe_exchange_device",
    "torch._dynamo.device_interface:CudaInterface.synchronize",
    "torch._dynamo.device_interface:CudaInterface.get_raw_stream",
    "torch._dynamo.device_interface:CudaInterface.is_bf16_supported",
    "torch._dynamo.device_interface:caching_worker_device_properties",
    "torch._dynamo.device_interface:caching_worker_current_devices",
    "torch._inductor.utils:is_big_gpu",
    "torch._inductor.runtime.hints:DeviceProperties.create",
    "torch._inductor.runtime.triton_helpers:set_driver_to_gpu",
    "torch.utils._triton:has_triton",
    "triton.runtime:driver._active",
    "triton.knobs:cache.dir",
    "triton.knobs:compilation.disable_line_info",
    "triton.knobs:language.fp32_default",
    "triton.knobs:nvidia.libdevice_path",
    "triton:compile",
    "triton.runtime.cache:triton_key",
    "triton.backends.nvidia.compiler:get_ptxas",
    "torch._inductor.async_compile:AsyncCompile.triton",
    # Work on the device.
    "torch._inductor.codegen.wrapper:PythonWrapperCodegen.generate_and_run_autotune_block",
    "torch._inductor.select_algorithm:AlgorithmSelectorCache.pick_deterministic_choice",
    "torch._inductor.graph:is_same_tensor",
    # Lowerings (lowerings/), and corrections (corrections.py).
    "torch._inductor.heuristics.template.triton:BaseConfigHeuristic.get_conv_configs",
    "torch._inductor.heuristics.template.triton:MMTemplateConfigMixin.get_extra_kwargs",
    "torch._inductor.select_algorithm:PartialRender",
    "torch._inductor.choices:InductorChoices.can_fuse_vertical",
    "torch._inductor.choices:InductorChoices.can_fuse_horizontal",
    "torch._inductor.ir:Scan.num_splits",
    "torch._inductor.ir:AssertScalar.codegen",
    "torch._inductor.kernel.mm_plus_mm:tuned_mm_plus_mm",
    "torch._inductor.lowering:lowerings",
    "torch._inductor.lowering:sort_fallback",
    "torch._inductor.decomposition:needs_fallback_due_to_atomic_add_limitations",
    "torch._inductor.decomposition:use_scatter_fallback",
    "torch._inductor.lowering:needs_fallback_due_to_atomic_add_limitations",
    "torch._inductor.lowering:use_scatter_fallback",
    "torch._inductor.utils:needs_fallback_due_to_atomic_add_limitations",
    "torch._inductor.utils:use_scatter_fallback",
    # Output: source text is returned instead of being compiled with the machine's compiler.
    "torch._inductor.codecache:AotCodeCompiler.compile",
)

USED = (
    "torch._decomp:decomposition_table",
    "torch._inductor.codecache:CudaKernelParamCache.cache",
    "torch._inductor.codecache:PyCodeCache.load_by_key_path",
    "torch._inductor.graph:GraphLowering.get_original_value_of_constant",
    "torch._inductor.runtime.triton_heuristics:CachingAutotuner.precompile",
    "torch._inductor.runtime.triton_heuristics:CachingAutotuner.save_gpu_kernel",
    "torch._inductor.select_algorithm:TritonTemplateCaller",
    "torch._inductor.config:alignment_asserts",
    "torch._inductor.config:always_keep_tensor_constants",
    "torch._inductor.config:force_layout_optimization",
    "torch._inductor.ir:ExternKernel.realize_input",
    "torch._inductor.ir:ExternKernel.require_channels_last",
    "torch._inductor.ir:ExternKernel.require_contiguous",
    "torch._inductor.ir:DynamicScalar",
    "torch._inductor.ir:FixedLayout",
    "torch._inductor.ir:Pointwise.create",
    "torch._inductor.loop_body:LoopBody.get_all_read_expr",
    "torch._inductor.loop_body:LoopBody.get_read_exprs",
    "torch._inductor.loop_body:LoopBody.get_write_exprs",
    "torch._inductor.lowering:constant_boundary_condition",
    "torch._inductor.select_algorithm:SymbolicGridFn",
    "torch._inductor.select_algorithm:TritonTemplate.maybe_append_choice",
    "torch._inductor.select_algorithm:autotune_select_algorithm",
    "torch._inductor.sizevars:SizeVarAllocator.guard_int_seq",
    "torch._inductor.sizevars:SizeVarAllocator.optimization_hint",
    "torch._inductor.sizevars:SizeVarAllocator.statically_known_equals",
    "torch._inductor.virtualized:V",
    "torch._inductor.virtualized:ops",
    "torch.utils._sympy.functions:FloorDiv",
    "torch._inductor.heuristics.template.triton:ConvConfig",
    "torch._inductor.config:deterministic",
    "torch._inductor.config:joint_graph_constant_folding",
    "triton.compiler:ASTSource",
    "triton.compiler:compile",
    "triton.compiler.compiler:max_shared_mem",
    "triton.runtime.errors:OutOfResources",
    "triton.runtime.errors:PTXASError",
    "triton.knobs:NvidiaTool",
    "triton.knobs:nvidia.ptxas",
    "triton.knobs:nvidia.ptxas_blackwell",
    "executorch.backends.aoti.aoti_partitioner:get_non_lowered_nodes",
    "executorch.backends.cuda.cuda_backend:CudaBackend.get_aoti_compile_options",
    "executorch.backends.cuda.cuda_backend:CudaBackend.get_custom_passes",
    "executorch.backends.cuda.cuda_backend:CudaBackend.get_decomposition_table",
    "executorch.backends.cuda.cuda_backend:CudaBackend.get_extra_aoti_compile_context_manager",
    "executorch.backends.cuda.passes.replace_int64_floordiv:ReplaceInt64FloorDivWithFloatPass",
)

INSTANCES = {
    "torch._inductor.autotune_process:BenchmarkRequest": (
        "extra_args",
        "input_tensor_meta",
        "kernel_name",
        "output_tensor_meta",
    ),
    "torch._inductor.autotune_process:TritonBenchmarkRequest": ("module_cache_key", "module_path", "workspace_size"),
    "torch._inductor.codegen.cpp_wrapper_gpu:CppWrapperGpu": ("_kernel_name_to_body",),
    "torch._inductor.codegen.wrapper:PythonWrapperCodegen": ("kernel_autotune_calls", "kernel_autotune_defs"),
    "torch._inductor.graph:GraphLowering": (
        "allocated_constant_name",
        "constants",
        "folded_constants",
        "no_fuse_buffer_names",
    ),
    "torch._inductor.loop_body:LoopBody": ("iter_vars", "var_ranges"),
    "torch._inductor.runtime.triton_heuristics:CachingAutotuner": (
        "compile_results",
        "configs",
        "filename",
        "fn",
        "heuristic_type",
        "inductor_meta",
        "launchers",
        "triton_meta",
    ),
    "torch._inductor.select_algorithm:TritonTemplateCaller": ("bmreq", "description", "log_info", "name"),
}
"""Instance attributes that are read."""

INDUCTOR: Mapping[str, Any] = {
    "alignment_asserts": False,  # torch 2.15 writes them in C++, with functions that the delegate's runtime lacks
    "always_keep_tensor_constants": True,  # their values are fake and cannot be read
    "compile_threads": 1,
    "cuda.arch": None,
    "deterministic": True,  # nothing is timed
    "force_layout_optimization": True,  # the convolutions' format is channels-last
    "fx_graph_cache": False,
    "joint_graph_constant_folding": False,  # computes on the device
    "shape_padding": False,  # decided by timing
    "triton.autotune_at_compile_time": True,
    "use_static_triton_launcher": False,
}


def require() -> None:
    """Raise StepError unless torch and Triton have checked versions."""
    left = CHECKED
    for name in CHECKED[0]:
        expected = " or ".join(f"{name}=={each[name]}" for each in left)
        try:
            found = version(name)
        except PackageNotFoundError:
            raise StepError(f"{name} is not installed; expected {expected}") from None
        left = tuple(each for each in left if each[name] == found.partition("+")[0])
        if not left:
            raise StepError(f"{name} {found} is installed; compiling for CUDA without a GPU expects {expected}")


@contextmanager
def target_gpu(
    gpu: Gpu,
    chooser: Chooser,
    requests: Requests,
    add: Callable[[str, Request], None],
    take: Callable[..., list[str]],
    progress: Progress = ignore_progress,
    launched: Callable[[Launch], None] = refuse,
    precision: str = "fp32",
) -> Iterator[None]:
    """Make AOTInductor compile for `gpu` while the context lasts.

    chooser   chooses a candidate for each matrix product or convolution, and a configuration for each kernel
    requests  replaces triton.compile
    add       is called with each kernel's name in the library, and its request
    take      replaces AotCodeCompiler.compile
    progress  is called with the number of each kernel
    launched  is called instead of each launch of a kernel
    precision of float32 products: "fp32" or "tf32"
    """
    import torch
    import torch._dynamo.device_interface as interface
    import torch._inductor.config as config
    import triton
    from torch._inductor import codecache, graph, lowering, scheduler, select_algorithm, utils  # noqa: F401
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen
    from torch._inductor.runtime import triton_helpers
    from torch._inductor.runtime.hints import DeviceProperties

    with ExitStack() as stack:

        def replace(owner: Any, name: str, value: Any) -> None:
            stack.enter_context(patch.object(owner, name, value))

        properties = gpu.properties()
        answers: dict[str, Any] = {
            "get_device_properties": lambda *_: properties,
            "current_device": lambda *_: 0,
            "device_count": lambda: 1,
            "is_bf16_supported": lambda *_, **__: True,
        }
        for name, answer in answers.items():
            replace(torch.cuda, name, answer)
            replace(interface.CudaInterface, name, staticmethod(answer))
        replace(torch.cuda, "get_device_capability", lambda *_: (properties.major, properties.minor))
        replace(torch.cuda, "get_device_name", lambda *_: gpu.name)
        replace(interface.CudaInterface, "get_compute_capability", staticmethod(lambda *_: gpu.capability))
        for name in ("exchange_device", "maybe_exchange_device", "get_raw_stream"):
            replace(interface.CudaInterface, name, staticmethod(lambda *_: 0))
        replace(interface.CudaInterface, "synchronize", staticmethod(lambda *_: None))
        stack.enter_context(patch.dict(interface.caching_worker_device_properties, {"cuda": [properties]}))
        stack.enter_context(patch.dict(interface.caching_worker_current_devices, {"cuda": 0}))
        replace(utils, "is_big_gpu", lambda *_: True)
        _patch_true(stack, "has_triton")
        launch = partial(Launcher, launched=launched)
        stack.enter_context(triton_compiler(gpu, requests.products, requests.folder, launch))
        replace(triton, "compile", requests)
        replace(triton_helpers, "set_driver_to_gpu", lambda: None)
        block = _requesting(chooser, requests, add, progress)
        replace(PythonWrapperCodegen, "generate_and_run_autotune_block", block)
        replace(
            select_algorithm.AlgorithmSelectorCache,
            "pick_deterministic_choice",
            lambda _, choices: chooser.template(choices),
        )
        replace(graph, "is_same_tensor", _same(graph.is_same_tensor))
        for owner, name, value in corrections():
            replace(owner, name, value)
        stack.enter_context(patch.dict(lowering.lowerings, lowered(lowering.lowerings, gpu, precision == "tf32")))
        replace(codecache.AotCodeCompiler, "compile", take)
        stack.enter_context(config.patch(INDUCTOR))
        DeviceProperties.create.cache_clear()
        stack.callback(DeviceProperties.create.cache_clear)
        yield


def _patch_true(stack: ExitStack, name: str) -> None:
    """Patch a function of torch.utils._triton, and modules' imported references to it, to return True."""
    import torch.utils._triton as home

    original = getattr(home, name)
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get(name) is original:
            stack.enter_context(patch.object(module, name, lambda *_, **__: True))


def _requesting(
    chooser: Chooser, requests: Requests, add: Callable[[str, Request], None], progress: Progress
) -> Callable[[Any], None]:
    """Return a replacement for the generated block, which compiles kernels and times them on the device."""

    def block(self: Any) -> None:
        from torch._inductor.async_compile import AsyncCompile
        from torch._inductor.runtime.triton_heuristics import CachingAutotuner

        scope: dict[str, Any] = {}
        definitions = self.kernel_autotune_defs.getvalue()
        total, numbers, original = definitions.count(" = async_compile.triton("), count(1), AsyncCompile.triton

        def define_next(*args: Any, **kwargs: Any) -> Any:
            progress("kernel", next(numbers), total)
            return original(*args, **kwargs)

        with patch.object(AsyncCompile, "triton", define_next), requests.deferred():
            exec(definitions + "\nasync_compile.wait(globals())\n", scope)
        arguments = arguments_of_kernels(self.kernel_autotune_calls.getvalue())
        for value in scope.values():
            if isinstance(value, CachingAutotuner):
                name, launchers = value.inductor_meta["kernel_name"], value.launchers
                if chooser.times and len(launchers) > 1:
                    value.configs, value.compile_results, value.launchers = [e.config for e in launchers], [], []
                    value.precompile()
                launcher = chooser.configuration(value, arguments.get(name))
                value.launchers = [launcher]
                name_shared_memory(launcher.bin, name)
                value.save_gpu_kernel(0, launcher)
                add(name, launcher.bin.request)

    return block


def _same(original: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Return a comparison of constants that compares fake tensors, which have no storage, by identity."""
    from torch._subclasses.fake_tensor import FakeTensor

    def same(data: Any, value: Any) -> bool:
        if isinstance(data, FakeTensor) or isinstance(value, FakeTensor):
            return data is value
        return original(data, value)

    return same
