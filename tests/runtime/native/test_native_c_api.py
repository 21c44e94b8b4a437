"""The C API: from a C program, and from Python by ctypes without other code of modelbuild in the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np


def test_from_c(samples: dict[str, Any], native: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        program = str(native / "bin/modelbuild-example")
        return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)

    counter = str(samples["counter"].path)
    done = run(counter, "1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "output0: 1\n", "")
    done = run(counter, "2")
    assert done.returncode == 2
    assert done.stderr == "run: input input0: float32[1]: got shape [2]\n"
    done = run("/nowhere.pte")
    assert done.returncode == 1
    assert done.stderr == "load: /nowhere.pte: No such file or directory\n"


def test_null_and_sizes_that_lie_are_refused(samples: dict[str, Any], native: Path, broken_program: Path) -> None:
    """Call every function from C; an exception from a log sink does not propagate."""
    command = [native / "bin/c_api_check", samples["counter"].path, broken_program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 failures\n", "")


# In a separate process, without torch and its executorch; the log is global to the process.
SCRIPT = """
import ctypes, json, sys
import numpy as np

library = ctypes.CDLL(sys.argv[1])

class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("shape", ctypes.POINTER(ctypes.c_int64)), ("rank", ctypes.c_int32),
                ("dtype", ctypes.c_int32), ("device", ctypes.c_int32)]

library.mb_last_error.restype = ctypes.c_char_p
library.mb_program_json.restype = ctypes.c_char_p
library.mb_output_name.restype = ctypes.c_char_p
library.mb_output_count.restype = ctypes.c_size_t
library.mb_program_json.argtypes = library.mb_output_count.argtypes = [ctypes.c_void_p]
library.mb_output_name.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
library.mb_output.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(Tensor)]
library.mb_run.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(Tensor), ctypes.c_size_t, ctypes.c_void_p]
library.mb_unload.argtypes = [ctypes.c_void_p]

messages = []
SINK = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t, ctypes.c_void_p)
sink = SINK(lambda level, text, size, user: messages.append(text[:size].decode()))
library.mb_set_log(2, sink, None)

program = ctypes.c_void_p()
assert library.mb_load(sys.argv[2].encode(), None, ctypes.byref(program)) == 0, library.mb_last_error()
ports = json.loads(library.mb_program_json(program))["methods"][0]["inputs"]
arrays = [np.load(path) for path in sys.argv[4:]]
shapes = [(ctypes.c_int64 * a.ndim)(*a.shape) for a in arrays]
given = (Tensor * len(arrays))(*(Tensor(a.ctypes.data, s, a.ndim, 6, -1) for a, s in zip(arrays, shapes)))
for _ in range(3):
    assert library.mb_run(program, b"forward", given, len(arrays), None) == 0, library.mb_last_error()
outputs = {}
for i in range(library.mb_output_count(program)):
    out = Tensor()
    assert library.mb_output(program, i, ctypes.byref(out)) == 0
    shape = out.shape[: out.rank]
    data = ctypes.cast(out.data, ctypes.POINTER(ctypes.c_float))
    outputs[library.mb_output_name(program, i).decode()] = np.ctypeslib.as_array(data, shape).copy()
np.savez(sys.argv[3], **outputs)
assert library.mb_output(program, 99, ctypes.byref(Tensor())) == 2
assert library.mb_last_error() == b"no output 99"
assert library.mb_run(program, b"forward", given, 1, None) == 2
assert library.mb_last_error().startswith(b"1 inputs given, 2 expected: "), library.mb_last_error()
assert library.mb_output_count(program) == 0  # of a run that failed

def refused(**changes):
    wrong = Tensor(given[0].data, given[0].shape, given[0].rank, given[0].dtype, given[0].device)
    for name, value in changes.items():
        setattr(wrong, name, value)
    assert library.mb_run(program, b"forward", (Tensor * 2)(wrong, given[1]), 2, None) == 2
    return library.mb_last_error().decode()

assert refused(dtype=256 + 6) == "element type 262 is not supported"
assert refused(dtype=9) == "element type 9 is not supported"
assert refused(rank=-1) == "a tensor of rank -1; expected 0 to 16"
assert refused(shape=None) == "a tensor of rank 2 without sizes"
assert refused(device=-2) == "there is no device -2"
assert refused(data=None) == "input 'input0': no data"
assert library.mb_run(program, None, given, 2, None) == 2
assert library.mb_last_error() == b"no method is given"
assert library.mb_load(None, None, ctypes.byref(ctypes.c_void_p())) == 2
assert library.mb_last_error() == b"no path is given"

# Memory for outputs has to be of the output's element type.
class RunOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("use_stream", ctypes.c_int32), ("stream", ctypes.c_void_p),
                ("outputs", ctypes.POINTER(Tensor)), ("output_count", ctypes.c_size_t)]

def written_to(count, dtype, *sizes, device=-1):
    wanted = (Tensor * count)()
    memory = np.zeros(100, np.float64)
    shape = (ctypes.c_int64 * len(sizes))(*sizes)
    wanted[count - 1] = Tensor(memory.ctypes.data, shape, len(sizes), dtype, device)
    options = RunOptions(ctypes.sizeof(RunOptions), 0, None, wanted, count)
    assert library.mb_run(program, b"forward", given, 2, ctypes.byref(options)) == 2
    return library.mb_last_error().decode()

first = outputs["output0"].shape
port = f"output output0: float32[{', '.join(map(str, first))}]"
assert written_to(1, 0, *first) == f"{port}: got memory for uint8[{', '.join(map(str, first))}]"
assert written_to(1, 6, 7) == f"{port}: got memory for float32[7]"
if "xnnpack" not in sys.argv[2]:
    on_gpu = written_to(1, 6, *first, device=0)
    assert on_gpu.startswith("output 'output0' is to lie on cuda:0, but aten::"), on_gpu
    assert on_gpu.endswith(" works on it on the CPU"), on_gpu
assert written_to(len(outputs) + 1, 6, 1) == f"output {len(outputs)} is not a tensor of forward"
assert messages == [], messages
library.mb_unload(program)
assert "torch" not in sys.modules
"""


def test_from_python_by_ctypes(samples: dict[str, Any], native: Path, tmp_path: Path) -> None:
    arrays = [np.random.default_rng(3).standard_normal(shape).astype(np.float32) for shape in ((2, 4), (2, 3))]
    paths = [tmp_path / f"{i}.npy" for i in range(2)]
    for path, array in zip(paths, arrays, strict=True):
        np.save(path, array)
    for name in ("two", "xnnpack"):
        command = [sys.executable, "-c", SCRIPT, native / "lib/libmodelbuild_runtime.so", samples[name].path]
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        done = subprocess.run(
            [*map(str, command), str(tmp_path / "out.npz"), *map(str, paths)],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found = np.load(tmp_path / "out.npz")
        for number, reference in enumerate(samples[name].eager(*arrays)):
            np.testing.assert_allclose(found[f"output{number}"], reference, atol=1e-5)
