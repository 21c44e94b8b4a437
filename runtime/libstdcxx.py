"""Link the libstdc++ of the archive from the compiler's static libstdc++.

The compiler's own libstdc++.so.6 is made for the glibc of the machine that builds: Debian 12's needs 2.36, for one
function. Linked from the same objects and libstdcxx.c it needs 2.34. It lacks some eighty symbols of before GCC 4.7.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from toolchain import BuildError, Toolchain

NAME = "libstdc++.so.6"
SOURCE = Path(__file__).with_suffix(".c")


def link(tools: Toolchain, folder: Path) -> None:
    """Write libstdc++.so.6 into a folder: a copy of the compiler's where there is no static one."""
    shared, static = tools.file(NAME), tools.file("libstdc++.a")
    if shared is None:
        raise BuildError(f"{tools.compiler} has no {NAME}; expected GCC, or a compiler that uses its libstdc++")
    if static is None:
        shutil.copy(shared, folder / NAME)
        return
    script = folder / "libstdc++.map"
    script.write_text(_version_script(tools, shared))
    command: list[str | Path] = [tools.compiler, "-shared", "-fPIC", "-O2", "-fvisibility=hidden", "-nodefaultlibs"]
    command += ["-o", folder / NAME, "-x", "c", SOURCE, "-x", "none"]
    command += ["-Wl,--whole-archive", static, "-Wl,--no-whole-archive", "-lm", "-lgcc_s", "-lgcc", "-lc"]
    command += [f"-Wl,-soname,{NAME},--version-script={script},--gc-sections,-z,defs"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{tools.compiler} cannot link {NAME} from {static}:\n{done.stderr.strip()}")
    script.unlink()


def missing(tools: Toolchain, library: Path, users: Iterable[Path]) -> list[str]:
    """Return the symbols, as name@version, that files need of a libstdc++.so.6 and neither it nor one of them has."""
    users = list(users)
    needed = {each for path in users for each in _symbols(tools, path, "--undefined-only")}
    found = {each.replace("@@", "@") for each in _symbols(tools, library, "--defined-only")}
    own = {each for path in users for each in _symbols(tools, path, "--defined-only")}
    lacking = (each for each in needed - found if each.partition("@")[0] not in own)
    return sorted(each for each in lacking if re.search("@(GLIBCXX|CXXABI)_", each))


def _version_script(tools: Toolchain, shared: Path) -> str:
    """Return a linker script with the versions and symbols of a library."""
    found: dict[str, list[str]] = defaultdict(list)
    for symbol in _symbols(tools, shared, "--defined-only"):
        name, default, version = symbol.partition("@@")
        if default:
            found[version].append(name)
    versions = sorted(found.items())
    blocks = (f"{version} {{ global: {' '.join(f'{name};' for name in names)} }};" for version, names in versions)
    return "\n".join(blocks) + "\n"


def _symbols(tools: Toolchain, path: Path, which: str) -> list[str]:
    """Return a library's dynamic symbols as name@version, or name@@version where that is the default version."""
    command = [tools.tool("nm"), "--dynamic", "--with-symbol-versions", which, str(path)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [line.split()[-1] for line in printed.splitlines() if line.split()[-2] != "A"]
