"""pte_test with the C++ runtime: programs for the CPU, and for GPUs on a fake CUDA runtime or the real one."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.workspace_builder import Workspace

NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self, plus):
        super().__init__()
        self.plus = plus
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls.add_(1.0)  # each case is to begin with none
        return x * 3 + self.calls * self.plus
"""
READY = """
from modelbuild.api import Attrs, Dep, Files, Source, rule
from modelbuild_rules.providers import DeviceTarget, Program, ProgramMethod

class ReadyProgramAttrs(Attrs):
    pte: Source
    delegation: Source = Source("delegation.json")
    signature: Source = Source("signature.json")
    device: Dep

@rule(attrs=ReadyProgramAttrs)
def ready_program(ctx):
    pte, delegation, signature = map(ctx.file, (ctx.attrs.pte, ctx.attrs.delegation, ctx.attrs.signature))
    methods = {"forward": ProgramMethod()}
    return Program(pte, None, delegation, signature, methods, ctx.device(DeviceTarget)), Files((pte,))
"""
PORTS = {
    "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 16]}],
    "outputs": [{"name": "y", "dtype": "float32", "shape": [2, 16]}],
}
SIGNATURE = {"version": 2, "methods": {"forward": PORTS}}
RTX_NEEDED = {
    "product": "TensorRT-RTX",
    "version": "1.6.1",
    "exact": False,
    "libraries": ["libtensorrt_rtx.so.1"],
}
RTX_DELEGATION = {
    "nodes": [],
    "partitions": [{"id": "p0", "backend": "tensorrt", "about": {"capabilities": [11], "requires": RTX_NEEDED}}],
}
# A fake GPU returns 1 for every attribute, including its compute capability.
COMMON = """
[[device_target]]
name = "fake"
arch = "x86_64"
compute_capabilities = ["1.1"]
[[device_target]]
name = "other"
arch = "x86_64"
compute_capabilities = ["1.2", "1.3"]
[[backend_stack]]
name = "stack"
backends = ["xnnpack", "portable"]
[[pte_program]]
name = "cpu"
model = ":right"
stack = ":stack"
"""
MODEL = """
[[torch_model]]
name = "{name}"
entry = "net.py:Net"
kwargs = {{ plus = {plus} }}
inputs = [{{ name = "x", shape = [2, 16], dtype = "float32", range = [-1, 1] }}]
outputs = ["y"]
"""
PROGRAM = """
[[ready_program]]
name = "{name}"
pte = "{name}.pte"
delegation = "{delegation}.json"
device = ":fake"
"""
TEST = """
[[pte_test]]
name = "{name}_test"
program = ":{program}"
model = ":{model}"
cases = [{{ name = "drawn", generator = {{ seed = 3, count = 2, calls = {calls} }} }}]
{more}
"""
REAL, FAKE = 'runtime = { archive = "runtime.tar" }\n', 'runtime = { archive = "fakes.tar" }\n'
ON_FAKE = f'{FAKE}device = ":fake"\ngpus = 1\n'
LIBRARY = 'libraries = [{ file = "vendor/libtensorrt_rtx.so.1", version = "1.6.1", license = "none" }]'
TESTS = {
    # name: (program, model, more)
    "cpu": ("cpu", "right", f'{REAL}latency = {{ baseline = ":cpu", ratio = 1e6 }}\n'),
    "cpu_calls": ("cpu", "right", REAL),
    "cpu_with_gpu": ("cpu", "right", f"{REAL}gpus = 1\n"),
    "cpu_wrong": ("cpu", "wrong", REAL),
    "cpu_large": ("cpu", "right", f"{REAL}limits = {{ bytes = 10 }}\n"),
    "gpu": ("planned", "right", ON_FAKE),
    "gpu_wrong": ("planned", "wrong", ON_FAKE),
    "gpu_broken": ("broken", "right", ON_FAKE),
    "gpu_none": ("planned", "right", f'{FAKE}device = ":fake"\n'),
    "gpu_other": ("planned", "right", ON_FAKE.replace(":fake", ":other")),
    "gpu_real": ("planned", "right", ON_FAKE.replace(FAKE, REAL)),
    "tensorrt": ("host", "right", ON_FAKE),
    "tensorrt_plain": ("host", "right", ON_FAKE.replace("fakes.tar", "plain.tar")),
    "tensorrt_library": ("headed_rtx", "right", ON_FAKE.replace('fakes.tar"', f'fakes.tar", {LIBRARY}')),
    "tensorrt_no_library": ("headed_rtx", "right", ON_FAKE),
}
NOT_RUN = {
    "gpu_none": "needs a GPU of compute capability 1.1, and the test requests none; expected gpus = 1",
    "gpu_other": "needs a GPU of compute capability 1.2 or 1.3, and GPU 0 here has 1.1",
    "gpu_real": r"needs a GPU of compute capability 1.1, and (there is none here \(.+\)|GPU 0 here has \d+\.\d)",
    "tensorrt_no_library": "the engine needs TensorRT-RTX 1.6.1: found no libtensorrt_rtx.so.1 beside the runtime, .*",
    "tensorrt_plain": "needs TensorRT, of which the runtime has no flavour; `make runtime` .*",
}

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("bundles")]


