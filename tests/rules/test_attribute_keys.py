"""Every attribute of a model, a stack, a device, a program and a bundle: the actions whose keys contain it.

There is one row per attribute of the schemas: an attribute without a row fails. Outputs of other actions are replaced
by fixed contents, so a row lists the actions that depend on the attribute directly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import modelbuild
from modelbuild.actions import Action, Digest, Expansion, FileEntry, SourceArtifact, StagedInput
from modelbuild.analysis.analyze import Analyzer
from modelbuild.analysis.rules import Rules, load_rules
from modelbuild.api import Expander
from modelbuild.code.step_sources import StepCode
from modelbuild.execution.executor import ActionRequest
from modelbuild.execution.keys import key_of, material_of
from modelbuild.ids import ActionId
from modelbuild.labels import Label
from modelbuild.loading.loader import Loader
from modelbuild.store.digests import digest_bytes
from modelbuild.workspace.workspace import load_workspace
from modelbuild_rules.backend_api.decides import decided

FILES = (
    "net.py",
    "net.pt2",
    "more.py",
    "data.txt",
    "weights.pt",
    "example.npy",
    "data.npy",
    "tuning.json",
    "runtime.tar",
    "other.tar",
    "ops.py",
    "scale.cpp",
    "more.cpp",
    "scale.hpp",
    "one.npz",
    "two.npz",
)
PLAN = b'[{"id": "p0", "entry": 0, "nodes": 3, "bytes": 100}]'
WORK = b'[{"id": "k0", "description": "mm"}]'
LAYERS = b'[{"name": "layer", "operators": [], "tables": [0], "parameters": 1}]'


def stack(**table: Any) -> dict[str, Any]:
    return {"backends": [table, {"type": "portable"}]}


def program(name: str, **more: Any) -> dict[str, Any]:
    return {"model": ":model", "stack": f":{name}_stack", **more}


INTERFACE_OF_METHOD: dict[str, Any] = {
    "inputs": [
        {"name": "x", "shape": ["n", 4], "dtype": "float32"},
        {"name": "y", "shape": [2], "dtype": "float32"},
    ],
    "dynamic": {"n": {"min": 1, "max": 8}},
}
MODEL = {"entry": "net.py:Net", **INTERFACE_OF_METHOD}
ENGINE = {
    "plan": "data.txt",
    "version": "8.6.1",
    "compute_capabilities": ["8.6"],
    "inputs": [{"name": "x", "shape": ["n", 4], "dtype": "float32"}],
    "outputs": [{"name": "y", "shape": [2], "dtype": "float32"}],
    "profiles": [{"n": {"min": 1, "opt": 4, "max": 8}}],
}
PROFILE = {"min": [1, 4], "opt": [2, 4], "max": [4, 4]}
KERNELS = {"operators": ["my_ops::scale"], "eager": ["ops.py"], "srcs": ["scale.cpp"]}
GENERATED = {"entry": "net.py:samples"}
TARGETS: Mapping[str, Mapping[str, Any]] = {
    "torch_model": {
        "model": MODEL,
        "other_model": MODEL,
        "parted_model": MODEL,
        "kernels_model": {**MODEL, "kernels": [":kernels"]},
        "several_model": {"entry": "net.py:Net", "methods": {"encode": INTERFACE_OF_METHOD}},
    },
    "dataset": {
        "data": {"files": {name: ["example.npy"] for name in "xyz"}},
        "archived": {"archives": ["one.npz"]},
        "archived_for_tensorrt": {"archives": ["one.npz"]},
        "generated": GENERATED,
    },
    "quantization_recipe": {
        "recipe": {"quantizers": [{"type": "xnnpack"}]},
        "dynamic_recipe": {"quantizers": [{"type": "xnnpack", "mode": "dynamic"}]},
        "int4_recipe": {"quantizers": [{"type": "xnnpack", "mode": "dynamic", "weights": "int4"}]},
        "cuda_recipe": {"quantizers": [{"type": "cuda"}]},
        "half_recipe": {"quantizers": [{"type": "half"}]},
        "tensorrt_recipe": {"quantizers": [{"type": "tensorrt"}]},
        "cuda_int4_recipe": {"quantizers": [{"type": "cuda", "weights": "int4"}]},
    },
    "quantized_model": {
        "quantized": {"model": ":model", "recipe": ":recipe", "calibration": ":data"},
        "on_archives": {"model": ":model", "recipe": ":recipe", "calibration": ":archived"},
        "of_methods": {"model": ":several_model", "recipe": ":recipe", "calibration": {"encode": ":archived"}},
        "dynamic": {"model": ":model", "recipe": ":dynamic_recipe"},
        "int4": {"model": ":model", "recipe": ":int4_recipe"},
        "for_cuda": {"model": ":model", "recipe": ":cuda_recipe"},
        "halved": {"model": ":model", "recipe": ":half_recipe"},
        "for_tensorrt": {"model": ":model", "recipe": ":tensorrt_recipe", "calibration": ":archived_for_tensorrt"},
        "int4_for_cuda": {"model": ":model", "recipe": ":cuda_int4_recipe"},
    },
    "kernel_library": {"kernels": KERNELS, "other_kernels": {**KERNELS, "operators": ["my_ops::shift"]}},
    "tensorrt_engine": {"engine": ENGINE, "other_engine": ENGINE},
    "backend_stack": {
        "xnnpack_stack": stack(type="xnnpack"),
        "engine_stack": stack(type="xnnpack"),
        "other_stack": stack(type="xnnpack", per_op_mode=True),
        "own_stack": stack(type="xnnpack"),
        "tensorrt_stack": stack(type="tensorrt"),
        "cuda_stack": stack(type="cuda"),
    },
    "device_target": {
        "device": {"arch": "x86_64", "compute_capabilities": ["8.6"], "runners": [":near"]},
        "engine_device": {"arch": "x86_64", "compute_capabilities": ["8.6"]},
        "other_device": {"arch": "x86_64", "compute_capabilities": ["8.9"]},
        "kernels_device": {"arch": "x86_64"},
    },
    "device_runner": {
        "near": {"connection": {"type": "ssh", "host": "near.lab"}},
        "emulated": {"connection": {"type": "qemu", "arch": "x86_64"}},
    },
    "pte_program": {
        "xnnpack": program("xnnpack"),
        "wrapped": {"model": ":engine", "device": ":engine_device"},
        "part": {
            **program("engine", device=":engine_device"),
            "model": ":parted_model",
            "engines": {"body": ":engine"},
        },
        "tensorrt": program("tensorrt", device=":device"),
        "cuda": program("cuda", device=":device"),
        "own": {**program("own", device=":kernels_device"), "model": ":kernels_model"},
        "methods": {"model": {"encode": ":other_model"}, "stack": ":other_stack"},
    },
    "runtime_bundle": {
        "bundle": {"program": ":xnnpack", "runtime": {"archive": "runtime.tar"}},
        "cuda_bundle": {"program": ":cuda", "runtime": {"archive": "runtime.tar"}},
        "own_bundle": {"program": ":own", "runtime": {"archive": "runtime.tar"}},
        "several_bundle": {"program": {"one": ":methods"}, "runtime": {"archive": "runtime.tar"}},
    },
}

Edit = tuple[tuple[str | int, ...], Any]

LIBRARY = {"file": "runtime.tar", "version": "1.0", "license": "a"}
WITH_LIBRARY: tuple[Edit, ...] = ((("runtime_bundle", "bundle", "runtime", "libraries"), [LIBRARY]),)


class Row(NamedTuple):
    """The value of the attribute at a path, the actions whose keys change, and edits made before."""

    path: tuple[str | int, ...]
    value: Any
    changed: set[str]
    before: tuple[Edit, ...] = ()


def model(*path: str | int, value: Any, before: tuple[Edit, ...] = ()) -> Row:
    return Row(("torch_model", "model", *path), value, {"model#export"}, before)


def method(*path: str | int, value: Any, before: tuple[Edit, ...] = ()) -> Row:
    way = ("torch_model", "several_model", "methods", "encode")
    return Row((*way, *path), value, {"several_model#export:encode"}, tuple(((*way, *at), new) for at, new in before))


EXTENSIONS = load_rules(Path(), ()).extensions
BACKEND_STEPS = {"partition": "partition", "compile": "compile:p0", "emit": "emit"}
RECIPES: Mapping[str, tuple[tuple[str, ...], bool]] = {
    "recipe": (("quantized#{}", "on_archives#{}", "of_methods#{}:encode"), True),
    "dynamic_recipe": (("dynamic#{}",), False),
    "int4_recipe": (("int4#{}",), False),
    "cuda_recipe": (("for_cuda#{}",), False),
    "cuda_int4_recipe": (("int4_for_cuda#{}",), False),
    "half_recipe": (("halved#{}",), False),
    "tensorrt_recipe": (("for_tensorrt#{}",), True),
}
"""The actions of the models that use a recipe, and whether these observe ranges."""


def decided_by(point: str, kind: str, name: str) -> tuple[str, ...]:
    """Return the steps that an attribute of a table decides, according to its declaration."""
    steps = decided(EXTENSIONS[point][kind].attrs, name)
    assert steps, f"{kind}.{name}"
    return steps


def backend(kind: str, name: str, value: Any, **before: Any) -> Row:
    """Return a row of the first table of a stack."""
    path = ("backend_stack", f"{kind}_stack", "backends", 0)
    steps = decided_by("backend", kind, name)
    changed = {f"{kind}#{BACKEND_STEPS[step]}" for step in steps}
    changed |= {f"{kind}#weights"} if f"{kind}#partition" in changed else set()
    return Row((*path, name), value, changed, tuple(((*path, other), given) for other, given in before.items()))


def quantizer(kind: str, name: str, recipe: str, value: Any) -> Row:
    """Return a row of the first table of a recipe. What decides the calibration decides the conversion."""
    actions, observes = RECIPES[recipe]
    steps = {"convert", *(("calibrate",) if observes and "calibrate" in decided_by("quantizer", kind, name) else ())}
    changed = {action.format(step) for action in actions for step in steps}
    return Row(("quantization_recipe", recipe, "quantizers", 0, name), value, changed)


def dataset(target: str, name: str, value: Any, changed: str) -> Row:
    return Row(("dataset", target, name), value, set(changed.split()))


def quantized(name: str, value: Any, changed: str) -> Row:
    return Row(("quantized_model", "quantized", name), value, set(changed.split()))


def metric(name: str, value: Any, **given: Any) -> dict[str, Row]:
    """Return the rows of an attribute of a metric: in a list, and in a table of lists by method."""
    lists = {"": ("quantized_model", "quantized", "metrics"), "{}": ("quantized_model", "of_methods", "metrics")}
    rows = {}
    for table, path in lists.items():
        before = [dict(given)] if not table else {"encode": [dict(given)]}
        inside = (*path, "encode") if table else path
        rows[f"quantized_model.metrics{table}[].{name}"] = Row((*inside, 0, name), value, set(), ((path, before),))
    return rows


NEAR = {"entry": "more.py:near"}
OBSERVED = {action.format(step) for action in RECIPES["recipe"][0] for step in ("calibrate", "convert")}
COMPILE_STEPS = "kernels#kernels:kernels own#kernels:kernels"
PYTHON_STEPS = "kernels#operators kernels_model#export own#partition"


def kernels(name: str, value: Any, changed: str) -> Row:
    return Row(("kernel_library", "kernels", name), value, set(changed.split()))


def device(name: str, value: Any, *changed: str, before: tuple[Edit, ...] = ()) -> Row:
    return Row(("device_target", "device", name), value, set(changed), before)


def runner(*path: str, value: Any, name: str = "near") -> Row:
    return Row(("device_runner", name, *path), value, set())


INTERFACE = "engine export part#export"


def engine(*path: str | int, value: Any, changed: str = "engine export") -> Row:
    names = {f"engine#{name}" for name in changed.split() if "#" not in name}
    return Row(("tensorrt_engine", "engine", *path), value, names | {each for each in changed.split() if "#" in each})


PROFILES = [{"x": PROFILE}]
# TensorRT-RTX has no other architecture.
TENSORRT_ELSEWHERE: tuple[Edit, ...] = ((("pte_program", "tensorrt", "device"), ":other_device"),)

KERNELS = ("cuda#compile:p0", "cuda#kernel:p0:mm:k0")
LINKED = ("cuda#wrapper:p0", "cuda#interface:p0", "cuda#link:p0")
LOWERED = ("cuda#partition", "cuda#weights")  # of CUDA, without weights and with them
EMITTED = ("tensorrt#emit", "cuda#emit")  # a program's manifest names its device

ROWS: Mapping[str, Row] = {
    "device_target.arch": device(
        "arch",
        "aarch64",
        *LINKED,
        "cuda#cpp_runtime",
        "cuda_bundle#bundle",
        "cuda#emit",
        before=TENSORRT_ELSEWHERE,
    ),
    "device_target.compute_capabilities": device(
        "compute_capabilities",
        ["8.9"],
        "tensorrt#compile:p0",
        *KERNELS,
        "cuda_bundle#bundle",
        *EMITTED,
    ),
    "device_target.gpu": device("gpu", 1, "tensorrt#partition", "tensorrt#weights", "tensorrt#compile:p0", *LOWERED),
    "device_target.memory": device("memory", "8GiB"),
    "device_target.runners": device("runners", [":emulated"]),
    "device_runner.connection": runner("connection", value={"type": "local"}),
    "device_runner.connection(ssh).host": runner("connection", "host", value="far.lab"),
    "device_runner.connection(ssh).user": runner("connection", "user", value="ci"),
    "device_runner.connection(ssh).port": runner("connection", "port", value=2222),
    "device_runner.connection(ssh).jump": runner("connection", "jump", value="gate.lab"),
    "device_runner.connection(ssh).key": runner("connection", "key", value="~/.ssh/key"),
    "device_runner.connection(ssh).known_hosts": runner("connection", "known_hosts", value="hosts"),
    "device_runner.connection(qemu).arch": runner("connection", "arch", value="aarch64", name="emulated"),
    "device_runner.folder": runner("folder", value="device"),
    "device_runner.store_size": runner("store_size", value="1 GiB"),
    "device_target.min_glibc": device("min_glibc", "2.31", *LINKED, "cuda#cpp_runtime"),
    "backend_stack.backends": Row(
        ("backend_stack", "xnnpack_stack", "backends"), [{"type": "xnnpack"}], {"xnnpack#partition"}
    ),
    "backend_stack.backends[](portable).ops": Row(
        ("backend_stack", "xnnpack_stack", "backends", 1, "ops"), ["aten.add.Tensor"], {"xnnpack#partition"}
    ),
    "backend_stack.backends[](xnnpack).precisions": backend("xnnpack", "precisions", ["fp32"]),
    "backend_stack.backends[](xnnpack).per_op_mode": backend("xnnpack", "per_op_mode", True),
    "backend_stack.backends[](xnnpack).exclude_ops": backend("xnnpack", "exclude_ops", ["aten.add.Tensor"]),
    "backend_stack.backends[](xnnpack).force_non_static_weights_for_f32_linear": backend(
        "xnnpack", "force_non_static_weights_for_f32_linear", True
    ),
    "backend_stack.backends[](xnnpack).lossy": backend("xnnpack", "lossy", ["float16"]),
    "backend_stack.backends[](tensorrt).flavour": backend("tensorrt", "flavour", "standard"),
    "backend_stack.backends[](tensorrt).precision": backend("tensorrt", "precision", "fp16"),
    "backend_stack.backends[](tensorrt).min_block_size": backend("tensorrt", "min_block_size", 2),
    "backend_stack.backends[](tensorrt).exclude_ops": backend("tensorrt", "exclude_ops", ["aten.add.Tensor"]),
    "backend_stack.backends[](tensorrt).data_dependent_ops": backend("tensorrt", "data_dependent_ops", "take"),
    "backend_stack.backends[](tensorrt).optimization_profiles": backend("tensorrt", "optimization_profiles", PROFILES),
    **{
        f"backend_stack.backends[](tensorrt).optimization_profiles[]{{}}.{name}": backend(
            "tensorrt",
            "optimization_profiles",
            [{"x": {**PROFILE, name: [3, 4]}}],
            optimization_profiles=PROFILES,
        )
        for name in PROFILE
    },
    "backend_stack.backends[](tensorrt).workspace_size": backend("tensorrt", "workspace_size", "2GiB"),
    "backend_stack.backends[](tensorrt).on_failure": backend("tensorrt", "on_failure", "fallback"),
    "backend_stack.backends[](tensorrt).gpu": backend("tensorrt", "gpu", 1),
    "backend_stack.backends[](cuda).tuning": backend("cuda", "tuning", "tuning.json"),
    "backend_stack.backends[](cuda).candidates": backend("cuda", "candidates", 4),
    "backend_stack.backends[](cuda).precision": backend("cuda", "precision", "tf32"),
    "backend_stack.backends[](cuda).min_block_size": backend("cuda", "min_block_size", 2),
    "backend_stack.backends[](cuda).exclude_ops": backend("cuda", "exclude_ops", ["aten.add.Tensor"]),
    "backend_stack.backends[](cuda).data_dependent_ops": backend("cuda", "data_dependent_ops", "error"),
    "backend_stack.backends[](cuda).emulate_precision_casts": backend("cuda", "emulate_precision_casts", False),
    "backend_stack.backends[](cuda).gpu": backend("cuda", "gpu", 1),
    # The model's signature is in the program.
    "pte_program.model": Row(
        ("pte_program", "xnnpack", "model"), ":other_model", {"xnnpack#partition", "xnnpack#emit"}
    ),
    "pte_program.model{}": Row(
        ("pte_program", "methods", "model"),
        {"encode": ":parted_model"},
        {"methods#partition:encode", "methods#check:encode", "methods#emit"},
    ),
    "pte_program.stack": Row(("pte_program", "xnnpack", "stack"), ":other_stack", {"xnnpack#partition"}),
    "pte_program.stack{}": Row(
        ("pte_program", "methods", "stack"),
        {"encode": ":own_stack"},
        {"methods#partition:encode", "methods#check:encode"},
    ),
    "pte_program.device": Row(
        ("pte_program", "tensorrt", "device"), ":other_device", {"tensorrt#compile:p0", "tensorrt#emit"}
    ),
    "pte_program.external_weights": Row(
        ("pte_program", "xnnpack", "external_weights"), True, {"xnnpack#partition", "xnnpack#emit", "bundle#bundle"}
    ),
    "pte_program.engines": Row(
        ("pte_program", "part", "engines"), {"other": ":engine"}, {"part#export", "part#partition"}
    ),
    "tensorrt_engine.plan": engine("plan", value="other.tar", changed="engine"),
    "tensorrt_engine.version": engine("version", value="8.6.0", changed="engine"),
    "tensorrt_engine.compute_capabilities": engine("compute_capabilities", value=["8.6", "8.9"], changed="engine"),
    # A program of this engine could not be for its device.
    "tensorrt_engine.arch": Row(("tensorrt_engine", "other_engine", "arch"), "aarch64", {"other_engine#engine"}),
    "tensorrt_engine.inputs": engine(
        "inputs", value=[{"name": "x", "shape": [3, "n"], "dtype": "float32"}], changed=INTERFACE
    ),
    "tensorrt_engine.inputs[].name": engine("inputs", 0, "name", value="z", changed=INTERFACE),
    "tensorrt_engine.inputs[].binding": engine("inputs", 0, "binding", value="z", changed="engine"),
    "tensorrt_engine.inputs[].shape": engine("inputs", 0, "shape", value=["n"], changed=INTERFACE),
    "tensorrt_engine.inputs[].dtype": engine("inputs", 0, "dtype", value="float16", changed=INTERFACE),
    "tensorrt_engine.inputs[].range": engine("inputs", 0, "range", value=[0.0, 2.0], changed="export"),
    "tensorrt_engine.outputs": engine(
        "outputs", value=[{"name": "z", "shape": [2], "dtype": "float32"}], changed=INTERFACE
    ),
    "tensorrt_engine.outputs[].name": engine("outputs", 0, "name", value="z", changed=INTERFACE),
    "tensorrt_engine.outputs[].binding": engine("outputs", 0, "binding", value="z", changed="engine"),
    "tensorrt_engine.outputs[].shape": engine("outputs", 0, "shape", value=[3], changed=INTERFACE),
    "tensorrt_engine.outputs[].dtype": engine("outputs", 0, "dtype", value="float16", changed=INTERFACE),
    "tensorrt_engine.profiles": engine("profiles", value=[{"n": {"min": 2, "opt": 4, "max": 8}}]),
    "tensorrt_engine.profiles[]{}.min": engine("profiles", 0, "n", "min", value=2),
    "tensorrt_engine.profiles[]{}.opt": engine("profiles", 0, "n", "opt", value=5, changed="engine"),
    "tensorrt_engine.profiles[]{}.max": engine("profiles", 0, "n", "max", value=9),
    "tensorrt_engine.version_compatible": engine("version_compatible", value=True, changed="engine"),
    "tensorrt_engine.host_code": Row(
        ("tensorrt_engine", "engine", "host_code"),
        True,
        {"engine#engine"},
        ((("tensorrt_engine", "engine", "version_compatible"), True),),
    ),
    "tensorrt_engine.gpu": engine("gpu", value=1, changed="engine wrapped#partition part#partition"),
    "pte_program.device_io": Row(("pte_program", "cuda", "device_io"), True, {*LOWERED}),
    "pte_program.verify": Row(("pte_program", "cuda", "verify"), False, {*LOWERED}),
    "torch_model.entry": model("entry", value="net.py:Other"),
    "torch_model.srcs": model("srcs", value=["more.py"]),
    "torch_model.kwargs": model("kwargs", value={"width": 2}),
    "torch_model.weights": model("weights", value="weights.pt"),
    "torch_model.weights{}": model("weights", value={"layer": "weights.pt"}),
    "torch_model.allow_missing": model("allow_missing", value=True),
    "torch_model.data": model("data", value=["data.txt"]),
    "torch_model.inputs": model("inputs", value=MODEL["inputs"][:1]),
    "torch_model.inputs[].name": model("inputs", 1, "name", value="z"),
    "torch_model.inputs[].shape": model("inputs", 1, "shape", value=[3]),
    "torch_model.inputs[].dtype": model("inputs", 1, "dtype", value="float16"),
    "torch_model.inputs[].range": model("inputs", 1, "range", value=[0.0, 2.0]),
    "torch_model.inputs[].file": model("inputs", 1, value={"name": "y", "shape": [2], "file": "example.npy"}),
    "torch_model.exported": model(
        "exported",
        value="weights.pt",
        before=((("torch_model", "model", "entry"), None), (("torch_model", "model", "exported"), "net.pt2")),
    ),
    "torch_model.prepare": model("prepare", value="net.py:prepare"),
    "torch_model.call": model("call", value="x, y=y"),
    "torch_model.dynamic": model(
        "dynamic",
        value={"n": {"min": 1, "max": 8}, "m": {"min": 1, "max": 8}},
        before=(
            (("torch_model", "model", "inputs", 1, "shape"), ["m"]),
            (("torch_model", "model", "dynamic", "m"), {"min": 1, "max": 9}),
        ),
    ),
    "torch_model.dynamic{}.auto": model("dynamic", "n", "auto", value=True),
    "torch_model.dynamic{}.min": model("dynamic", "n", "min", value=2),
    "torch_model.dynamic{}.max": model("dynamic", "n", "max", value=9),
    "torch_model.dynamic{}.example": model("dynamic", "n", "example", value=4),
    "torch_model.outputs": model("outputs", value=["result"]),
    "torch_model.methods": Row(
        ("torch_model", "several_model", "methods"),
        {"encode": {"inputs": [{"name": "x", "shape": [4], "dtype": "float32"}]}},
        {"several_model#export:encode"},
    ),
    **{
        f"torch_model.methods{{}}.{name}": row
        for name, row in {
            "inputs": method("inputs", value=INTERFACE_OF_METHOD["inputs"][:1]),
            "inputs[].name": method("inputs", 1, "name", value="z"),
            "inputs[].shape": method("inputs", 1, "shape", value=[3]),
            "inputs[].dtype": method("inputs", 1, "dtype", value="float16"),
            "inputs[].range": method("inputs", 1, "range", value=[0.0, 2.0]),
            "inputs[].file": method("inputs", 1, value={"name": "y", "shape": [2], "file": "example.npy"}),
            "call": method("call", value="x, y=y"),
            "dynamic": method(
                "dynamic",
                value={"n": {"min": 1, "max": 8}, "m": {"min": 1, "max": 8}},
                before=((("inputs", 1, "shape"), ["m"]), (("dynamic", "m"), {"min": 1, "max": 9})),
            ),
            "dynamic{}.auto": method("dynamic", "n", "auto", value=True),
            "dynamic{}.min": method("dynamic", "n", "min", value=2),
            "dynamic{}.max": method("dynamic", "n", "max", value=9),
            "dynamic{}.example": method("dynamic", "n", "example", value=4),
            "outputs": method("outputs", value=["result"]),
        }.items()
    },
    "torch_model.seed": model("seed", value=1),
    **{
        f"{rule}.{attribute}": Row((rule, name, attribute), value, set())
        for rule, name in (("torch_model", "model"), ("tensorrt_engine", "engine"))
        for attribute, value in {"license": "MIT", "source": "https://host.example/net"}.items()
    },
    "torch_model.requires": model("requires", value=["click"]),
    # A program has an action for each of its libraries.
    "torch_model.kernels": Row(
        ("torch_model", "kernels_model", "kernels"),
        [":other_kernels"],
        {"kernels_model#export"},
        ((("pte_program", "own", "model"), ":model"),),
    ),
    "kernel_library.operators": kernels("operators", ["my_ops::shift"], PYTHON_STEPS),
    "kernel_library.eager": kernels("eager", ["ops.py", "more.py"], PYTHON_STEPS),
    "kernel_library.srcs": kernels("srcs", ["more.cpp"], COMPILE_STEPS),
    "kernel_library.headers": kernels("headers", ["scale.hpp"], COMPILE_STEPS),
    "kernel_library.requires": kernels("requires", ["click"], PYTHON_STEPS),
    "dataset.files": dataset("data", "files", {"x": ["example.npy"], "y": ["data.npy"]}, "quantized#calibrate"),
    "dataset.archives": dataset(
        "archived", "archives", ["one.npz", "two.npz"], "on_archives#calibrate of_methods#calibrate:encode"
    ),
    **{
        f"dataset.{name}": dataset("generated", name, value, "generated#generate")
        for name, value in {
            "entry": "net.py:others",
            "srcs": ["more.py"],
            "data": ["data.txt"],
            "kwargs": {"count": 3},
            "requires": ["click"],
            "seed": 1,
            "max_samples": 2,
        }.items()
    },
    "dataset.license": dataset("data", "license", "MIT", ""),
    "dataset.source": dataset("data", "source", "https://host.example/data", ""),
    "quantization_recipe.quantizers": Row(
        ("quantization_recipe", "recipe", "quantizers"),
        [{"type": "xnnpack"}, {"type": "xnnpack", "mode": "dynamic"}],
        OBSERVED,
    ),
    **{
        f"quantization_recipe.quantizers[]({kind}).{name}": quantizer(kind, name, recipe, value)
        for kind, name, recipe, value in (
            ("xnnpack", "observer", "recipe", "min_max"),
            ("xnnpack", "weights", "dynamic_recipe", "int4"),
            ("xnnpack", "per_channel", "recipe", False),
            ("xnnpack", "group_size", "int4_recipe", 32),
            ("xnnpack", "operators", "recipe", ["aten.linear.default"]),
            ("xnnpack", "modules", "recipe", ["head"]),
            ("xnnpack", "exclude", "recipe", ["head"]),
            ("cuda", "weights", "cuda_recipe", "int4"),
            ("cuda", "group_size", "cuda_int4_recipe", 32),
            ("cuda", "modules", "cuda_recipe", ["head"]),
            ("cuda", "exclude", "cuda_recipe", ["head"]),
            ("half", "dtype", "half_recipe", "bfloat16"),
            ("half", "modules", "half_recipe", ["head"]),
            ("half", "exclude", "half_recipe", ["head"]),
            ("tensorrt", "dtype", "tensorrt_recipe", "float8_e4m3fn"),
            ("tensorrt", "observer", "tensorrt_recipe", "min_max"),
            ("tensorrt", "operators", "tensorrt_recipe", ["aten.linear.default"]),
            ("tensorrt", "modules", "tensorrt_recipe", ["head"]),
            ("tensorrt", "exclude", "tensorrt_recipe", ["head"]),
        )
    },
    # A recipe without static ranges has no calibration.
    "quantization_recipe.quantizers[](xnnpack).mode": Row(
        ("quantization_recipe", "recipe", "quantizers"),
        [{"type": "xnnpack", "mode": "dynamic"}, {"type": "xnnpack"}],
        OBSERVED,
        ((("quantization_recipe", "recipe", "quantizers"), [{"type": "xnnpack"}, {"type": "xnnpack"}]),),
    ),
    "quantized_model.model": quantized(
        "model", ":other_model", "quantized#modules quantized#calibrate quantized#convert quantized#places"
    ),
    "quantized_model.recipe": Row(("quantized_model", "dynamic", "recipe"), ":int4_recipe", {"dynamic#convert"}),
    "quantized_model.calibration": quantized("calibration", ":archived", "quantized#calibrate"),
    "quantized_model.calibration{}": Row(
        ("quantized_model", "of_methods", "calibration"), {"encode": ":data"}, {"of_methods#calibrate:encode"}
    ),
    "quantized_model.metrics": quantized("metrics", [NEAR], ""),
    "quantized_model.metrics{}": Row(("quantized_model", "of_methods", "metrics"), {"encode": [NEAR]}, set()),
    **metric("entry", "more.py:far", **NEAR),
    **metric("top", 2, top=1, output="y"),
    **metric("output", "z", top=1, output="y"),
    "quantized_model.srcs": Row(
        ("quantized_model", "quantized", "srcs"),
        ["ops.py"],
        set(),
        ((("quantized_model", "quantized", "metrics"), [NEAR]),),
    ),
    "runtime_bundle.program": Row(("runtime_bundle", "bundle", "program"), ":cuda", {"bundle#bundle"}),
    "runtime_bundle.program{}": Row(
        ("runtime_bundle", "several_bundle", "program"), {"two": ":methods"}, {"several_bundle#bundle"}
    ),
    "runtime_bundle.runtime": Row(("runtime_bundle", "bundle", "runtime"), {"archive": "other.tar"}, {"bundle#bundle"}),
    "runtime_bundle.runtime.archive": Row(
        ("runtime_bundle", "bundle", "runtime", "archive"), "other.tar", {"bundle#bundle"}
    ),
    "runtime_bundle.device": Row(("runtime_bundle", "bundle", "device"), ":device", {"bundle#bundle", "xnnpack#emit"}),
    "runtime_bundle.files": Row(("runtime_bundle", "bundle", "files"), ["data.txt"], {"bundle#bundle"}),
    "runtime_bundle.tar": Row(("runtime_bundle", "bundle", "tar"), True, {"bundle#bundle"}),
    "runtime_bundle.runtime.libraries": Row(
        ("runtime_bundle", "bundle", "runtime", "libraries"), [LIBRARY], {"bundle#bundle"}
    ),
    **{
        f"runtime_bundle.runtime.libraries[].{name}": Row(
            ("runtime_bundle", "bundle", "runtime", "libraries", 0, name), value, {"bundle#bundle"}, WITH_LIBRARY
        )
        for name, value in {"file": "other.tar", "version": "2.0", "license": "b", "license_file": "data.txt"}.items()
    },
}


NOT_CHECKED = ("pte_program.external_weights", "pte_program.device_io", "pte_program.verify")


def reports_of(attribute: str, changed: set[str]) -> set[str]:
    """Return the actions of reports that change with these actions. A layer alone is in no list of submodules, and is
    quantized by the first table."""
    converted = {name for name in changed if "#convert" in name}
    measured = converted | {name for name in changed if "#calibrate" in name}
    if attribute.startswith(("quantized_model.metrics", "quantized_model.srcs")):
        measured = {"of_methods#measure:encode" if "{}" in attribute else "quantized#measure"}
        return measured | {f"{name}:layer" for name in measured}
    alone = set() if attribute.endswith((".modules", ".exclude", ".quantizers")) else measured
    return {
        *(re.sub("#convert", "#layers", each) for each in converted),
        # The report names the tables of a recipe with several.
        *(re.sub("#convert", "#rank", each) for each in converted if attribute.endswith(".quantizers")),
        *(re.sub("#convert|#calibrate", "#measure", each) for each in measured),
        *(re.sub("#convert|#calibrate", "#measure", each) + ":layer" for each in alone),
    }


class ActionKeys:
    """Makes the keys of all actions of the targets, by `target#action`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.rules: Rules = load_rules(root, ())
        roots = {"modelbuild": Path(modelbuild.__file__).parent, **self.rules.packages}
        self._code = StepCode(roots)
        (root / "MODELBUILD.toml").write_text("")
        for name in FILES:
            (root / name).write_text(name)

    @cache  # noqa: B019 - lives as long as the tests
    def before(self, edits: str) -> dict[str, str]:
        """keys(), of edits as JSON: most rows begin with the same."""
        return self.keys(*((tuple(path), value) for path, value in json.loads(edits)))

    def keys(self, *edits: Edit) -> dict[str, str]:
        targets: Any = json.loads(json.dumps(TARGETS))  # no part of it twice
        for (*way, last), value in edits:
            place = targets
            for step in way:
                place = place[step]
            place[last] = value
        (self.root / "BUILD.toml").write_text(toml(targets))
        analyzer = Analyzer(Loader(load_workspace(self.root), self.rules.by_name), self.rules)
        for name in (name for named in targets.values() for name in named):
            analyzer.analyze(Label("", name))
        contents = {"sensitivity": LAYERS, "leave": None, "kernels": WORK}
        expanded: set[str] = set()
        while new := [n for n in analyzer.graph.nodes.values() if isinstance(n, Expansion) and n.id not in expanded]:
            for node in new:
                expanded.add(node.id)
                if (content := contents.get(ActionId(node.id).kind, PLAN)) is not None:
                    then = Expander(analyzer.graph, node.owner, node.room, node.toolchain)
                    node.then(then, *(content for _ in node.reads))
        actions = [node for node in analyzer.graph.nodes.values() if isinstance(node, Action)]
        return {name_of(action): key_of(material_of(self._request(action))) for action in actions}

    def _request(self, action: Action) -> ActionRequest:
        # Some distributions of backends are not installed everywhere.
        tools = dict.fromkeys(action.tools, "1")
        return ActionRequest(action, tuple(self._staged(action)), tools, code=self._code.digest(*action.modules))

    def _staged(self, action: Action) -> list[StagedInput]:
        return [
            StagedInput(each.name, each.path, None, FileEntry(self._content(each.artifact))) for each in action.inputs
        ]

    def _content(self, artifact: Any) -> Digest:
        if isinstance(artifact, SourceArtifact):
            return digest_bytes((self.root / artifact.path).read_bytes())
        return digest_bytes(f"{plain(artifact.action)} {artifact.output} {artifact.subpath}".encode())


