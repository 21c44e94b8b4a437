"""`modelbuild ci` in a repository of 300 targets and three commits, with everything that a job keeps."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import pytest
import yaml

from modelbuild.cli.group import cli
from tests.command_runner import MODELBUILD, Ended
from tests.workspace_builder import Workspace, write

PACKAGES = 29
RULES = {
    "tools/rules/__init__.py": "",
    "tools/rules/join.py": """
from modelbuild.api import Attrs, Files, Output, Sources, rule

class JoinAttrs(Attrs):
    srcs: Sources

@rule(attrs=JoinAttrs)
def join(ctx):
    inputs = {"srcs": ctx.files(ctx.attrs.srcs)}
    made = ctx.action("join", step="join", inputs=inputs, outputs=[Output("out", "out.txt")])
    return (Files((made["out"],)),)
""",
    "tools/rules/steps/__init__.py": "",
    "tools/rules/steps/join.py": """
from modelbuild.step import StepError

def run(step):
    text = "".join(path.read_text() for path in step.inputs["srcs"])
    if "broken" in text:
        raise StepError("it is broken")
    step.outputs["out"].write_text(text)
""",
    "MODELBUILD.toml": 'rules = ["//tools/rules"]\n',
    ".gitignore": "ci/\n",
}
TESTS = """
[[py_test]]
name = "first_test"
srcs = ["test_first.py", "first.py"]
[[py_test]]
name = "skipping_test"
srcs = ["test_skipping.py"]
"""


def package(number: int) -> str:
    """Return ten targets: each reads one file and the target before; the first one reads the last of another
    package."""
    lines = ['[package]\ndefault_visibility = ["//visibility:public"]']
    for index in range(10):
        before = f":t{index - 1}" if index else f"//p{number // 2}:t9" if number // 2 < number else ""
        srcs = [f"f{index}.txt", *([before] if before else [])]
        lines.append(f'[[join]]\nname = "t{index}"\nsrcs = {json.dumps(srcs)}')
    return "\n".join(lines) + "\n"


class Repository(Workspace):
    def __init__(self, folder: Path) -> None:
        files = dict(RULES)
        for number in range(PACKAGES):
            files[f"p{number}/BUILD.toml"] = package(number)
            files |= {f"p{number}/f{index}.txt": f"{number}.{index}\n" for index in range(10)}
        files["tests/BUILD.toml"] = TESTS + "".join(
            f'[[filegroup]]\nname = "g{index}"\nsrcs = ["first.py"]\n' for index in range(8)
        )
        files["tests/first.py"] = "def first():\n    return 1\n"
        files["tests/test_first.py"] = "from tests.first import first\n\ndef test_first():\n    assert first() == 1\n"
        files["tests/test_skipping.py"] = 'import pytest\n\ndef test_gpu():\n    pytest.skip("no GPU")\n'
        super().__init__(folder, files)
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("first")

    def job(self, revision: str) -> Ended:
        """Run docs/how-to/ci/ci.sh, which finds modelbuild on the PATH."""
        write(self.folder, {"bin/modelbuild": f'#!/bin/sh\nexec {shlex.join(MODELBUILD)} "$@"\n'})
        (self.folder / "bin/modelbuild").chmod(0o755)
        script = str(Path(__file__).parents[2] / "docs/how-to/ci/ci.sh")
        return self.run(revision, program=(script,), PATH=f"{self.folder}/bin:{os.environ['PATH']}")

    def size(self, target: str) -> int:
        """Bytes of a target's output."""
        return (self.root / f"modelbuild-out/default/{target.replace(':', '/')}/out.txt").stat().st_size

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.root / "ci/events.jsonl").read_text().splitlines()]

    def built(self) -> list[str]:
        """Return the targets of the job's first build."""
        return next(list(event["targets"]) for event in self.events() if event["event"] == "build_started")

    def actions_ran(self) -> int:
        return sum(event["event"] == "action_finished" and event["status"] == "ran" for event in self.events())