def pack_fakes(real: Path, out: Path, libraries: list[Path], flavours: bool = True) -> None:
    """Copy a runtime's archive, with libraries replaced or added, and with or without flavours of TensorRT."""
    folder = out.with_suffix("")
    with tarfile.open(real) as archive:
        archive.extractall(folder)
    described = json.loads((folder / "runtime.json").read_text())
    packed = described["backends"]["TensorRTBackend"]["flavours"]
    if not flavours:
        packed.clear()
    for library in libraries:
        shutil.copy(library, folder / "lib")
        described["files"].setdefault(f"lib/{library.name}", {"needs": [], "glibc": "2.0"})
        if "nvinfer" in library.name:
            packed.append(f"lib/{library.name}")
    (folder / "runtime.json").write_text(json.dumps(described))
    with tarfile.open(out, "w") as archive:
        archive.add(folder, "")
    shutil.rmtree(folder)


class PteTests(Workspace):
    def __init__(self, folder: Path) -> None:
        files = {
            "MODELBUILD.toml": 'rules = ["//tools/rules"]\n',
            "tools/rules/__init__.py": "",
            "tools/rules/steps/__init__.py": "",
            "tools/rules/ready.py": READY,
            "net.py": NET,
            "delegation.json": json.dumps({"nodes": [], "partitions": []}),
            "rtx.json": json.dumps(RTX_DELEGATION),
            "signature.json": json.dumps(SIGNATURE),
        }
        tests = [
            TEST.format(name=n, program=p, model=m, more=more, calls=3 if n == "cpu_calls" else 1)
            for n, (p, m, more) in TESTS.items()
        ]
        models = [MODEL.format(name=name, plus=plus) for name, plus in (("right", 1.0), ("wrong", 2.0))]
        programs = [PROGRAM.format(name=name, delegation="delegation") for name in ("planned", "broken", "host")]
        programs.append(PROGRAM.format(name="headed_rtx", delegation="rtx"))
        super().__init__(folder, {**files, "BUILD.toml": "".join([COMMON, *models, *programs, *tests])})

    def test(self, *arguments: str, code: int = 0, **environment: str) -> dict[str, Any]:
        """Run tests; return the report of each, by name."""
        tests = super().test(*arguments, "--keep-going", "--jobs=1", code=code, **environment)
        return {label.removeprefix("//:").removesuffix("_test"): test for label, test in tests.items()}


@pytest.fixture
def workspace(
    repository: Path, native: Path, cuda_programs: dict[str, Path], trt_programs: dict[str, Path], tmp_path: Path
) -> PteTests:
    made = PteTests(tmp_path)
    programs = cuda_programs["planned"], cuda_programs["broken"], trt_programs["host"], trt_programs["headed_rtx"]
    for path in programs:
        shutil.copy(path, made.root)
    (made.root / "vendor").mkdir()
    shutil.copy(native / "fakes/libtensorrt_rtx.so.1", made.root / "vendor")
    pack = [sys.executable, repository / "runtime/archive.py", "--build", native, "--out", made.root / "runtime.tar"]
    subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)
    cudart, tensorrt = native / "fakes/libcudart.so.13", native / "fakes/libnvinfer.so.10"
    pack_fakes(made.root / "runtime.tar", made.root / "plain.tar", [cudart], flavours=False)
    pack_fakes(made.root / "runtime.tar", made.root / "fakes.tar", [cudart, tensorrt])
    return made


def test_programs_are_run_by_the_cpp_runtime_or_said_not_to_be(workspace: PteTests) -> None:
    tests = workspace.test("//...", code=4)
    assert tests.keys() == TESTS.keys()
    passed = {name for name, test in tests.items() if test["status"] == "passed"}
    assert passed == {"cpu", "cpu_calls", "cpu_with_gpu", "gpu", "tensorrt", "tensorrt_library"}, [
        test["reason"] for test in tests.values()
    ]
    for name in passed:
        assert [case["name"] for case in tests[name]["cases"]][:2] == ["drawn[0]", "drawn[1]"]
        assert tests[name]["measures"]["latency_ms"] > 0
        assert tests[name]["measures"].keys() >= {"bytes", "delegates"}
    assert tests["cpu"]["measures"]["baseline_ms"] > 0

    said = {name: test["reason"] for name, test in tests.items() if test["status"] == "not_run"}
    assert said.keys() == NOT_RUN.keys()
    for name, pattern in NOT_RUN.items():
        assert re.fullmatch(pattern, said[name]), said[name]
        assert {case["status"] for case in tests[name]["cases"]} == {"not_run"}

    for name in ("cpu_wrong", "gpu_wrong"):
        messages = [case["message"] for case in tests[name]["cases"] if case["status"] == "failed"]
        assert len(messages) == 2
        assert all(message.startswith("output 'y': 32 of 32 values differ, most at ") for message in messages)
    broken = tests["gpu_broken"]["cases"]
    assert len(broken) == 2
    assert all(case["message"].startswith("modelbuild-run failed: ") for case in broken)

    # Passed tests are cached, others run again; --require-all fails tests that were not run.
    tests = workspace.test("//:gpu_test", "//:gpu_other_test", code=36)
    assert (tests["gpu"]["cached"], tests["gpu_other"]["cached"]) == (True, False)
    tests = workspace.test("//:gpu_test", "//:gpu_other_test", "--require-all", code=4)
    assert (tests["gpu"]["status"], tests["gpu_other"]["status"]) == ("passed", "failed")

    tests = workspace.test("//:cpu_large_test", "--bisect", code=4)
    found = tests["cpu_large"]["cases"][-1]["message"]
    assert found == "parity holds in every case"
