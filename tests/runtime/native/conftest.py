"""The C++ runtime, built once into the checkout's build folder, and a way to run its programs."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def builder(repository: Path) -> Any:
    """runtime/build.py as a module."""
    spec = importlib.util.spec_from_file_location("runtime_build", repository / "runtime/build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def native(builder: Any, repository: Path) -> Path:
    """The folder with bin/ and lib/ of the runtime. Compiled when it is not there yet or out of date."""
    folder: Path = builder.build(repository / "build/runtime", tests=True)
    return folder


@pytest.fixture(scope="session")
def modelbuild_run(native: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs modelbuild-run with nothing of this process's environment but what is given."""

    def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        program = [str(native / "bin/modelbuild-run"), *map(str, arguments)]
        plain = {"PATH": os.environ["PATH"]}
        return subprocess.run(program, env={**plain, **environment}, capture_output=True, text=True, check=False)

    return run
