"""Backends as plug-ins: the one of docs/how-to/custom-backend.md, and whose source is in whose key."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import modelbuild
from modelbuild.analysis.rules import load_rules
from modelbuild.code.distributions import Distributions
from modelbuild.code.step_sources import StepCode
from modelbuild.code.tools import Tools
from modelbuild_rules.backend_api.backend import Backend
from modelbuild_runtime.files.manifest import read_manifest

PARTITION, EMIT = "modelbuild_rules.program.steps.partition", "modelbuild_rules.program.steps.emit"
OPERATORS, KERNELS = "modelbuild_rules.kernels.steps.operators", "modelbuild_rules.kernels.steps.compile"
CPP_RUNTIME = "modelbuild_rules.backend_api.steps.cpp_runtime"
EXPORT = "modelbuild_rules.model.steps.export"
CALIBRATE, CONVERT = (f"modelbuild_rules.quantization.steps.{name}" for name in ("calibrate", "convert"))
SOURCES = (".py", ".cpp", ".hpp", ".h")

MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = torch.nn.Linear(8, 8), torch.nn.Linear(8, 4)
        for number, parameter in enumerate(self.parameters()):
            torch.nn.init.constant_(parameter, number / 8)

    def forward(self, x):
        return torch.softmax(self.two(torch.relu(self.one(x))).cumsum(-1), -1)
"""
BUILD = """
[[torch_model]]
name = "model"
entry = "net.py:Net"
inputs = [{ name = "x", shape = [2, 8], dtype = "float32" }]

[[pte_program]]
name = "program"
model = ":model"
stack = ":phone"
"""
# As executorch's users do it.
UPSTREAM = """
import json, sys
from pathlib import Path
import torch
from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from modelbuild_rules.program.steps.linking.manifest import KEY, seal, unsealed
from net import Net
program = torch.export.export(Net().eval(), (torch.zeros(2, 8),))
config = EdgeCompileConfig(_check_ir_validity=False)
partitioner = [VulkanPartitioner({"force_fp16": False})]
edge = to_edge_transform_and_lower(program, partitioner=partitioner, compile_config=config)
edge._named_data_store.add_named_data(KEY, unsealed(json.loads(sys.argv[2])))
Path(sys.argv[1]).write_bytes(edge.to_executorch().buffer)
seal(Path(sys.argv[1]))
"""


def documented(repository: Path) -> Mapping[str, str]:
    """Write the files of docs/how-to/custom-backend.md, and the stack."""
    text = (repository / "docs/how-to/custom-backend.md").read_text()
    files = dict(re.findall(r"`(tools/rules/[\w./]+)`[^`]*?(?:`[^`]+`[^`]*?)*?```python\n(.*?)```", text, flags=re.S))
    (stack,) = re.findall(r"```toml\n(\[\[backend_stack.*?)```", text, flags=re.S)
    return {**files, "tools/rules/steps/__init__.py": "", "BUILD.toml": BUILD + stack, "net.py": MODEL}


