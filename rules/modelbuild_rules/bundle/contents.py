"""The libraries in a bundle, for its SBOM: versions are those of its manifest, licences those of runtime/licenses."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from modelbuild.api import Artifact, Component, Contents

if TYPE_CHECKING:
    from modelbuild_rules.bundle.documents import BundleManifest


class _Part(NamedTuple):
    """A project with files in bundles: a pattern of their paths, and the name of its version in the manifest; '' for a
    part of another project's file, whose version that project pins."""

    name: str
    license: str
    pattern: str
    version: str = ""
    purl: str = ""


_XNNPACK = "lib/libexecutorch_backend_xnnpack.so"
_KERNELS = "lib/libexecutorch_kernels_*.so"
_THREADS = "lib/libexecutorch_threadpool.so"
_PARTS = (
    _Part("modelbuild-runtime", "Apache-2.0", "bin/modelbuild-run", "modelbuild", "pkg:pypi/modelbuild-runtime"),
    _Part("modelbuild-runtime", "Apache-2.0", "lib/libmodelbuild_*.so", "modelbuild", "pkg:pypi/modelbuild-runtime"),
    _Part("JSON for Modern C++", "MIT", "lib/libmodelbuild_runtime.so"),
    _Part("executorch", "BSD-3-Clause", "lib/libexecutorch*.so", "executorch", "pkg:pypi/executorch"),
    _Part("FlatBuffers", "Apache-2.0", "lib/libexecutorch.so"),
    _Part("XNNPACK", "BSD-3-Clause", _XNNPACK),
    _Part("pthreadpool", "BSD-2-Clause", _THREADS),
    _Part("cpuinfo", "BSD-2-Clause", _THREADS),
    _Part("FP16", "MIT", _XNNPACK),
    _Part("FXdiv", "MIT", _XNNPACK),
    _Part("PyTorch", "BSD-3-Clause", _KERNELS),
    _Part("Eigen", "MPL-2.0", _KERNELS),
    _Part("pocketfft", "BSD-3-Clause", _KERNELS),
    *(
        _Part(
            "torch-tensorrt-executorch-runtime",
            "BSD-3-Clause",
            pattern,
            "torch-tensorrt-executorch-runtime",
            "pkg:pypi/torch-tensorrt-executorch-runtime",
        )
        for pattern in ("lib/libaoti_cuda_shims.so", "lib/libextension_cuda.so")
    ),
    _Part(
        "nvidia-cuda-runtime",
        "LicenseRef-NVIDIA-CUDA-EULA",
        "lib/libcudart.so.*",
        "nvidia-cuda-runtime",
        "pkg:pypi/nvidia-cuda-runtime",
    ),
    _Part("GCC runtime libraries", "GPL-3.0-or-later WITH GCC-exception-3.1", "lib/gcc/*"),
)


def bundle_contents(bundle: Artifact) -> Contents:
    """Return the contents of a bundle: a folder, or a .tar.gz of one."""
    return Contents((bundle,), _components)


def _components(bundle: Mapping[str, Path]) -> list[Component]:
    manifest: BundleManifest = json.loads(_manifest(bundle))
    found: dict[str, Component] = {}
    for part in _PARTS:
        files = {path: entry["sha256"] for path, entry in manifest["files"].items() if fnmatch(path, part.pattern)}
        if files:
            before = found[part.name].files if part.name in found else {}
            version = manifest["versions"].get(part.version, "")
            purl = f"{part.purl}@{version}" if part.purl and version else ""
            found[part.name] = Component(part.name, version, "library", part.license, purl, {**before, **files})
    for path, library in manifest["libraries"].items():
        files = {path: manifest["files"][path]["sha256"]}
        name = path.rpartition("/")[2]
        found[name] = Component(name, library["version"], "library", library["licence"], files=files)
    return list(found.values())


def _manifest(bundle: Mapping[str, Path]) -> bytes:
    if "" not in bundle:
        return bundle["manifest.json"].read_bytes()
    with tarfile.open(bundle[""], "r:gz") as packed:
        for entry in packed:
            if entry.name.endswith("/manifest.json") and entry.name.count("/") == 1:
                file = packed.extractfile(entry)
                assert file is not None
                return file.read()
    raise FileNotFoundError("manifest.json")
