"""A bundle of several programs: each runs by its name, all in one process, and equal weights are in one file once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import modelbuild_runtime
from modelbuild.trust.signatures import SigningKey, sign, signature_path
from modelbuild_runtime.errors import ProgramError
from tests.trust.keys import write_key
from tests.workspace_builder import Workspace

pytestmark = pytest.mark.xdist_group("bundles")

NETS = """
import torch
from torch import nn


class Net(nn.Module):
    '''A backbone and a head, with an operator between them that XNNPACK does not take.'''

    def __init__(self, classes):
        super().__init__()
        torch.manual_seed(1)
        self.backbone = nn.Linear(64, 64)
        self.head = nn.Linear(64, classes)

    def forward(self, x):
        return self.head(torch.erf(self.backbone(x)))
"""

BUILD = """
[[matrix]]
name = "heads"
classes = [2, 3]

[[torch_model]]
name = "net_{classes}"
matrix = "heads"
entry = "nets.py:Net"
kwargs = { classes = "{classes}" }
inputs = [{ name = "x", shape = [1, 64], dtype = "float32" }]
outputs = ["y"]

[[backend_stack]]
name = "stack"
backends = ["xnnpack", "portable"]

[[pte_program]]
name = "program_{classes}"
matrix = "heads"
model = ":net_{classes}"
stack = ":stack"
external_weights = true

[[runtime_bundle]]
name = "bundle"
program = { two = ":program_2", three = ":program_3" }
runtime = { archive = "runtime.tar" }

[[device_target]]
name = "pc"
arch = "x86_64"
runners = [":here"]

[[device_runner]]
name = "here"
connection = { type = "local" }
"""

BACKBONE = 4 * 64 * 64


@pytest.fixture(scope="module")
def made(repository: Path, native: Path, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    workspace = Workspace(tmp_path_factory.mktemp("several"))
    workspace.write({"MODELBUILD.toml": "", "nets.py": NETS, "BUILD.toml": BUILD})
    pack = [sys.executable, repository / "runtime/archive.py", "--build", native, "--out"]
    subprocess.run([*pack, workspace.root / "runtime.tar"], check=True, stdout=subprocess.DEVNULL)
    workspace.build("//:bundle", "//:program_2", "//:program_3", "--jobs=2")
    return workspace


@pytest.fixture(scope="module")
def bundle(made: Workspace) -> Path:
    (found,) = made.root.glob("modelbuild-out/*/bundle/bundle")
    return found


@pytest.fixture(scope="module")
def x(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("x") / "x.npy"
    np.save(path, np.random.default_rng(1).standard_normal((1, 64)).astype(np.float32))
    return path


def run(bundle: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [bundle / "run.sh", *arguments]
    return subprocess.run(command, env={}, cwd="/", capture_output=True, text=True, check=False)


def test_weights_are_in_one_file_once(made: Workspace, bundle: Path) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert manifest["programs"] == {
        name: {"file": f"program/{name}.pte", "data": "program/weights.ptd", "backends": ["XnnpackBackend"]}
        for name in ("three", "two")
    }
    assert sorted(path.name for path in (bundle / "program").iterdir()) == [
        *("three.pte", "three.signature.json", "two.pte", "two.signature.json", "weights.ptd"),
    ]
    own = [path.stat().st_size for path in made.root.glob("modelbuild-out/*/program_*/*.ptd")]
    assert len(own) == 2
    assert (bundle / "program/weights.ptd").stat().st_size < sum(own) - BACKBONE + 1000


def test_each_program_runs_by_its_name(made: Workspace, bundle: Path, x: Path, tmp_path: Path) -> None:
    for name, count in (("two", 2), ("three", 3)):
        done = run(bundle, name, f"--input=x={x}", f"--output-dir={tmp_path / name}", "--json")
        assert (done.returncode, done.stderr) == (0, "")
        (pte,) = made.root.glob(f"modelbuild-out/*/program_{count}/*.pte")
        expected = modelbuild_runtime.load(pte).run({"x": np.load(x)})
        np.testing.assert_allclose(np.load(tmp_path / name / "y.npy"), expected["y"], rtol=1e-4, atol=1e-5)
    done = run(bundle, "--input", f"x={x}")
    assert (done.returncode, done.stderr) == (2, "error: expected a program first: three, two\n")


def test_a_program_runs_on_a_device_by_its_name(made: Workspace, x: Path) -> None:
    command = ("run", "//:bundle", "--on=//:pc", f"--input=x={x}", "--repeat=1")
    ended = made.run(*command, "--program=three")
    assert (ended.code, "output y: float32[1, 3]" in ended.out) == (0, True), ended.err
    for arguments, problem in {
        (): "//:bundle has several programs; expected --program with one of: three, two",
        ("--program=tow",): "no program 'tow'; programs: three, two; did you mean 'two'?",
    }.items():
        ended = made.run(*command, *arguments)
        assert (ended.code, ended.err.splitlines()[-1]) == (2, f"error: {problem}")


def test_programs_run_in_one_process(bundle: Path, x: Path) -> None:
    programs = {name: modelbuild_runtime.load(bundle / name) for name in ("two", "three")}
    for _ in range(2):
        shapes = {name: program.run({"x": np.load(x)})["y"].shape for name, program in programs.items()}
        assert shapes == {"two": (1, 2), "three": (1, 3)}


def test_a_bundle_without_the_name_of_a_program_is_one_line(bundle: Path) -> None:
    problem = f"{bundle}/program: has 2 programs; expected one of: {bundle}/three, {bundle}/two"
    done = subprocess.run(
        [bundle / "bin/modelbuild-run", bundle, "--describe"], env={}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, f"error: {problem}\n")
    with pytest.raises(ProgramError) as raised:
        modelbuild_runtime.load(bundle)
    assert str(raised.value) == problem
    assert run(bundle, "four", "--describe").returncode == 2


def test_a_signed_bundle_runs_each_program_until_a_file_changes(bundle: Path, x: Path, tmp_path: Path) -> None:
    copied = tmp_path / "bundle"
    subprocess.run(["cp", "-r", bundle, copied], check=True)
    key = write_key(tmp_path / "keys", "release")
    signature_path(copied).write_bytes(sign(copied, SigningKey(key)))
    arguments = ("two", f"--input=x={x}", f"--verify={key.with_suffix('.pub')}")
    done = run(copied, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    other = copied / "program/three.pte"
    other.chmod(0o644)
    other.write_bytes(other.read_bytes() + b"\0")
    done = run(copied, *arguments)
    problem = "was changed after it was signed: program/three.pte differs"
    assert (done.returncode, done.stderr) == (1, f"error: {copied}: {problem}\n")