@pytest.fixture(scope="module")
def workspace(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("phone")
    for name, text in {**documented(repository), "MODELBUILD.toml": 'rules = ["//tools/rules"]\n'}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_the_documented_backend_takes_about_60_lines(repository: Path) -> None:
    files = [text for name, text in documented(repository).items() if name.startswith("tools")]
    lines = [line for text in files for line in text.splitlines()]
    assert 30 < len(lines) < 75


@pytest.mark.exhaustive
def test_its_program_is_what_executorch_s_own_lowering_writes_with_a_manifest(workspace: Path, tmp_path: Path) -> None:
    environment = {"MODELBUILD_CACHE_DIR": str(tmp_path / "cache"), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "modelbuild", "-C", str(workspace), "build", "//:program"]
    subprocess.run(command, env=environment, check=True)
    mine = (workspace / "modelbuild-out/default/program/program.pte").read_bytes()
    theirs = tmp_path / "theirs.pte"
    manifest = read_manifest(memoryview(mine), verify=True)
    assert manifest is not None
    assert [part["backend"] for part in manifest["parts"]] == ["vulkan", "vulkan"]
    subprocess.run([sys.executable, "-c", UPSTREAM, str(theirs), json.dumps(manifest)], cwd=workspace, check=True)
    assert b"VulkanBackend" in mine
    assert mine == theirs.read_bytes()


def closures() -> Mapping[str, frozenset[str]]:
    """Return the modules in the key of each step, with each backend alone in the stack."""
    rules = load_rules(Path(), ())
    code = StepCode({"modelbuild": Path(modelbuild.__file__).parent, **rules.packages})
    steps = {
        "export": (EXPORT,),
        "partition": (PARTITION,),
        "emit": (EMIT,),
        "operators": (OPERATORS,),
        "compile kernels": (KERNELS,),
        "cpp_runtime": (CPP_RUNTIME,),
        "calibrate": (CALIBRATE,),
        "convert": (CONVERT,),
    }
    for name, quantizer in rules.extensions["quantizer"].items():
        for step, module in (("calibrate", CALIBRATE), ("convert", CONVERT)):
            steps[f"{step} {name}"] = (module, quantizer.quantizing)  # type: ignore[attr-defined]
    for name, backend in rules.extensions["backend"].items():
        if getattr(backend, "partitioning", ""):
            steps[f"partition {name}"] = (PARTITION, backend.partitioning)  # type: ignore[attr-defined]
            steps[f"compile {name}"] = (backend.compiling,)  # type: ignore[attr-defined]
        if getattr(backend, "storing", ""):
            steps[f"store {name}"] = (backend.storing,)  # type: ignore[attr-defined]
    return {step: frozenset(name for name, _ in code.closure(*modules)) for step, modules in steps.items()}


@pytest.mark.parametrize(
    ("step", "backends"),
    [
        ("export", set()),
        ("partition", set()),
        ("emit", set()),
        ("operators", set()),
        ("compile kernels", set()),
        ("cpp_runtime", set()),
        ("calibrate", set()),
        ("convert", set()),
        ("calibrate xnnpack", {"xnnpack"}),
        ("convert xnnpack", {"xnnpack"}),
        ("partition xnnpack", {"xnnpack"}),
        ("compile xnnpack", {"xnnpack"}),
        ("store xnnpack", {"xnnpack"}),
        ("partition tensorrt", {"tensorrt"}),
        ("compile tensorrt", {"tensorrt"}),
        ("partition cuda", {"cuda"}),
        ("store cuda", {"cuda"}),
        ("compile cuda", {"cuda"}),
    ],
)
def test_a_key_covers_the_modules_of_the_stack_s_backends_and_of_no_other(step: str, backends: set[str]) -> None:
    prefix = "modelbuild_rules.backends."
    found = {name.removeprefix(prefix).partition(".")[0] for name in closures()[step] if name.startswith(prefix)}
    assert found == backends


@pytest.mark.parametrize("name", ["xnnpack", "tensorrt", "cuda"])
def test_compiling_is_not_in_the_key_of_partitioning(name: str) -> None:
    steps = closures()
    assert f"modelbuild_rules.backends.{name}.steps.compile" not in steps[f"partition {name}"]
    assert f"modelbuild_rules.backends.{name}.steps.partitioning" not in steps[f"compile {name}"]


def test_quantizing_and_lowering_are_not_in_each_other_s_keys() -> None:
    steps = closures()
    quantizing = "modelbuild_rules.backends.xnnpack.steps.quantizing"
    assert quantizing in steps["calibrate xnnpack"] & steps["convert xnnpack"]
    assert quantizing not in steps["partition xnnpack"] | steps["compile xnnpack"]
    assert CONVERT not in steps["calibrate xnnpack"]
    assert not any(".program.steps." in name for name in steps["calibrate xnnpack"] | steps["convert xnnpack"])


def test_compiling_kernels_needs_no_step_that_imports_torch() -> None:
    steps = closures()
    assert "modelbuild_rules.operators.steps.custom" in steps["operators"] & steps["partition"] & steps["export"]
    assert "modelbuild_rules.operators.steps.custom" not in steps["compile kernels"]
    assert steps["cpp_runtime"] < steps["compile kernels"] | {CPP_RUNTIME}


@pytest.mark.parametrize("folder", ["modelbuild", "rules/modelbuild_rules"])
def test_nothing_outside_a_backend_s_folder_imports_it(repository: Path, folder: str) -> None:
    own = repository / "rules/modelbuild_rules/backends"
    naming = re.compile(r"modelbuild_rules\.backends\.")
    outside = [file for file in (repository / folder).rglob("*.py") if not file.is_relative_to(own)]
    assert outside
    assert [str(file) for file in outside if naming.search(file.read_text())] == []


@pytest.mark.parametrize("bare", [True, False], ids=["nothing else is installed", "all else is installed"])
@pytest.mark.parametrize(
    ("name", "attributes", "missing", "extra"),
    [
        ("xnnpack", {}, "torch", "models"),
        ("tensorrt", {"flavour": "rtx"}, "tensorrt_rtx_cu13_libs", "tensorrt-rtx"),
        ("tensorrt", {"flavour": "rtx"}, "torch-tensorrt-rtx", "tensorrt-rtx"),
        ("tensorrt", {"flavour": "standard"}, "torch-tensorrt", "tensorrt"),
        ("cuda", {}, "triton", "cuda"),
        ("cuda", {}, "nvidia-cuda-crt", "cuda"),
    ],
)
def test_each_backend_s_tools_come_with_an_extra_of_modelbuild(
    monkeypatch: pytest.MonkeyPatch, name: str, attributes: Mapping[str, str], missing: str, extra: str, bare: bool
) -> None:
    backend = load_rules(Path(), ()).extensions["backend"][name]
    assert isinstance(backend, Backend)
    tools = backend.compile_tools(attributes)
    assert missing in tools
    find = Distributions.find
    if bare:
        monkeypatch.setattr(Distributions, "find", lambda self, n: find(self, n) if n == "modelbuild" else None)
    lacking = Tools(Path(), ("modelbuild_rules",)).not_installed(tools if bare else (missing,), tools, "//m:net")
    assert f", which is not installed; install modelbuild[{extra}], or name a toolchain" in str(lacking)


# Words with other meanings, which may occur anywhere.
GENERIC = {
    "cuda": "the device and its run time, which programs, bundles and tests know without the backend",
    "portable": "ExecuTorch's own kernels, which need no delegate",
}
# Files outside that name a backend in code, with reasons.
EXCEPTIONS = {
    "runtime/python/modelbuild_runtime/files/pte.py": "a .pte does not say that a delegate that gets host memory is on"
    " a GPU; actions run this, and could not read the runtime's files about delegates",
    "rules/modelbuild_rules/starter/files.py": "a new workspace has a stack for the machine that it is written on",
    **dict.fromkeys(
        (
            "runtime/src/pte/pte_check.cpp",
            "runtime/src/pte/xnnpack_check.cpp",
            "runtime/src/pte/xnnpack_check.hpp",
            "runtime/src/pte/xnnpack_nodes.cpp",
            "runtime/src/pte/xnnpack_nodes.hpp",
            "runtime/src/pte/xnnpack_schema.hpp",
        ),
        "ExecuTorch's compiled delegate trusts its blobs, which are checked with the rest of a program",
    ),
}


def is_example(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "EXAMPLE"


def words(file: Path) -> list[str]:
    """Return the identifiers and strings of a source file's code, without comments, docstrings and help's EXAMPLEs."""
    text = file.read_text()
    if file.suffix != ".py":
        return [re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)]
    tree = ast.parse(text)
    bodies = [node.body for node in ast.walk(tree) if hasattr(node, "body") and isinstance(node.body, list)]
    prose = {id(each.value) for body in bodies for each in body if isinstance(each, ast.Expr) or is_example(each)}
    found = []
    for node in ast.walk(tree):
        if id(node) not in prose:
            found += [value for _, value in ast.iter_fields(node) if isinstance(value, str)]
    return found


def test_no_code_outside_a_backend_s_folder_says_its_name(repository: Path) -> None:
    own, backends = repository / "rules/modelbuild_rules/backends", load_rules(Path(), ()).extensions["backend"]
    delegates = {file.name.removesuffix(".delegate.json") for file in (repository / "runtime").rglob("*.delegate.json")}
    assert delegates == {"CudaBackend", "TensorRTBackend", "XnnpackBackend"}
    assert {each.delegate for each in backends.values() if each.delegate} <= delegates
    names = re.compile("|".join(sorted({*backends, *delegates} - set(GENERIC))), re.IGNORECASE)
    folders = ("modelbuild", "rules", "runtime/src", "runtime/run", "runtime/include", "runtime/python")
    files = [file for each in folders for file in (repository / each).rglob("*") if file.suffix in SOURCES]
    inside = [file for file in files if file.is_relative_to(own) and file.parent != own]
    saying = {file for file in files if any(map(names.search, words(file)))}
    assert {file.relative_to(own).parts[0] for file in saying & set(inside)} == {"cuda", "tensorrt", "xnnpack"}
    outside = {file.relative_to(repository).as_posix() for file in saying - set(inside)}
    assert outside == set(EXCEPTIONS)


@pytest.fixture
def broken(workspace: Path, tmp_path: Path) -> Callable[[Callable[[Path], object]], tuple[int, str]]:
    """Return a function that changes a copy of the workspace's steps, and returns how a build of the copy ends: its
    exit code, and its error, which must be without a traceback."""

    def build(change: Callable[[Path], object]) -> tuple[int, str]:
        root = tmp_path / "copy"
        shutil.copytree(workspace, root, ignore=shutil.ignore_patterns("modelbuild-out"))
        change(root / "tools/rules/steps")
        command = [sys.executable, "-m", "modelbuild", "-C", str(root), "build", "//:program", "--quiet"]
        environment = {"MODELBUILD_CACHE_DIR": str(tmp_path / "cache"), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert "Traceback" not in done.stderr
        return done.returncode, done.stderr

    return build


Broken = Callable[[Callable[[Path], object]], tuple[int, str]]


def test_a_missing_partitioning_module_is_an_error_at_the_target(broken: Broken) -> None:
    code, error = broken(lambda steps: (steps / "vulkan.py").unlink())
    assert code == 3
    assert "no step 'vulkan': there is no tools/rules/steps/vulkan.py" in error


def test_a_missing_compile_step_is_an_error(broken: Broken) -> None:
    code, error = broken(lambda steps: (steps / "compile_vulkan.py").rename(steps / "compile_vulkn.py"))
    assert code == 1
    assert "no step 'compile_vulkan': there is no tools/rules/steps/compile_vulkan.py; did you mean" in error


def test_a_module_without_a_partitioning_is_an_error(broken: Broken) -> None:
    code, error = broken(lambda steps: append(steps / "vulkan.py", "del PARTITIONING\n"))
    assert code == 1
    assert "tools_rules.steps.vulkan has no PARTITIONING; expected an instance of a subclass of Partitioning" in error


def test_a_partitioning_of_another_type_is_an_error(broken: Broken) -> None:
    code, error = broken(lambda steps: append(steps / "vulkan.py", "PARTITIONING = VulkanPartitioning\n"))
    assert code == 1
    assert "PARTITIONING of tools_rules.steps.vulkan is a type; expected an instance of a subclass of Part" in error


def test_a_compiler_that_returns_bytes_is_an_error(broken: Broken) -> None:
    def change(steps: Path) -> None:
        file = steps / "compile_vulkan.py"
        file.write_text(file.read_text().replace("def run(step", "def run_wrong(step"))
        append(file, "def run(step):\n    compile_partition(step, lambda program, specs, attributes: b'')\n")

    code, error = broken(change)
    assert code == 1
    assert "the compiler returned bytes; expected a Compiled of modelbuild_rules.backend_api.steps.compiled" in error


def append(file: Path, text: str) -> None:
    file.write_text(file.read_text() + text)
