"""Engines from elsewhere: as a whole program and in place of a submodule, against eager PyTorch on a fake TensorRT."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from modelbuild_rules.backends.tensorrt.steps.engine.blob import Metadata, write_blob
from tests.runtime.native.conftest import engine, gelu_partitioner, headed, lower
from tests.runtime.native.test_native_pte_test import pack_fakes
from tests.runtime.native.test_native_tensorrt import error, times_3_plus_1
from tests.workspace_builder import Workspace

EIGHT = "libnvinfer.so.8"
PROFILE = {"x": [((1, 16), (8, 16))]}
PLAN = headed(engine(PROFILE, ["y"], EIGHT, host_code=False), "ftrt", 8, 6, 0)

NET = """
import torch

class Body(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(3.0))

    def forward(self, x):
        return x * self.scale + 1

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = Body()

    def forward(self, image):
        return torch.sin(self.body(x=image.abs()))
"""
BUILD = """
[[device_target]]
name = "fake"
arch = "x86_64"
compute_capabilities = ["1.1"]

[[torch_model]]
name = "net"
entry = "net.py:Net"
inputs = [{ name = "image", shape = ["n", 16], dtype = "float32", range = [-1, 1] }]
dynamic = { n = { min = 1, max = 8 } }

[[torch_model]]
name = "body"
entry = "net.py:Body"
inputs = [{ name = "x", shape = ["n", 16], dtype = "float32" }]
dynamic = { n = { min = 1, max = 8 } }
outputs = ["y"]

[[backend_stack]]
name = "stack"
backends = ["xnnpack", "portable"]

[[tensorrt_engine]]
name = "engine"
plan = "body.plan"
version = "8.6.0"
compute_capabilities = ["1.1"]
inputs = [{ name = "x", shape = ["n", 16], dtype = "float32" }]
outputs = [{ name = "y", shape = ["n", 16], dtype = "float32" }]
profiles = [{ n = { min = 1, opt = 8, max = 8 } }]

[[pte_program]]
name = "whole"
model = ":engine"
device = ":fake"

[[pte_program]]
name = "part"
model = ":net"
stack = ":stack"
device = ":fake"
engines = { body = ":engine" }

[[pte_test]]
name = "whole_test"
program = ":whole"
model = ":body"
runtime = { archive = "fakes.tar" }
gpus = 1
cases = [{ name = "drawn", generator = { seed = 1, count = 2, sizes = { n = 5 } } }]

