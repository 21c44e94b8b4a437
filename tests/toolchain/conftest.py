"""A workspace with a script that runs in a toolchain of two packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.script_rule import FILES
from tests.wheels import TOOLCHAIN, Index, ToolchainWorkspace

ALPHA = {"alpha/__init__.py": "import beta\nX = 1\n"}


@pytest.fixture
def index(tmp_path: Path) -> Index:
    made = Index(tmp_path / "index")
    made.add("alpha", "1.0", ALPHA, ["beta"])
    made.add("beta", "1.0", {"beta.py": "Y = 1\n"})
    made.add("gamma", "1.0", {"gamma.py": "Z = 1\n"})
    return made


@pytest.fixture
def tools(tmp_path: Path, index: Index) -> ToolchainWorkspace:
    """Return a workspace with the script //a:s, which imports `alpha` of the toolchain //:tools."""
    made = ToolchainWorkspace(tmp_path / "tools")
    made.index = index
    made.write(
        {
            **FILES,
            "MODELBUILD.toml": FILES["MODELBUILD.toml"] + '[build]\ntoolchain = "//:tools"\n',
            "BUILD.toml": TOOLCHAIN,
            "tools.lock": index.lock,
            "a/s.py": "import alpha\nresult = alpha.X\n",
        }
    )
    return made
