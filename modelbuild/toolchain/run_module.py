"""Run a package as a program in a Python that does not find it: `python -P run_module.py FOLDERS NAME ARGUMENT...`.

FOLDERS is a JSON object with the folders of packages by import name, and NAME the import name of the program. Imports
only Python's own modules, which each toolchain has.
"""

from __future__ import annotations

import json
import runpy
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any


def main(folders: dict[str, str], name: str, arguments: list[str]) -> None:
    sys.meta_path.insert(0, _finder(folders))
    sys.argv = [name, *arguments]
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _finder(folders: dict[str, str]) -> Any:
    file = Path(__file__).parents[1] / "code/package_finder.py"
    spec = spec_from_file_location("modelbuild_package_finder", file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.PackageFinder(folders)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2], sys.argv[3:])
