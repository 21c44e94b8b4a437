"""Programs for GPUs from Python, over the C library: on fake GPUs, in processes without a real CUDA runtime."""

from __future__ import annotations

import _ctypes
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import modelbuild_runtime
from modelbuild_runtime import InputError, ProgramError
from modelbuild_runtime.native.exchange import from_bfloat16, to_bfloat16

# A torch of which there is just enough: tensors on a GPU of the runtime's, handed out by DLPack; new ones; streams.
FAKE_TORCH = """
import ctypes, sys, types
import numpy as np
from modelbuild_runtime.native import library as native
from modelbuild_runtime.native.exchange import _DLTensor

class Managed(ctypes.Structure):
    _fields_ = [("tensor", _DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]

new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

class Tensor:
    def __init__(self, library, array, gpu=0, strides=None):
        array = np.ascontiguousarray(array)
        self.library, self.gpu, self.like = library, gpu, array
        self.data = ctypes.c_void_p()
        assert library.mb_device_allocate(gpu, array.nbytes, ctypes.byref(self.data)) == 0
        self.shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        self.strides = strides and (ctypes.c_int64 * array.ndim)(*strides)
        self.asked = []
        self.write(array)

    def write(self, array):
        library, array = self.library, np.ascontiguousarray(array)
        assert library.mb_copy(self.data, array.ctypes.data, array.nbytes, self.gpu) == 0

    def numpy(self):
        found = np.empty_like(self.like)
        assert self.library.mb_copy(found.ctypes.data, self.data, found.nbytes, self.gpu) == 0
        return found

    def __dlpack_device__(self):
        return 2, self.gpu

    def __dlpack__(self, stream=None):
        self.asked.append(stream)
        tensor = _DLTensor(self.data, 2, self.gpu, self.like.ndim, 2, 32, 1, self.shape, self.strides or None, 0)
        self.managed = Managed(tensor)
        return new_capsule(ctypes.addressof(self.managed), b"dltensor", None)

class Other(Tensor):
    pass

def install(library):
    torch = types.ModuleType("torch")
    torch.Tensor = type("Tensor", (Tensor,), {})
    torch.float32 = np.float32
    torch.made = []
    def empty(shape, dtype, device):
        torch.made.append(torch.Tensor(library, np.zeros(shape, dtype), int(device.split(":")[1])))
        return torch.made[-1]
    torch.empty = empty
    torch.cuda = types.SimpleNamespace(
        current_stream=lambda device: types.SimpleNamespace(cuda_stream=0), synchronize=lambda: None)
    sys.modules["torch"] = torch
    return torch
"""

ON_GPU = """
import json, logging, pathlib, sys
import numpy as np
import modelbuild_runtime
from modelbuild_runtime.native import library as native
import fake_torch

root, device, host, planned = sys.argv[1:]
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(message)s")
x = np.arange(32, dtype=np.float32).reshape(2, 16)
program = modelbuild_runtime.load(device, runtime=root)
library = native._opened(native.library_file(pathlib.Path(root)))
torch = fake_torch.install(library)
report = {}

# torch's tensors: new ones come back, or those that were given.
a = torch.Tensor(library, x)
y = program.run([a])["output0"]
assert y is torch.made[-1] and a.asked == [-1]
np.testing.assert_array_equal(y.numpy(), x * 3 + 1)
mine = torch.Tensor(library, x * 0)
assert program.run({"input0": a}, outputs={"output0": mine})["output0"] is mine
np.testing.assert_array_equal(mine.numpy(), x * 3 + 1)
assert program.transfers() == modelbuild_runtime.files.pte.Moved(0, 0, 0, 0)

# The same memory again and again, as a graph.
for call in range(5):
    a.write(x + call)
    z = program.run([a], cuda_graph=True)["output0"]
    np.testing.assert_array_equal(z.numpy(), (x + call) * 3 + 1)
assert program.graph_counts() == (1, 3), program.graph_counts()
latency = program.measure([a], repeat=4, warmup=3, cuda_graph=True)
assert latency.runs == 4 and program.graph_counts()[1] == 10, program.graph_counts()

# Someone else's tensors: made ready for the default stream; results are numpy's where no memory is given.
b = fake_torch.Other(library, x)
got = program.run([b])["output0"]
assert b.asked == [1]
np.testing.assert_array_equal(got, x * 3 + 1)

# Host arrays go there by copies, and come back.
np.testing.assert_array_equal(program.run([x])["output0"], x * 3 + 1)
assert program.transfers().copied_in == 128
for name in (host, planned):
    other = modelbuild_runtime.load(name, runtime=root)
    for _ in range(3):
        np.testing.assert_array_equal(other.run([x])["output0"], x * 3 + 1)

def refused(call):
    try:
        call()
    except (modelbuild_runtime.InputError, modelbuild_runtime.ProgramError) as error:
        return f"{type(error).__name__}: {error}"

report["strides"] = refused(lambda: program.run([torch.Tensor(library, x, strides=(1, 2))]))
report["other"] = refused(lambda: program.run([torch.Tensor(library, x, gpu=1)], outputs={"output0": mine}))
report["shape"] = refused(lambda: program.run([torch.Tensor(library, x[:1])]))
report["planned"] = refused(lambda: modelbuild_runtime.load(planned, runtime=root).run([a]))
report["graph"] = refused(lambda: program.run([x], cuda_graph=True))
report["name"] = refused(lambda: program.run([a], outputs={"output1": mine}))
print("REPORT " + json.dumps(report))
"""


