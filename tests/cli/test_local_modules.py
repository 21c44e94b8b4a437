"""Code that no installed distribution vouches for: its content is in keys, wherever Python imports it from."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.script_rule import FILES, OUTPUT, SCRIPT, WAITS, install
from tests.workspace_builder import Workspace, write

NET = "from lib import _sizes\nWIDTH = 3 * _sizes.ONE\n"
LIB = {"lib/__init__.py": "", "lib/net.py": NET, "lib/_sizes.py": "ONE = 1\n", "lib/train.py": "import no_such_thing\n"}
USES = "from lib.net import WIDTH\nresult = WIDTH\n"

# Ways to make Python import a package `lib` in {folder}: files of a folder on PYTHONPATH.
FINDER = """
import importlib.util, sys
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "lib":
            file = {folder!r} + "/lib/__init__.py"
            return importlib.util.spec_from_file_location(name, file, submodule_search_locations=[{folder!r} + "/lib"])
sys.meta_path.append(Finder)
"""


class Scripts:
    """A workspace with one script, and a folder `site` that Python imports from."""

    def __init__(self, workspace: Workspace, folder: Path) -> None:
        self.workspace = workspace
        self.site = folder / "site"
        self.site.mkdir()
        self.path = [str(self.site)]
        workspace.write({**FILES, "a/s.py": USES})

    @property
    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": os.pathsep.join([*self.path, *filter(None, [os.environ.get("PYTHONPATH")])])}

    def editable(self, project: Path) -> None:
        install(self.site, "my_lib", "1.0", {})
        url = {"url": project.as_uri(), "dir_info": {"editable": True}}
        write(self.site / "my_lib-1.0.dist-info", {"direct_url.json": json.dumps(url), "top_level.txt": "lib\n"})

    def build(self, *arguments: str) -> str:
        """Return the end of the script's action ('' if there was nothing to do), and its output."""
        statuses = self.workspace.build(SCRIPT, *arguments, **self.environment).statuses
        return f"{' '.join(statuses.values())} {(self.workspace.root / OUTPUT).read_text()}".strip()

    def fail(self) -> str:
        ended = self.workspace.run("build", SCRIPT, "--quiet", **self.environment)
        assert ended.code == 1, ended.err + ended.out
        return ended.err


@pytest.fixture
def scripts(workspace: Workspace, tmp_path: Path) -> Scripts:
    return Scripts(workspace, tmp_path)


WAYS = ["PYTHONPATH", "PYTHONPATH in the workspace", "editable by path", "editable by a finder"]
REST = {"PYTHONPATH in the workspace", "editable by a finder"}
every_way = pytest.mark.parametrize(
    "lib", [pytest.param(way, marks=pytest.mark.exhaustive if way in REST else ()) for way in WAYS], indirect=True
)


@pytest.fixture
def lib(request: pytest.FixtureRequest, scripts: Scripts, tmp_path: Path) -> Path:
    """Return the folder that contains LIB."""
    way = getattr(request, "param", WAYS[0])
    folder = scripts.workspace.root / "src" if "workspace" in way else tmp_path / "project/src"
    write(folder, LIB)
    if "finder" in way:
        write(scripts.site, {"sitecustomize.py": FINDER.format(folder=str(folder))})
    else:
        scripts.path.append(str(folder))
    if "editable" in way:
        scripts.editable(tmp_path / "project")
    return folder


@every_way
def test_an_edit_is_seen_and_gives_a_result_of_its_own(scripts: Scripts, lib: Path) -> None:
    assert scripts.build() == "ran 3"
    assert scripts.build() == "3"
    write(lib, {"lib/_sizes.py": "ONE = 5\n"})
    assert scripts.build() == "ran 15"
    assert scripts.build() == "15"
    write(lib, {"lib/_sizes.py": "ONE = 1\n"})
    assert scripts.build() == "cached 3"


def test_any_file_of_the_package_counts_and_nothing_else_does(scripts: Scripts, lib: Path) -> None:
    assert scripts.build() == "ran 3"
    write(lib, {"lib/data/sizes.json": "[1]"})
    assert scripts.build() == "ran 3"
    (lib / "lib/data/sizes.json").unlink()
    (lib / "lib/data").rmdir()
    assert scripts.build() == "cached 3"
    write(lib, {"other.py": "", "lib/.hidden": "", "lib/__pycache__/x.pyc": ""})
    assert scripts.build() in ("cached 3", "3")