[[pte_test]]
name = "part_test"
program = ":part"
model = ":net"
runtime = { archive = "fakes.tar" }
gpus = 1
cases = [{ name = "drawn", generator = { seed = 1, count = 2, sizes = { n = 5 } } }]
"""


@pytest.fixture
def workspace(repository: Path, native: Path, tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path, {"MODELBUILD.toml": "", "BUILD.toml": BUILD, "net.py": NET})
    (made.root / "body.plan").write_bytes(PLAN)
    pack = [sys.executable, repository / "runtime/archive.py", "--build", native, "--out", made.root / "runtime.tar"]
    subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)
    fakes = [native / "fakes/libcudart.so.13", native / "fakes" / EIGHT]
    pack_fakes(made.root / "runtime.tar", made.root / "fakes.tar", fakes)
    return made


def manifest(program: Path) -> Any:
    """Return the manifest at the end of a .pte."""
    data = program.read_bytes()
    size = int.from_bytes(data[-48:-40], "little")
    return json.loads(data[-48 - size : -48])


@pytest.mark.slow
def test_an_engine_is_a_program_or_a_submodule_that_eager_pytorch_is_compared_with(workspace: Workspace) -> None:
    tests = workspace.test("//...")
    assert {test["status"] for test in tests.values()} == {"passed"}, [test["reason"] for test in tests.values()]
    workspace.build("//:whole", "//:part")
    (whole,) = workspace.root.glob("modelbuild-out/*/whole/whole.pte")
    facts = manifest(whole)
    assert [
        (each["name"], each["dtype"], each["shape"]) for each in facts["signature"]["methods"]["forward"]["inputs"]
    ] == [("x", "float32", ["n", 16])]
    assert facts["signature"]["methods"]["forward"]["inputs"][0]["dynamic"] == {"n": {"min": 1, "max": 8}}
    assert [(each["name"], each["shape"]) for each in facts["signature"]["methods"]["forward"]["outputs"]] == [
        ("y", ["n", 16])
    ]
    (part,) = facts["parts"]
    needed = {"product": "TensorRT", "version": "8.6.0", "exact": True, "libraries": [EIGHT]}
    assert (part["backend"], part["requires"]) == ("tensorrt_engine", needed)
    data = whole.read_bytes()
    blob = data[data.index(b"TR01") :][: part["bytes"]]
    assert hashlib.sha256(blob).hexdigest() == part["sha256"]
    assert blob.endswith(PLAN)

    (program,) = workspace.root.glob("modelbuild-out/*/part/part.pte")
    backends = [each["backend"] for each in json.loads((program.parent / "delegation.json").read_text())["partitions"]]
    assert sorted(backends) == ["tensorrt_engine", "xnnpack"]

    # Another engine changes the programs; the export and the partition remain.
    (workspace.root / "body.plan").write_bytes(PLAN.replace(b'"bias": 1.0', b'"bias": 2.0'))
    built = workspace.build("//:part")
    ran = sorted(each["mnemonic"] for each in built.json["actions"] if each["status"] == "ran")
    assert ran == ["compile", "emit", "engine"]
    assert workspace.test("//:part_test", code=4)["//:part_test"]["status"] == "failed"

    workspace.edit("BUILD.toml", 'body = ":engine"', 'bodi = ":engine"')
    ended = workspace.build("//:part", code=1)
    assert "engines: the module has no submodule 'bodi'; did you mean 'body'?" in ended.err + ended.out
    workspace.edit("BUILD.toml", 'bodi = ":engine"', 'body = ":engine"')
    workspace.edit("BUILD.toml", '[{ name = "image", shape = ["n", 16]', '[{ name = "image", shape = ["n", 8]')
    ended = workspace.build("//:part", code=1)
    line = "the engine of 'body': input 'x' is float32["
    assert line in ended.err + ended.out
    assert "8]; expected float32[n, 16]" in ended.err + ended.out


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a program with an engine and its declaration, whose facts a test may replace by others of one length."""
    import torch
    from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult

    folder = tmp_path_factory.mktemp("declared")
    facts = {
        "compute_capabilities": ["1.1"],
        "version_compatible": False,
        "host_code": False,
        "inputs": [{"name": "x", "dtype": "float32", "profiles": [{"min": [1, 16], "opt": [8, 16], "max": [8, 16]}]}],
        "outputs": [{"name": "y", "dtype": "float32", "shape": [-1, 16]}],
    }

    class TensorRTBackend(BackendDetails):  # found by the name of its class
        @staticmethod
        def preprocess(program: Any, specs: Any) -> Any:
            write_blob(folder / "blob", Metadata(("x",), ("y",), declared=facts), PLAN)
            return PreprocessResult(processed_bytes=(folder / "blob").read_bytes())

    batch = ({0: torch.export.Dim("batch", min=1, max=8)},)
    return lower(folder / "declared.pte", 1, gelu_partitioner(TensorRTBackend.__name__, {}), shapes=batch)


