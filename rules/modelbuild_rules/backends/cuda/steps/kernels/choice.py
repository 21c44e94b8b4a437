"""Choose a template for a matrix product or convolution: by a tuning file, or by estimated cost."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from modelbuild.step import Progress, StepError, ignore_progress
from modelbuild_rules.backends.cuda.steps.kernels.candidates import Call, Candidates
from modelbuild_rules.backends.cuda.steps.kernels.cost import Product, cost, spills, template_cycles, tile
from modelbuild_rules.backends.cuda.steps.kernels.device import Gpu
from modelbuild_rules.backends.cuda.steps.kernels.launches import configuration_call, template_call
from modelbuild_rules.backends.cuda.steps.kernels.timing import identity
from modelbuild_rules.backends.cuda.steps.kernels.tuning import Tuning

_LOADED = 512
"""Values that a thread can load in a kernel that spills no registers. They spilled from 784 on, and not up to 408, in
kernels of depthwise convolutions for compute capability 9.0."""


def _usable(candidates: Sequence[Any]) -> Sequence[Any]:
    """Return the Triton templates of Inductor's ChoiceCallers. Without any, return the first ChoiceCaller, a kernel of
    libtorch."""
    from torch._inductor.select_algorithm import TritonTemplateCaller

    return [each for each in candidates if isinstance(each, TritonTemplateCaller)] or candidates[:1]


class Chooser:
    """Chooses kernels for one partition. It adds choices and their candidates to `candidates`.

    cycles  the estimated cost of each chosen template, by the function with which the template renders its kernel
    """

    def __init__(
        self,
        gpu: Gpu,
        tuning: Tuning,
        candidates: Candidates | None = None,
        progress: Progress = ignore_progress,
    ) -> None:
        self._gpu, self._tuning, self._candidates, self._progress = gpu, tuning, candidates, progress
        self.cycles: dict[Any, float] = {}

    @property
    def times(self) -> bool:
        """True if candidates will be timed, so that they must be compiled."""
        return self._candidates is not None

    def template(self, candidates: Sequence[Any]) -> Any:
        """Return one of Inductor's ChoiceCallers."""
        templates = _usable(candidates)
        chosen = self._template(templates)
        if hasattr(chosen, "make_kernel_render"):
            product, split = _product(chosen)
            self.cycles[chosen.make_kernel_render] = template_cycles(tile(chosen.log_info), product, self._gpu, split)
        return chosen

    def _template(self, templates: Sequence[Any]) -> Any:
        if len(templates) < 2:
            return templates[0]
        described = [_described(each) for each in templates]
        common = dict(set.intersection(*(set(each.items()) for each in described)))
        what = {
            "op": "/".join(sorted({_operator(each) for each in templates})),
            "inputs": [_shown(each) for each in _listed(templates[0].bmreq.input_tensor_meta)],
            "output": _shown(_listed(templates[0].bmreq.output_tensor_meta)[0]),
            "options": dict(sorted(common.items())),
        }
        chosen = [
            {"template": _operator(each), **{k: v for k, v in sorted(own.items()) if k not in common}}
            for each, own in zip(templates, described, strict=True)
        ]

        def calls(indices: Sequence[int]) -> dict[int, Call]:
            compiled = self._compiled(templates, indices)
            made = {index: template_call(templates[index], kernel) for index, kernel in compiled if kernel}
            return {index: call for index, call in made.items() if call}

        return templates[self._chosen(what, chosen, lambda: self._by_cost(templates), calls)]

    def configuration(self, kernel: Any, arguments: Sequence[Any] | None) -> Any:
        """Return one of a kernel's launchers."""
        launchers = kernel.launchers
        if len(launchers) < 2:
            return launchers[0]
        source = kernel.fn.src.replace(kernel.fn.__name__, "kernel")
        what = {
            "op": kernel.heuristic_type.name.lower(),
            "inputs": [
                f"{name} {kind}" for name, kind in kernel.triton_meta["signature"].items() if kind != "constexpr"
            ],
            "output": "",
            "options": {"source": hashlib.sha256(source.encode()).hexdigest()[:16]},
        }
        chosen = [
            {**each.config.kwargs, "num_warps": each.config.num_warps, "num_stages": each.config.num_stages}
            for each in launchers
        ]
        loaded = [_loaded(kernel.fn.src, each.config) for each in launchers]
        usual = next((n for n, values in enumerate(loaded) if values <= _LOADED), loaded.index(min(loaded)))

        def calls(indices: Sequence[int]) -> dict[int, Call]:
            return {} if arguments is None else {n: configuration_call(launchers[n], arguments) for n in indices}

        return launchers[self._chosen(what, chosen, lambda: (usual, range(len(launchers))), calls)]

    def _chosen(
        self,
        what: Mapping[str, Any],
        chosen: Sequence[Mapping[str, Any]],
        by_cost: Callable[[], tuple[int, Sequence[int]]],
        calls: Callable[[Sequence[int]], Mapping[int, Call]],
    ) -> int:
        """Return the index in `chosen` of the candidate to use.

        by_cost  returns the preferred candidate, and all in their order
        calls    returns the calls of candidates that can be timed
        """
        tuning, key = self._tuning, identity(what)
        if key in tuning.found:
            entry = tuning.found[key]
            tuning.tuned.append(key)
            if entry.chosen not in chosen:
                raise StepError(
                    f"{entry.place}: none of the {len(chosen)} candidates for {what['op']} {what['output']} is"
                    f" {dict(entry.chosen)}; expected a file that tuning with these versions wrote"
                )
            return chosen.index(entry.chosen)
        usual, ranked = by_cost()
        tuning.by_cost.append(key)
        if self._candidates is not None and key not in self._candidates:
            taken = list(dict.fromkeys([usual, *ranked]))[: self._candidates.limit]
            self._candidates.add(what, chosen, usual, calls(taken))
        return usual

    def _by_cost(self, templates: Sequence[Any]) -> tuple[int, Sequence[int]]:
        """Return the preferred template, and all in the order of their costs."""
        product, split = _product(templates[0])
        tiles = [tile(each.log_info) for each in templates]
        costs = [(spills(each, product, self._gpu), cost(each, product, self._gpu, split)) for each in tiles]
        ranked = sorted(range(len(tiles)), key=lambda index: (*costs[index], index))
        return ranked[0], ranked

    def _compiled(self, templates: Sequence[Any], indices: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """Yield each index with its candidate's compiled kernel; None if it does not compile."""
        for number, index in enumerate(indices, 1):
            self._progress(f"candidate for {_operator(templates[index])}", number, len(indices))
            yield index, _compiled(templates[index])


def _loaded(source: str, config: Any) -> float:
    """Return the number of values that each thread of a kernel of Inductor's loads, or 0 for another's kernel."""
    sizes = [size for name, size in config.kwargs.items() if re.fullmatch(r"[XYZ]BLOCK|R\d_BLOCK", name)]
    return source.count("tl.load(") * math.prod(sizes) / (32 * config.num_warps) if sizes else 0


def _product(template: Any) -> tuple[Product, int]:
    """Return the product that a candidate computes, and the number of parts of its depth. A benchmark request has the
    shapes of whole buffers, of which the inputs may be views."""
    inputs, size = [_sizes(each) for each in template.input_nodes], _sizes(template.layout)
    given = template.input_nodes[-1].get_dtype()
    about = {"bytes": given.itemsize, "tf32": template.log_info.get("allow_tf32") == "True"}
    if "convolution" in template.name:
        outputs, depth, *taps = inputs[1]
        groups = inputs[0][1] // depth
        split = _described(template).get("SPLIT", 1)  # of lowerings/template.py
        rows = math.prod(size) // outputs // split
        return Product(rows, outputs // groups, depth, groups, taps=math.prod(taps), **about), split
    *outer, rows, columns = size
    return Product(rows, columns, inputs[-1][-2], batch=math.prod(outer), **about), 1


def _sizes(tensor: Any) -> tuple[int, ...]:
    """Return the sizes of an input or a layout; dynamic sizes have the value of the example inputs."""
    from torch._inductor.virtualized import V

    sizes = tensor.size if hasattr(tensor, "size") else tensor.get_size()
    return tuple(int(V.graph.sizevars.optimization_hint(each)) for each in sizes)


def _compiled(template: Any) -> Any:
    """Return a candidate's compiled kernel (a CachingAutotuner); None if it does not compile."""
    from torch._inductor.codecache import PyCodeCache

    request = template.bmreq
    module = PyCodeCache.load_by_key_path(request.module_cache_key, request.module_path, set_sys_modules=False)
    kernel = getattr(module, request.kernel_name)
    try:
        kernel.precompile()
    except (MemoryError, OSError):
        raise
    except Exception:  # Triton, LLVM and ptxas raise different types; the next template is tried
        return None
    return kernel


def _described(template: Any) -> dict[str, Any]:
    """Return a candidate's parameters, parsed from Inductor's description of it ("BLOCK_K=16, ACC_TYPE='...'")."""
    parts = (part.partition("=") for part in template.description.split(", "))
    return {name: _value(text) for name, _, text in parts}


def _value(text: str) -> Any:
    if text.isdigit():
        return int(text)
    return {"True": True, "False": False, "None": None}.get(text, text.strip("'"))


def _operator(template: Any) -> str:
    """Return the operator in a candidate's name: "mm" for "triton_mm_12"."""
    return str(template.name).removeprefix("triton_").rpartition("_")[0]


def _shown(meta: Any) -> str:
    """Return a tensor's description: "float32 [1, 64] by [64, 1]"."""
    dtype = str(meta.dtype).removeprefix("torch.")
    return f"{dtype} {[int(n) for n in meta.sizes]} by {[int(n) for n in meta.strides]}"


def _listed(metas: Any) -> list[Any]:
    return metas if isinstance(metas, list) else [metas]
