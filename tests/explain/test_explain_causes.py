"""`explain` names each kind of change in a table: first as pending, then as the cause of the rebuild."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from modelbuild.errors import EnvironmentProblem, UsageError
from modelbuild.explain.differences import Difference
from modelbuild.explain.text import difference_line

EXPORT = "//:net#export"
COMPILE = "//:app#compile"


class Case(NamedTuple):
    """One case of the table.

    change     the change between two builds
    ran        the actions that run because of it
    cause      kind, name, old, new (digests are not compared) of the only cause
    target     the target of an attribute
    cutoff     the compile action is cached because export's output is unchanged
    """

    change: Callable[[Any], None]
    ran: set[str]
    cause: tuple[str, str, Any, Any] | None
    target: str | None = None
    cutoff: bool = False


TABLE = {
    "nothing": Case(lambda m: None, set(), None),
    "comment": Case(
        lambda m: m.edit("net.py", "# layers", "# my layers"), {EXPORT}, ("input", "net.py", 0, 0), None, True
    ),
    "one weight": Case(lambda m: m.write({"b.w": "3"}), {EXPORT, COMPILE}, ("input", "b.w", 0, 0)),
    "one layer": Case(lambda m: m.edit("layers.py", "1", "2"), {EXPORT, COMPILE}, ("input", "layers.py", 0, 0)),
    "stack attribute": Case(
        lambda m: m.edit("BUILD.toml", "level = 1", "level = 2"), {COMPILE}, ("parameter", "level", 1, 2), "//:fast"
    ),
    "device": Case(
        lambda m: m.edit("BUILD.toml", '"8.6"', '"8.9"'),
        {COMPILE},
        ("parameter", "compute_capabilities[0]", "8.6", "8.9"),
        "//:gpu",
    ),
    "input shape": Case(
        lambda m: m.edit("BUILD.toml", "[1, 3]", "[1, 4]"),
        {EXPORT, COMPILE},
        ("parameter", "shape[1]", 3, 4),
        "//:net",
    ),
    "unrelated target": Case(lambda m: m.write({"other.py": "another\n"}), set(), None),
    "comment in BUILD.toml": Case(lambda m: m.edit("BUILD.toml", "[[stack]]", "# here\n[[stack]]"), set(), None),
    "tool version": Case(lambda m: m.tool("1.1"), {EXPORT}, ("tool", "fakedist", "1.0", "1.1"), None, True),
    "step's module": Case(
        lambda m: m.edit("tools/rules/steps/_strip.py", "def", "\ndef"),
        {EXPORT},
        ("module", "tools_rules.steps._strip", 0, 0),
        None,
        True,
    ),
    "source gone": Case(
        lambda m: m.edit("BUILD.toml", '["a.w", "b.w"]', '["a.w"]'),
        {EXPORT, COMPILE},
        ("parameter", "weights", ["a.w", "b.w"], ["a.w"]),
        "//:net",
    ),
}


def first(causes: list[dict[str, Any]], case: Case) -> None:
    assert case.cause is not None
    kind, name, old, new = case.cause
    found = causes[0]
    assert (found["kind"], found["name"], found["target"]) == (kind, name, case.target)
    if kind not in ("input", "module"):
        assert (found["old"], found["new"]) == (old, new)
    else:
        assert found["old"] != found["new"]
    if case.target is None:
        assert len(causes) == 1


@pytest.mark.parametrize("name", TABLE)
def test_the_cause_is_named(models: Any, name: str) -> None:
    case = TABLE[name]
    models.build_app()
    case.change(models)
    pending = models.explain()["since"]
    assert pending["problem"] is None
    if case.cause is None:
        assert pending["causes"] == []
    else:
        first(pending["causes"], case)
    # //:other is requested too, so that this is no null build.
    models.build_app("//:other")
    answer = models.explain()
    assert answer["since"] == {"problem": None, "causes": []}
    actions = {each["action"]: each for each in answer["actions"]}
    assert set(actions) == {EXPORT, COMPILE}
    assert {n for n, each in actions.items() if each["status"] == "ran"} == case.ran
    for each in actions.values():
        if each["action"] in case.ran:
            assert each["reason"] == "changed"
            first(each["causes"], case)
        elif case.cutoff:
            assert (each["reason"], each["because"]) == ("cutoff", [EXPORT])
        else:
            assert (each["reason"], each["causes"]) == ("unchanged", [])
    if EXPORT in case.ran and COMPILE in case.ran:
        assert actions[COMPILE]["causes"][0]["through"] == [EXPORT]


def test_a_first_build_and_one_from_a_cache(models: Any, tmp_path: Any) -> None:
    models.build_app()
    assert {(each["reason"], each["status"]) for each in models.explain()["actions"]} == {("first", "ran")}
    elsewhere = type(models)(tmp_path / "elsewhere")
    elsewhere.build_app()
    assert {(each["reason"], each["status"]) for each in elsewhere.explain()["actions"]} == {("first", "cached")}


def test_a_change_put_back_comes_from_the_cache(models: Any) -> None:
    models.build_app()
    models.write({"a.w": "9"})
    models.build_app()
    models.write({"a.w": "1"})
    models.build_app()
    for each in models.explain()["actions"]:
        assert (each["reason"], each["status"]) == ("changed", "cached")
        assert each["causes"][0]["name"] == "a.w"


def test_a_result_that_was_lost_and_a_run_that_failed(models: Any) -> None:
    models.build_app()
    models.invoke("clean", "--expunge")
    models.build_app()
    assert {each["reason"] for each in models.explain()["actions"]} == {"lost"}
    models.write({"layers.py": "broken\n"})
    models.build_app(code=1)
    (export,) = [each for each in models.explain()["actions"] if each["action"] == EXPORT]
    assert (export["status"], export["reason"], export["causes"][0]["name"]) == ("failed", "changed", "layers.py")
    models.build_app(code=1)
    models.edit("tools/rules/steps/export.py", '"broken" in', '"broken " in')
    models.build_app()
    (export,) = [each for each in models.explain()["actions"] if each["action"] == EXPORT]
    assert [cause["kind"] for cause in export["causes"]] == ["input", "module"]  # since the last run that succeeded


def test_changes_are_those_since_the_last_success(models: Any) -> None:
    models.build_app()
    good = models.explain()["built"]
    models.edit("BUILD.toml", "shape = [1, 3]", "shape = [1, 4]")
    for text in ("broken\n", "broken 2\n"):
        models.write({"layers.py": text})
        models.build_app(code=1)
    answer = models.explain()
    assert answer["built"] == good
    changes = [(each["kind"], each["name"]) for each in answer["since"]["causes"]]
    assert changes == [("input", "layers.py"), ("parameter", "shape[1]")]  # the attribute, not the parameter as well
    (export,) = [each for each in answer["actions"] if each["action"] == EXPORT]
    assert [each["name"] for each in export["causes"]] == ["layers.py", "shape[1]"]
    assert models.invoke("explain", "//:app").count("3 -> 4") == 2  # changed since, and the action that failed
    models.edit("BUILD.toml", "shape = [1, 4]", "shape = [1, 3]")
    models.write({"layers.py": "width = 1\n"})
    assert models.explain()["since"]["causes"] == []
    models.build_app("//:other")
    assert {each["reason"] for each in models.explain()["actions"]} == {"unchanged"}


def test_a_target_that_never_succeeded(models: Any) -> None:
    models.edit("tools/rules/steps/compile.py", "weights =", "raise OSError\n    weights =")
    models.build_app(code=1)
    assert models.explain()["built"] is None
    assert models.invoke("explain", "//:app").startswith("//:app, failed ")


def test_another_device_is_compared_with_the_last_one(models: Any) -> None:
    models.build_app("--device", "//:gpu")
    models.build_app("--device", "//:cpu")
    actions = {each["action"]: each for each in models.explain("--device", "//:cpu")["actions"]}
    compiled = actions["//:app (//:cpu)#compile"]
    assert (compiled["reason"], compiled["compared"]) == ("elsewhere", "//:app (//:gpu)#compile")
    assert ("parameter", "capabilities") in [(each["kind"], each["name"]) for each in compiled["causes"]]
    assert actions[EXPORT]["reason"] == "unchanged"


def test_text(models: Any) -> None:
    models.build_app()
    models.edit("layers.py", "1", "2")
    assert models.invoke("explain", "//:app").splitlines()[1].startswith("  layers.py changed (")
    models.build_app()
    lines = models.invoke("explain", "//:app").splitlines()
    assert lines[0].endswith("; nothing has changed since")
    assert lines[1].startswith(f"{EXPORT}  ran (")
    assert lines[2].startswith("  layers.py changed (")
    assert lines[4].endswith(f"(through {EXPORT})")


def test_an_early_cutoff_further_up_is_named_once(models: Any) -> None:
    models.edit(
        "tools/rules/models.py",
        'return (Files((made["out"],)),)',
        """packed = ctx.action("pack", step="pack", inputs={"program": made["out"]}, outputs=[Output("out", "packed")])
    return (Files((packed["out"],)),)""",
    )
    models.write({"tools/rules/steps/pack.py": "def run(step):\n    step.outputs['out'].write_text('packed')\n"})
    models.build_app()
    models.edit("net.py", "# layers", "# a comment")
    models.build_app()
    actions = {each["action"]: each for each in models.explain()["actions"]}
    assert actions["//:app#pack"]["because"] == [EXPORT]  # of which compile reads two outputs


def test_a_null_build_writes_nothing(models: Any, tmp_path: Any) -> None:
    def history() -> dict[Any, int]:
        return {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").glob("history*")}

    for _ in range(9):  # files that were changed just before a build keep the next from being a null build
        before = history()
        if json.loads(models.invoke("build", "//:app", "--json"))["up_to_date"]:
            assert history() == before != {}
            return
    raise AssertionError("no build had nothing to do")


def test_targets_that_were_never_built(models: Any) -> None:
    with pytest.raises(UsageError, match="//:app: never built in this workspace"):
        models.explain()


@pytest.mark.parametrize(
    ("command", "label", "line"),
    [
        ("explain", "//:ap", "no target 'ap' in //; did you mean 'app'?"),
        ("explain", "//:cpu", "//:cpu: a device_target without actions of its own; there is nothing to explain"),
        ("history", "//:ap", "no target 'ap' in //; did you mean 'app'?"),
        ("history", "//:app", "//:app: no build or test has measured it"),
    ],
)
def test_questions_about_what_builds_know_nothing_of(models: Any, command: str, label: str, line: str) -> None:
    with pytest.raises(UsageError) as raised:
        models.invoke(command, label)
    assert raised.value.message == line


def test_builds_that_cannot_be_read(models: Any, tmp_path: Path) -> None:
    models.build_app()
    (history,) = (tmp_path / "cache").glob("history-*.db")
    history.write_text("no database, but as long as the header of one would be " * 9)
    history.with_name(f"{history.name}-wal").unlink(missing_ok=True)
    broken = rf"^//:app: no known builds: {history} is broken \(file is not a database\): starting a new one"
    with pytest.raises(EnvironmentProblem, match=broken):
        models.invoke("explain", "//:app")
    with pytest.raises(UsageError, match="never built in this workspace; build it first"):
        models.invoke("explain", "//:app")


def test_a_changed_test_is_pending(models: Any) -> None:
    models.write(
        {"tools/rules/steps/check.py": 'def run(step):\n    step.outputs["report"].write_text(step.params["text"])\n'}
    )
    models.edit(
        "tools/rules/models.py",
        "class ProgramAttrs",
        """from modelbuild.api import TestAction
