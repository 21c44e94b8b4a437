"""Rules of a workspace tested without a build."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from modelbuild.api import Files
from modelbuild.errors import LoadingError
from modelbuild.rule_runner import RuleRunner
from modelbuild.step import StepError

RULES = {
    "MODELBUILD.toml": 'rules = ["//tools/rules"]\n',
    "tools/rules/__init__.py": "",
    "tools/rules/shout.py": """
from modelbuild.api import Attrs, Context, Dep, Files, Output, Provider, Sources, rule

class ShoutAttrs(Attrs):
    srcs: Sources = ()
    of: Dep | None = None
    device: Dep | None = None
    misspelt: bool = False

@rule(attrs=ShoutAttrs)
def shout(ctx: Context[ShoutAttrs]) -> tuple[Files]:
    if ctx.attrs.misspelt:
        raise ctx.error("scrs", "expected files")
    of = ctx.provider(ctx.attrs.of, Files).files if ctx.attrs.of else ()
    made = ctx.action(
        "list", step="shout", inputs={"srcs": ctx.files(ctx.attrs.srcs), "of": of}, outputs=[Output("all", "all.txt")],
        params={"mark": "!", "device": str(ctx.device_label)})

    def each(ctx, data):
        for number, line in enumerate(data.decode().split()):
            made = ctx.action("one", name=f"one:{number}", step="shout", outputs=[Output("all", "t", "tree")])
        return {"last": made["all"]}

    ctx.expand(reads=made["all"], promises=["last"], then=each)
    return (Files((made["all"],)),)
""",
    "tools/rules/steps/__init__.py": "",
    "tools/rules/steps/shout.py": """
from pathlib import Path
from modelbuild.step import StepError

def run(step):
    texts = [path.read_text() for name in ("srcs", "of") for path in step.inputs.get(name, ())]
    if not texts:
        raise StepError("nothing to shout")
    assert Path("a.txt").exists()
    step.outputs["all"].write_text("".join(texts).upper() + step.params["mark"])
""",
}
BUILD = """
[[shout]]
name = "a"
srcs = ["a.txt"]
[[shout]]
name = "b"
of = ":a"
[[shout]]
name = "none"
[[shout]]
name = "wrong"
srcs = ["missing.txt"]
[[shout]]
name = "misspelt"
misspelt = true
[[device_target]]
name = "board"
arch = "aarch64"
"""


@pytest.fixture
def runner(tmp_path: Path) -> RuleRunner:
    for name, text in RULES.items():
        (tmp_path / "own" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "own" / name).write_text(text)
    return RuleRunner(tmp_path / "test", {"BUILD.toml": BUILD, "a.txt": "hello"}, rules_of=tmp_path / "own")


def test_a_target_has_its_own_actions_and_providers(runner: RuleRunner) -> None:
    target = runner.target("//:b")
    assert list(target.actions) == ["list"]
    assert target.actions["list"].params == {"mark": "!", "device": "None"}
    assert target.provider(Files).files == tuple(target.files)
    assert set(runner.actions) == {"//:a#list", "//:b#list"}
    with pytest.raises(LookupError, match="provides no Target"):
        target.provider(type("Target", (Files,), {}))


def test_a_step_reads_the_workspace_and_the_files_that_it_is_given(runner: RuleRunner) -> None:
    first = runner.run(runner.target("//:a").actions["list"])
    assert first["all"].read_text() == "HELLO!"
    second = runner.target("//:b").actions["list"]
    with pytest.raises(ValueError, match="//:b#list reads 'of' of another action; expected of=PATH"):
        runner.run(second)
    assert runner.run(second, of=first["all"])["all"].read_text() == "HELLO!!"
    with pytest.raises(StepError, match="nothing to shout"):
        runner.run(runner.target("//:none").actions["list"])


def test_an_expansion_declares_actions_for_a_content(runner: RuleRunner) -> None:
    target = runner.target("//:a")
    last = target.expand(b"one two")["last"]
    assert list(target.actions) == ["list", "one:0", "one:1"]
    assert last.action == target.actions["one:1"].id


def test_a_target_for_a_device_is_another(runner: RuleRunner) -> None:
    target = runner.target("//:a", device="//:board")
    assert target.id == "//:a (//:board)"
    assert target.actions["list"].params["device"] == "//:board"


def test_the_documented_test_passes(repository: Path, tmp_path: Path) -> None:
    text = (repository / "docs/how-to/custom-rule.md").read_text()
    files = dict(re.findall(r"^`([\w/]+\.py)`\n\n```python\n(.*?)```", text, re.DOTALL | re.MULTILINE))
    package = {"MODELBUILD.toml": 'rules = ["//tools/rules"]\n', "tools/rules/steps/__init__.py": ""}
    for name, content in {**files, **package}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "tests/test_checksums.py"]
    assert "1 passed" in subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout


def test_an_error_at_an_attribute_that_the_rule_lacks_is_the_rules_mistake(runner: RuleRunner) -> None:
    with pytest.raises(Exception, match=r"the rule has no attribute .scrs.; did you mean .srcs."):
        runner.target("//:misspelt")


def test_an_error_of_a_build_file_has_its_place(runner: RuleRunner) -> None:
    with pytest.raises(LoadingError) as raised:
        runner.target("//:wrong")
    assert str(raised.value.location) == "BUILD.toml:12:9"
