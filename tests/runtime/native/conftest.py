"""The C++ runtime, built once in the checkout's build folder, and programs with engines of a fake TensorRT."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.devices.sshd import Sshd, started
from tests.runtime.native.aarch64 import Runtime, make

Done = subprocess.CompletedProcess


@pytest.fixture(scope="session")
def native(builder: Any, repository: Path) -> Path:
    """Return the folder with bin/, lib/ and fakes/ of the runtime, compiled if it is missing or out of date."""
    folder: Path = builder.build(repository / "build/runtime", tests=True)
    return folder


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """Yield OpenSSH's server, as a device that the tests of one process share."""
    with started(tmp_path_factory.mktemp("sshd")) as found:
        yield found


@pytest.fixture(
    scope="session",
    params=["address,undefined", pytest.param("thread", marks=pytest.mark.exhaustive)],
    ids=["address", "thread"],
)
def sanitized(request: pytest.FixtureRequest, builder: Any, repository: Path) -> Path:
    """Return a folder like `native` with the parts that checks need, compiled with sanitizers: the project's sources
    and the fakes. Its tests are in the xdist group "sanitizers", so that one process compiles it."""
    folder: Path = builder.build(
        repository / f"build/runtime-{request.param.split(',')[0]}",
        request.param,
        tests=True,
        targets=["checks"],
    )
    return folder


@pytest.fixture
def sanitizer_options() -> dict[str, str]:
    """Return environment variables for a program compiled with sanitizers."""
    return {
        "ASAN_OPTIONS": "detect_leaks=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "TSAN_OPTIONS": "second_deadlock_stack=1",
    }


@pytest.fixture
def broken_program(samples: dict[str, Any], tmp_path: Path) -> Path:
    """Return a readable program whose delegate refuses its blob with an error in the log."""
    path = tmp_path / "broken.pte"
    path.write_bytes(samples["xnnpack"].path.read_bytes().replace(b"XH00", b"XXXX"))
    return path


@pytest.fixture(scope="session")
def modelbuild_run(native: Path) -> Callable[..., Done[str]]:
    """Return a function that runs modelbuild-run with only the given environment variables."""

    def run(*arguments: str | Path, **environment: str) -> Done[str]:
        program = [str(native / "bin/modelbuild-run"), *map(str, arguments)]
        plain = {"PATH": os.environ["PATH"]}
        return subprocess.run(program, env={**plain, **environment}, capture_output=True, text=True, check=False)

    return run


@dataclass(frozen=True)
class FakeGpus:
    """Runs programs of the runtime on fake GPUs and a fake TensorRT; each run's CUDA calls are kept. `emulator` is the
    beginning of a command that runs programs of another architecture."""

    root: Path
    trace: Path
    emulator: tuple[str, ...] = ()

    @property
    def plugins(self) -> Path:
        return self.root / "lib"

    def __call__(self, program: str, *arguments: str | Path, gpus: int = 2, **environment: str) -> Done[str]:
        self.trace.write_text("")
        plain = {
            "PATH": os.environ["PATH"],
            "FAKE_CUDA_GPUS": str(gpus),
            "FAKE_CUDA_TRACE": str(self.trace),
        }
        command = [*self.emulator, str(self.root / "bin" / program), *map(str, arguments)]
        return subprocess.run(command, env={**plain, **environment}, capture_output=True, text=True, check=False)

    def calls(self, function: str) -> list[str]:
        """Return the lines of one function in the last run's trace."""
        return [line for line in self.trace.read_text().splitlines() if line.split()[0] == function]

    def left_over(self) -> str:
        """Return the resources that the last run did not release."""
        return self.trace.read_text().splitlines()[-1]


@pytest.fixture
def lay_out_fakes(tmp_path: Path) -> Callable[..., FakeGpus]:
    """Copy a build's folders, with the fakes in place of the CUDA runtime and a flavour of TensorRT in a bundle."""

    def lay_out(build: Path, emulator: tuple[str, ...] = ()) -> FakeGpus:
        root = tmp_path / "fakes"
        shutil.copytree(build / "bin", root / "bin", copy_function=os.link)
        shutil.copytree(build / "lib", root / "lib", copy_function=os.link)
        for library in (build / "fakes").glob("lib*.so*"):
            (root / "lib" / library.name).unlink(missing_ok=True)
            os.link(library, root / "lib" / library.name)
        return FakeGpus(root, tmp_path / "trace.txt", emulator)

    return lay_out


