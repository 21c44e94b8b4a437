"""Toolchains that come with modelbuild: `@modelbuild//toolchains:xnnpack` and others."""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path

import pytest

import modelbuild_rules
from modelbuild.analysis.open import open_analyzer
from modelbuild.code.corrected_requirements import corrections
from modelbuild.code.distributions import Distributions
from modelbuild.errors import UsageError
from modelbuild.labels import Label
from modelbuild.loading.parse import parse_package
from modelbuild.toolchain.lock_file import read_lock
from modelbuild.workspace.toml_document import read_document
from modelbuild.workspace.workspace import BUILT_IN, load_workspace
from tests.packaging.test_lock import pins
from tests.script_rule import SCRIPT
from tests.toolchain.test_own_toolchains import MODELS
from tests.wheels import ToolchainWorkspace

FOLDER = Path(modelbuild_rules.__file__).parent / "toolchains"
NAMES = ["cuda", "runtime", "tensorrt_rtx", "xnnpack"]
RUNTIME = "@modelbuild//toolchains:runtime"


@cache
def listed(name: str) -> frozenset[str]:
    """Return the names of packages in a list, without markers and versions, and those of the list that it includes."""
    lines = [line.partition("#")[0].strip() for line in (FOLDER / f"{name}.in").read_text().splitlines()]
    included = [line.split()[1].removesuffix(".in") for line in lines if line.startswith("-r ")]
    own = {re.split(r"[ =;]", line)[0].replace(".", "-") for line in lines if line and not line.startswith("-r ")}
    return frozenset(own.union(*map(listed, included)))


def test_there_is_a_lock_for_each_declared_toolchain() -> None:
    document, values, _ = read_document(FOLDER, "BUILD.toml")
    package = parse_package(document, values, "toolchains", ["python_toolchain"])
    assert sorted(package.targets) == NAMES
    assert sorted(path.stem for path in FOLDER.glob("*.in")) == NAMES
    assert sorted(path.stem for path in FOLDER.glob("*.lock")) == NAMES


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
@pytest.mark.parametrize("name", NAMES)
def test_a_lock_pins_its_list_as_the_lock_of_the_checkout_does(repository: Path, name: str, python: str) -> None:
    """With one version of each package on each Python: results are shared between a toolchain and `make venv`."""
    text = (FOLDER / f"{name}.lock").read_text()
    assert "://" not in text
    found = pins(text, python)
    assert set(found) == listed(name)
    every = pins((repository / "requirements.lock").read_text(), python)
    assert {each: version for each, version in found.items() if each != "pip"}.items() <= every.items()
    assert len(read_lock(FOLDER, f"{name}.lock").pins) >= len(found)


NAMED = {
    "runtime": {"flatbuffers", "numpy", "pillow", "pip", "pytest"},
    "xnnpack": {"executorch", "safetensors", "torch", "torchao"},
    "cuda": {"nvidia-cuda-cccl", "nvidia-cuda-nvcc", "triton", "ziglang"},
    "tensorrt_rtx": {"torch-tensorrt-rtx"},
}
"""Packages that rules name, or that Python programs use without a name."""


@pytest.mark.parametrize("name", NAMES)
def test_a_lock_has_no_package_that_is_in_no_key(name: str) -> None:
    """A package that nothing in the lock requires would be missing in keys, and on remote workers."""
    there = listed(name)
    waiting = [(each, frozenset[str]()) for names in NAMED.values() for each in names & there]
    corrected = corrections({BUILT_IN: FOLDER.parent})
    found: set[str] = set()
    seen = set(waiting)
    while waiting:
        each, extras = waiting.pop()
        found.add(each)
        distribution = Distributions(tuple(sys.path)).find(each)
        for wanted in corrected.requires(distribution, extras) if distribution else ():
            if wanted[0] in there and wanted not in seen:
                seen.add(wanted)
                waiting.append(wanted)
    assert found == there


