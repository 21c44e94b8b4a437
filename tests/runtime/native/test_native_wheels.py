"""The wheels of the C++ runtime, installed outside the checkout: bundles, tests and C++ programs need nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import modelbuild
from modelbuild.toolchain.uv import find_uv
from modelbuild_rules.backend_api.steps.elf import machine
from tests.packaging.installation import bare_environment, build, checkout, environment, run
from tests.runtime.native.aarch64 import Runtime

# With the other tests that build the examples' programs: they share a cache.
pytestmark = [pytest.mark.xdist_group("bundles"), pytest.mark.slow]

VERSION = modelbuild.__version__
NATIVE = f"modelbuild_runtime-{VERSION}-py3-none-manylinux_2_35_{{}}.whl"
CROSS = f"modelbuild_runtime_{{}}-{VERSION}-py3-none-any.whl"

TARGETS = """
[[runtime_bundle]]
name = "installed_bundle"
program = ":detector"

[[runtime_bundle]]
name = "archive_bundle"
program = ":detector"
runtime = { archive = "runtime.tar" }

[[pte_test]]
name = "cpp_test"
program = ":classifier_portable"
model = ":classifier_model"
cases = [{ name = "drawn", generator = { seed = 1 } }]
"""

ORIN = '\n[[device_target]]\nname = "orin"\narch = "aarch64"\ncompute_capabilities = ["8.7"]\n'


@dataclass(frozen=True)
class Installation:
    """A virtual environment with this project's wheels, and a workspace outside the checkout."""

    programs: Path
    workspace: Path
    cache: Path

    def modelbuild(self, *arguments: str | Path) -> str:
        return run(self.programs / "modelbuild", *arguments, cwd=self.workspace, MODELBUILD_CACHE_DIR=str(self.cache))

    def output(self, target: str, configuration: str = "*") -> Path:
        (found,) = self.workspace.glob(f"modelbuild-out/{configuration}/models/{target}/{target}")
        return found


@pytest.fixture(scope="module")
def dist(repository: Path, native: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the wheels of modelbuild and of the runtime for this machine."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, repository / "runtime/wheels.py", "--out", folder, cwd=folder)
    return build(checkout(repository, tmp_path_factory.mktemp("checkout")), folder, "--wheel")


@pytest.fixture(scope="module")
def installed(
    repository: Path, dist: Path, native: Path, example_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Installation:
    folder = tmp_path_factory.mktemp("installed")
    wheels = (dist / f"modelbuild-{VERSION}-py3-none-any.whl", dist / NATIVE.format("x86_64"))
    programs = environment(folder / "venv", *wheels)
    workspace = folder / "workspace"
    shutil.copytree(
        repository / "examples",
        workspace,
        ignore=shutil.ignore_patterns("__pycache__", "modelbuild-out"),
        symlinks=True,
    )
    with (workspace / "models/BUILD.toml").open("a") as file:
        file.write(TARGETS)
    with (workspace / "BUILD.toml").open("a") as file:
        file.write(ORIN)
    pack = [sys.executable, repository / "runtime/archive.py", "--build", native, "--out"]
    run(*pack, workspace / "models/runtime.tar", cwd=folder)
    return Installation(programs, workspace, example_cache)


@pytest.fixture(scope="module")
def photo(installed: Installation) -> np.ndarray:
    """Return the photo with a face, as the detector's input."""
    from PIL import Image

    installed.modelbuild("build", "//third_party:astronaut")
    with Image.open(next(installed.workspace.glob("modelbuild-out/*/third_party/astronaut/astronaut.png"))) as picture:
        pixels = np.asarray(picture.convert("RGB"), np.float32)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])