@pytest.fixture
def fake_gpus(native: Path, lay_out_fakes: Callable[..., FakeGpus]) -> FakeGpus:
    return lay_out_fakes(native)


@pytest.fixture(scope="session")
def aarch64(builder: Any, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    """Return the runtime for aarch64, which runs in qemu. Tests with it are in the xdist group "aarch64"."""
    return make(builder, repository, tmp_path_factory.mktemp("aarch64"))


def engine(
    inputs: Mapping[str, Sequence[tuple[Sequence[int], Sequence[int]]]],
    outputs: Sequence[str],
    library: str = "libnvinfer.so.10",
    **more: Any,
) -> bytes:
    """Return an engine of a fake TensorRT (fakes/tensorrt). `inputs` are by name, with the least and largest shape in
    each optimization profile; `more` are members of the plan, or of each input with "x_" before."""
    of_inputs = {name.removeprefix("x_"): value for name, value in more.items() if name.startswith("x_")}
    described = {
        "magic": "FAKE",
        "library": library,
        "inputs": [
            {"name": name, "dtype": 0, "profiles": [{"min": low, "max": high} for low, high in profiles], **of_inputs}
            for name, profiles in inputs.items()
        ],
        "outputs": [{"name": name, "dtype": 0} for name in outputs],
        "scale": 3.0,
        "bias": 1.0,
        **{name: value for name, value in more.items() if not name.startswith("x_")},
    }
    return json.dumps(described).encode()


def headed(plan: bytes, tag: str, *version: int) -> bytes:
    """Return an engine of a fake TensorRT after the header of a real one: tag "ftrt", or "vtrt" of TensorRT-RTX."""
    return struct.pack("<4sIQQ4B", tag.encode(), 0, 1, 28 + len(plan), *version, 0) + plan


STATIC = {"x": [((2, 16), (2, 16))]}


def gelu_partitioner(backend: str, specs: Mapping[str, str]) -> Any:
    """Delegate each gelu of a model to a backend, as a separate part."""
    from executorch.exir.backend.compile_spec_schema import CompileSpec
    from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult

    class Gelus(Partitioner):
        def partition(self, program: Any) -> Any:
            nodes = [n for n in program.graph.nodes if n.op == "call_function" and "gelu" in str(n.target)]
            compiled = [CompileSpec(key, value.encode()) for key, value in specs.items()]
            tags = {}
            for number, node in enumerate(nodes):
                tags[f"{backend}{number}"] = DelegationSpec(backend, compiled)
                node.meta["delegation_tag"] = f"{backend}{number}"
            return PartitionResult(tagged_exported_program=program, partition_tags=tags)

    return Gelus()


def lower(
    path: Path, gelus: int, partitioner: Any, own_io: bool = False, shapes: Any = None, between: bool = True
) -> Path:
    """Return a program for x [2, 16]: one gelu, or two, optionally with a sine between. `own_io`: the caller provides
    memory for inputs and outputs, on the device in the metadata."""
    import torch
    from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
    from executorch.exir.passes import MemoryPlanningPass
    from executorch.exir.passes.propagate_device_config import PropagateDeviceConfig

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            once = torch.nn.functional.gelu(x)
            return once if gelus == 1 else torch.nn.functional.gelu(torch.sin(once) if between else once)

    config = ExecutorchBackendConfig()
    if own_io:
        config = ExecutorchBackendConfig(
            propagate_device_config=PropagateDeviceConfig(
                skip_h2d_for_method_inputs=True, skip_d2h_for_method_outputs=True
            ),
            memory_planning_pass=MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False),
        )
    exported = torch.export.export(Model(), (torch.zeros(2, 16),), dynamic_shapes=shapes)
    lowered = to_edge_transform_and_lower(exported, partitioner=[partitioner]).to_executorch(config)
    with path.open("wb") as file:
        lowered.write_to_file(file)
    return path