def name_of(action: Action) -> str:
    return plain(action.id).removeprefix("//:")


def plain(id: str) -> str:
    """Return an id without the device of its target."""
    owner, _, name = id.partition("#")
    return f"{owner.partition(' ')[0]}#{name}"


def toml(targets: Mapping[str, Mapping[str, Any]]) -> str:
    lines = []
    for rule, named in targets.items():
        for name, attributes in named.items():
            lines += [
                f"[[{rule}]]",
                f'name = "{name}"',
                *(f"{key} = {inline(each)}" for key, each in attributes.items() if each is not None),
            ]
    return "\n".join(lines) + "\n"


def inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {inline(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(inline, value)) + "]"
    return json.dumps(value)


@pytest.fixture(scope="module")
def action_keys(tmp_path_factory: pytest.TempPathFactory) -> ActionKeys:
    return ActionKeys(tmp_path_factory.mktemp("keys"))


def attributes(schema: Mapping[str, Any], node: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield every attribute of a JSON Schema: `inputs[].name`, `dynamic{}.min`, `backends[](cuda).gpu`."""
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        node = {} if name == "Glob" else schema["$defs"][name]
    for choice in (*node.get("anyOf", ()), *node.get("oneOf", ())):
        yield from attributes(schema, choice, path)
        if isinstance(choice.get("additionalProperties"), dict):
            yield f"{path}{{}}"  # a table in place of one
    if "items" in node:
        yield from attributes(schema, node["items"], f"{path}[]")
    if isinstance(node.get("additionalProperties"), dict):
        yield from attributes(schema, node["additionalProperties"], f"{path}{{}}")
    properties = node.get("properties", {})
    kind = properties.get("type", {}).get("const")
    for name, inner in properties.items():
        if name != "type" or kind is None:
            whole = f"{path}({kind}).{name}" if kind else f"{path}.{name}"
            yield whole
            yield from attributes(schema, inner, whole)


# Tables of a backend_stack or quantization_recipe in another rule: see test_a_list_in_the_attribute...
INLINE = re.compile(r"(pte_program\.stack(\{\})?\[\]|quantized_model\.recipe)\(")


def test_every_attribute_has_a_row(action_keys: ActionKeys) -> None:
    found: set[str] = set()
    for rule in TARGETS:
        schema = action_keys.rules.by_name[rule].attrs.model_json_schema()
        found |= {name for name in attributes(schema, schema, rule) if not INLINE.match(name)}
    assert (found - ROWS.keys(), ROWS.keys() - found) == (set(), set())


@pytest.mark.parametrize(
    ("target", "attribute"),
    [
        *((("pte_program", name), "stack") for name in ("xnnpack", "tensorrt", "cuda")),
        (("quantized_model", "for_tensorrt"), "recipe"),
    ],
)
def test_a_list_in_the_attribute_is_the_target_with_the_list(
    action_keys: ActionKeys, target: tuple[str, str], attribute: str
) -> None:
    label = TARGETS[target[0]][target[1]][attribute].removeprefix(":")
    (tables,) = {"stack": TARGETS["backend_stack"], "recipe": TARGETS["quantization_recipe"]}[attribute][label].values()
    inline = tables if attribute == "stack" else tables[0]
    assert action_keys.keys(((*target, attribute), inline)) == action_keys.keys()
    if attribute == "stack":
        names = [each["type"] if set(each) == {"type"} else each for each in tables]
        assert action_keys.keys(((*target, attribute), {"forward": names})) == action_keys.keys()


@pytest.mark.parametrize("attribute", ROWS)
def test_an_attribute_is_in_the_keys_that_depend_on_it_and_in_no_other(action_keys: ActionKeys, attribute: str) -> None:
    row = ROWS[attribute]
    before, after = action_keys.before(json.dumps(row.before)), action_keys.keys(*row.before, (row.path, row.value))
    assert before.keys() == after.keys()
    changed = {name for name in before if before[name] != after[name]}
    # A check depends on what the partition step does, except on how the program is written.
    checks = {name.replace("#partition", "#check") for name in row.changed if name.endswith("#partition")}
    # A verification lowers a wrong program again.
    verified = {f"{name.partition('#')[0]}#verify" for name in row.changed if "#partition" in name} & before.keys()
    # A report quantizes as the conversion does, and runs on the data of the calibration.
    reports = {name for name in changed if re.search(r"#(layers|rank|measure)\b", name)}
    # So does the step that adds the values of weights.
    filled = {name.replace("#partition", "#weights") for name in row.changed if "#partition" in name} & before.keys()
    expected = {f"{name.partition('#')[0]}#expected" for name in row.changed if "#convert" in name} & before.keys()
    assert verified | filled <= changed
    assert changed - checks - reports - verified - expected - filled == row.changed - filled
    assert reports == reports_of(attribute, row.changed)
    assert attribute in NOT_CHECKED or checks <= changed
