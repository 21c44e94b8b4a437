"""Build the C++ runtime: `python runtime/build.py --out build/runtime`. Prints the folder that contains bin/ and lib/.

The script fetches the SDK that sdk.lock pins (with pip and its configuration), then configures and compiles. Everything
else comes from this Python's environment: the compiler (ziglang), cmake, ninja, nlohmann-json and the headers of the
CUDA runtime. `--arch` builds for another architecture than the machine's.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from importlib import metadata
from pathlib import Path

from toolchain import ARCHITECTURES, BuildError, zig_options

HERE = Path(__file__).resolve().parent

# In the SDK's folder.
CUDART = "nvidia/cu13/lib/libcudart.so.13"

# The same wheels for every Python version, since the files used from them contain no Python.
PYTHON = ("--python-version=3.11", "--implementation=cp", "--abi=cp311")


def build(
    out: Path,
    sanitize: str = "",
    tests: bool = False,
    tensorrt: Path | None = None,
    targets: Sequence[str] = (),
    arch: str = "",
    commands_only: bool = False,
) -> Path:
    """Build all or some targets in a folder, incrementally, and return its install folder. Other builds wait.

    `arch` is the architecture to build for; by default the machine's. With sanitizers, which Zig lacks, the machine's
    own compiler compiles. `commands_only`: write only compile_commands.json, of each file with that compiler.
    """
    arch = arch or platform.machine()
    zig = folder_of("ziglang", "zig") / "zig"
    out.mkdir(parents=True, exist_ok=True)
    with _locked(out / ".lock"):
        sdk = fetch_sdk(out.parent / "sdk", arch)
        options = {
            **({} if sanitize or commands_only else zig_options(zig, arch)),
            "CMAKE_BUILD_TYPE": "Release",
            "CMAKE_MAKE_PROGRAM": _program("ninja"),
            "executorch_DIR": sdk / "executorch/share/cmake",
            "AOTI_SHIMS_DIR": sdk / "torch_tensorrt_executorch_runtime",
            "NLOHMANN_JSON_INCLUDE": folder_of("nlohmann-json", "nlohmann/json.hpp"),
            "ZIG": zig,
            "CUDART_ROOT": folder_of("nvidia-cuda-runtime", "include/cuda_runtime_api.h"),
            "CUDART_LIBRARY": sdk / CUDART,
            "MODELBUILD_SANITIZE": sanitize,
            "MODELBUILD_TESTS": "ON" if tests else "OFF",
            "MODELBUILD_UNITY": "OFF" if commands_only else "ON",
            "TensorRT_ROOT": tensorrt or "",
        }
        flags = [f"-D{name}={value}" for name, value in options.items()]
        caches = {f"ZIG_{which}_CACHE_DIR": str(out.parent / "zig") for which in ("GLOBAL", "LOCAL")}
        environment = {**os.environ, **caches}
        configure = (_program("cmake"), "-G", "Ninja", "-S", HERE, "-B", out, *flags)
        _run(*configure, log=out / "configure.log", environment=environment)
        if commands_only:
            return out
        what = [f"--target={target}" for target in targets]
        jobs = os.environ.get("JOBS", "2")
        compile = (_program("cmake"), "--build", out, "--parallel", jobs, *what)
        _run(*compile, log=out / "build.log", environment=environment)
    return out


def fetch_sdk(folder: Path, arch: str) -> Path:
    """Return the folder of sdk.lock's unpacked wheels for an architecture, fetched once per content of that file."""
    lock = HERE / "sdk.lock"
    target = folder / f"{arch}-{sha256(lock.read_bytes()).hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / ".lock"):
        if target.is_dir():
            return target
        # Beside the target, in a new folder: this one may contain other files.
        with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as work:
            wheels, unpacked = Path(work, "wheels"), Path(work, "unpacked")
            pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet")
            exact = ("--no-deps", "--only-binary=:all:", "--require-hashes", *PYTHON)
            platforms = [f"--platform={each}_{arch}" for each in ("manylinux_2_28", "manylinux2014")]
            # Where pip builds a wheel, PYTHONPATH names a folder without pip.
            environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
            wanted = (f"--requirement={lock}", f"--dest={wheels}")
            _run(*pip, *exact, *platforms, *wanted, log=folder / "download.log", environment=environment)
            for wheel in sorted(wheels.glob("*.whl")):
                with zipfile.ZipFile(wheel) as archive:
                    archive.extractall(unpacked)
            unpacked.rename(target)
    return target


def default_out(arch: str) -> Path:
    """Return the folder of an architecture's build in this checkout."""
    return HERE.parent / ("build/runtime" if arch == platform.machine() else f"build/runtime-{arch}")


def folder_of(distribution: str, header: str) -> Path:
    """Return the folder of a header, or of a program, in a distribution."""
    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError:
        raise _not_installed(distribution) from None
    found = next((file for file in files if file.as_posix().endswith("/" + header)), None)
    if found is None:
        raise BuildError(f"{distribution} has no {header}")
    return Path(str(Path(found.locate()).resolve()).removesuffix("/" + header))


def _program(name: str) -> str:
    """Return the path of a program in this Python's environment, or else on the machine's PATH."""
    own = Path(sys.executable).parent / name
    found = str(own) if own.exists() else shutil.which(name)
    if found is None:
        raise _not_installed(name)
    return found


def _not_installed(name: str) -> BuildError:
    return BuildError(f"{name} is not installed; pip install 'modelbuild[runtime-build]' brings it")


def _run(*command: str | Path, log: Path, environment: Mapping[str, str] | None = None) -> None:
    with log.open("w") as file:
        line = [*map(str, command)]
        done = subprocess.run(line, env=environment, stdout=file, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-40:])
        raise BuildError(f"{Path(str(command[0])).name} failed ({log}):\n{tail}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--arch", choices=ARCHITECTURES, default=platform.machine())
    parser.add_argument("--out", type=Path, help="by default build/runtime, or build/runtime-ARCH for another machine")
    parser.add_argument("--sanitize", default="", help="address,undefined or thread")
    parser.add_argument("--tests", action="store_true", help="also build targets that only tests use")
    parser.add_argument("--commands-only", action="store_true", help="only write compile_commands.json, for clang-tidy")
    parser.add_argument("--tensorrt", type=Path, help="folder with TensorRT's headers")
    options = parser.parse_args(arguments)
    try:
        out = (options.out or default_out(options.arch)).resolve()
        made = build(
            out,
            options.sanitize,
            options.tests,
            options.tensorrt,
            arch=options.arch,
            commands_only=options.commands_only,
        )
        print(made)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
