"""A step and its programs read only those modules of their package that are in the key."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

# The first imports the step itself; the others may find it imported.
TARGETS = ("one", "two", "three")

# Reads files beside itself by programs.
NATIVE = """
    import json, os, subprocess
    FOLDER = os.path.dirname(__file__)
    READ = ["perl", "-e", "open(my $file, '<', $ARGV[0]) or exit 1; print <$file>"]
    def run(step):
        names = ("templates.txt", "_other.py", os.path.basename(__file__))
        read = [subprocess.run([*READ, f"{FOLDER}/{name}"], stdout=subprocess.PIPE, text=True).stdout for name in names]
        step.outputs["out"].write_text(json.dumps([*read[:2], read[2] == open(__file__).read()]))
"""

# Reads a file beside itself.
PYTHON = """
    from pathlib import Path
    def run(step):
        step.outputs["out"].write_text(Path(__file__).with_name("{name}").read_text())
"""


def with_files(workspace: Any, source: str) -> None:
    for name in ("templates.txt", "_other.py"):
        workspace.write({f"probe/steps/{name}": "'not in the key'"})
    workspace.step("reads", source)
    for name in TARGETS:
        workspace.target(name, "reads")


def test_a_program_reads_modules_of_the_key_only(workspace: Any) -> None:
    with_files(workspace, NATIVE)
    done = workspace.build_all()
    assert done.code == 0, done.err
    assert [workspace.value(name) for name in TARGETS] == [["", "", True]] * 3


def test_a_package_on_the_import_path_is_no_exception(workspace: Any, tmp_path: Path) -> None:
    """For example an installed package, which lies in a folder that every action may read."""
    with_files(workspace, NATIVE)
    shutil.move(workspace.root / "probe", tmp_path / "packages/probe")
    (tmp_path / "packages/beside.py").write_text("")
    workspace.write({"MODELBUILD.toml": 'rules = ["probe"]\n'})
    done = workspace.build_all(PYTHONPATH=str(tmp_path / "packages"))
    assert done.code == 0, done.err
    assert [workspace.value(name) for name in TARGETS] == [["", "", True]] * 3


@pytest.mark.parametrize("name", ["templates.txt", "_other.py"])
def test_python_code_reads_modules_of_the_key_only(workspace: Any, name: str) -> None:
    with_files(workspace, PYTHON.format(name=name))
    done = workspace.build_all()
    assert done.code == 1
    if name == "_other.py":
        assert done.err.count("internal error in step probe.steps.reads: it loads probe.steps._other, which") == 3
    else:
        assert done.err.count("step probe.steps.reads reads probe/steps/templates.txt, which is not a declared") == 3


def test_a_step_imports_what_its_source_names(workspace: Any) -> None:
    """Another module of the package, a module in a subpackage, and one of modelbuild."""
    workspace.write({"probe/steps/deep/__init__.py": "from probe.steps.deep._inner import VALUE\n"})
    workspace.write({"probe/steps/deep/_inner.py": "VALUE = 7\n"})
    workspace.step(
        "imports",
        """
        from modelbuild.step import Step
        def run(step: Step) -> None:
            from probe.steps import deep
            step.outputs["out"].write_text(str(deep.VALUE))
        """,
    )
    for name in TARGETS:
        workspace.target(name, "imports")
    done = workspace.build_all()
    assert done.code == 0, done.err
    assert [workspace.value(name) for name in TARGETS] == [7, 7, 7]
