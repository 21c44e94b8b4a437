"""Make the environment of a toolchain that a workspace declares."""

from __future__ import annotations

import os
from collections.abc import Callable

from modelbuild.analysis.analyze import Analyzer
from modelbuild.code.interpreter import Interpreter
from modelbuild.labels import Label
from modelbuild.workspace.toml_document import Stamp


def make_toolchain(analyzer: Analyzer, label: Label, say: Callable[[str], object]) -> Interpreter:
    """Make a toolchain, unless the cache has it, and return its Python. Raises LoadingError for errors in declarations
    and in the lock file, and EnvironmentProblem if the toolchain cannot be made.

    say  called with lines about the progress
    """
    # Builds without toolchains do not need these.
    from modelbuild.toolchain.lock_file import read_lock
    from modelbuild.toolchain.make import Wanted, make
    from modelbuild.toolchain.pythons import find_python

    workspace = analyzer.loader.workspace
    found = analyzer.base_toolchain(label)
    _stamp(analyzer, found.lock.path)
    lock = read_lock(workspace.root, found.lock.path, found.from_source)
    python = find_python(found.python, str(label))
    _stamp(analyzer, python.program)
    wanted = Wanted(str(label), lock, python, found.from_source)
    return make(wanted, workspace.root, workspace.config.cache_dir, say)


def _stamp(analyzer: Analyzer, path: str) -> None:
    analyzer.toolchain_files[path] = Stamp.of(os.stat(analyzer.loader.workspace.root / path))
