"""Long output of a failed action is in a file, and a few lines of it are on the screen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workspace_builder import Workspace

RULE = """
from modelbuild.api import Attrs, Context, Files, Output, rule

class FailingAttrs(Attrs):
    how: str

@rule(attrs=FailingAttrs)
def failing(ctx: Context[FailingAttrs]) -> tuple[Files]:
    made = ctx.action("fail", step="fail", outputs=[Output("o", "o")], params={"how": ctx.attrs.how})
    return (Files((made["o"],)),)
"""
STEP = """
import sys
from modelbuild.step import Step, StepError

GRAPH = "\\n".join(f"graph line {number}" for number in range(10_000))

def run(step: Step) -> None:
    how = step.params["how"]
    if how == "printed":
        print(GRAPH)
        print(GRAPH, file=sys.stderr)
        raise StepError("the reason")
    if how == "internal":
        raise RuntimeError(f"the reason\\n\\nWhile executing %x\\n{GRAPH}")
    if how == "one line":
        raise StepError("the reason " + "x" * 100_000)
    print("short")
    raise StepError("the reason")
"""
BUILD = '[[failing]]\nname = "target"\nhow = "{}"\n'


@pytest.fixture
def failing(tmp_path: Path) -> Workspace:
    files = {
        "MODELBUILD.toml": 'rules = ["//tools"]\n',
        "tools/__init__.py": "",
        "tools/failing.py": RULE,
        "tools/steps/__init__.py": "",
        "tools/steps/fail.py": STEP,
    }
    return Workspace(tmp_path, files)


FILE = "modelbuild-out/.modelbuild/failures/target~fail.txt"


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("printed", "the reason"),
        ("internal", "internal error in step tools.steps.fail: RuntimeError: the reason"),
        ("one line", "the reason xxx"),
    ],
)
def test_a_graph_is_in_a_file_and_not_on_the_screen(failing: Workspace, how: str, reason: str) -> None:
    failing.write({"BUILD.toml": BUILD.format(how)})
    ended = failing.run("build", "//:target")
    assert ended.code == 1
    assert len(ended.err) < 3000
    assert "graph line 500" not in ended.err
    (line,) = (line for line in ended.err.splitlines() if line.startswith("error: "))
    assert line.startswith(f"error: fail //:target: {reason}")
    assert line.endswith(f" (all of its output: {FILE})")
    kept = (failing.root / FILE).read_text()
    assert "the reason" in kept
    assert how == "one line" or "graph line 9999" in kept


def test_short_output_is_on_the_screen(failing: Workspace) -> None:
    failing.write({"BUILD.toml": BUILD.format("short")})
    ended = failing.run("build", "//:target")
    assert "short\nerror: fail //:target: the reason\n" in ended.err
    assert not (failing.root / FILE).exists()


def test_a_file_of_an_earlier_failure_is_replaced_and_cleaned(failing: Workspace) -> None:
    for how in ("printed", "one line"):
        failing.write({"BUILD.toml": BUILD.format(how)})
        failing.run("build", "//:target")
    assert "graph" not in (failing.root / FILE).read_text()
    assert [path.name for path in (failing.root / FILE).parent.iterdir()] == ["target~fail.txt"]
    assert failing.run("clean").code == 0
    assert not (failing.root / FILE).exists()


def test_a_link_in_place_of_the_folder_is_not_followed(failing: Workspace, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (failing.root / "modelbuild-out/.modelbuild").mkdir(parents=True)
    (failing.root / "modelbuild-out/.modelbuild/failures").symlink_to(tmp_path / "elsewhere")
    failing.write({"BUILD.toml": BUILD.format("printed")})
    failing.run("build", "//:target")
    assert (failing.root / FILE).is_file()
    assert not list((tmp_path / "elsewhere").iterdir())
