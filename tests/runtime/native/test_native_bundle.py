"""runtime_bundle: the examples' programs run from the bundle alone, with the results of the installed runtime."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import modelbuild_runtime
from modelbuild.step import Step, StepError
from modelbuild.trust.signatures import SigningKey, sign, signature_path
from modelbuild_rules.backend_api.steps.elf import machine
from modelbuild_rules.bundle.steps import runtime_bundle
from modelbuild_rules.bundle.steps.runtime.archive import calls_of, lay_out
from modelbuild_runtime.files.manifest import read_manifest
from tests.format_shapes import check_format
from tests.runtime.native.aarch64 import SYSROOT, Runtime
from tests.trust.keys import write_key
from tests.workspace_builder import Workspace

BUNDLES = """
[[runtime_bundle]]
name = "{name}_bundle"
program = ":{name}"
runtime = {{ archive = "runtime.tar" }}
files = ["labels.txt", ":{name}"]
tar = {tar}
"""

FOR_AARCH64 = """
[[device_target]]
name = "orin"
arch = "aarch64"
compute_capabilities = ["8.7"]

[[runtime_bundle]]
name = "orin_bundle"
program = ":detector"
device = ":orin"
runtime = { archive = "runtime-aarch64.tar" }
"""

pytestmark = pytest.mark.xdist_group("bundles")


class Bundles(Workspace):
    """A copy of examples/ with bundles of some programs."""

    def __init__(
        self, repository: Path, native: Path, folder: Path, programs: Mapping[str, bool], cache: Path | None = None
    ) -> None:
        super().__init__(folder, cache=cache)
        self.copy_in(repository / "examples")
        pack = [sys.executable, repository / "runtime/archive.py", "--build", native, "--out"]
        subprocess.run([*pack, self.root / "models/runtime.tar"], check=True, stdout=subprocess.DEVNULL)
        (self.root / "models/labels.txt").write_text("face\n")
        for name, tar in programs.items():
            self.add("models/BUILD.toml", BUNDLES.format(name=name, tar=str(tar).lower()))

    def output(self, target: str, name: str) -> Path:
        return next(self.root.glob(f"modelbuild-out/*/models/{target}/{name}"))


def check_python_uses_the_runtime_of(bundle: Path) -> None:
    """A second bundle uses that of the first: a process can have only one."""
    code = (
        "import pathlib, sys, modelbuild_runtime; [modelbuild_runtime.load(each) for each in sys.argv[1:]];"
        "maps = pathlib.Path('/proc/self/maps').read_text();"
        "print(*sorted({line.split()[-1] for line in maps.splitlines() if 'libmodelbuild_runtime' in line}))"
    )
    with tempfile.TemporaryDirectory() as folder:
        other = shutil.copytree(bundle, Path(folder) / "other")
        command = [sys.executable, "-c", code, bundle, other]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"{bundle.resolve()}/lib/libmodelbuild_runtime.so\n"


def check_bundle(folder: Path, program: Path, image: Path) -> dict[str, Any]:
    """The outputs equal the installed runtime's, with an empty environment; the manifest is correct and complete."""
    out = folder.parent / "outputs"
    command = [folder / "run.sh", f"--input=image={image}", f"--output-dir={out}", "--json"]
    done = subprocess.run(command, env={}, cwd="/", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    expected = modelbuild_runtime.load(program).run({"image": np.load(image)})
    assert [port["name"] for port in json.loads(done.stdout)["outputs"]] == list(expected)
    check_python_uses_the_runtime_of(folder)
    for name, array in expected.items():
        np.testing.assert_allclose(np.load(out / f"{name}.npy"), array, rtol=1e-4, atol=1e-3)

    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    files = {
        p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file() and p.name != "manifest.json"
    }
    facts = {
        name: {"bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        for name, path in files.items()
    }
    assert manifest["files"] == facts
    assert f"program/{program.name}" in files
    assert files["files/models/labels.txt"].read_text() == "face\n"
    assert files[f"files/models/{program.stem}/{program.name}"].read_bytes() == program.read_bytes()
    assert re.fullmatch(r"2\.\d+", manifest["needs"]["glibc"])
    assert manifest["needs"]["machine"] == "x86_64"
    assert manifest["versions"]["executorch"] == "1.5.1"
    return manifest


def check_signed(folder: Path, image: Path) -> None:
    """A signed bundle runs, and is refused after a file of it changed that no run needs."""
    key = write_key(folder.parent / "keys", "release")
    signature_path(folder).write_bytes(sign(folder, SigningKey(key)))
    command = [folder / "run.sh", f"--input=image={image}", f"--verify={key.with_suffix('.pub')}"]
    done = subprocess.run(command, env={}, cwd="/", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    with (folder / "manifest.json").open("a") as file:
        file.write(" ")
    done = subprocess.run(command, env={}, cwd="/", capture_output=True, text=True, check=False)
    problem = "was changed after it was signed: manifest.json differs"
    assert (done.returncode, done.stderr) == (1, f"error: {folder}: {problem}\n")


def needed_glibc(folder: Path, pte: Path, runtime: Path, *compiled: str) -> str:
    """Return the manifest's description of a program with parts that need versions of glibc."""
    parts = [{"id": "p0", "backend": "xnnpack"}, *({"backend": "cuda", "about": {"glibc": each}} for each in compiled)]
    (folder / "bundle").mkdir(parents=True)
    (folder / "delegation.json").write_text(json.dumps({"partitions": parts}))
    files = {"pte": pte, "signature": pte.with_name("signature.json"), "runtime": runtime}
    inputs = {name: (path,) for name, path in files.items()} | {"delegation": (folder / "delegation.json",)}
    params = {
        "name": "bundle",
        "programs": ["program"],
        "tar": False,
        "arch": "x86_64",
        "capabilities": None,
        "place": "",
        "libraries": [],
        "library_places": [],
    }
    runtime_bundle.run(Step(params, inputs, {"bundle": folder / "bundle"}, folder))
    return str(json.loads((folder / "bundle/manifest.json").read_text())["needs"]["glibc"])


def loaded_from_elsewhere(folder: Path, image: Path) -> set[str]:
    """Return the libraries that a run opens outside the bundle."""
    done = subprocess.run(
        [folder / "run.sh", f"--input=image={image}"],
        env={"LD_DEBUG": "files"}, cwd="/", capture_output=True, text=True, check=True,
    )  # fmt: skip
    opened = {Path(path).resolve() for path in re.findall(r"calling init: (\S+)", done.stderr)}
    assert folder / "lib/libmodelbuild_runtime.so" in opened
    return {path.name for path in opened if folder not in path.parents}


def test_the_classifiers_bundles(repository: Path, native: Path, example_cache: Path, tmp_path: Path) -> None:
    bundles = {"classifier_xnnpack": False, "classifier_portable": True}
    workspace = Bundles(repository, native, tmp_path, bundles, example_cache)
    programs = ("//models:classifier_xnnpack", "//models:classifier_portable")
    workspace.build(*programs, *(f"{program}_bundle" for program in programs))
    image = tmp_path / "image.npy"
    np.save(image, np.random.default_rng(5).uniform(0, 255, (1, 3, 64, 64)).astype(np.float32))

    # Moved, so that the program cannot find the workspace's files by accident.
    xnnpack = tmp_path / "moved/xnnpack"
    shutil.copytree(workspace.output("classifier_xnnpack_bundle", "classifier_xnnpack_bundle"), xnnpack)
    manifest = check_bundle(xnnpack, workspace.output("classifier_xnnpack", "*.pte"), image)
    assert manifest["backends"] == ["XnnpackBackend"]
    check_format("bundle", manifest, maps=("files", "programs", "versions"))
    signature = json.loads(workspace.output("classifier_xnnpack", "signature.json").read_text())
    check_format("signature", signature, maps=("methods",))
    delegation = json.loads(workspace.output("classifier_xnnpack", "delegation.json").read_text())
    check_format("delegation", delegation, maps=("totals",))
    sealed = read_manifest(memoryview(workspace.output("classifier_xnnpack", "*.pte").read_bytes()), verify=True)
    assert sealed.pop("signature") == signature
    check_format("pte-manifest", sealed, maps=("versions",))
    with tarfile.open(workspace.root / "models/runtime.tar") as archive:
        runtime_file = archive.extractfile("runtime.json")
        assert runtime_file is not None
        check_format("runtime", json.load(runtime_file), ("backends", "kernel_libraries", "files", "versions"))
    assert manifest["needs"]["nvidia_driver"] is None
    check_signed(xnnpack, image)
    system = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libmvec.so.1"}
    assert loaded_from_elsewhere(xnnpack, image) <= system | {"ld-linux-x86-64.so.2"}

    packed = workspace.output("classifier_portable_bundle", "classifier_portable_bundle.tar.gz")
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path / "unpacked")
    portable = tmp_path / "unpacked/classifier_portable_bundle"
    manifest = check_bundle(portable, workspace.output("classifier_portable", "*.pte"), image)
    assert manifest["backends"] == []
    assert sorted(path.name for path in (portable / "lib").iterdir()) == [
        "gcc",
        "libexecutorch.so",
        "libexecutorch_kernels_optimized.so",
        "libexecutorch_threadpool.so",
        "libmodelbuild_runtime.so",
    ]
    assert {path.name for path in (portable / "lib/gcc").iterdir()} == {"libgcc_s.so.1", "libstdc++.so.6"}

    pte, runtime = workspace.output("classifier_portable", "*.pte"), workspace.root / "models/runtime.tar"
    (tmp_path / "foreign").mkdir()
    with pytest.raises(StepError, match="bin/modelbuild-run of the runtime is for x86_64; expected aarch64"):
        lay_out(runtime, calls_of(pte), tmp_path / "foreign", "aarch64")
    assert needed_glibc(tmp_path / "newer", pte, runtime, "2.18", "2.99") == "2.99"
    assert needed_glibc(tmp_path / "older", pte, runtime, "2.2") == manifest["needs"]["glibc"]

    # The same bytes again, from an empty cache.
    first = hashlib.sha256(packed.read_bytes()).hexdigest()
    again = Bundles(repository, native, tmp_path / "again", {"classifier_portable": True})
    again.build("//models:classifier_portable_bundle")
    second = again.output("classifier_portable_bundle", "classifier_portable_bundle.tar.gz")
    assert hashlib.sha256(second.read_bytes()).hexdigest() == first

    (workspace.root / "models/runtime.tar").write_bytes(packed.read_bytes())
    ended = workspace.build("//models:classifier_xnnpack_bundle", code=1)
    assert "expected the archive of this version's `make runtime`" in ended.err + ended.out


@pytest.fixture(scope="module")
def detectors(
    repository: Path, native: Path, example_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Bundles, Path]:
    """Return a workspace with the detector's program and its bundle for this machine, and the picture as .npy."""
    from PIL import Image

    folder = tmp_path_factory.mktemp("detectors")
    workspace = Bundles(repository, native, folder, {"detector": False}, example_cache)
    workspace.build("//models:detector", "//models:detector_bundle", "//third_party:astronaut")
    with Image.open(next(workspace.root.glob("modelbuild-out/*/third_party/astronaut/astronaut.png"))) as photo:
        pixels = np.asarray(photo.convert("RGB"), np.float32)
    np.save(folder / "image.npy", np.ascontiguousarray(pixels.transpose(2, 0, 1)[None]))
    return workspace, folder / "image.npy"


@pytest.mark.slow
def test_the_detectors_bundle(detectors: tuple[Bundles, Path]) -> None:
    workspace, image = detectors
    bundle = workspace.output("detector_bundle", "detector_bundle")
    manifest = check_bundle(bundle, workspace.output("detector", "detector.pte"), image)
    assert np.load(bundle.parent / "outputs/boxes.npy").shape == (1, 4)
    assert sum(file["bytes"] for file in manifest["files"].values()) < 60_000_000


@pytest.mark.exhaustive
@pytest.mark.slow
def test_the_detectors_bundle_for_aarch64_finds_the_same_boxes_in_an_empty_root(
    detectors: tuple[Bundles, Path], aarch64: Runtime, tmp_path: Path
) -> None:
    workspace, image = detectors
    models = workspace.root / "models"
    (models / "runtime-aarch64.tar").symlink_to(aarch64.archive)
    workspace.add("models/BUILD.toml", FOR_AARCH64)
    workspace.build("//models:orin_bundle")
    bundle = workspace.output("orin_bundle", "orin_bundle")
    assert {machine(path) for path in bundle.rglob("*") if path.is_file()} == {None, "aarch64"}
    manifest = json.loads((bundle / "manifest.json").read_text())
    needs = {name: manifest["needs"][name] for name in ("machine", "glibc", "nvidia_driver", "missing")}
    assert needs == {"machine": "aarch64", "glibc": "2.35", "nvidia_driver": None, "missing": None}

    # The root has the C library for aarch64, the bundle, the emulator's own libraries, and the kernel's folders.
    if shutil.which("bwrap") is None:
        pytest.skip("not run: needs bubblewrap, which .ci/run installs")
    for name in ("ld-linux-aarch64.so.1", "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"):
        (tmp_path / "root/lib").mkdir(parents=True, exist_ok=True)
        shutil.copy(SYSROOT / "lib" / name, tmp_path / "root/lib")
    emulator = shutil.which("qemu-aarch64") or ""
    shown = [*("--ro-bind", tmp_path / "root", "/aarch64"), *("--ro-bind", emulator, "/qemu")]
    for folder in ("/lib64", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu"):
        shown += ["--ro-bind-try", folder, folder]
    shown += [
        "--ro-bind",
        "/sys",
        "/sys",
        "--ro-bind",
        bundle,
        "/bundle",
        "--ro-bind",
        image,
        "/image.npy",
        "--bind",
        tmp_path,
        "/out",
    ]
    place = ["bwrap", "--die-with-parent", "--unshare-pid", "--clearenv", *shown, "--dev", "/dev", "--proc", "/proc"]
    command = ["/qemu", "-L", "/aarch64", "/bundle/bin/modelbuild-run", "/bundle/program/detector.pte"]
    done = subprocess.run(
        [*map(str, place), *command, "--input=image=/image.npy", "--output-dir=/out"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    expected = modelbuild_runtime.load(workspace.output("detector", "detector.pte")).run({"image": np.load(image)})
    assert expected["boxes"].shape == (1, 4)
    for name, array in expected.items():
        np.testing.assert_allclose(np.load(tmp_path / f"{name}.npy"), array, rtol=1e-4, atol=1e-3)

    (models / "runtime-aarch64.tar").unlink()
    (models / "runtime-aarch64.tar").symlink_to("runtime.tar")
    ended = workspace.build("//models:orin_bundle", code=1)
    lines = (models / "BUILD.toml").read_text().splitlines()
    line = lines.index('runtime = { archive = "runtime-aarch64.tar" }') + 1
    problem = (
        f"models/BUILD.toml:{line}:13: bin/modelbuild-run of the runtime is for x86_64; expected aarch64: `make runtime"
        " ARCH=aarch64` builds that"
    )
    assert problem in ended.err + ended.out