def actions_of_workers(tracks: dict[str, list[dict[str, Any]]]) -> int:
    """Return the number of actions on the tracks of workers. A slow action also has slices for parts of its work."""
    workers = [events for track, events in tracks.items() if track.startswith("worker")]
    return sum("key" in event["args"] for events in workers for event in events)


@pytest.fixture
def repository_of_300(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


@pytest.mark.slow
def test_three_commits(repository_of_300: Repository, repository: Path, ci_formats: Any) -> None:
    repo = repository_of_300

    def kept() -> tuple[ElementTree.Element, dict[str, list[Any]]]:
        """Return the job's files, checked against their formats."""
        ci_formats.check_events(repo.root / "ci/events.jsonl", repository)
        return ci_formats.check_junit(repo.root / "ci/junit.xml"), ci_formats.check_trace(repo.root / "ci/trace.json")

    (repo.root / "ci").mkdir()
    keep = ("--junit", "ci/junit.xml", "--build-event-json", "ci/events.jsonl", "--profile", "ci/trace.json")

    ended = repo.run("ci", *keep, "--measures", "ci/first.json")
    assert ended.code == 0, ended.err
    assert "2 tests: 1 passed, 1 not run" in ended.out
    assert len(repo.built()) == 300
    assert repo.actions_ran() == 292
    suites, tracks = kept()
    assert {suite.get("name"): suite.get("skipped") for suite in suites} == {
        "//tests:first_test": "0",
        "//tests:skipping_test": "1",
    }
    assert actions_of_workers(tracks) == 292
    starts = {each["name"] for track in tracks if track.startswith("starts") for each in tracks[track]}
    assert starts == {"start a worker", "start a worker with pytest"}

    # A build of uncommitted files is not a base of summaries.
    size = repo.size("p14:t5")
    repo.write({"p14/f5.txt": "changed, but not committed\n"})
    assert repo.run("build", "//p14:t5").code == 0

    # Only affected targets: the target, its dependents, and the packages that read the last of these.
    repo.write({"p14/f5.txt": "changed\n"})
    repo.commit("second")
    ended = repo.job("HEAD~1")
    assert ended.code == 0, ended.err
    assert sorted(repo.built()) == sorted(
        [*(f"//p14:t{index}" for index in range(5, 10)), *(f"//p28:t{index}" for index in range(10))]
    )
    assert repo.actions_ran() == 15
    suites, tracks = kept()
    assert len(suites) == 0
    summary = (repo.root / "ci/summary.md").read_text()
    assert "## modelbuild: passed" in summary
    assert f"| | | now | at {repo.git('rev-parse', 'HEAD~1')[:12]} | change |" in summary
    assert f"| `//p14:t5 (default)` | size (bytes) | {repo.size('p14:t5')} | {size} | +" in summary
    assert actions_of_workers(tracks) == 15
    assert sum(each["name"].startswith("join") for each in tracks["critical path"]) == 15  # one chain

    repo.write({"tests/first.py": "def first():\n    return 2\n"})
    repo.commit("third")
    ended = repo.job("HEAD~1")
    assert ended.code == 4
    assert "//tests:first_test  FAILED" in ended.err
    suites, _ = kept()
    (failure,) = suites.iter("failure")
    assert (failure.text or "").startswith("tests/test_first.py:4: assert 2 == 1")
    row = "| `//tests:first_test` | failed | tests/test_first.py::test_first: assert 2 == 1 |"
    assert row in (repo.root / "ci/summary.md").read_text()
    annotated = repo.run("ci", "//tests:first_test", "--github-annotations", "-q")
    assert "::error file=tests/test_first.py,line=4,title=//tests%3Afirst_test" in annotated.err
    # With --require-all a skip is a failure.
    assert repo.run("ci", "//tests:skipping_test").code == 0
    required = repo.run("ci", "//tests:skipping_test", "--require-all")
    assert required.code == 4
    assert "not run, which --require-all forbids: no GPU" in required.err

    # A commit without new builds equals the one before; a report from elsewhere replaces the history.
    repo.run("ci", "//p14:t6", "--since", "HEAD~2", "--summary", "ci/since.md")
    repo.run("ci", "//p14:t6", "--base-measures", "ci/first.json", "--summary", "ci/report.md")
    tables = [(repo.root / f"ci/{name}.md").read_text().partition("### Sizes")[2] for name in ("since", "report")]
    assert tables[0] == tables[1]
    assert f"at {repo.git('rev-parse', 'HEAD~2')[:12]}" in tables[0]
    assert "| +" in tables[0]
    repo.write({"ci/bad.json": "{}"})
    bad = repo.run("ci", "//p14:t6", "--base-measures", "ci/bad.json")
    assert (bad.code, bad.err.partition("bad.json: ")[2]) == (
        2,
        "expected a file that 'modelbuild ci --measures' wrote\n",
    )

    ended = repo.run("ci", "--since", "HEAD", "--json")
    assert (ended.code, ended.json["counts"]["actions"]) == (0, 0)
    shown = repo.run("history", "//p14:t5")
    assert re.search(r"^//p14:t5#join seconds: last .* \(3\)$", shown.out, re.MULTILINE)
    matrix = repo.run(
        "affected", "--since", "HEAD~2", "--format", "github-matrix", "--jobs", "3", "--min-job-length", "1 s"
    )
    jobs = matrix.json["include"]  # as few as the seconds that were measured require
    assert 1 <= len(jobs) <= 3
    listed = repo.run("affected", "--since", "HEAD~2").out.split()
    assert sorted(target for job in jobs for target in job["targets"].split()) == sorted(listed)


def test_tests_run_although_something_else_is_broken(repository_of_300: Repository, ci_formats: Any) -> None:
    repo = repository_of_300
    repo.write({"p28/f9.txt": "broken\n"})
    repo.write({"more/test_more.py": "def test_more():\n    pass\n"})
    test = '[[py_test]]\nname = "{}_test"\nsrcs = ["test_more.py"]\n'
    repo.write({"more/BUILD.toml": test.format("more") + test.format("blocked") + 'data = ["//p28:t9"]\n'})
    targets = ("//p28:t9", "//more:all")
    keep = ("--junit", "j.xml", "--summary", "s.md", "--profile", "t.json")
    ended = repo.run("ci", *targets, *keep, "--json")
    assert ended.code == 1
    told = ended.json
    assert {test["label"]: test["status"] for test in told["tests"]} == {
        "//more:more_test": "passed",
        "//more:blocked_test": "failed",
    }
    # Building and testing are one build: each action is reported once, and `explain` knows that it ran.
    assert "//p28:t8#join  ran " in repo.run("explain", "//p28:t8").out
    assert len({action["id"] for action in told["actions"]}) == len(told["actions"])
    assert [failure["id"] for failure in told["failures"]] == ["//p28:t9#join"]
    suites = {suite.get("name"): suite for suite in ci_formats.check_junit(repo.root / "j.xml")}
    assert len(suites["actions"]) == 1
    assert (repo.root / "s.md").read_text().count("| it is broken |") == 1
    tracks = ci_formats.check_trace(repo.root / "t.json")
    phases = [each for each in tracks["phases"] if each["ph"] == "X"]
    assert [each["name"] for each in phases] == ["loading", "analysis", "execution"]
    assert all(each["name"].startswith("start a worker") for each in tracks["starts of workers 0"])
    ran = [each["name"] for track, events in tracks.items() if track.startswith("worker") for each in events]
    assert sorted(set(ran)) == sorted(ran)
    assert "join //p28:t8" in ran
    stopped = repo.run("ci", *targets, "--no-keep-going", "--json")
    assert (stopped.code, stopped.json["tests"]) == (1, [])


def test_errors_in_declarations_stop_only_their_targets(repository_of_300: Repository, ci_formats: Any) -> None:
    repo = repository_of_300
    test = '[[py_test]]\nname = "{}"\nsrcs = ["{}.py"]\n'
    repo.write({"one/BUILD.toml": test.format("good_test", "good_test")})
    repo.write({"one/good_test.py": "def test_it():\n    pass\n"})
    repo.write({"two/BUILD.toml": "[[join]\n"})
    missing = test.format("gone_test", "gone") + '[[filegroup]]\nname = "two"\nsrcs = ["//two:t"]\n'
    repo.write({"three/BUILD.toml": missing + '[[filegroup]]\nname = "own"\nsrcs = ["BUILD.toml"]\n'})
    repo.write({"syntax/BUILD.toml": test.format("bad_test", "bad_test"), "syntax/bad_test.py": "def broken(:\n"})
    asked = ("//one/...", "//two/...", "//three/...")
    syntax = "two/BUILD.toml:1:7: "
    gone = "three/BUILD.toml:3:9: "

    for command in ("build", "test", "ci"):
        first = repo.run(command, *asked, *(["--no-keep-going"] if command == "ci" else []))
        assert (first.code, first.err.count("error: ")) == (3, 1)
    for command, keep in (("build", ["-k"]), ("test", ["-k"]), ("ci", [])):
        ended = repo.run(command, *asked, *keep, "--junit", "j.xml", "--summary", "s.md", "--github-annotations")
        assert ended.code == 3, ended.err
        assert ended.err.count(f"error: {syntax}") == 1
        assert ended.err.count(f"error: {gone}") == 1
        assert "//three:two was not built: the error at two/BUILD.toml:1:7\n" in ended.err
        assert "::error file=two/BUILD.toml,line=1,col=7,title=//two%3Aall was not built" in ended.out + ended.err
        (suite,) = [s for s in ci_formats.check_junit(repo.root / "j.xml") if s.get("name") == "targets"]
        assert {case.get("name") for case in suite} == {"//two:all", "//three:gone_test", "//three:two"}
    summary = (repo.root / "s.md").read_text()
    assert "## modelbuild: failed" in summary
    assert "| `//two:all` | two/BUILD.toml:1:7: " in summary
    told = repo.run("test", *asked, "-k", "--json").json
    assert {test["label"]: test["status"] for test in told["tests"]} == {"//one:good_test": "passed"}
    assert {each["label"] for each in told["targets"] if not each["built"]} >= {"//two:all", "//three:gone_test"}

    # A failed action or test besides has another code; since a revision, a broken package means everything.
    ended = repo.run("ci", *asked, "//syntax:all", "--since", "HEAD")
    assert (ended.code, ended.out.count("PASSED")) == (5, 1)
    assert "not Python: invalid syntax" in ended.err
    assert repo.run("build", *asked, "-k", "--quiet").err.count("error: ") == 2


def test_a_rule_of_tests_is_called_so(repository_of_300: Repository) -> None:
    """`ci`, `affected --tests` and queries know tests by the names of their rules."""
    repo = repository_of_300
    join = RULES["tools/rules/join.py"].replace("Sources, rule", "Sources, TestAction, rule")
    repo.write({"tools/rules/join.py": join.replace('Files((made["out"],))', 'TestAction((made["out"],))')})
    ended = repo.run("ci", "//p0:t0")
    assert (ended.code, ended.err.splitlines()[0]) == (
        3,
        "error: p0/BUILD.toml:3:1: the rule 'join' returns a TestAction; expected a name that ends in '_test'",
    )


def test_the_example_workflow_uses_what_there_is(repository: Path) -> None:
    workflow = yaml.safe_load((repository / "docs/how-to/ci/github-actions.yml").read_text())
    runs = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    commands = [found for run in runs for found in re.findall(r"modelbuild (ci|affected) ([^)]*)", run)]
    assert [name for name, _ in commands] == ["affected", "ci"]
    for name, rest in commands:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        known = {flag for parameter in command.params for flag in parameter.opts}
        assert set(re.findall(r"--[a-z-]+", rest)) <= known
