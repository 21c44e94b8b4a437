"""The C++ runtime for this machine, as a wheel of modelbuild-runtime installs it next to this module.

bin/      modelbuild-run
lib/      the library and its plug-ins
include/  headers for C and C++
share/    the CMake package: cmake -DCMAKE_PREFIX_PATH=$(python -m modelbuild_runtime_native)

A source installation, or an installation on a machine without a wheel, contains only this module.
"""

import os
import sys


def folder() -> str:
    """Return the folder with bin/ and lib/. Exits with one line if no C++ runtime is installed."""
    here = os.path.dirname(os.path.abspath(__file__))
    if not os.path.isfile(f"{here}/runtime.json"):
        sys.exit("error: modelbuild-runtime is installed without a C++ runtime; expected its wheel for this machine")
    return here


def run() -> None:
    """Replace this process with modelbuild-run, with the same arguments."""
    program = f"{folder()}/bin/modelbuild-run"
    os.execv(program, ["modelbuild-run", *sys.argv[1:]])