@pytest.fixture(scope="session")
def trt_programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return programs with a TensorRT delegate that computes x * 3 + 1 in place of gelu(x).

    host      no device in its metadata: the delegate gets host memory
    planned   metadata name cuda:0: activations are there, and the program contains copies
    device    the caller provides inputs and outputs in memory of cuda:0
    liar      metadata name cuda:0, the engine is for cuda:1
    second    no metadata, the engine is for cuda:1
    absent    no metadata, the engine is for cuda:7
    two       two engines, for cuda:0 and cuda:1, and kernels on the CPU between them
    dynamic   the first dimension from 1 to 8, the engine's profile from 2 to 8
    waits     like `device`, and the engine waits for the GPU in each run
    profiles  the first dimension from 1 to 8, the engine's profiles from 1 to 4 and from 5 to 8
    fails     the engine can't be enqueued, for a reason that TensorRT logs
    warns     TensorRT logs a warning in each run
    shape     the input's values decide shapes
    format    the input's format is not linear
    8, 10, 11, rtx  the engine is for that library of TensorRT
    nonsense  the engine is invalid
    headed_8, headed_rtx  the engine has the header of one of TensorRT 8.6.1, or of TensorRT-RTX 1.6.1
    """
    import torch
    from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult

    from modelbuild_rules.backends.tensorrt.steps.engine.blob import Metadata, write_blob

    folder = tmp_path_factory.mktemp("trt")
    devices: list[int] = []
    content = [b""]

    class TensorRTBackend(BackendDetails):  # found by the name of its class
        @staticmethod
        def preprocess(program: Any, specs: Any) -> Any:
            write_blob(folder / "blob", Metadata(("x",), ("y",), devices.pop(0)), content[0])
            return PreprocessResult(processed_bytes=(folder / "blob").read_bytes())

    static = engine(STATIC, ["y"])
    libraries = {
        "8": "libnvinfer.so.8",
        "10": "libnvinfer.so.10",
        "11": "libnvinfer.so.11",
        "rtx": "libtensorrt_rtx.so.1",
    }

    def make(name: str, on: list[int], target: str = "", plan: bytes = static, **more: Any) -> tuple[str, Path]:
        content[0] = plan
        devices[:] = on
        specs = {"target_device": target} if target else {}
        return name, lower(folder / f"{name}.pte", len(on), gelu_partitioner(TensorRTBackend.__name__, specs), **more)

    batch = ({0: torch.export.Dim("batch", min=1, max=8)},)
    return dict(
        [
            make("host", [0]),
            make("planned", [0], "cuda:0"),
            make("device", [0], "cuda:0", own_io=True),
            make("liar", [1], "cuda:0"),
            make("second", [1]),
            make("absent", [7]),
            make("two", [0, 1]),
            make("dynamic", [0], plan=engine({"x": [((2, 16), (8, 16))]}, ["y"]), shapes=batch),
            make("profiles", [0], plan=engine({"x": [((1, 16), (4, 16)), ((5, 16), (8, 16))]}, ["y"]), shapes=batch),
            make("waits", [0], "cuda:0", plan=engine(STATIC, ["y"], waits=True), own_io=True),
            make("fails", [0], plan=engine(STATIC, ["y"], fails=True)),
            make("warns", [0], plan=engine(STATIC, ["y"], warns=True)),
            make("shape", [0], plan=engine(STATIC, ["y"], x_location=1)),
            make("format", [0], plan=engine(STATIC, ["y"], x_format=2)),
            *(make(name, [0], plan=engine(STATIC, ["y"], library)) for name, library in libraries.items()),
            make("nonsense", [0], plan=b"nothing that is an engine"),
            make("headed_8", [0], plan=headed(engine(STATIC, ["y"], libraries["8"]), "ftrt", 8, 6, 1)),
            make("headed_rtx", [0], plan=headed(engine(STATIC, ["y"], libraries["rtx"]), "vtrt", 1, 6, 1)),
        ]
    )


@pytest.fixture(scope="session")
def doubled_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a program with one part, of a delegate that is not in the runtime (fakes/own_delegate.cpp)."""
    from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult

    class DoublerBackend(BackendDetails):  # found by the name of its class
        @staticmethod
        def preprocess(program: Any, specs: Any) -> Any:
            return PreprocessResult(processed_bytes=b"twice")

    path = tmp_path_factory.mktemp("doubled") / "doubled.pte"
    return lower(path, 1, gelu_partitioner(DoublerBackend.__name__, {}))


