"""The examples, built, tested and run with the torch of a lock, which is not the one beside modelbuild."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from importlib.metadata import version
from pathlib import Path

import pytest

import modelbuild_rules
from modelbuild.toolchain.uv import find_uv
from tests.packaging.installation import add_compiled, bare_environment
from tests.packaging.test_lock import pins
from tests.rules.backends.cuda.fat_binaries import fat_binaries
from tests.wheels import TOOLCHAIN
from tests.workspace_builder import Workspace

pytestmark = pytest.mark.xdist_group("distribution")

CUDA = Path(modelbuild_rules.__file__).parent / "toolchains"
LOCK = Path(__file__).with_name("torch_2_15.lock")

# Tests of private names, and of CUDA kernels on the emulator. They run with the toolchain's packages, and with those of
# this environment that the toolchain lacks.
TESTS = (
    "rules/test_private_names.py",
    "rules/backend_api/test_executorch_private.py",
    "rules/backends/xnnpack/test_xnnpack_private.py",
    "rules/backends/cuda/test_cuda_target_gpu.py",
    "rules/backends/cuda/test_cuda_assembler.py",
    "rules/backends/cuda/test_cuda_emulated.py::test_results_are_those_of_eager_mode",
    "rules/backends/cuda/test_cuda_emulated.py::test_results_of_more_programs[cell]",
    "rules/backends/cuda/test_cuda_emulated.py::test_results_of_more_programs[sort]",
)
RUN = "import sys; sys.path.append(sys.argv[1]); import pytest; sys.exit(pytest.main(sys.argv[2:]))"


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_the_lock_has_the_listed_versions_and_packages_for_cuda(python: str) -> None:
    text = LOCK.read_text()
    assert "://" not in text
    listed = re.findall(r"^([a-z0-9-]+)==([^ \n]+)", LOCK.with_suffix(".in").read_text(), re.MULTILINE)
    found = pins(text, python)
    assert dict(listed).items() <= found.items()
    assert found.keys() == pins((CUDA / "cuda.lock").read_text(), python).keys()


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_the_examples_with_the_torch_of_a_lock(repository: Path, dist: Path, tmp_path: Path) -> None:
    """With nothing beside modelbuild but its own requirements and its runtime. Needs an index, 14 GB of disk, and
    minutes. Another pin reruns what can import it: safetensors, the exports, but no compilation."""
    locked = pins(LOCK.read_text(), f"{sys.version_info[0]}.{sys.version_info[1]}")
    assert locked["torch"] != version("torch")
    workspace = Workspace(tmp_path / "work")
    workspace.copy_in(repository / "examples")
    workspace.add("BUILD.toml", TOOLCHAIN)
    workspace.edit("MODELBUILD.toml", "[build]\n", '[build]\ntoolchain = "//:tools"\n')
    workspace.write({"tools.lock": LOCK.read_text()})
    programs = bare_environment(tmp_path / "venv", "", sorted(dist.glob("*.whl")))
    add_compiled(programs, repository)
    workspace.program = [str(programs / "modelbuild")]
    path = os.pathsep.join((str(Path(find_uv()).parent), os.environ["PATH"]))
    cache = os.environ.get("UV_CACHE_DIR", str(tmp_path / "uv"))
    environment = {"PATH": path, "PYTHONPATH": "", "UV_CACHE_DIR": cache}

    built = ("//models:detector", "//models:classifier_cuda", "//models:detector_cuda")
    workspace.build(*built, **environment)
    (described,) = workspace.run("aquery", "//models:detector_model", "--output=json", **environment).json["nodes"]
    assert described["tools"]["torch"].startswith(f"{locked['torch']} ")
    tested = workspace.test("//models:detector_test", "//models:classifier_xnnpack_test", **environment)
    assert [each["status"] for each in tested.values()] == ["passed"] * 2
    run = workspace.run("run", "//models:detector", "--input", "image=//third_party:astronaut", **environment)
    assert run.code == 0, run.err
    assert "output scores: float32[1]" in run.out  # it finds the face

    for name in ("classifier_cuda", "detector_cuda"):
        program = workspace.root / f"modelbuild-out/rtx/models/{name}/{name}.pte"
        images = fat_binaries(program.read_bytes(), tmp_path)
        assert images
        assert {(*sorted(sass), *sorted(ptx)) for sass, ptx in images} == {("sm_86", "sm_89", "sm_86")}

    (python,) = workspace.cache.glob("toolchains/*/bin/python")
    _run_tests(python, repository, tmp_path)

    pin = re.search(r"^safetensors==.*?\n(?=\S)", LOCK.read_text(), re.MULTILINE | re.DOTALL)
    assert pin is not None
    workspace.edit("tools.lock", pin[0], _pin("safetensors==0.5.3"))
    ran = workspace.ran(*built, **environment)
    assert ran >= {"//models:detector_model#export", "//models:classifier_model#export"}
    assert not [name for name in ran if "#compile" in name or name == "//models:detector#partition"]


def _run_tests(python: Path, repository: Path, folder: Path) -> None:
    tests = [str(repository / "tests" / each) for each in TESTS]
    options = ("-q", "-p", "no:cacheprovider", f"--basetemp={folder}/tests")
    roots = (repository, repository / "rules", repository / "runtime/python")
    places = {"PYTHONPATH": os.pathsep.join(map(str, roots)), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [python, "-c", RUN, sysconfig.get_path("purelib"), *options, *tests],
        env={**os.environ, **places},
        cwd=repository,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert re.search(r"^\d+ passed", done.stdout, re.MULTILINE)


def _pin(requirement: str) -> str:
    command = [find_uv(), "pip", "compile", "--quiet", "--no-deps", "--no-header", "--generate-hashes", "-"]
    return subprocess.run(command, input=requirement, capture_output=True, text=True, check=True).stdout
