"""Installed distributions in keys: by version and content, with their requirements."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.command_runner import Ended
from tests.script_rule import FILES, OUTPUT, SCRIPT, WAITS, install
from tests.workspace_builder import Workspace, write

ALPHA = {"alpha/__init__.py": "from alpha.net import X\n", "alpha/net.py": "X = 1\n", "alpha/data.txt": "1"}


class Site:
    """A workspace with one script that uses `alpha`, which is installed in `folder`."""

    def __init__(self, workspace: Workspace, folder: Path) -> None:
        self.workspace = workspace
        self.folder = folder
        folder.mkdir()
        install(folder, "alpha", "1.0", ALPHA)
        workspace.write({**FILES, "a/s.py": "import alpha\nresult = alpha.X\n"})

    @property
    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": os.pathsep.join([str(self.folder), *filter(None, [os.environ.get("PYTHONPATH")])])}

    def run(self, *arguments: str) -> Ended:
        return self.workspace.run(*arguments, **self.environment)

    def build(self) -> str:
        """Return the end of the script's action ('' if there was nothing to do), and its output."""
        statuses = self.workspace.build(SCRIPT, **self.environment).statuses
        return f"{' '.join(statuses.values())} {(self.workspace.root / OUTPUT).read_text()}".strip()

    def build_with_something_to_do(self) -> str:
        """A change that no build with nothing to do notices is noticed by a build that looks at the target."""
        self.workspace.add("a/BUILD.toml", "#\n")
        return self.build()


@pytest.fixture
def site(workspace: Workspace, tmp_path: Path) -> Site:
    return Site(workspace, tmp_path / "site")


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


@pytest.mark.sampled
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


def test_requirements_of_a_named_distribution_are_in_the_key(site: Site) -> None:
    """Requirements are followed if they apply to this machine, and those of an extra if it is named."""
    requires = {
        "named": ("second", "other; sys_platform == 'win32'", "third; extra == 'big'", "not-installed"),
        "second": ("fourth[big]",),
        "fourth": ("fifth; extra == 'big' and python_version >= '3'",),
    }
    for name in ("named", "second", "other", "third", "fourth", "fifth"):
        install(site.folder, name, "1.0", {f"{name}.py": ""}, requires.get(name, ()))
    site.workspace.edit("a/BUILD.toml", "srcs", 'requires = ["named"]\nsrcs')
    assert site.build() == "ran 1"
    (described,) = site.run("aquery", SCRIPT, "--output=json").json["nodes"]
    assert {name: state.split()[0] for name, state in described["tools"].items()} == dict.fromkeys(
        ("alpha", "fifth", "fourth", "named", "second"), "1.0"
    )
    for name, ran in (("other", "cached"), ("third", "cached"), ("fifth", "ran"), ("second", "ran"), ("named", "ran")):
        install(site.folder, name, "2.0", {f"{name}.py": ""}, requires.get(name, ()))
        assert site.build() == f"{ran} 1", name
    site.workspace.edit("a/BUILD.toml", '"named"', '"named[big]"')
    assert site.build() == "ran 1"
    install(site.folder, "third", "3.0", {"third.py": ""})
    assert site.build() == "ran 1"


def test_a_distribution_that_is_installed_during_the_build_gives_no_result(site: Site) -> None:
    site.workspace.write({"a/s.py": f"import alpha\n{WAITS}result = alpha.X\n"})
    build = site.workspace.start("build", SCRIPT, "--quiet", **site.environment)
    site.workspace.wait_for_an_action(build)
    install(site.folder, "alpha", "1.0", ALPHA)
    ended = site.workspace.let_go(build)
    assert ended.code == 1
    assert "alpha was installed anew during the build; build again" in ended.err