TRUE_CODE = (b'"host_code":false', b'"host_code":true ')
COMPATIBLE = (b'"version_compatible":false', b'"version_compatible":true ')
HAS_CODE = (b'"host_code": false', b'"host_code": true ')
OUTPUT = b'{"name":"y","dtype":"float32","shape":[-1,16]}'
DIFFERENCES = {
    "dtype": ((b'"x","dtype":"float32"', b'"x","dtype":"float16"'),
              "input 'x' has element type float32; the target declares float16"),
    "min": ((b'"min":[1,16]', b'"min":[2,16]'),
            "input 'x' has min shape [1, 16] in profile 0; the target declares [2, 16]"),
    "opt": ((b'"opt":[8,16]', b'"opt":[4,16]'),
            "input 'x' has opt shape [8, 16] in profile 0; the target declares [4, 16]"),
    "max": ((b'"max":[8,16]', b'"max":[9,16]'),
            "input 'x' has max shape [8, 16] in profile 0; the target declares [9, 16]"),
    "output": ((b'"shape":[-1,16]', b'"shape":[-1,17]'),
               "output 'y' has shape [-1, 16]; the target declares [-1, 17]"),
    "output's dtype": ((b'"y","dtype":"float32"', b'"y","dtype":"float16"'),
                       "output 'y' has element type float32; the target declares float16"),
    "outputs": ((b'"outputs":[' + OUTPUT, b'"outputs":[' + b" " * len(OUTPUT)),
                "the engine has 2 inputs and outputs; the target declares 1"),
    "capability": ((b'["1.1"]', b'["9.0"]'),
                   "cuda:0 has compute capability 1.1; the engine was built for 9.0"),
    "code": (HAS_CODE, "the engine has host code, which is not allowed"),
}  # fmt: skip


def edited(program: Path, folder: Path, *edits: tuple[bytes, bytes]) -> Path:
    data = program.read_bytes()
    for old, new in edits:
        assert data.count(old) == 1
        assert len(old) == len(new)
        data = data.replace(old, new)
    (folder / "edited.pte").write_bytes(data)
    return folder / "edited.pte"


def test_an_engine_as_declared_runs(fake_gpus: Any, declared: Path, x: Path) -> None:
    assert times_3_plus_1(fake_gpus, declared, x) == []


@pytest.mark.parametrize("fact", DIFFERENCES)
def test_an_engine_that_differs_from_its_declaration_is_refused_when_loaded(
    fake_gpus: Any, declared: Path, x: Path, tmp_path: Path, fact: str
) -> None:
    edit, line = DIFFERENCES[fact]
    assert line in error(fake_gpus, edited(declared, tmp_path, edit), x)


def test_code_in_an_engine_is_loaded_only_if_it_is_declared(
    fake_gpus: Any, declared: Path, x: Path, tmp_path: Path
) -> None:
    assert times_3_plus_1(fake_gpus, edited(declared, tmp_path, HAS_CODE, TRUE_CODE, COMPATIBLE), x) == []


@pytest.mark.parametrize("exact", [True, False])
def test_only_a_version_compatible_engine_is_run_by_the_lean_library_and_by_newer_versions(
    fake_gpus: Any, declared: Path, x: Path, tmp_path: Path, exact: bool
) -> None:
    program = declared if exact else edited(declared, tmp_path, COMPATIBLE)
    for library in fake_gpus.plugins.glob("libnvinfer.so.1*"):
        library.unlink()
    (fake_gpus.plugins / "libtensorrt_rtx.so.1").unlink()
    newer = {"FAKE_TENSORRT_VERSION": "8601"}
    lean = fake_gpus.plugins / "libnvinfer_lean.so.8"
    if not exact:
        assert times_3_plus_1(fake_gpus, program, x, **newer) == []
        (fake_gpus.plugins / EIGHT).rename(lean)
        assert times_3_plus_1(fake_gpus, program, x) == []
        return
    line = error(fake_gpus, program, x, **newer)
    assert f"found TensorRT 8.6.1 ({EIGHT}); expected version 8.6.0, since the engine is not version-compatible" in line
    (fake_gpus.plugins / EIGHT).rename(lean)
    assert f"the engine needs TensorRT 8.6.0: found no {EIGHT} beside the runtime" in error(fake_gpus, program, x)