@pytest.fixture(scope="session")
def cuda_programs(native: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return programs of make_cuda_programs for this machine."""
    return make_cuda_programs(native / "fakes", tmp_path_factory.mktemp("cuda"))


@pytest.fixture(scope="session")
def aarch64_cuda_programs(aarch64: Runtime, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return programs of make_cuda_programs for aarch64."""
    return make_cuda_programs(aarch64.folder / "fakes", tmp_path_factory.mktemp("aarch64_cuda"))


def make_cuda_programs(fakes: Path, folder: Path) -> dict[str, Path]:
    """Return programs with a CUDA delegate that computes x * 3 + 1 in place of gelu(x).

    host        no device in its metadata: the delegate gets host memory
    planned     like CudaPartitioner's: metadata name cuda:0
    device      the caller provides inputs and outputs in memory of cuda:0
    second      for cuda:1
    two         two libraries in one program
    chain       two adjacent libraries, inputs and outputs like `device`
    transposed  the library's output is column by column
    sorting_device, reading_device  the library names the shim that sorts, or that reads a number, with inputs and
                    outputs like `device`
    broken      the library is invalid
    theirs      the weights are in a layout of executorch 1.5.1
    older       the weights are in the layout of executorch before that
    keyless     the blob names no constants
    state       the constant is changed
    damaged_list, lacking_list, longer_list  the list is cut off, or names data or a constant that is not there
    """
    import numpy as np
    from executorch.exir._serialize._named_data_store import NamedDataStore
    from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult

    plain = (fakes / "libfake_aoti.so").read_bytes()
    transposed = (fakes / "libfake_aoti_transposed.so").read_bytes()
    sorting, reading = plain + b"aoti_torch_cuda_sort_stable", plain + b"aoti_torch_item_int64(buf0, &u0_raw)"
    content = [b"", b""]
    blob = [b""]

    class CudaBackend(BackendDetails):  # found by the name of its class
        @staticmethod
        def preprocess(program: Any, specs: Any) -> Any:
            store = NamedDataStore()
            store.add_named_data("library", content[0], 1, None)
            store.add_named_data("weights", np.float32(3).tobytes(), 1, None)
            store.add_named_data("list", content[1], 1, None)
            return PreprocessResult(processed_bytes=blob[0], data_store_output=store.get_named_data_store_output())

    def make(
        name: str,
        target: str = "cuda:0",
        library: bytes = plain,
        keys: bytes = b"library\n\nlist",
        listed: bytes = b"w cuda 6 1 1 0 weights -\n",
        gelus: int = 1,
        **more: Any,
    ) -> tuple[str, Path]:
        content[:] = library, listed
        blob[0] = keys
        specs = {"method_name": "forward", **({"target_device": target} if target else {})}
        return name, lower(folder / f"{name}.pte", gelus, gelu_partitioner(CudaBackend.__name__, specs), **more)

    return dict(
        [
            make("host", ""),
            make("planned"),
            make("device", own_io=True),
            make("second", "cuda:1"),
            make("two", gelus=2),
            make("chain", gelus=2, between=False, own_io=True),
            make("transposed", library=transposed),
            make("sorting_device", library=sorting, own_io=True),
            make("reading_device", library=reading, own_io=True),
            make("broken", library=b"no library"),
            make("theirs", keys=b"ETCUDAFQN3\x07\0\0\0library\0\0\0\0"),
            make("older", keys=b"library\nweights"),
            make("keyless", keys=b"library\n\n"),
            make("state", listed=b"w cuda 6 1 1 0 weights kept\n"),
            make("damaged_list", listed=b"w cuda 6 1\n"),
            make("lacking_list", listed=b"w cuda 6 1 1 0 others -\n"),
            make("longer_list", listed=b"w cuda 6 1 1 0 weights -\nv cuda 6 - - 0 weights -\n"),
        ]
    )


@pytest.fixture
def x(tmp_path: Path) -> Path:
    path = tmp_path / "x.npy"
    np.save(path, np.arange(32, dtype=np.float32).reshape(2, 16) / 8)
    return path
