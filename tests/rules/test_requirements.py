"""Keys contain what steps can import, and nothing that is installed beside it: modelbuild_rules/requirements.toml."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import tabulate
import tomli

import modelbuild_rules
from modelbuild.actions import FileEntry
from modelbuild.analysis.rules import load_rules
from modelbuild.code.corrected_requirements import corrections
from modelbuild.code.distributions import Distributions, canonical
from modelbuild.code.installed_contents import InstalledContents
from modelbuild.code.tools import Tools
from modelbuild.store.digests import digest_file
from modelbuild_rules.backend_api.preload import PRELOAD
from modelbuild_rules.model.export_action import EXPORT_TOOLS
from modelbuild_rules.program.partitioned_program import _STORING
from tests.script_rule import install
from tests.workspace_builder import Workspace

FOLDER = Path(modelbuild_rules.__file__).parent
PURELIB = Path(sysconfig.get_path("purelib"))
FACTS: Mapping[str, Any] = tomli.loads((FOLDER / "requirements.toml").read_text())
UNUSED = sorted({name for each in FACTS["unused"].values() for name in each})
BACKENDS = load_rules(Path(), ()).extensions["backend"]

# Distributions that no action of a build imports: those that no step uses, and those of tests and of modelbuild itself.
BESIDE = [*UNUSED, "pytest", "hypothesis", "rich", "click", "mypy", "transformers", "certifi", "urllib3"]


def states(*tools: str) -> dict[str, str]:
    """Return the text of distributions in a key, in the current environment."""
    packages = {modelbuild_rules.__name__: FOLDER}
    known = Tools(Path("/nowhere"), packages, corrections=corrections(packages))
    needed = known.needed(tools, ())
    return InstalledContents(known.distributions, lambda path: FileEntry(digest_file(Path(path)))).states(
        needed.distributions
    )


@pytest.fixture(params=["export", *sorted(BACKENDS)])
def tools(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Return the tools that a rule names, of an export or of a backend's partitions."""
    return EXPORT_TOOLS if request.param == "export" else BACKENDS[request.param].tools


def test_no_key_contains_an_unused_requirement(tools: tuple[str, ...]) -> None:
    assert set(BESIDE) & states(*tools).keys() <= set(tools)


def test_an_unused_requirement_is_one() -> None:
    """An entry for a requirement that a later version lacks would be forgotten."""
    installed = Distributions(tuple(sys.path))
    for name, unused in FACTS["unused"].items():
        lines = (installed.find(name) or pytest.fail(name))._metadata.get_all("Requires-Dist")
        required = {canonical(re.split(r"[ ;<>=!~\[(]", line)[0]) for line in lines}
        assert unused.keys() <= required
        assert all(unused.values())


def test_the_versions_of_unused_requirements_are_in_no_key(
    tools: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = states(*tools)
    for name in set(UNUSED) - set(tools):
        install(tmp_path, name.replace("-", "_"), "999.0", {f"{name.replace('-', '_')}/__init__.py": ""})
    monkeypatch.setattr(sys, "path", [sys.path[0], str(tmp_path), *sys.path[1:]])
    found = Distributions(tuple(sys.path)).find("hypothesis")
    assert found is not None
    assert found.version == "999.0"
    assert states(*tools) == before


@pytest.mark.parametrize("name", ["tabulate", "networkx", "numpy", "ruamel-yaml-clib", "torchao", "tqdm", "triton"])
def test_the_version_of_a_used_requirement_is_in_the_key(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = states("executorch", "torch")
    install(tmp_path, name.replace("-", "_"), "999.0", {f"{name.replace('-', '_')}/__init__.py": ""})
    monkeypatch.setattr(sys, "path", [sys.path[0], str(tmp_path), *sys.path[1:]])
    after = states("executorch", "torch")
    assert {each for each in before if after.get(each) != before[each]} == {name}


def test_an_environment_with_test_tools_has_the_keys_of_one_without(
    tools: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = states(*tools)
    installed = Distributions((str(PURELIB),))
    hidden = {canonical(name) for name in BESIDE} - {canonical(name) for name in tools}
    records = [found.record for found in map(installed.find, sorted(hidden)) if found is not None]
    left_out = {re.split("[,/]", line)[0] for record in records for line in record.split("\n")}
    for entry in PURELIB.iterdir():
        if entry.name not in left_out:
            (tmp_path / entry.name).symlink_to(entry)
    path = [str(tmp_path) if Path(folder) == PURELIB else folder for folder in sys.path]
    monkeypatch.setattr(sys, "path", path)
    assert Distributions(tuple(path)).find("pytest") is None
    assert states(*tools) == before


IMPORT = """
import importlib, json, sys
from modelbuild.execution.worker.keyed_finder import InstalledModules, KeyedFinder
modules, first, *others = json.loads(sys.argv[1])
installed = InstalledModules(sys.path)
finder = KeyedFinder(installed, installed.of(first))
finder.install()
for module in modules:
    importlib.import_module(module)
print([finder.fits(installed.of(other)) for other in others])
"""


def test_one_worker_imports_modules_for_all_steps_of_a_program() -> None:
    """What the modules look for, and find or do not find, is in the key of each step, whatever a model requires."""
    keyed = [[*states("timm", *EXPORT_TOOLS)], [*states(*EXPORT_TOOLS)]]
    keyed += [[*states(*_STORING)]]
    keyed += [[*states(*backend.tools)] for backend in BACKENDS.values() if "torch" in states(*backend.tools)]
    command = [sys.executable, "-c", IMPORT, json.dumps([PRELOAD, *keyed])]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert json.loads(printed.lower()) == [True] * (len(keyed) - 1)


NET = """
import importlib

from torch import Tensor, nn

try:
    hypothesis = importlib.import_module("hypothesis")
except ImportError:
    hypothesis = None


class Net(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + (1 if hypothesis is None else 2)
"""
BUILD = """
[[torch_model]]
name = "net"
entry = "net.py:Net"
inputs = [{ name = "x", shape = [2], dtype = "float32" }]

[[pte_program]]
name = "program"
model = ":net"
stack = ["xnnpack", "portable"]
"""


def test_programs_of_two_environments_share_results(workspace: Workspace, tmp_path: Path) -> None:
    workspace.write({"MODELBUILD.toml": "", "BUILD.toml": BUILD, "net.py": NET})
    assert set(workspace.build("//:program").statuses.values()) == {"ran"}
    site = tmp_path / "site"
    install(site, "hypothesis", "999.0", {"hypothesis/__init__.py": ""})
    beside = workspace.build("//:program", PYTHONPATH=str(site))
    assert set(beside.statuses.values()) <= {"cached"}
    install(site, "tabulate", "999.0", {f"tabulate/{each.name}": each.read_text() for each in SOURCES})
    assert "ran" in workspace.build("//:program", PYTHONPATH=str(site)).statuses.values()


SOURCES = list(Path(tabulate.__file__).parent.glob("*.py"))


def test_an_unused_requirement_looks_absent_until_it_is_declared(workspace: Workspace) -> None:
    bare = NET.replace("except ImportError", "except ZeroDivisionError")
    workspace.write({"MODELBUILD.toml": "", "BUILD.toml": BUILD, "net.py": bare})
    ended = workspace.run("build", "//:program")
    assert (ended.code, "No module named 'hypothesis'" in ended.err) == (1, True)
    assert "which is not in the action's key; add 'hypothesis' to 'requires' of //:net" in ended.err
    workspace.edit("BUILD.toml", "inputs =", 'requires = ["hypothesis"]\ninputs =')
    assert "ran" in workspace.build("//:program").statuses.values()
