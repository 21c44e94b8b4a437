"""Build the wheels of the C++ runtime: `python runtime/wheels.py --arch x86_64 --arch aarch64`.

For each architecture whose runtime is built (build.py), the script writes

modelbuild_runtime-VERSION-py3-none-manylinux_2_35_ARCH.whl   for machines of this architecture
modelbuild_runtime_ARCH-VERSION-py3-none-any.whl              the same files, for machines of others that build bundles

and once modelbuild_runtime-VERSION-py3-none-any.whl, the Python packages without binaries, for any other machine.
auditwheel checks the tags.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from archive import lay_out
from build import default_out, fetch_sdk
from toolchain import ARCHITECTURES, BuildError
from wheel_hook import PLATFORM, PURE

HERE = Path(__file__).resolve().parent

# A licence of a file in the wheel, by its name there: the distribution, and the end of the licence's path in it.
SDK_LICENSES = {
    "executorch": ("executorch", "licenses/LICENSE"),
    "cuda-runtime": ("nvidia_cuda_runtime", "licenses/License.txt"),
}
LICENSES = {
    "torch": ("torch", "licenses/LICENSE"),
    "torch-tensorrt": ("torch-tensorrt-rtx", "licenses/LICENSE"),
    "pocketfft": ("numpy", "pocketfft/LICENSE.md"),
    "nlohmann-json": ("nlohmann-json", "licenses/LICENSE"),
    "zig": ("ziglang", "licenses/ziglang/LICENSE"),
    **{
        name: ("torch", f"third_party/{name}/LICENSE")
        for name in ("XNNPACK", "pthreadpool", "cpuinfo", "FP16", "FXdiv", "flatbuffers")
    },
}

CROSS = """\
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "modelbuild-runtime-{name}"
version = "{version}"
description = "The C++ runtime of modelbuild for {arch}, for machines of other architectures that build bundles"
readme = {{ text = "For `modelbuild[runtime]`.", content-type = "text/markdown" }}
license = {license}
license-files = ["LICENSE", "licenses/*"]
requires-python = ">=3.11"

[tool.hatch.build.targets.wheel]
packages = ["modelbuild_runtime_{arch}"]
"""


def wheels(arch: str, build: Path, out: Path) -> list[Path]:
    """Write both wheels for an architecture whose runtime is built; return their paths."""
    with tempfile.TemporaryDirectory() as work:
        native, cross = Path(work, "native"), Path(work, "cross")
        for project in (native, cross):
            _copy_licenses(fetch_sdk(build.parent / "sdk", arch), project)
        files = native / "native"
        lay_out(build, files, arch)
        for folder in ("include", "share"):
            shutil.copytree(build / folder, files / folder)
        for name in ("python", "pyproject.toml", "wheel_hook.py", "README.md"):
            _copy(HERE / name, native / name)

        module = cross / f"modelbuild_runtime_{arch}"
        shutil.copytree(files, module)
        (module / "__init__.py").write_text(f'"""The C++ runtime for {arch}, beside this module."""\n')
        project = metadata_of(native / "pyproject.toml")
        (cross / "pyproject.toml").write_text(CROSS.format(name=arch.replace("_", "-"), arch=arch, **project))
        return [wheel(native, out), wheel(cross, out)]


def metadata_of(project: Path) -> Mapping[str, str]:
    """Return the version of modelbuild-runtime, and its licence as TOML."""
    import tomllib

    version = (HERE / "python/modelbuild_runtime/__init__.py").read_text().partition('__version__ = "')[2]
    license = tomllib.loads(project.read_text())["project"]["license"]
    return {"version": version.partition('"')[0], "license": json.dumps(license)}


def wheel(project: Path, out: Path, pure: bool = False) -> Path:
    """Build the wheel of a project into a folder; return its path. `pure`: without binaries."""
    with tempfile.TemporaryDirectory() as work:
        command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", work, str(project)]
        environment = {**os.environ, PURE: "1" if pure else ""}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if done.returncode:
            raise BuildError(f"{project.name}: no wheel was built:\n{done.stdout}{done.stderr}")
        (made,) = Path(work).glob("*.whl")
        out.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(made, out))


def audit(path: Path) -> None:
    """Raise BuildError if auditwheel finds that a wheel's files need a newer platform than its name promises."""
    command = [sys.executable, "-m", "auditwheel", "show", "--json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"auditwheel cannot read {path.name}:\n{done.stdout}{done.stderr}")
    found = json.loads(done.stdout)["overall_tag"]
    if f"-{found}." not in path.name:
        raise BuildError(f"{path.name}: auditwheel finds {found}; expected {PLATFORM}")


def _copy_licenses(sdk: Path, project: Path) -> None:
    licenses = project / "licenses"
    shutil.copytree(HERE / "licenses", licenses)
    shutil.copy(HERE / "LICENSE", project)
    for name, source in {**dict(_sdk_licenses(sdk)), **dict(_installed_licenses())}.items():
        shutil.copy(source, licenses / f"{name}.txt")


def _sdk_licenses(sdk: Path) -> Iterator[tuple[str, Path]]:
    for name, (distribution, path) in SDK_LICENSES.items():
        (folder,) = sdk.glob(f"{distribution}-*.dist-info")
        yield name, folder / path


def _installed_licenses() -> Iterator[tuple[str, Path]]:
    for name, (distribution, path) in LICENSES.items():
        found = [each for each in metadata.files(distribution) or () if each.as_posix().endswith(f"/{path}")]
        if not found:
            raise BuildError(f"the licence {path} of {distribution} is missing; expected it among its installed files")
        yield name, Path(str(min(found, key=str).locate()))


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--arch", action="append", choices=ARCHITECTURES, help="may be repeated; the machine's if absent"
    )
    parser.add_argument("--out", type=Path, default=HERE.parent / "dist")
    options = parser.parse_args(arguments)
    try:
        made = [wheel(HERE, options.out, pure=True)]
        for arch in options.arch or [platform.machine()]:
            native, cross = wheels(arch, default_out(arch), options.out)
            audit(native)
            made += [native, cross]
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(*made, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
