"""Code and libraries that Python's start and the loader bring into every process are in no key: actions have none."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.script_rule import FILES, OUTPUT, SCRIPT
from tests.workspace_builder import Workspace, write

ADDED = {
    "sitecustomize": {"sitecustomize.py": "import sys\nsys.added = 'sitecustomize'\n"},
    "pth": {"added.pth": "import sys; sys.added = 'pth'\n"},
}
SHOWS = "import sys\nresult = getattr(sys, 'added', 'nothing'), sys.prefix, sys.exec_prefix, exit.name\n"


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """Return a virtual environment whose Python finds the installed distributions by a .pth file."""
    folder = tmp_path / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    outer = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    write(packages_of(folder), {"outer.pth": outer})
    return folder


def packages_of(environment: Path) -> Path:
    (found,) = (environment / "lib").glob("python*/site-packages")
    return found


@pytest.mark.parametrize("added", ADDED)
def test_an_action_starts_without_code_that_is_in_no_key(workspace: Workspace, environment: Path, added: str) -> None:
    python = (str(environment / "bin/python"), "-m", "modelbuild")
    workspace.write({**FILES, "a/s.py": SHOWS})
    for files in ({}, ADDED[added]):
        write(packages_of(environment), files)
        workspace.write({"a/s.py": f"{SHOWS}# {len(files)}\n"})
        ended = workspace.run("build", SCRIPT, program=python)
        assert ended.code == 0, ended.err
        assert (workspace.root / OUTPUT).read_text() == str(("nothing", str(environment), str(environment), "exit"))


def test_an_action_gets_no_library_of_the_loader(workspace: Workspace, tmp_path: Path) -> None:
    """Landlock lets no action read the library either."""
    library = tmp_path / "preloaded.so"
    mapped = Path("/proc/self/maps").read_text().split()
    shutil.copy(next(each for each in mapped if "/libm.so" in each or "/libm-" in each), library)
    loaded = ["grep", "-c", library.name, "/proc/self/maps"]
    assert subprocess.run(loaded, env={"LD_PRELOAD": str(library)}, check=True, capture_output=True).stdout > b"0"
    script = "import os\nfrom pathlib import Path\n"
    script += "maps = Path('/proc/self/maps').read_text()\n"
    script += "result = 'preloaded.so' in maps, [name for name in os.environ if name.startswith('LD_')]\n"
    workspace.write({**FILES, "a/s.py": script})
    ended = workspace.run("build", SCRIPT, LD_PRELOAD=str(library), LD_LIBRARY_PATH=str(tmp_path))
    assert ended.code == 0, ended.err
    assert (workspace.root / OUTPUT).read_text() == "(False, [])"