@pytest.mark.parametrize("place", ["MODELBUILD.toml", "target", "--toolchain"])
def test_its_label_names_it_wherever_a_toolchain_is_named(tools: ToolchainWorkspace, place: str) -> None:
    """Here the index has none of its packages, and the error is about the first one of its lock."""
    options: tuple[str, ...] = ()
    if place == "MODELBUILD.toml":
        tools.edit("MODELBUILD.toml", "//:tools", RUNTIME)
    elif place == "target":
        tools.add("a/BUILD.toml", f'toolchain = "{RUNTIME}"\n')
    else:
        options = ("--toolchain", RUNTIME)
    ended = tools.run("build", SCRIPT, *options)
    assert ended.code == 36
    last = ended.err.splitlines()[-1]
    assert f"note: making {RUNTIME}: " in ended.err
    assert re.fullmatch(rf"error: {re.escape(str(FOLDER))}/runtime\.lock:\d+:1: \S+ \S+: not found in the .*", last)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@modelbuild//toolchains:xnnpak", "no target 'xnnpak' in @modelbuild//toolchains; did you mean 'xnnpack'?"),
        (
            "@modelbuild//toolchain:xnnpack",
            "no package @modelbuild//toolchain: there is no toolchain/BUILD.toml; "
            "did you mean '@modelbuild//toolchains'?",
        ),
        (
            "@modelbiuld//toolchains:xnnpack",
            "'@modelbiuld//toolchains:xnnpack' is not a label; expected //package:name, or "
            "@modelbuild//toolchains:name; did you mean '@modelbuild'?",
        ),
    ],
)
def test_another_name_is_an_error_with_the_nearest_one(tools: ToolchainWorkspace, text: str, expected: str) -> None:
    ended = tools.run("build", SCRIPT, "--toolchain", text)
    assert (ended.code, ended.err) == (2, f"error: {expected}\n")
    tools.add("a/BUILD.toml", f'toolchain = "{text}"\n')
    ended = tools.run("build", SCRIPT)
    assert ended.code == 3
    assert re.search(rf"error: a/BUILD\.toml:\d+:1: ('toolchain': )?{re.escape(expected)}", ended.err)


def test_it_is_no_target_of_the_workspace(tools: ToolchainWorkspace) -> None:
    tools.add("a/BUILD.toml", f'toolchain = "{RUNTIME}"\n')
    assert RUNTIME not in tools.run("query", "deps(//a:s)").out
    assert RUNTIME not in tools.run("cquery", "deps(//a:s)").out
    assert f'toolchain = "{RUNTIME}"' in tools.run("query", SCRIPT, "--output=build").out
    with pytest.raises(UsageError, match="is not a label"):
        Label.parse(RUNTIME)


def test_doctor_describes_it(tools: ToolchainWorkspace) -> None:
    tools.edit("MODELBUILD.toml", "//:tools", "@modelbuild//toolchains:xnnpack")
    found = tools.run("doctor", "--json").json["checks"]
    (one,) = [each for each in found if each["name"] == "toolchain @modelbuild//toolchains:xnnpack (default)"]
    assert "torch 2.14.0, torchao 0.18.0 of " in one["text"]
    assert one["fix"].endswith("modelbuild fetch //... --toolchain @modelbuild//toolchains:xnnpack")


def test_the_toolchain_of_a_stack_is_that_of_its_programs(tmp_path: Path) -> None:
    text = MODELS.replace("{stack}", 'toolchain = "@modelbuild//toolchains:cuda"')
    for name in ("model", "program", "test"):
        text = text.replace(f"{{{name}}}", "")
    (tmp_path / "MODELBUILD.toml").touch()
    (tmp_path / "BUILD.toml").write_text(text)
    (tmp_path / "net.py").touch()
    analyzer = open_analyzer(load_workspace(tmp_path))
    assert analyzer.analyze(Label("", "test")).toolchain == "@modelbuild//toolchains:cuda"
