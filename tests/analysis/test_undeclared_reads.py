"""What the code of rule packages reads besides attributes: an error at its place, or part of the next build's check."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.workspace_builder import Workspace, write

RULE = """from modelbuild.api import Attrs, Context, Files, Output, rule
{top}

def read():
    return {read}


class StampAttrs(Attrs):
    pass


@rule(attrs=StampAttrs)
def stamp(ctx: Context[StampAttrs]) -> tuple[Files]:
    params = {{"text": str({use})}}
    return (Files((ctx.action("stamp", step="stamp", outputs=[Output("out", "out")], params=params)["out"],)),)
"""
STEP = "def run(step):\n    step.outputs['out'].write_text(step.params['text'])\n"
OUTPUT = "modelbuild-out/default/s/out"
READS = {
    "a file": ("open('{root}/data').read()", "reads data", "Source"),
    "a file by pathlib": ("Path('{root}/data').read_bytes()", "reads data", "Source"),
    "a file by its descriptor": ("os.open('{root}/data', os.O_RDONLY)", "reads data", "Source"),
    "whether a file exists": ("os.path.exists('{root}/data')", "looks for data", "Source"),
    "a missing file": ("Path('{root}/missing').is_file()", "looks for missing", "Source"),
    "a file's size": ("Path('{root}/data').stat().st_size", "looks for data", "Source"),
    "a folder": ("os.listdir('{root}')", "lists {root}", "Sources"),
    "a folder by glob": ("list(Path('{root}').glob('*'))", "lists {root}", "Sources"),
    "a variable": ("os.environ.get('WANTED')", "reads the environment variable WANTED", "attribute"),
    "a variable by getenv": ("os.getenv('WANTED')", "reads the environment variable WANTED", "attribute"),
    "the environment": ("dict(os.environ)", "reads the environment", "attribute"),
    "a program": ("subprocess.run(['cat', '{root}/data'])", "runs cat", "step runs"),
    "a program by its shell": ("os.system('true')", "runs true", "step runs"),
    "a database": ("sqlite3.connect('{root}/data')", "reads data", "Source"),
    "the network": ("socket.create_connection(('127.0.0.1', 9))", "uses the network", "network=True"),
}
TOP = "import os, socket, sqlite3, subprocess\nfrom pathlib import Path\n"


def declare(workspace: Workspace, **parts: str) -> None:
    texts = {"top": "", "read": "None", "use": "read()", **parts}
    files = {"MODELBUILD.toml": 'rules = ["//rules"]\n', "BUILD.toml": '[[stamp]]\nname = "s"\n', "data": "1"}
    files |= {"rules/__init__.py": "", "rules/stamp.py": RULE.format(**texts)}
    workspace.write({**files, "rules/steps/__init__.py": "", "rules/steps/stamp.py": STEP})


def settled(workspace: Workspace, **environment: str) -> str:
    """Build until there is nothing to do; return the output."""
    for _ in range(5):
        ended = workspace.run("build", "//:s", **environment)
        assert ended.code == 0, ended.err
        if ended.nothing_to_do:
            return (workspace.root / OUTPUT).read_text()
    raise AssertionError(ended.out)


@pytest.mark.sampled
@pytest.mark.parametrize("when", ["called", "imported"])
@pytest.mark.parametrize("kind", READS)
def test_a_read_is_an_error_at_its_place(workspace: Workspace, kind: str, when: str) -> None:
    read, problem, expected = (text.replace("{root}", str(workspace.root)) for text in READS[kind])
    here = {"called": {"read": read}, "imported": {"read": f"{read}\n\nVALUE = read()", "use": "VALUE"}}[when]
    declare(workspace, top=TOP, **here)
    ended = workspace.run("build", "//:s")
    line = TOP.count("\n") + 5
    when_read = "while rules are analysed, so no later build would notice a change; expected"
    assert ended.code == 3, ended.err
    assert ended.err.startswith(f"error: rules/stamp.py:{line}:12: {problem} {when_read}")
    assert expected in ended.err
    assert ended.err.count("\n") == 1


def test_a_refusal_that_a_rule_handles_is_still_an_error(workspace: Workspace) -> None:
    top = "def handled():\n    try:\n        return open('data')\n    except Exception:\n        return 0\n"
    declare(workspace, top=top, use="handled()")
    assert "error: rules/stamp.py:4:16: reads " in workspace.run("build", "//:s").err


def test_a_validator_and_an_expansion_read_nothing_either(workspace: Workspace) -> None:
    declare(workspace)
    validator = "import os\nfrom pydantic import model_validator\n"
    field = "    @model_validator(mode='after')\n    def check(self):\n        os.listdir('/')\n        return self\n"
    workspace.edit("rules/stamp.py", "class StampAttrs(Attrs):\n    pass\n", f"class StampAttrs(Attrs):\n{field}\n")
    workspace.write({"rules/stamp.py": validator + (workspace.root / "rules/stamp.py").read_text()})
    assert ":9: lists / while" in workspace.run("build", "//:s").err

    declare(workspace)
    made = 'ctx.action("stamp", step="stamp", outputs=[Output("out", "out")], params=params)["out"]'
    later = f'ctx.expand(reads={made}, promises=["out"], then=lambda ctx, data: open("data"))["out"]'
    workspace.edit("rules/stamp.py", made, later)
    ended = workspace.run("build", "//:s")
    assert (ended.code, "reads " in ended.err, "rules/stamp.py:15:" in ended.err) == (1, True, True), ended.err


def test_rules_may_look_at_code(workspace: Workspace) -> None:
    """At modules of their package, and at installed distributions: records contain both. A warning shows its line."""
    top = "import inspect, warnings\nfrom importlib import metadata\nfrom pathlib import Path\n"
    looks = "inspect.getsource(read), metadata.version('pydantic'), Path(__file__).parent.is_dir(), warnings.warn('w')"
    declare(workspace, top=top, use=f"[{looks}][2]")
    assert settled(workspace) == "True"


@pytest.mark.parametrize("kind", ["a module", "a package", "an archive"])
def test_an_edit_of_a_module_that_a_rule_imports_is_noticed(workspace: Workspace, tmp_path: Path, kind: str) -> None:
    """Whether it is on PYTHONPATH or installed, and whatever its time is."""
    import zipfile

    folder = tmp_path / "path"
    name = {"a module": "extra.py", "a package": "extra/__init__.py", "an archive": "extra.zip"}[kind]

    def save(value: str) -> None:
        if kind == "an archive":
            folder.mkdir(exist_ok=True)
            with zipfile.ZipFile(folder / name, "w") as archive:
                archive.writestr("extra.py", f"VALUE = {value}\n")
        else:
            write(folder, {name: f"VALUE = {value}\n"})
        os.utime(folder / name, (1_600_000_000, 1_600_000_000))

    save("1")
    declare(workspace, top="import extra", use="extra.VALUE")
    place = folder / name if kind == "an archive" else folder
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, [str(place), os.environ.get("PYTHONPATH")]))}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    assert settled(workspace, **environment) == "1"
    save("2")
    assert settled(workspace, **environment) == "2"


def test_a_module_outside_the_package_reads_nothing_either(workspace: Workspace, tmp_path: Path) -> None:
    write(tmp_path / "path", {"extra.py": "import os\nVALUE = os.environ.get('WANTED', '')\n"})
    declare(workspace, top="import extra", use="extra.VALUE")
    ended = workspace.run("build", "//:s", PYTHONPATH=str(tmp_path / "path"))
    assert (ended.code, f"{tmp_path}/path/extra.py:2:9: reads the environment variable WANTED" in ended.err) == (
        3,
        True,
    )


def test_a_rule_may_write(workspace: Workspace, tmp_path: Path) -> None:
    declare(workspace, read=f"open('{tmp_path}/written', 'a').write('analysed')")
    assert settled(workspace) == "8"
