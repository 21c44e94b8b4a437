"""Pack a built runtime: `python runtime/archive.py --build build/runtime --out build/runtime.tar`.

`--arch` packs the build for another architecture: build/runtime-aarch64 to build/runtime-aarch64.tar.

The archive, an input of the rule `runtime_bundle`, contains bin/, lib/, and runtime.json with each file's requirements:

{"version": 2, "arch": "x86_64", "versions": {"executorch": "1.5.1", ...}, "driver": "580", "cudart": "lib/...",
 "backends": {"XnnpackBackend": {"files": ["lib/..."]}},
 "kernel_libraries": {"modelbuild_kernels": {"files": ["lib/..."], "operators": ["torchvision::nms.out"]}},
 "kernels": "lib/...", "quantized_kernels": "lib/...", "files": {"lib/...": {"needs": ["lib/..."], "glibc": "2.34"}}}

The backends are those of the files <backend>.delegate.json in the build's lib/, the kernel libraries those of
<name>.kernels.json. A backend with `flavours` has a library for each flavour: the entry lists the available ones, and
the message to report if there is none.
"""

from __future__ import annotations

import argparse
import io
import json
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path

from elftools.elf.elffile import ELFFile

from build import CUDART as CUDART_OF_SDK
from build import default_out, fetch_sdk
from libstdcxx import NAME, link, missing
from older_symbols import lower
from toolchain import ARCHITECTURES, BuildError, Toolchain, toolchain

_GLIBC = re.compile(r"GLIBC_[0-9.]+\Z")

DESCRIPTION = "runtime.json"
PROGRAM = "bin/modelbuild-run"
GCC = "lib/gcc"  # the folder of the compiler's libraries
DELEGATE = ".delegate.json"
KERNEL_LIBRARY = ".kernels.json"
KERNELS = "lib/libexecutorch_kernels_optimized.so"
QUANTIZED_KERNELS = "lib/libexecutorch_kernels_quantized.so"
SHIMS = "libaoti_cuda_shims.so"
CUDART = "lib/libcudart.so.13"

# The oldest driver for Linux that a CUDA 13 runtime works with.
DRIVER = "580"

# Libraries that every Linux with the required glibc has. libstdc++ and libgcc_s are in the archive instead.
OF_GCC = frozenset({"libstdc++.so.6", "libgcc_s.so.1"})
SYSTEM = frozenset({"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libmvec.so.1"})
LOADERS = frozenset({"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"})


def pack(build: Path, out: Path, arch: str) -> None:
    """Write the archive. Its bytes depend on the files' names and contents alone."""
    with tempfile.TemporaryDirectory() as work:
        root = Path(work)
        files = lay_out(build, root, arch)
        out.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(out, "w", format=tarfile.USTAR_FORMAT) as archive:
            for name in (DESCRIPTION, *files):
                _add(archive, name, (root / name).read_bytes(), 0o755 if _is_native(root / name) else 0o644)


