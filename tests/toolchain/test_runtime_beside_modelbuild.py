"""Steps of a toolchain use the C++ runtime that is installed with modelbuild, unless the lock has another one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.script_rule import OUTPUT, SCRIPT, install
from tests.wheels import ToolchainWorkspace

# A script that reads the files of the runtime for this machine, as rules do.
READS = """
import importlib.util
from pathlib import Path
folder = Path(importlib.util.find_spec("{module}").origin).parent
result = [(folder / "runtime.json").read_text(), (folder / "bin/run").read_text()]
"""


def runtime(text: str, module: str = "modelbuild_runtime_native") -> dict[str, str]:
    return {f"{module}/__init__.py": "", f"{module}/runtime.json": text, f"{module}/bin/run": "program"}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a folder on the import path of modelbuild with the wheel's files."""
    site = tmp_path / "site"
    site.mkdir()
    install(site, "modelbuild_runtime", "1.0", runtime("first"), ("alpha",))
    return site


@pytest.fixture
def reading(tools: ToolchainWorkspace, site: Path) -> ToolchainWorkspace:
    """Return a workspace with the script //a:s, which reads the runtime, and //a:t, which does not."""
    tools.write({"a/s.py": READS.format(module="modelbuild_runtime_native"), "a/t.py": "result = 1\n"})
    tools.edit("a/BUILD.toml", "srcs", 'requires = ["modelbuild-runtime"]\nsrcs')
    tools.add("a/BUILD.toml", '[[script]]\nname = "t"\nsrcs = ["t.py"]\n')
    return tools


def read(tools: ToolchainWorkspace, site: Path, *arguments: str) -> tuple[dict[str, str], list[str]]:
    """Build both scripts; return their statuses, and what the first one read."""
    ended = tools.build("//a:all", *arguments, PYTHONPATH=str(site))
    assert ended.code == 0, ended.err
    return ended.statuses, eval((tools.root / OUTPUT).read_text())


def test_a_step_reads_all_its_files(reading: ToolchainWorkspace, site: Path) -> None:
    (site / "modelbuild_runtime_native/bin/run").chmod(0o755)
    source = READS.format(module="modelbuild_runtime_native")
    reading.write({"a/s.py": f"{source}import os\nresult.append(os.access(folder / 'bin/run', os.X_OK))\n"})
    assert read(reading, site)[1] == ["first", "program", True]
    assert "Nothing to do" in reading.run("build", "//a:all", PYTHONPATH=str(site)).out


@pytest.mark.exhaustive
def test_the_package_for_another_architecture(reading: ToolchainWorkspace, site: Path) -> None:
    install(site, "modelbuild_runtime_aarch64", "1.0", runtime("other", "modelbuild_runtime_aarch64"))
    reading.write({"a/s.py": READS.format(module="modelbuild_runtime_aarch64")})
    reading.edit("a/BUILD.toml", '"modelbuild-runtime"', '"modelbuild-runtime-aarch64"')
    assert read(reading, site)[1] == ["other", "program"]


def test_it_has_the_same_key_as_without_a_toolchain(reading: ToolchainWorkspace, site: Path) -> None:
    install(site, "alpha", "1.0", {"alpha/__init__.py": "import beta\nX = 1\n"}, ("beta",))  # as in the lock
    install(site, "beta", "1.0", {"beta.py": "Y = 1\n"})
    read(reading, site)
    statuses, _ = read(reading, site, "--toolchain=installed")
    assert statuses == {"//a:s#script": "cached", "//a:t#script": "cached"}


def test_another_release_reruns_what_uses_it_and_nothing_else(reading: ToolchainWorkspace, site: Path) -> None:
    read(reading, site)
    install(site, "modelbuild_runtime", "1.0", runtime("second"), ("alpha",))
    assert read(reading, site) == ({"//a:s#script": "ran", "//a:t#script": "cached"}, ["second", "program"])


def test_files_that_are_changed_in_place_are_in_the_key(reading: ToolchainWorkspace, site: Path) -> None:
    """Also data, with the size and the time of before, and files that no wheel installed."""
    read(reading, site)
    folder = site / "modelbuild_runtime_native"
    for file, content in ((folder / "runtime.json", "other"), (folder / "new", "")):
        file.write_text(content)
        os.utime(file, (1_700_000_000, 1_700_000_000))
        assert read(reading, site)[0]["//a:s#script"] == "ran"
    (folder / "new").unlink()
    (folder / "runtime.json").write_text("first")
    assert read(reading, site)[0]["//a:s#script"] == "cached"


def test_a_wheel_in_the_lock_is_used_instead(reading: ToolchainWorkspace, site: Path) -> None:
    reading.index.add("modelbuild_runtime", "2.0", runtime("pinned"))
    reading.write({"tools.lock": reading.index.lock})
    assert read(reading, site)[1] == ["pinned", "program"]
    (described,) = reading.run("aquery", SCRIPT, "--output=json", PYTHONPATH=str(site)).json["nodes"]
    assert described["tools"]["modelbuild-runtime"].startswith("2.0 ")


def test_the_runtime_of_a_checkout_is_used(reading: ToolchainWorkspace) -> None:
    """The checkout's own modelbuild-runtime is installed in editable mode."""
    source = READS.format(module="modelbuild_runtime_native").partition("result =")[0]
    names = "sorted(each.name for each in (folder / 'bin').iterdir())"
    reading.write({"a/s.py": f"{source}result = {names}\n"})
    ended = reading.build("//a:all")
    assert ended.code == 0, ended.err
    assert eval((reading.root / OUTPUT).read_text()) == ["modelbuild-run"]


@pytest.mark.exhaustive
def test_explain_names_it(reading: ToolchainWorkspace, site: Path) -> None:
    read(reading, site)
    install(site, "modelbuild_runtime", "1.1", runtime("first"), ("alpha",))
    read(reading, site)
    assert "modelbuild-runtime" in reading.run("explain", SCRIPT, PYTHONPATH=str(site)).out


def test_a_bill_of_materials_has_its_licence(reading: ToolchainWorkspace, site: Path) -> None:
    with (site / "modelbuild_runtime-1.0.dist-info/METADATA").open("a") as file:
        file.write("License-Expression: BSD-3-Clause\n")
    ended = reading.run("sbom", SCRIPT, PYTHONPATH=str(site))
    assert ended.code == 0, ended.err
    found = {each["name"]: each for each in json.loads(ended.out)["components"]}
    assert "BSD-3-Clause" in json.dumps(found["modelbuild-runtime"]["licenses"])
