"""The environment of an action, equal everywhere except for paths: environment variables and readable folders."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from modelbuild.code.search_path import under
from modelbuild.execution.isolation.kernel_choice import kernels

# Options of a Python that runs steps. It imports neither sitecustomize nor usercustomize, reads no .pth file, and does
# not import from the folder of its main program: no key contains these.
PYTHON_OPTIONS = ("-P", "-s", "-S")

# Variables that an action with a network keeps, to fetch with the machine's configuration: pip's settings, proxies,
# certificates, logins for registries, and the home folder that may contain them.
NETWORK_PREFIXES = ("PIP_",)
NETWORK = (
    *("HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "NETRC"),
    *("DOCKER_CONFIG", "DOCKER_AUTH_CONFIG", "REGISTRY_AUTH_FILE"),
    *(name for proxy in ("http_proxy", "https_proxy", "all_proxy", "no_proxy") for name in (proxy, proxy.upper())),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)

# The user's choice of GPUs, for actions with GPUs. Other actions see none: their outputs must not depend on the
# machine, and torch refuses to work in a process whose parent has used a GPU.
GPUS = "CUDA_VISIBLE_DEVICES"

# Readable by every action: the system, but no folder with users' data.
SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc", "/proc", "/sys", "/nix/store")

# Readable and writable for every action in /dev: devices, the names of a process's own descriptors, and the folder of
# shared memory.
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
DESCRIPTORS = {
    "/dev/fd": "/proc/self/fd",
    "/dev/stdin": "/proc/self/fd/0",
    "/dev/stdout": "/proc/self/fd/1",
    "/dev/stderr": "/proc/self/fd/2",
}
SHARED_MEMORY = "/dev/shm"

# Shared by unrelated processes.
_SHARED = (SHARED_MEMORY, "/dev/mqueue")


def devices(gpu: bool) -> list[str]:
    """Return the devices that an action may read and write; with GPUs, everything that a driver may need."""
    if not gpu:
        return list(DEVICES)
    with os.scandir("/dev") as entries:
        return ["/proc", *sorted(entry.path for entry in entries if entry.path not in (*_SHARED, *DESCRIPTORS))]


def variables(
    home: Path, cpus: int, network: bool = False, gpu: bool = False, prefix: str = sys.prefix
) -> dict[str, str]:
    """Return all environment variables of a step, except variables that its action adds. No key contains the machine's
    search paths of libraries (LD_*) or Python's settings, so the step gets none.

    home      the action's folder for programs' own and temporary files
    cpus      number of threads of numerical libraries
    network   whether to keep the variables for fetching
    gpu       whether the machine's GPUs are visible
    prefix    the folder of the step's Python
    """
    fixed = {
        "PATH": f"{prefix}/bin:/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "HOME": str(home),
        "TMPDIR": str(home),
        "XDG_CACHE_HOME": f"{home}/.cache",
        "PYTHONHASHSEED": "0",
    }
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    if not gpu:
        fixed[GPUS] = ""
    kept = [GPUS] if gpu and GPUS in os.environ else []
    if network:
        kept += [name for name in os.environ if name in NETWORK or name.startswith(NETWORK_PREFIXES)]
    return fixed | kernels() | dict.fromkeys(threads, str(cpus)) | {name: os.environ[name] for name in kept}


def set_variables(variables: Mapping[str, str]) -> None:
    """Make these the only environment variables of this process; most are set already."""
    for name in os.environ.keys() - variables.keys():
        del os.environ[name]
    for name, value in variables.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def readable(
    workspace: Path, imports: Iterable[str], prefixes: Iterable[str] = (sys.prefix, sys.base_prefix)
) -> list[str]:
    """Return real paths of the folders that every action may read: the system's, Python's (`prefixes`) and `imports`.
    If one of them contains the workspace, the files and folders next to the workspace replace it."""
    root = os.path.realpath(workspace)
    wanted = [*SYSTEM, *prefixes, *imports]
    real = [os.path.realpath(path) for path in wanted if path and os.path.exists(path)]
    return list(dict.fromkeys(part for path in real for part in without(path, [root])))


def without(folder: str, holes: Sequence[str]) -> Iterator[str]:
    """Yield the folder or, if it contains holes, everything in it that contains no hole."""
    inside = [hole for hole in holes if under(hole, folder)]
    if not inside:
        yield folder
    elif folder not in inside:
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda e: e.name):
                if not entry.is_symlink():
                    yield from without(entry.path, inside)