def lay_out(build: Path, root: Path, arch: str, own_libstdcxx: bool = True) -> list[str]:
    """Write the runtime's files and runtime.json into a folder; return the files' paths in it, sorted. Without a
    libstdc++ of its own, which needs GCC and binutils, the runtime uses the machine's."""
    if not (build / PROGRAM).exists():
        raise BuildError(f"{build}: there is no C++ runtime; expected 'make runtime' first")
    for folder in ("bin", "lib"):
        (root / folder).mkdir(parents=True)
    shutil.copy(build / PROGRAM, root / PROGRAM)
    for pattern in ("*.so*", f"*{DELEGATE}", f"*{KERNEL_LIBRARY}"):
        for library in (build / "lib").glob(pattern):
            shutil.copy(library, root / "lib")
    shutil.copy(fetch_sdk(build.parent / "sdk", arch) / CUDART_OF_SDK, root / "lib")
    if own_libstdcxx:
        _add_libstdcxx(root, toolchain(arch))
    files = {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*")) if path.is_file()}
    system = SYSTEM if own_libstdcxx else SYSTEM | OF_GCC
    (root / DESCRIPTION).write_text(json.dumps(describe(files, arch, system), indent=1, sort_keys=True) + "\n")
    return list(files)


def _add_libstdcxx(root: Path, tools: Toolchain) -> None:
    """Add the libraries of GCC that the SDK's libraries need, and strip all libraries."""
    (root / GCC).mkdir()
    if (root / "lib" / SHIMS).exists():
        lower(root / "lib" / SHIMS)
    link(tools, root / GCC)
    libgcc = tools.file("libgcc_s.so.1")
    if libgcc is None:
        raise BuildError(f"{tools.compiler} has no libgcc_s.so.1; expected GCC, or a compiler that uses its libgcc")
    shutil.copy(libgcc, root / GCC / "libgcc_s.so.1")
    native = [path for path in sorted(root.rglob("*")) if path.is_file() and _is_native(path)]
    if lacking := missing(tools, root / GCC / NAME, native):
        raise BuildError(f"{NAME} lacks {', '.join(lacking)}, which the archive's files need")
    for path in native:
        subprocess.run([tools.tool("strip"), "--strip-unneeded", path], check=True)
        path.chmod(0o755)


def describe(files: Mapping[str, Path], arch: str, system: frozenset[str]) -> dict[str, object]:
    """Return runtime.json. Raises BuildError if a file needs a library that neither the archive nor the system has."""
    told = {}
    libraries = {path.name: name for name, path in files.items()}
    for name, path in files.items():
        needed, glibc = _needs(path) if _is_native(path) else ([], "2.0")
        unknown = [each for each in needed if each not in system | LOADERS and each not in libraries]
        if unknown:
            raise BuildError(f"{name} needs {', '.join(unknown)}, which the archive does not have")
        told[name] = {"needs": [libraries[each] for each in needed if each in libraries], "glibc": glibc}
    locked = re.findall(r"^([a-z-]+)==(\S+)", (Path(__file__).parent / "sdk.lock").read_text(), re.MULTILINE)
    return {
        "version": 2,
        "arch": arch,
        "versions": {**dict(locked), "modelbuild": _version()},
        "driver": DRIVER,
        "cudart": CUDART,
        "backends": dict(backend_entry(path, files) for name, path in files.items() if name.endswith(DELEGATE)),
        "kernel_libraries": dict(
            kernel_library_entry(path, files) for name, path in files.items() if name.endswith(KERNEL_LIBRARY)
        ),
        "kernels": KERNELS,
        "quantized_kernels": QUANTIZED_KERNELS,
        "files": told,
    }


def backend_entry(path: Path, files: Mapping[str, Path]) -> tuple[str, dict[str, object]]:
    """Return a backend's name and its entry. Raises BuildError if the archive has none of its libraries."""
    name, described = path.name.removesuffix(DELEGATE), json.loads(path.read_text())
    found: dict[str, object] = {"files": [f"lib/{path.name}", _library(f"backend {name}", described, files)]}
    if "flavours" in described:
        flavours = [each for each in files if fnmatch(each, f"lib/{described['flavours']}")]
        found |= {"flavours": flavours, "no_flavour": described["no_flavour"]}
    return name, found


def kernel_library_entry(path: Path, files: Mapping[str, Path]) -> tuple[str, dict[str, object]]:
    """Return a kernel library's name and its entry. Raises BuildError if the archive has none of its libraries."""
    name, described = path.name.removesuffix(KERNEL_LIBRARY), json.loads(path.read_text())
    library = _library(f"kernel library {name}", described, files)
    return name, {"files": [f"lib/{path.name}", library], "operators": described["operators"]}


def _library(what: str, described: Mapping[str, Sequence[str]], files: Mapping[str, Path]) -> str:
    """Return the first of a description's libraries that the archive has."""
    for each in described["libraries"]:
        if f"lib/{each}" in files:
            return f"lib/{each}"
    raise BuildError(f"the {what} needs {described['libraries'][-1]}, which the archive does not have")


def _is_native(path: Path) -> bool:
    return path.suffix != ".json"


def _version() -> str:
    """Return modelbuild's version, which the runtime's equals."""
    text = (Path(__file__).parent / "python/modelbuild_runtime/__init__.py").read_text()
    return text.partition('__version__ = "')[2].partition('"')[0]


def _needs(path: Path) -> tuple[list[str], str]:
    """Return the libraries that a program or library needs, and the oldest glibc with the symbols that it uses."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        dynamic, needs = elf.get_section_by_name(".dynamic"), elf.get_section_by_name(".gnu.version_r")
        libraries = [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")] if dynamic is not None else []
        names = [one.name for _, used in needs.iter_versions() for one in used] if needs is not None else []
    versions = [tuple(map(int, name.removeprefix("GLIBC_").split("."))) for name in names if _GLIBC.match(name)]
    return libraries, ".".join(map(str, max(versions, default=(2, 0))))


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--arch", choices=ARCHITECTURES, default=platform.machine())
    parser.add_argument("--build", type=Path, help="by default build/runtime, or build/runtime-ARCH")
    parser.add_argument("--out", type=Path, help="by default the build's folder with .tar")
    options = parser.parse_args(arguments)
    build = (options.build or default_out(options.arch)).resolve()
    out = options.out or build.with_name(f"{build.name}.tar")
    try:
        pack(build, out, options.arch)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