def files(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return the mode and content of each file in a folder."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): (path.stat().st_mode, path.read_bytes()) for path in found}


@pytest.mark.exhaustive
def test_a_bundle_of_the_installed_runtime_finds_the_face_and_equals_that_of_the_archive(
    installed: Installation, photo: np.ndarray, tmp_path: Path
) -> None:
    installed.modelbuild("build", "//models:installed_bundle", "//models:archive_bundle")
    bundle = tmp_path / "moved"
    shutil.copytree(installed.output("installed_bundle"), bundle)
    assert files(bundle) == files(installed.output("archive_bundle"))

    np.save(tmp_path / "image.npy", photo)
    command = [bundle / "run.sh", f"--input=image={tmp_path / 'image.npy'}", f"--output-dir={tmp_path}"]
    done = subprocess.run(command, env={}, cwd="/", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert np.load(tmp_path / "boxes.npy").shape == (1, 4)


def test_a_test_runs_a_program_with_the_installed_runtime(installed: Installation) -> None:
    assert "//models:cpp_test  PASSED" in installed.modelbuild("test", "//models:cpp_test")


OWN = """
[[runtime_bundle]]
name = "classifier_bundle"
program = ":classifier_portable"
"""


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
def test_a_toolchain_uses_the_installed_runtime(dist: Path, repository: Path, tmp_path: Path) -> None:
    """For a bundle, a test and a profile, with nothing else beside modelbuild but its own requirements, and the
    packages of @modelbuild//toolchains:xnnpack. Needs an index, 5 GB of disk, and minutes."""
    wheels = [dist / f"modelbuild-{VERSION}-py3-none-any.whl", dist / NATIVE.format("x86_64")]
    modelbuild = bare_environment(tmp_path / "venv", "", wheels) / "modelbuild"
    workspace = tmp_path / "workspace"
    shutil.copytree(repository / "examples", workspace, ignore=shutil.ignore_patterns("__pycache__", "modelbuild-out"))
    with (workspace / "models/BUILD.toml").open("a") as file:
        file.write(TARGETS + OWN)
    settings = workspace / "MODELBUILD.toml"
    toolchain = '[build]\ntoolchain = "@modelbuild//toolchains:xnnpack"\n'
    settings.write_text(settings.read_text().replace("[build]\n", toolchain))
    np.save(workspace / "image.npy", np.full((1, 3, 64, 64), 9, np.float32))

    def do(*arguments: str) -> str:
        path = os.pathsep.join((str(Path(find_uv()).parent), os.environ["PATH"]))
        return run(modelbuild, *arguments, cwd=workspace, MODELBUILD_CACHE_DIR=str(tmp_path / "cache"), PATH=path)

    do("build", "//models:classifier_bundle")
    (bundle,) = workspace.glob("modelbuild-out/*/models/classifier_bundle/classifier_bundle")
    command = [bundle / "run.sh", f"--input=image={workspace}/image.npy", f"--output-dir={tmp_path}"]
    done = subprocess.run(command, env={}, cwd="/", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert np.load(tmp_path / "probabilities.npy").shape == (1, 10)
    assert "//models:cpp_test  PASSED" in do("test", "//models:cpp_test")
    assert "aten::convolution.out" in do("run", "//models:classifier_portable", "--input=image=image.npy", "--profile")


def test_a_device_of_another_architecture_needs_the_package_for_it(installed: Installation) -> None:
    command = [installed.programs / "modelbuild", "build", "//models:installed_bundle", "--device", "//:orin"]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(installed.cache), "MODELBUILD_CACHE_DIR": str(installed.cache)}
    done = subprocess.run(
        command, cwd=installed.workspace, env=environment, capture_output=True, text=True, check=False
    )
    package = "'modelbuild-runtime-aarch64', which is not installed; install modelbuild[runtime]"
    command = "`make wheels`, then `pip install --find-links dist 'modelbuild[runtime]'`"
    assert done.stderr.splitlines()[-1] == (
        f"error: //models:installed_bundle (//:orin) needs the package {package}; in modelbuild's checkout, {command}"
    )
    assert done.returncode == 36


def test_python_and_the_command_line_use_the_installed_runtime(
    installed: Installation, photo: np.ndarray, tmp_path: Path
) -> None:
    installed.modelbuild("build", "//models:detector")
    program = next(installed.workspace.glob("modelbuild-out/*/models/detector/detector.pte"))
    np.save(tmp_path / "image.npy", photo)
    code = (
        "import sys, numpy, modelbuild_runtime; program = modelbuild_runtime.load(sys.argv[1]); "
        "outputs = program.run({'image': numpy.load(sys.argv[2])}); "
        "print(outputs['boxes'].shape, 'torch' in sys.modules)"
    )
    printed = run(installed.programs / "python", "-c", code, program, tmp_path / "image.npy", cwd=tmp_path)
    assert printed == "(1, 4) False\n"
    assert "image: float32[1, 3, 512, 512]" in run(
        installed.programs / "modelbuild-run", program, "--describe", cwd=tmp_path
    )


def test_a_cmake_project_finds_the_installed_library_and_detects_a_face(
    installed: Installation, repository: Path, photo: np.ndarray, tmp_path: Path
) -> None:
    installed.modelbuild("build", "//models:detector")
    program = next(installed.workspace.glob("modelbuild-out/*/models/detector/detector.pte"))
    shutil.copytree(repository / "runtime/examples/detect", tmp_path / "detect")
    prefix = run(installed.programs / "python", "-m", "modelbuild_runtime_native", cwd=tmp_path).strip()
    assert Path(prefix).is_relative_to(installed.programs.parent)
    cmake = Path(sys.executable).with_name("cmake")
    run(cmake, "-S", "detect", "-B", "build", f"-DCMAKE_PREFIX_PATH={prefix}", cwd=tmp_path)
    run(cmake, "--build", "build", cwd=tmp_path)

    pixels = photo[0].transpose(1, 2, 0).astype(np.uint8)
    (tmp_path / "photo.ppm").write_bytes(b"P6\n512 512\n255\n" + pixels.tobytes())
    printed = run(tmp_path / "build/detect", program, tmp_path / "photo.ppm", cwd=tmp_path)
    np.save(tmp_path / "image.npy", photo)
    given = (f"--input=image={tmp_path / 'image.npy'}", f"--output-dir={tmp_path}")
    run(installed.programs / "modelbuild-run", program, *given, cwd=tmp_path)
    (score,), ((x1, y1, x2, y2),) = np.load(tmp_path / "scores.npy"), np.load(tmp_path / "boxes.npy")
    assert printed == f"{score:.4f} at ({x1:.1f}, {y1:.1f}) to ({x2:.1f}, {y2:.1f})\n"
    assert score > 0.9


def test_the_wheel_contains_the_licences_of_its_parts(dist: Path) -> None:
    with zipfile.ZipFile(dist / NATIVE.format("x86_64")) as archive:
        names = archive.namelist()
        (readme,) = (name for name in names if name.endswith(".dist-info/licenses/licenses/README.md"))
        table = archive.read(readme).decode()
    texts = {name.rpartition("/")[2] for name in names if "/licenses/" in name} - {"README.md", "LICENSE"}
    assert texts
    assert all(f"`{name}`" in table for name in texts)
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    patterns = [pattern for row in rows for pattern in re.findall("`([^`]+)`", row)]
    binaries = [name for name in names if ".so" in name or "/bin/" in name]
    assert len(binaries) > 15
    assert [name for name in binaries if not any(Path(name).match(pattern) for pattern in patterns)] == []


@pytest.mark.exhaustive
def test_the_wheel_for_another_architecture_makes_the_bundle_of_its_archive(
    installed: Installation, aarch64: Runtime, repository: Path, dist: Path, tmp_path: Path
) -> None:
    run(sys.executable, repository / "runtime/wheels.py", "--arch", "aarch64", "--out", tmp_path, cwd=tmp_path)
    wheels = (dist / f"modelbuild-{VERSION}-py3-none-any.whl", dist / NATIVE.format("x86_64"))
    programs = environment(tmp_path / "venv", *wheels, tmp_path / CROSS.format("aarch64"))
    other = Installation(programs, tmp_path / "workspace", installed.cache)
    shutil.copytree(
        installed.workspace, other.workspace, ignore=shutil.ignore_patterns("modelbuild-out"), symlinks=True
    )
    (other.workspace / "models/runtime.tar").unlink()
    (other.workspace / "models/runtime.tar").symlink_to(aarch64.archive)
    targets = ("//models:installed_bundle", "//models:archive_bundle")
    other.modelbuild("build", *targets, "--device", "//:orin")
    bundle = other.output("installed_bundle")
    assert files(bundle) == files(other.output("archive_bundle"))
    assert {machine(path) for path in bundle.rglob("*") if path.is_file()} == {None, "aarch64"}