@pytest.mark.parametrize("delegate", ["trt_programs", "cuda_programs"])
def test_tensors_on_a_gpu(fake_gpus: Any, request: pytest.FixtureRequest, tmp_path: Path, delegate: str) -> None:
    programs = request.getfixturevalue(delegate)
    (tmp_path / "fake_torch.py").write_text(FAKE_TORCH)
    fake_gpus.trace.write_text("")
    command = [sys.executable, "-c", ON_GPU, fake_gpus.root, programs["device"], programs["host"], programs["planned"]]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{tmp_path}:{os.environ['PYTHONPATH']}" if "PYTHONPATH" in os.environ else str(tmp_path),
        "FAKE_CUDA_GPUS": "2",
        "FAKE_CUDA_TRACE": str(fake_gpus.trace),
    }
    done = subprocess.run([*map(str, command)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len([line for line in lines if line.startswith("INFO") and "stages host memory" in line]) == 1
    report = json.loads(lines[-1].removeprefix("REPORT "))
    assert report["strides"] == "InputError: 'input0': is not contiguous in row-major order"
    assert report["other"].startswith("ProgramError: ")
    assert "lies on cuda:1, but this part runs on cuda:0" in report["other"]
    assert report["shape"] == "InputError: input input0: float32[2, 16] on cuda:0: got shape [1, 16]"
    assert "the program plans memory of its own for it" in report["planned"]
    assert report["graph"] == "InputError: a run of 'forward' cannot be a CUDA graph: input 'input0' lies on the host"
    assert report["name"] == "InputError: no output 'output1'; did you mean 'output0'?; outputs: output0"
    copies = [line.split()[-1] for line in fake_gpus.calls("cudaMemcpyAsync")]
    assert copies.count("d2h") == 3 + 3  # three runs of `host` and of `planned`; `device` copies nothing


BOTH = """
import logging, sys
import numpy as np
import modelbuild_runtime

logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(message)s")
x = np.arange(32, dtype=np.float32).reshape(2, 16)
root, *paths = sys.argv[1:]
for path in paths:
    program = modelbuild_runtime.load(path, runtime=root)
    for _ in range(3):
        np.testing.assert_array_equal(program.run([x])["output0"], x * 3 + 1)
"""


@pytest.mark.parametrize("first", ["trt", "cuda"])
def test_both_delegates_in_one_process_tell_what_they_stage(
    fake_gpus: Any, trt_programs: dict[str, Path], cuda_programs: dict[str, Path], first: str
) -> None:
    """Either may be loaded first, and then provides the common libraries."""
    paths = [trt_programs["host"], cuda_programs["host"]]
    command = [sys.executable, "-c", BOTH, fake_gpus.root, *(paths if first == "trt" else reversed(paths))]
    environment = {**os.environ, "FAKE_CUDA_GPUS": "2", "FAKE_CUDA_TRACE": str(fake_gpus.trace)}
    done = subprocess.run([*map(str, command)], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    told = re.findall(r"^INFO (\w+ \w+) 0 of method forward on cuda:0 stages host memory", done.stdout, re.MULTILINE)
    assert told == (["TensorRT engine", "CUDA part"] if first == "trt" else ["CUDA part", "TensorRT engine"])


THREADS = """
import sys, threading
import numpy as np
import modelbuild_runtime

program = modelbuild_runtime.load(sys.argv[2], runtime=sys.argv[1])
failures = []

def work(number):
    try:
        for call in range(50):
            x = np.full((2, 16), number * 100 + call, np.float32)
            y = program.run([x])["output0"]
            assert (y == x * 3 + 1).all(), (number, call, y[0, 0])
    except Exception as error:
        failures.append(f"{type(error).__name__}: {error}")

sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failures, failures
"""


def test_threads_that_share_a_program_each_get_their_own_results(fake_gpus: Any, trt_programs: dict[str, Path]) -> None:
    for name in ("host", "device"):
        command = [sys.executable, "-c", THREADS, fake_gpus.root, trt_programs[name]]
        environment = {**os.environ, "FAKE_CUDA_GPUS": "1", "FAKE_CUDA_TRACE": str(fake_gpus.trace)}
        done = subprocess.run([*map(str, command)], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


CASES = ("two", "dynamic", "bfloat16", "uint8", "number", "channels_last", "external", "counter")

ON_CPU = """
import json, sys
import numpy as np
import modelbuild_runtime

for name, path in json.loads(sys.argv[2]).items():
    program = modelbuild_runtime.load(path, runtime=sys.argv[1])
    given = np.load(f"{sys.argv[3]}/{name}.in.npz")
    found = program.run({key: given[key] for key in given})
    np.savez(f"{sys.argv[3]}/{name}.out.npz", **found)
    assert program.measure({key: given[key] for key in given}, repeat=2, warmup=0).runs == 2
assert "torch" not in sys.modules
"""


def test_a_process_without_torch_computes_the_same(native: Path, samples: dict[str, Any], tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    programs = {name: modelbuild_runtime.load(samples[name].path) for name in CASES}
    given: dict[str, dict[str, np.ndarray]] = {}
    for name, program in programs.items():
        given[name] = {}
        for port in program.describe().method("forward").inputs:
            if port.kind == "tensor":
                values = random.uniform(0, 100, [dim.max for dim in port.shape])
                given[name][port.name] = values.astype("uint8" if port.dtype == "uint8" else "float32")
        np.savez(tmp_path / f"{name}.in.npz", **given[name])
    paths = json.dumps({name: str(samples[name].path) for name in CASES})
    command = [sys.executable, "-c", ON_CPU, str(native), paths, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name, program in programs.items():
        expected = program.run(given[name])
        found = np.load(tmp_path / f"{name}.out.npz")
        assert list(found) == list(expected)
        for key, array in expected.items():
            assert found[key].dtype == array.dtype
            np.testing.assert_allclose(found[key], array, rtol=1e-5, atol=1e-5)


def test_invalid_runtimes(samples: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match=rf"^{tmp_path}: no libmodelbuild_runtime\.so there; `make runtime` builds"):
        modelbuild_runtime.load(samples["two"].path, runtime=tmp_path)
    code = "import sys, modelbuild_runtime as m; m.load(sys.argv[1], runtime=sys.argv[2])"
    command = [sys.executable, "-c", code, samples["two"].path, _ctypes.__file__]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "is not the C++ runtime; expected libmodelbuild_runtime.so" in done.stderr.splitlines()[-1]


def test_a_second_runtime_in_one_process_is_refused(native: Path, samples: dict[str, Any]) -> None:
    """Both would register their kernels, and their log, with one library of ExecuTorch's."""
    modelbuild_runtime.load(samples["two"].path)
    with pytest.raises(ProgramError, match=r"this process has another runtime already; expected /"):
        modelbuild_runtime.load(samples["two"].path, runtime=native)


def test_bfloat16_is_rounded_as_torch_does() -> None:
    import torch

    values = np.array([0, 1, -1.00390625, 1.01171875, 3.4e38, 1e-40, np.inf, -np.inf, np.nan], np.float32)
    values = np.concatenate([values, np.random.default_rng(2).standard_normal(1000, np.float32)])
    expected = torch.from_numpy(values).bfloat16()
    np.testing.assert_array_equal(from_bfloat16(to_bfloat16(values)), expected.float().numpy())


def test_tensors_of_torch_on_the_host(samples: dict[str, Any], native: Path) -> None:
    """Tensors are exchanged by DLPack without a copy; an error gives the reason if that is impossible."""
    import torch

    from modelbuild_runtime.native.exchange import view_of

    x = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    view = view_of("x", x, "float32")
    assert (view.address, view.dtype, view.shape, view.gpu) == (x.data_ptr(), "float32", (2, 3), None)
    assert view_of("x", x.bfloat16(), "bfloat16").dtype == "bfloat16"
    assert view_of("x", x > 1, "bool").dtype == "bool"
    assert view_of("x", x[1:], "float32").address == x.data_ptr() + 12
    with pytest.raises(InputError, match="'x': is not contiguous in row-major order"):
        view_of("x", x.T, "float32")
    with pytest.raises(InputError, match=r"'x': .*gradient"):
        view_of("x", x.requires_grad_(), "float32")
