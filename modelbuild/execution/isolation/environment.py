"""The surroundings of an action, the same everywhere but for paths: environment variables and readable folders."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from modelbuild.code.search_path import under
from modelbuild.execution.isolation.kernel_choice import kernels

# How the machine finds libraries. Not part of a key: which ones they are is said by the tools' versions.
LIBRARIES = ("LD_LIBRARY_PATH", "LD_PRELOAD")

# What an action that may use the network keeps, to fetch as the machine is configured to: pip's settings, proxies,
# certificates, and the home folder that they may lie in.
NETWORK_PREFIXES = ("PIP_",)
NETWORK = (
    *("HOME", "XDG_CONFIG_HOME", "NETRC"),
    *(name for proxy in ("http_proxy", "https_proxy", "all_proxy", "no_proxy") for name in (proxy, proxy.upper())),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)

# Which GPUs an action that takes some may use, where the user says so. Any other action sees none: what it makes must
# not depend on the machine, and torch refuses to work in a process forked from one that has used a GPU.
GPUS = "CUDA_VISIBLE_DEVICES"

# What every action may read: the system, but no folder in which users keep data.
SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc", "/proc", "/sys", "/nix/store")

# What of /dev every action may read and write, the names by which a process finds its own descriptors there, and where
# processes share memory.
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
DESCRIPTORS = {
    "/dev/fd": "/proc/self/fd",
    "/dev/stdin": "/proc/self/fd/0",
    "/dev/stdout": "/proc/self/fd/1",
    "/dev/stderr": "/proc/self/fd/2",
}
SHARED_MEMORY = "/dev/shm"

# Processes that have nothing to do with each other meet there.
_SHARED = (SHARED_MEMORY, "/dev/mqueue")


def devices(gpu: bool) -> list[str]:
    """Return what an action may read and write that is no file: with GPUs, whatever a driver may need."""
    if not gpu:
        return list(DEVICES)
    with os.scandir("/dev") as entries:
        return ["/proc", *sorted(entry.path for entry in entries if entry.path not in (*_SHARED, *DESCRIPTORS))]


def variables(home: Path, cpus: int, network: bool = False, gpu: bool = False) -> dict[str, str]:
    """All environment variables that a step sees, but for those that its action adds.

    home      the action's own folder for what programs keep and for temporary files
    cpus      threads that numerical libraries may use
    network   whether the variables that fetching needs are kept
    gpu       whether the machine's GPUs are to be seen
    """
    fixed = {
        "PATH": f"{sys.prefix}/bin:/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "HOME": str(home),
        "TMPDIR": str(home),
        "XDG_CACHE_HOME": f"{home}/.cache",
        "TORCH_HOME": f"{home}/.cache/torch",
        "TORCHINDUCTOR_CACHE_DIR": f"{home}/.cache/inductor",
        "TRITON_CACHE_DIR": f"{home}/.cache/triton",
        "PYTHONHASHSEED": "0",
    }
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    if not gpu:
        fixed[GPUS] = ""
    kept = [name for name in (*LIBRARIES, *((GPUS,) if gpu else ())) if name in os.environ]
    if network:
        kept += [name for name in os.environ if name in NETWORK or name.startswith(NETWORK_PREFIXES)]
    return fixed | kernels() | dict.fromkeys(threads, str(cpus)) | {name: os.environ[name] for name in kept}


def set_variables(variables: Mapping[str, str]) -> None:
    """Make these all environment variables of this process; most are so already."""
    for name in os.environ.keys() - variables.keys():
        del os.environ[name]
    for name, value in variables.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def readable(workspace: Path, imports: Iterable[str]) -> list[str]:
    """Return real paths of the folders that every action may read: the system's, Python's and `imports`. Where one of
    them holds the workspace, what lies beside the workspace takes its place."""
    root = os.path.realpath(workspace)
    libraries = [path for name in LIBRARIES for path in os.environ.get(name, "").split(":")]
    wanted = [*SYSTEM, sys.prefix, sys.base_prefix, *imports, *libraries]
    real = [os.path.realpath(path) for path in wanted if path and os.path.exists(path)]
    return list(dict.fromkeys(part for path in real for part in without(path, [root])))


def without(folder: str, holes: Sequence[str]) -> Iterator[str]:
    """Yield the folder; or, if some of the holes are in it, all in it that holds none."""
    inside = [hole for hole in holes if under(hole, folder)]
    if not inside:
        yield folder
    elif folder not in inside:
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda e: e.name):
                if not entry.is_symlink():
                    yield from without(entry.path, inside)
