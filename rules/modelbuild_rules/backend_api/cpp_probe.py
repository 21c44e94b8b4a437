"""The check of the C++ compiler for `modelbuild doctor`."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from modelbuild.api import Finding, Probe

_SOURCE = '#include <cstddef>\nextern "C" std::size_t answer() { return sizeof(void *); }\n'
_NAME = "c++ compiler"
_MISSING = "not installed with modelbuild; only kernel libraries and the CUDA backend need it"


@cache
def _check() -> Finding:
    """Compile a C++ file with zig's compiler, which builds kernel libraries and libraries of the CUDA delegate."""
    install = "pip install 'modelbuild[kernels]'"
    if find_spec("ziglang") is None:
        return Finding(_NAME, "ok", _MISSING, f"{install}, or ziglang in a toolchain's lock")
    with TemporaryDirectory() as folder:
        source = Path(folder) / "probe.cpp"
        source.write_text(_SOURCE)
        command = [sys.executable, "-P", "-m", "ziglang", "c++", "-c", str(source), "-o", f"{folder}/probe.o"]
        caches = {"ZIG_GLOBAL_CACHE_DIR": folder, "ZIG_LOCAL_CACHE_DIR": folder}
        done = subprocess.run(command, env={**os.environ, **caches}, capture_output=True, text=True, timeout=60)
    if done.returncode:
        problem = next(iter(done.stderr.strip().splitlines()), f"exit code {done.returncode}")
        return Finding(_NAME, "error", f"zig can't compile C++: {problem}", f"{install} --force-reinstall")
    return Finding(_NAME, "ok", f"zig {version('ziglang')}")


CPP_COMPILER = Probe(_NAME, _check)