class CheckAttrs(Attrs):
    limit: int

@rule(attrs=CheckAttrs)
def check_test(ctx):
    text = '{"version": 1, "status": "passed", "cases": []}' + " " * ctx.attrs.limit
    made = ctx.action("test", step="check", outputs=[Output("report", "report.json")], params={"text": text})
    return (TestAction((made["report"],)), Files(()))

class ProgramAttrs""",
    )
    models.edit("BUILD.toml", "[[stack]]", '[[check_test]]\nname = "t"\nlimit = 1\n[[stack]]')
    models.invoke("test", "//:t", "-q")
    models.edit("BUILD.toml", "limit = 1", "limit = 2")
    (first_cause, *_) = json.loads(models.invoke("explain", "//:t", "--json"))["since"]["causes"]
    assert (first_cause["name"], first_cause["target"]) == ("limit", "//:t")


def test_long_values_are_shown_around_their_first_difference() -> None:
    old, new = ([{"type": "xnnpack", "precisions": ["fp32"] * 9, "per_op_mode": each}] for each in (False, True))
    line = difference_line(Difference("parameter", "backends", old, new))
    assert line == (
        'parameter backends: ...p32", "fp32"], "per_op_mode": false}] -> ...p32", "fp32"], "per_op_mode": true}]'
    )
    assert difference_line(Difference("parameter", "seed", 1, None)) == "parameter seed: 1 -> nothing"
