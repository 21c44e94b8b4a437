"""A workspace with targets of every built-in rule that set every attribute: the base of hostile ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

WORKSPACE: dict[str, Any] = {
    "rules": [],
    "build": {"default_device": "//:cpu", "toolchain": "//:tools", "jobs": 2, "keep_going": False},
    "cache": {"dir": "cache", "max_size": "20GiB"},
    "remote": {
        "cache": "grpcs://host.example:443/team",
        "upload": "ci-only",
        "download": "all",
        "timeout": 3,
        "queue_notice": 3,
        "tls_ca": "ca.pem",
        "token_file": "token",
        "executor": "grpc://host.example:1",
        "jobs": 8,
        "python": "python3",
        "gpus": ["NVIDIA L4 (8.9)"],
        "platform": {"cores": "{cpu}"},
        "strategy": {"compile": ["remote", "local"]},
        "toolchains": {"//:tools": "/opt/tools/bin/python"},
    },
    "profile": {
        "ci": {
            "jobs": 3,
            "device": ["//:cpu"],
            "toolchain": "installed",
            "keep_going": True,
            "quiet": True,
            "json": False,
            "sandbox_debug": True,
            "runner": ["//:cpu=ssh://host.example"],
            "remote_cache": "file:///srv/cache",
            "remote_upload": "never",
            "remote_download": "minimal",
            "remote_jobs": 9,
            "strategy": ["compile=remote"],
            "action_timeout": "2 h",
            "junit": "junit.xml",
            "runs_per_test": 2,
            "test_tag_filters": "-gpu",
        }
    },
}

_DIGEST = "0" * 64
_TENSORRT = {
    "type": "tensorrt",
    "flavour": "rtx",
    "workspace_size": "1GiB",
    "optimization_profiles": [{"x": {"min": [1, 2], "opt": [2, 2], "max": [8, 2]}}],
    "gpu": 0,
    "data_dependent_ops": "fallback",
    "exclude_ops": ["aten.gelu.default"],
}
_CUDA = {"type": "cuda", "candidates": 4, "tuning": "t.json", "min_block_size": 5, "precision": "tf32"}

_LIBRARY = {"file": "libx.so.1", "version": "1.6.1.120", "license": "A licence", "license_file": "a.txt"}

FILES = [{"name": "files", "files": {"x": "y.npy", "y": "y.npy"}}]
PACKAGE: dict[str, Any] = {
    "package": {"default_visibility": ["//visibility:public"]},
    "filegroup": [
        {
            "name": "group",
            "srcs": ["a.txt", ":globbed"],
            "license": "MIT",
            "source": "https://host.example/x",
            "tags": ["x"],
            "visibility": ["//sub:__pkg__"],
            "toolchain": "//:tools",
            "action_timeout": "2 h",
        },
        {"name": "globbed", "srcs": {"glob": ["*.txt", "**/*.py"], "exclude": ["b*"], "allow_empty": True}},
    ],
    "http_file": [
        {
            "name": "web",
            "urls": ["https://host.example/a/b.bin"],
            "sha256": _DIGEST,
            "filename": "b.bin",
            "license": "MIT",
            "source": "https://host.example/x",
            "executable": True,
        }
    ],
    "release": [
        {
            "name": "released",
            "version": "1.0",
            "artifacts": [":group"],
            "tests": [":suite"],
            "notes": "w.safetensors",
        }
    ],
    "pypi_file": [
        {
            "name": "pypi",
            "package": "x",
            "version": "1.0",
            "path": "x/y.pt",
            "sha256": _DIGEST,
            "wheel": "x-1.0-py3-none-any.whl",
            "wheel_sha256": _DIGEST,
            "filename": "y.pt",
            "license": "MIT",
            "source": "https://host.example/x",
        }
    ],
    "torch_model": [
        {
            "name": "model",
            "entry": "net.py:Net",
            "srcs": ["net.py"],
            "kwargs": {"n": 3, "t": ["a", 1.5]},
            "weights": {"w": "w.safetensors"},
            "allow_missing": True,
            "license": "MIT",
            "source": "https://host.example/x",
            "prepare": "net.py:prepare",
            "data": ["a.txt"],
            "inputs": [
                {"name": "x", "shape": ["n", "m"], "dtype": "float32", "range": [0, 255]},
                {"name": "y", "file": "y.npy"},
            ],
            "call": "(x, 1), y=y",
            "dynamic": {"n": {"min": 1, "max": 8, "example": 2, "auto": False}, "m": "2*n + 1"},
            "outputs": ["o"],
            "seed": 1,
            "kernels": [":kernels"],
            "requires": ["numpy"],
        },
        {"name": "archived", "exported": "m.pt2", "inputs": [{"name": "x", "file": "y.npy"}]},
        {
            "name": "with_methods",
            "entry": "net.py:Net",
            "srcs": ["net.py"],
            "methods": {
                "encode": {
                    "inputs": [
                        {"name": "x", "shape": ["n", 2], "dtype": "float32", "range": [0, 1]},
                        {"name": "y", "file": "y.npy"},
                    ],
                    "call": "x, y=y",
                    "dynamic": {"n": {"min": 1, "max": 8, "example": 2, "auto": False}},
                    "outputs": ["o"],
                }
            },
        },
    ],
    "dataset": [
        {"name": "data", "files": {"x": ["y.npy"], "y": {"glob": ["*.npy"]}}, "max_samples": 3},
        {"name": "archives", "archives": ["a.npz"], "license": "MIT", "source": "https://host.example/x"},
        {
            "name": "generated",
            "entry": "net.py:samples",
            "srcs": ["net.py"],
            "data": ["a.txt"],
            "kwargs": {"n": 3},
            "requires": ["numpy"],
            "seed": 1,
        },
    ],
    "quantization_recipe": [
        {
            "name": "recipe",
            "quantizers": [
                {
                    "type": "xnnpack",
                    "mode": "static",
                    "observer": "min_max",
                    "per_channel": False,
                    "operators": ["aten.linear.default"],
                    "modules": ["m"],
                    "exclude": ["m.n"],
                },
                {"type": "xnnpack", "mode": "dynamic", "weights": "int4", "group_size": 32},
                {"type": "half", "dtype": "bfloat16", "modules": ["m"], "exclude": ["m.n"]},
                {"type": "cuda", "weights": "int4", "group_size": 32, "modules": ["m"], "exclude": ["m.n"]},
                {
                    "type": "tensorrt",
                    "dtype": "int8",
                    "observer": "min_max",
                    "operators": ["aten.linear.default"],
                    "modules": ["m"],
                    "exclude": ["m.n"],
                },
            ],
        }
    ],
    "quantized_model": [
        {"name": "quantized", "model": ":archived", "recipe": ":recipe", "calibration": ":archives"},
        {
            "name": "quantized_methods",
            "model": ":with_methods",
            "recipe": ":recipe",
            "calibration": {"encode": ":archives"},
            "metrics": {"encode": [{"entry": "metric.py:f"}, {"top": 1, "output": "o"}]},
            "srcs": ["metric.py"],
        },
    ],
    "kernel_library": [
        {
            "name": "kernels",
            "operators": ["my_ops::scale", "my_ops::scale.wide"],
            "eager": ["net.py"],
            "srcs": ["scale.cpp"],
            "headers": ["scale.hpp"],
            "requires": ["numpy"],
        }
    ],
    "backend_stack": [
        {
            "name": "stack",
            "backends": [
                {"type": "xnnpack", "precisions": ["fp32"], "exclude_ops": ["aten.gelu.default"]},
                _TENSORRT,
                _CUDA,
                {"type": "portable", "ops": ["aten.add.Tensor"]},
            ],
        },
        {"name": "small", "backends": [{"type": "xnnpack"}, {"type": "portable"}]},
    ],
    "device_target": [
        {
            "name": "cpu",
            "arch": "x86_64",
            "memory": "8GiB",
            "min_glibc": "2.31",
            "runners": [":by_ssh", ":emulated"],
        },
        {"name": "gpu", "arch": "x86_64", "compute_capabilities": ["8.9"], "gpu": 1, "memory": 1024},
    ],
    "device_runner": [
        {
            "name": "by_ssh",
            "connection": {
                "type": "ssh",
                "host": "host.example",
                "user": "u",
                "port": 2222,
                "jump": "gate.example",
                "key": "~/.ssh/key",
                "known_hosts": "a.txt",
            },
            "folder": "device",
            "store_size": "1 GiB",
        },
        {"name": "emulated", "connection": {"type": "qemu", "arch": "aarch64"}},
        {"name": "here", "connection": {"type": "local"}},
    ],
    "pte_program": [
        {
            "name": "program_{stack}",
            "matrix": {"stack": ["stack", "small"], "exclude": []},
            "model": ":model",
            "stack": ":{stack}",
            "device": ":gpu",
            "external_weights": True,
            "device_io": False,
            "verify": True,
        },
        {"name": "all_methods", "model": ":with_methods", "stack": ":small", "device": ":cpu"},
        {
            "name": "several",
            "model": {"one": ":model", "two": ":model"},
            "stack": {"one": ":small", "two": ":small"},
            "device": ":cpu",
        },
        {"name": "parted", "model": ":model", "stack": ":small", "device": ":gpu", "engines": {"m": ":engine"}},
        {
            "name": "program",
            "model": ":model",
            "stack": {"select": {"//:gpu": ":stack", "default": ":small"}},
            "device": ":cpu",
        },
    ],
    "tensorrt_engine": [
        {
            "name": "engine",
            "plan": "a.plan",
            "license": "MIT",
            "source": "https://host.example/x",
            "version": "8.6.1",
            "compute_capabilities": ["8.6", "8.9"],
            "arch": "x86_64",
            "inputs": [{"name": "x", "binding": "i", "shape": ["n", 2], "dtype": "float32", "range": [0, 1]}],
            "outputs": [{"name": "y", "binding": "o", "shape": ["n", 2], "dtype": "float32"}],
            "profiles": [{"n": {"min": 1, "opt": 2, "max": 8}}],
            "version_compatible": True,
            "host_code": True,
            "gpu": 1,
        }
    ],
    "runtime_bundle": [
        {
            "name": "bundle",
            "program": ":program",
            "runtime": {"archive": "runtime.tar", "libraries": [_LIBRARY]},
            "files": ["y.npy"],
            "tar": True,
            "device": ":cpu",
        },
        {"name": "both", "program": {"one": ":program", "two": ":several"}, "runtime": {"archive": "runtime.tar"}},
    ],
    "pte_test": [
        {
            "name": "pte_test",
            "program": ":program",
            "model": ":model",
            "device": ":cpu",
            "cases": [
                *FILES,
                {"name": "stream", "calls": [{"x": "y.npy", "y": "y.npy"}, {"x": "y.npy", "y": "y.npy"}]},
                {
                    "name": "drawn",
                    "generator": {
                        "seed": 1,
                        "count": 2,
                        "calls": 2,
                        "distribution": "normal",
                        "range": [0, 1],
                        "mean": 0.5,
                        "std": 2.0,
                        "sizes": {"n": 3},
                    },
                },
            ],
            "tolerance": {"abs": 1e-4, "rel": 1e-4, "cosine": 0.9, "ignore": False, "outputs": {"o": {"abs": 0.1}}},
            "metrics": [
                {"entry": "metric.py:f", "min": 0.0, "max": 1.0},
                {"top": 5, "output": "o", "min": 0.5},
            ],
            "srcs": ["metric.py"],
            "accuracy": {
                "dataset": ":data",
                "metrics": [
                    {"top": 1, "output": "o", "label": "y", "min": 0.5, "max": 1.0, "max_loss": 0.01},
                    {"measure": "cosine", "output": "o", "min": 0.5},
                    {"entry": "metric.py:f", "max_loss": 0.01},
                    {
                        "measure": "map",
                        "output": "o",
                        "scores": "o",
                        "classes": "o",
                        "label": "y",
                        "label_classes": "y",
                        "min": 0.5,
                    },
                ],
            },
            "limits": {"bytes": 1000000, "memory": 100000, "partitions": 3, "delegated": 0.5},
            "latency": {"ratio": 2.0, "baseline": ":program"},
            "expect_backends": {"m": "xnnpack"},
            "size": "small",
            "timeout": 5,
            "flaky": True,
        },
        {
            "name": "device_test",
            "program": ":several",
            "method": "two",
            "model": ":model",
            "device": ":cpu",
            "cases": FILES,
            "on_device": True,
            "latency": {"max": {":cpu": "8 ms"}, "p95": {":cpu": "9 ms"}, "runs": 20},
        },
        {
            "name": "estimated_test",
            "program": ":program",
            "model": ":model",
            "device": ":cpu",
            "cases": FILES,
            "latency": {"max": {":cpu": "8 ms"}, "estimated": True},
        },
        {
            "name": "gpu_test",
            "program": ":program",
            "model": ":model",
            "cases": FILES,
            "gpus": 1,
            "runtime": {"archive": "runtime.tar", "libraries": [_LIBRARY]},
        },
        {
            "name": "steps_test",
            "program": ":several",
            "model": {"one": ":model", "two": ":model"},
            "cases": [
                {
                    "name": "both",
                    "steps": [
                        {"method": "one", "generator": {"seed": 1, "sizes": {"n": 3}}, "count": {"y": 2}},
                        {
                            "method": "two",
                            "calls": 3,
                            "files": {"y": "y.npy"},
                            "feed": {"x": {"output": "o", "argmax": True}},
                        },
                    ],
                }
            ],
        },
    ],
    "py_test": [
        {
            "name": "py_test",
            "srcs": ["test_a.py"],
            "data": ["a.txt"],
            "requires": ["numpy"],
            "plugins": ["x"],
            "args": ["-q"],
            "shard_count": 2,
            "gpus": 1,
            "size": "large",
            "timeout": 7,
            "flaky": False,
        }
    ],
    "python_toolchain": [{"name": "tools", "lock": "tools.lock", "python": "3.12", "from_source": ["x"]}],
    "test_suite": [{"name": "suite", "tests": [":py_test", ":pte_test"]}],
}

FILES = (
    *("a.txt", "b.txt", "net.py", "m.pt2", "w.safetensors", "y.npy", "t.json", "runtime.tar", "metric.py", "test_a.py"),
    "a.npz",
    *("libx.so.1", "a.plan", "scale.cpp", "scale.hpp", "tools.lock"),
    "sub/c.py",
)


def write_files(root: Path) -> None:
    """Write the files that the targets name, all empty, and an empty MODELBUILD.toml."""
    for name in ("MODELBUILD.toml", *FILES):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
