"""What pyproject.toml cannot say: descriptors are generated from .proto files before the package is built."""

from __future__ import annotations

import runpy
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildPy(build_py):
    def run(self) -> None:
        runpy.run_path(str(Path(__file__).parent / "protos" / "generate.py"))["generate"]()
        super().run()


setup(cmdclass={"build_py": BuildPy})
