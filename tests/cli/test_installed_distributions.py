"""Installed distributions in keys: by version and content, with their requirements."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.script_rule import FILES, OUTPUT, SCRIPT, install, write

ALPHA = {"alpha/__init__.py": "from alpha.net import X\n", "alpha/net.py": "X = 1\n", "alpha/data.txt": "1"}


class Site:
    """A workspace with one script that uses `alpha`, which is installed in `folder`."""

    def __init__(self, world: Any, folder: Path) -> None:
        self.world = world
        self.folder = folder
        folder.mkdir()
        install(folder, "alpha", "1.0", ALPHA)
        world.write({**FILES, "a/s.py": "import alpha\nresult = alpha.X\n"})

    def run(self, *arguments: str) -> Any:
        path = os.pathsep.join([str(self.folder), *filter(None, [os.environ.get("PYTHONPATH")])])
        return self.world.run(*arguments, PYTHONPATH=path)

    def build(self) -> str:
        """Return the end of the script's action ('' if there was nothing to do), and its output."""
        ended = self.run("build", SCRIPT, "--json")
        assert ended.code == 0, ended.err + ended.out
        statuses = [action["status"] for action in ended.json["actions"]]
        return f"{' '.join(statuses)} {(self.world.root / OUTPUT).read_text()}".strip()

    def build_with_something_to_do(self) -> str:
        """A change that no build with nothing to do notices is noticed by a build that looks at the target."""
        with (self.world.root / "a/BUILD.toml").open("a") as file:
            file.write("#\n")
        return self.build()


@pytest.fixture
def site(world: Any, tmp_path: Path) -> Site:
    return Site(world, tmp_path / "site")


def test_another_version_is_another_key(site: Site) -> None:
    assert site.build() == "ran 1"
    install(site.folder, "alpha", "2.0", {**ALPHA, "alpha/net.py": "X = 2\n"})
    assert site.build() == "ran 2"
    install(site.folder, "alpha", "1.0", ALPHA)
    assert site.build() == "cached 1"


def test_other_content_of_the_same_version_is_another_key(site: Site) -> None:
    """For example a project that is installed again after each edit."""
    assert site.build() == "ran 1"
    install(site.folder, "alpha", "1.0", {**ALPHA, "alpha/net.py": "X = 2\n"})
    assert site.build() == "ran 2"
    explained = site.run("explain", SCRIPT).out
    assert "alpha 1.0 has other files (" in explained
    install(site.folder, "alpha", "1.0", ALPHA)
    assert site.build() == "cached 1"


@pytest.mark.parametrize(
    ("files", "ran"),
    [
        ({"alpha/net.py": "X = 2\n"}, "ran 2"),
        ({"alpha/net.py": "X = 1 + 1\n"}, "ran 2"),
        ({"alpha/more.py": "Y = 1\n"}, "ran 1"),
        ({"alpha/net.py": "X = 1\n"}, "cached 1"),
        ({"alpha/notes.txt": "", "alpha/__pycache__/net.pyc": "", "elsewhere.py": ""}, "cached 1"),
    ],
    ids=["same size", "another size", "a new module", "written to with what was there", "what is no code"],
)
def test_a_package_that_is_patched_in_place_is_another_key(site: Site, files: dict[str, str], ran: str) -> None:
    assert site.build() == "ran 1"
    write(site.folder, files)
    assert site.build_with_something_to_do() == ran
    assert site.build_with_something_to_do() == ran.replace("ran", "cached")


def test_a_patch_is_seen_by_builds_with_nothing_else_to_do_once_it_is_known(site: Site) -> None:
    assert site.build() == "ran 1"
    write(site.folder, {"alpha/net.py": "X = 2\n"})
    assert site.build() == "1"
    assert site.build_with_something_to_do() == "ran 2"
    write(site.folder, {"alpha/net.py": "X = 3\n"})
    assert site.build() == "ran 3"


def test_a_module_that_is_taken_out_is_another_key(site: Site) -> None:
    install(site.folder, "alpha", "1.0", {**ALPHA, "alpha/extra.py": ""})
    assert site.build() == "ran 1"
    (site.folder / "alpha/extra.py").unlink()
    assert site.build_with_something_to_do() == "ran 1"


def test_where_and_when_it_is_installed_is_in_no_key(site: Site, tmp_path: Path) -> None:
    assert site.build() == "ran 1"
    site.folder = tmp_path / "another"
    site.folder.mkdir()
    install(site.folder, "beta", "1.0", {"beta.py": ""})
    install(site.folder, "alpha", "1.0", ALPHA)
    for file in site.folder.rglob("*"):
        os.utime(file)
    assert site.build() == "cached 1"


def test_what_a_named_distribution_requires_is_in_the_key(site: Site) -> None:
    """Requirements are followed if they apply to this machine, and those of an extra if it is named."""
    requires = {
        "named": ("second", "other; sys_platform == 'win32'", "third; extra == 'big'", "not-installed"),
        "second": ("fourth[big]",),
        "fourth": ("fifth; extra == 'big' and python_version >= '3'",),
    }
    for name in ("named", "second", "other", "third", "fourth", "fifth"):
        install(site.folder, name, "1.0", {f"{name}.py": ""}, requires.get(name, ()))
    site.world.edit("a/BUILD.toml", "srcs", 'requires = ["named"]\nsrcs')
    assert site.build() == "ran 1"
    (described,) = site.run("aquery", SCRIPT, "--output=json").json["nodes"]
    assert {name: state.split()[0] for name, state in described["tools"].items()} == dict.fromkeys(
        ("alpha", "fifth", "fourth", "named", "second"), "1.0"
    )
    for name, ran in (("other", "cached"), ("third", "cached"), ("fifth", "ran"), ("second", "ran"), ("named", "ran")):
        install(site.folder, name, "2.0", {f"{name}.py": ""}, requires.get(name, ()))
        assert site.build() == f"{ran} 1", name
    site.world.edit("a/BUILD.toml", '"named"', '"named[big]"')
    assert site.build() == "ran 1"
    install(site.folder, "third", "3.0", {"third.py": ""})
    assert site.build() == "ran 1"


def test_a_distribution_that_is_installed_during_the_build_gives_no_result(site: Site) -> None:
    import subprocess
    import sys
    import time

    script = "import os, tempfile, time, alpha\nopen('.outputs/out.txt', 'w').close()\nresult = alpha.X\n"
    script += "while not os.path.exists(tempfile.gettempdir() + '/go'):\n    time.sleep(0.01)\n"
    site.world.write({"a/s.py": script})
    environment = site.world.environment(PYTHONPATH=str(site.folder))
    command = [sys.executable, "-m", "modelbuild", "build", SCRIPT, "--quiet"]
    build = subprocess.Popen(command, cwd=site.world.root, env=environment, stderr=subprocess.PIPE, text=True)
    while build.poll() is None and not list((site.world.cache / "tmp").glob("build-*/*/.outputs/*")):
        time.sleep(0.01)
    install(site.folder, "alpha", "1.0", ALPHA)
    said = site.world.let_go(build)
    assert build.returncode == 1
    assert "alpha was installed anew during the build; build again" in said