@pytest.mark.parametrize("lib", ["PYTHONPATH in the workspace", "editable by path"], indirect=True)
def test_the_same_content_elsewhere_has_the_same_key(scripts: Scripts, lib: Path, tmp_path: Path) -> None:
    assert scripts.build() == "ran 3"
    there = tmp_path / "elsewhere"
    other = Scripts(Workspace(there, cache=scripts.workspace.cache), there)
    write(there / "lib", LIB)
    other.path.append(str(there / "lib"))
    if scripts.path[0] != str(lib) and list(scripts.site.glob("*.dist-info")):
        other.editable(there)
    assert other.build() == "cached 3"


@every_way
def test_it_reads_its_own_files_and_no_others(scripts: Scripts, lib: Path) -> None:
    net = "from pathlib import Path\nWIDTH = Path(__file__).with_name('{}').read_text()\n"
    write(lib, {"lib/net.py": net.format("text.txt"), "lib/text.txt": "mine", "beside.txt": "not mine"})
    assert scripts.build() == "ran mine"
    write(lib, {"lib/net.py": net.format("../../beside.txt")})
    assert "beside.txt" in scripts.fail()


@pytest.mark.parametrize("layout", ["src", pytest.param("flat", marks=pytest.mark.exhaustive)])
def test_editable_installs_of_pip(scripts: Scripts, tmp_path: Path, layout: str) -> None:
    """By a .pth file with a path, and by a finder, which setuptools takes for a flat layout."""
    import subprocess
    import sysconfig
    import venv

    project = tmp_path / "project"
    folder = project / "src" if layout == "src" else project
    write(folder, {**LIB, "lib/train.py": ""})
    where = 'where = ["src"]' if layout == "src" else 'include = ["lib*"]'
    text = f'[project]\nname = "my-lib"\nversion = "1.0"\n[tool.setuptools.packages.find]\n{where}\n'
    write(project, {"pyproject.toml": text, "setup.cfg": ""})
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    python = tmp_path / "venv/bin/python"
    (site,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    write(site, {"outer.pth": f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"})
    command = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "-e", "."]
    subprocess.run([*map(str, command)], cwd=project, check=True)

    def build() -> tuple[str, str]:
        ended = scripts.workspace.run("build", SCRIPT, program=(str(python), "-m", "modelbuild"))
        assert ended.code == 0, ended.err
        return ended.out.splitlines()[-1].partition(":")[0], (scripts.workspace.root / OUTPUT).read_text()

    assert build()[1] == "3"
    assert build() == ("Nothing to do", "3")
    write(folder, {"lib/_sizes.py": "ONE = 2\n"})
    assert build()[1] == "6"
    assert build() == ("Nothing to do", "6")


def test_a_module_that_is_one_file_and_imports_another(scripts: Scripts, tmp_path: Path) -> None:
    write(tmp_path / "code", {"one.py": "import two\nX = two.X\n", "two.py": "X = 1\n", "three.py": ""})
    scripts.path.append(str(tmp_path / "code"))
    scripts.workspace.write({"a/s.py": "import one\nresult = one.X\n"})
    assert scripts.build() == "ran 1"
    write(tmp_path / "code", {"three.py": "edited = True\n"})
    assert scripts.build() == "1"
    write(tmp_path / "code", {"two.py": "X = 2\n"})
    assert scripts.build() == "ran 2"


def test_packages_in_mere_folders_are_apart(scripts: Scripts, tmp_path: Path) -> None:
    for place, name in (("one", "models"), ("two", "data")):
        write(tmp_path / place, {f"company/{name}/__init__.py": f"X = {name!r}\n"})
        scripts.path.append(str(tmp_path / place))
    scripts.workspace.write({"a/s.py": "import company.models\nresult = company.models.X\n"})
    assert scripts.build() == "ran models"
    write(tmp_path / "two", {"company/data/__init__.py": ""})
    assert scripts.build() == "models"
    write(tmp_path / "one", {"company/models/__init__.py": "X = 'new'\n"})
    assert scripts.build() == "ran new"


def test_modules_that_shadow_a_package_are_keyed_by_content(scripts: Scripts, tmp_path: Path) -> None:
    install(scripts.site, "lib", "1.0", {"lib/__init__.py": "", "lib/net.py": "WIDTH = 'installed'\n"})
    assert scripts.build() == "ran installed"
    write(tmp_path / "code", {"lib/__init__.py": "", "lib/net.py": "WIDTH = 'mine'\n"})
    scripts.path.insert(0, str(tmp_path / "code"))
    assert scripts.build() == "ran mine"
    write(tmp_path / "code", {"lib/net.py": "WIDTH = 'edited'\n"})
    assert scripts.build() == "ran edited"
    scripts.path.pop(0)
    assert scripts.build() == "cached installed"


def test_nothing_is_imported_ahead_that_a_local_module_takes_the_place_of(scripts: Scripts, tmp_path: Path) -> None:
    """The children of a fork server find its imports imported."""
    install(scripts.site, "alpha", "1.0", {"alpha.py": "import lib.net\n"})
    install(scripts.site, "lib", "1.0", {"lib/__init__.py": "", "lib/net.py": "WIDTH = 'installed'\n"})
    scripts.workspace.edit("tools/rules/script.py", "python=", 'preload=("alpha",),\n        python=')
    write(tmp_path / "code", {"lib/__init__.py": "", "lib/net.py": "WIDTH = 'mine'\n"})
    scripts.path.insert(0, str(tmp_path / "code"))
    assert scripts.build() == "ran mine"


@pytest.mark.parametrize("lib", ["editable by path", "editable by a finder"], indirect=True)
def test_nothing_is_imported_ahead_that_imports_a_local_module(scripts: Scripts, lib: Path) -> None:
    install(scripts.site, "alpha", "1.0", {"alpha.py": "from lib.net import WIDTH\n"}, requires=("my-lib",))
    scripts.workspace.edit("tools/rules/script.py", "python=", 'preload=("alpha",),\n        python=')
    scripts.workspace.write({"a/s.py": "import alpha\nresult = alpha.WIDTH\n"})
    assert scripts.build() == "ran 3"
    write(lib, {"lib/_sizes.py": "ONE = 5\n"})
    assert scripts.build() == "ran 15"


def test_imports_of_a_users_step_count(scripts: Scripts, lib: Path) -> None:
    scripts.workspace.edit(
        "tools/rules/steps/script.py", "import runpy, sys", "import runpy, sys\nfrom lib.net import WIDTH"
    )
    scripts.workspace.edit("tools/rules/steps/script.py", "step.outputs", "globals()['W'] = WIDTH\n    step.outputs")
    scripts.workspace.write({"a/s.py": "result = 0\n"})
    assert scripts.build() == "ran 0"
    write(lib, {"lib/_sizes.py": "ONE = 5\n"})
    assert scripts.build() == "ran 0"
    scripts.workspace.write({"a/s.py": "result = 1\n"})
    assert scripts.build() == "ran 1"


def test_an_import_that_cannot_be_seen_is_to_be_named(scripts: Scripts, lib: Path) -> None:
    scripts.workspace.write({"a/s.py": "import importlib\nresult = importlib.import_module('li' + 'b.net').WIDTH\n"})
    assert "no import statement names lib; add it to 'requires' of //a:s" in scripts.fail()
    scripts.workspace.edit("a/BUILD.toml", "srcs", 'requires = ["lib"]\nsrcs')
    assert scripts.build() == "ran 3"
    write(lib, {"lib/_sizes.py": "ONE = 5\n"})
    assert scripts.build() == "ran 15"


def test_its_imports_of_installed_packages_count(scripts: Scripts, lib: Path) -> None:
    install(scripts.site, "alpha", "1.0", {"alpha.py": "X = 1\n"})
    write(lib, {"lib/net.py": "def width():\n    import alpha\n    return alpha.X\nWIDTH = width()\n"})
    assert scripts.build() == "ran 1"
    install(scripts.site, "alpha", "2.0", {"alpha.py": "X = 2\n"})
    assert scripts.build() == "ran 2"
    write(lib, {"lib/net.py": "WIDTH = __import__('al' + 'pha').X\n"})
    hidden = "alpha is of the package 'alpha', which is not in the action's key; add 'alpha' to 'requires' of //a:s"
    assert hidden in scripts.fail()


def test_a_module_at_the_workspaces_root_is_a_source_to_declare(scripts: Scripts) -> None:
    write(scripts.workspace.root, LIB)
    scripts.path.append(str(scripts.workspace.root))
    assert "imports lib/__init__.py, which is not a declared input; add it to 'srcs' of //a:s" in scripts.fail()
    scripts.workspace.edit("a/BUILD.toml", '["s.py"]', '["s.py", "//:lib"]')
    own = '[[filegroup]]\nname = "lib"\nsrcs = ["lib/__init__.py", "lib/net.py", "lib/_sizes.py"]\n'
    scripts.workspace.write({"BUILD.toml": f'[package]\ndefault_visibility = ["//visibility:public"]\n{own}'})
    assert scripts.build() == "ran 3"


def test_where_a_build_is_started_decides_nothing(scripts: Scripts) -> None:
    """Although `python -m modelbuild` imports from the current folder as well."""
    write(scripts.workspace.root / "a", LIB)
    ended = scripts.workspace.run("build", SCRIPT, cwd=scripts.workspace.root / "a", **scripts.environment)
    assert ended.code == 1
    assert "No module named 'lib'" in ended.err


def test_an_archive_is_refused(scripts: Scripts, tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "code.zip", "w") as archive:
        archive.writestr("lib/__init__.py", "")
    scripts.path.append(str(tmp_path / "code.zip"))
    ended = scripts.workspace.run("build", SCRIPT, **scripts.environment)
    assert ended.code != 0
    assert "module lib is in" in ended.err
    assert "code.zip/lib/__init__.py, an archive; expected it unpacked, or installed" in ended.err


def test_an_editable_distribution_that_tells_no_modules_is_to_be_named_by_them(scripts: Scripts, lib: Path) -> None:
    scripts.editable(lib)
    write(scripts.site / "my_lib-1.0.dist-info", {"top_level.txt": ""})
    assert scripts.build() == "ran 3"  # imported, so its module is identified
    scripts.workspace.write({"a/s.py": "result = 1\n"})
    scripts.workspace.edit("a/BUILD.toml", "srcs", 'requires = ["my-lib"]\nsrcs')
    ended = scripts.workspace.run("build", SCRIPT, **scripts.environment)
    assert ended.code != 0
    assert f"my-lib is installed in editable mode, from {lib}, and does not list its modules" in ended.err


def test_the_change_is_explained(scripts: Scripts, lib: Path) -> None:
    scripts.build()
    write(lib, {"lib/_sizes.py": "ONE = 5\n"})
    explained = scripts.workspace.run("explain", SCRIPT, **scripts.environment)
    assert "local module lib/_sizes.py changed (" in explained.out
    scripts.build()
    write(lib, {"lib/new.py": ""})
    scripts.build()
    explained = scripts.workspace.run("explain", SCRIPT, **scripts.environment)
    assert "local module lib/new.py is new" in explained.out


def test_an_edit_during_the_build_gives_no_result(scripts: Scripts, lib: Path) -> None:
    """The script's file blocks the build until the package was edited."""
    scripts.workspace.write({"a/BUILD.toml": "".join(f'[[script]]\nname = "{n}"\nsrcs = ["{n}.py"]\n' for n in "st")})
    waits = f"from lib.net import WIDTH\n{WAITS}result = WIDTH\n"
    scripts.workspace.write({"a/s.py": waits, "a/t.py": waits + "# another\n"})
    build = scripts.workspace.start("build", "//a/...", "-j1", "--quiet", "--keep-going", **scripts.environment)
    scripts.workspace.wait_for_an_action(build)
    write(lib, {"lib/_sizes.py": "ONE = 5\n"})
    ended = scripts.workspace.let_go(build)
    assert ended.code == 1
    assert "lib/_sizes.py changed during the build; build again" in ended.err
    assert len(list((scripts.workspace.root / "modelbuild-out").glob("default/a/*/out.txt"))) == 1


def test_a_file_that_a_link_in_a_package_leads_to_later(scripts: Scripts, lib: Path) -> None:
    reads = "from pathlib import Path\nimport lib\nfound = Path(lib.__file__).parent / 'later.txt'\n"
    scripts.workspace.write({"a/s.py": f"{reads}result = found.read_text() if found.is_file() else 'nothing'\n"})
    (lib / "lib/later.txt").symlink_to("../text.txt")
    assert scripts.build() == "ran nothing"
    assert scripts.build() == "nothing"
    write(lib, {"text.txt": "there"})
    assert scripts.build() == "ran there"
