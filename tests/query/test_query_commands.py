"""query, cquery and aquery through the command line, on a small workspace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from modelbuild.cli.group import cli
from tests.workspace_builder import write

FILES = {
    "BUILD.toml": """
[package]
default_visibility = ["//visibility:public"]
[[device_target]]
name = "a"
arch = "x86_64"
[[device_target]]
name = "b"
arch = "aarch64"
""",
    "m/BUILD.toml": """
[[sum]]
name = "top"
srcs = [":mid", "top.txt"]
device = "//:a"
[[sum]]
name = "mid"
srcs = { select = { "//:b" = [":low"], "default" = ["mid.txt"] } }
word = "hello"
tags = ["nightly"]
[[sum]]
name = "low"
srcs = { glob = ["low*.txt"] }
[[filegroup]]
name = "apart"
srcs = ["top.txt"]
tags = ["manual"]
[[test_suite]]
name = "suite"
tests = [":inner", ":top"]
[[test_suite]]
name = "inner"
tests = [":some_test"]
[[sum_test]]
name = "some_test"
srcs = [":low"]
""",
    "tools/rules/__init__.py": "",
    "tools/rules/sums.py": """
from modelbuild.api import Attrs, Context, Dep, Files, Output, Sources, rule

class SumAttrs(Attrs):
    srcs: Sources
    word: str = "none"
    device: Dep | None = None

@rule(attrs=SumAttrs)
def sum(ctx):
    made = ctx.action("sum", step="sum", inputs={"srcs": ctx.files(ctx.attrs.srcs)}, outputs=[Output("out", "out.txt")],
                      params={"word": ctx.attrs.word}, tools=("click",))
    return (Files((made["out"],)),)

@rule(attrs=SumAttrs)
def sum_test(ctx):
    return (Files(ctx.files(ctx.attrs.srcs)),)
""",
    "tools/rules/steps/__init__.py": "",
    "tools/rules/steps/sum.py": """
def run(step):
    step.outputs["out"].write_text(step.params["word"] + "".join(p.read_text() for p in step.inputs["srcs"]))
""",
    "MODELBUILD.toml": 'rules = ["//tools/rules"]\n',
    **{f"m/{name}.txt": name for name in ("top", "mid", "low1", "low2")},
}
M = "//m:"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "w"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    monkeypatch.setenv("MODELBUILD_CACHE_DIR", str(tmp_path / "cache"))
    return root


def ask(workspace: Path, *arguments: str) -> list[str]:
    ended = CliRunner().invoke(cli, ["-C", str(workspace), *arguments], catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return ended.stdout.splitlines()


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        ("deps(//m:low)", "low low1.txt low2.txt"),
        ("deps(//m:top, 1)", "mid top top.txt //:a"),
        ("deps(//m:mid)", "mid mid.txt low low1.txt low2.txt //:b"),
        ("rdeps(//m:all, //m:low1.txt)", "low low1.txt mid top some_test inner suite"),
        ("rdeps(//m:all, //m:low, 1)", "low mid some_test"),
        ("somepath(//m:top, //m:low2.txt)", "top mid low low2.txt"),
        ("somepath(//m:low, //m:top)", ""),
        ("kind('^sum rule', //m:all)", "top mid low"),
        ("kind(source, deps(//m:top))", "top.txt mid.txt low1.txt low2.txt"),
        ("attr(word, hello, //m:all)", "mid"),
        ("attr(word, none, //m:all)", "top low some_test"),
        ("attr(tags, nightly, //...)", "mid"),
        ("attr(srcs, 'mid\\.txt', //m:all)", "mid"),
        ("filter('/m:.*t$', //m:all)", "apart some_test"),
        ("buildfiles(//m:low)", "BUILD.toml //:MODELBUILD.toml //tools/rules:__init__.py //tools/rules:sums.py"),
        ("labels(srcs, //m:top)", "mid top.txt"),
        ("labels(device, //m:all)", "//:a"),
        ("tests(//m:suite)", "some_test"),
        ("set(//m:low //:a) + //m:top.txt", "low //:a top.txt"),
    ],
)
def test_questions(workspace: Path, expression: str, answer: str) -> None:
    expected = sorted(word if word.startswith("//") else M + word for word in answer.split())
    assert ask(workspace, "query", expression) == expected


def test_patterns_are_relative_to_the_folder(workspace: Path) -> None:
    assert ask(workspace / "m", "query", "deps(:low, 0) + mid.txt") == ["//m:low", "//m:mid.txt"]


def test_forms(workspace: Path) -> None:
    dot = ask(workspace, "query", "deps(//m:low)", "--output", "dot")
    assert dot[0] == "digraph modelbuild {"
    assert '  "//m:low" -> "//m:low1.txt";' in dot
    (line,) = ask(workspace, "query", "//m:mid + //m:mid.txt", "--output", "json")
    rule, file = json.loads(line)["nodes"]
    assert rule == {
        "label": "//m:mid",
        "kind": "rule",
        "rule": "sum",
        "location": "m/BUILD.toml:6:1",
        "needs": ["//:b", "//m:low", "//m:mid.txt"],
        "attributes": {
            "name": "mid",
            "srcs": {"select": {"//:b": [":low"], "default": ["mid.txt"]}},
            "word": "hello",
            "tags": ["nightly"],
            "visibility": ["//visibility:private"],
        },
    }
    assert file == {"label": "//m:mid.txt", "location": "m/mid.txt", "kind": "source"}


def test_cquery_resolves_selects_for_a_device(workspace: Path) -> None:
    assert "//m:mid.txt" in ask(workspace, "cquery", "deps(//m:mid)")
    for_b = ask(workspace, "cquery", "deps(//m:mid)", "--device", "//:b")
    assert for_b == ["//m:low (//:b)", "//m:low1.txt", "//m:low2.txt", "//m:mid (//:b)"]
    (line,) = ask(workspace, "cquery", "//m:mid", "--device", "//:b", "--output", "json")
    (node,) = json.loads(line)["nodes"]
    assert (node["device"], node["attributes"]["srcs"], node["attributes"]["word"]) == ("//:b", [":low"], "hello")


def test_aquery_tells_keys_of_what_is_in_the_cache(workspace: Path) -> None:
    def actions() -> dict[str, Any]:
        (line,) = ask(workspace, "aquery", "deps(//m:top)", "--output", "json")
        return {node["id"]: node for node in json.loads(line)["nodes"]}

    before = actions()
    assert set(before) == {"//m:top#sum", "//m:mid (//:a)#sum"}
    assert before["//m:mid (//:a)#sum"]["key"] is not None
    assert before["//m:top#sum"]["key"] is None
    assert not any(node["cached"] for node in before.values())
    ask(workspace, "build", "//m:top", "-q")
    after = actions()
    assert all(node["cached"] for node in after.values())
    top = after["//m:top#sum"]
    assert [(each["name"], each["from"]) for each in top["inputs"]] == [
        ("srcs", "//m:mid (//:a)#sum:out"),
        ("srcs", "m/top.txt"),
    ]
    assert top["params"] == {"word": "none"}
    assert list(top["tools"]) == ["click"]
    assert len(top["key"]) == len(top["code"]) == 64
    text = ask(workspace, "aquery", "//m:top")
    assert text[0] == "sum //m:top"
    assert f"  key      {top['key']} (in the cache)" in text
    edges = ask(workspace, "aquery", "deps(//m:top)", "--output", "dot")
    assert '  "//m:top#sum" -> "//m:mid (//:a)#sum";' in edges


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("depz(//...)", "no function 'depz'; did you mean 'deps'?"),
        ("deps(//m:top, many)", "deps takes a number as argument 2"),
        ("kind(//...)", "expected kind(text, expression), got 1 arguments"),
        ("kind('(', //...)", "is not a regular expression"),
        ("//m:tob", "no target 'tob' in //m; did you mean 'top'?"),
    ],
)
def test_mistakes_are_one_line(workspace: Path, expression: str, message: str) -> None:
    from modelbuild.errors import UsageError

    with pytest.raises(UsageError) as error:
        ask(workspace, "query", expression)
    assert message in str(error.value)


def test_statements_declare_the_same_targets_with_each_matrix_expanded(workspace: Path) -> None:
    matrix = """
[[sum]]
name = "s_{n}{odd}"
srcs = ["top.txt"]
word = "é \\u007f {{x}} {n}"
tags = ["t"]
action_timeout = "2 min"
matrix = { n = [1, 2], odd = ["a"] }
"""
    write(workspace, {"n/BUILD.toml": matrix, "n/top.txt": ""})
    text = "\n".join(ask(workspace, "query", "//n:all + //m:all", "--output=build"))
    assert text.startswith("# m/BUILD.toml:")
    assert '# n/BUILD.toml:2:1\n[[sum]]\nname = "s_1a"\n' in text
    before = [described(workspace, f"//{name}:all") for name in "mn"]
    for name in "mn":
        statements = "\n".join(ask(workspace, "query", f"//{name}:all", "--output=build"))
        write(workspace, {f"{name}/BUILD.toml": statements})
    assert [described(workspace, f"//{name}:all") for name in "mn"] == before


def test_actions_of_a_named_matrix_have_the_keys_of_the_inline_form(workspace: Path) -> None:
    def keys() -> dict[str, str]:
        (line,) = ask(workspace, "aquery", "//n:all", "--output", "json")
        return {node["id"]: node["key"] for node in json.loads(line)["nodes"]}

    target = '[[sum]]\nname = "s_{n}"\nsrcs = ["top.txt"]\nword = "{n} words"\nmatrix = '
    write(workspace, {"n/BUILD.toml": target + "{ n = [1, 2] }", "n/top.txt": ""})
    inline = keys()
    write(workspace, {"n/BUILD.toml": f'{target}"ns"\n\n[[matrix]]\nname = "ns"\nn = [1, 2]\n'})
    assert keys() == inline
    assert inline.keys() == {"//n:s_1#sum", "//n:s_2#sum"}
    assert None not in inline.values()


def described(root: Path, expression: str) -> list[Any]:
    nodes = json.loads(ask(root, "query", expression, "--output=json")[0])["nodes"]
    return [{key: value for key, value in node.items() if key != "location"} for node in nodes]


def test_statements_of_cquery_have_their_selects_resolved(workspace: Path) -> None:
    line = ("cquery", "//m:mid", "--output=build", "--device")
    assert 'srcs = [":low"]' in "\n".join(ask(workspace, *line, "//:b"))
    assert 'srcs = ["mid.txt"]' in "\n".join(ask(workspace, *line, "//:a"))


def test_places_and_files(workspace: Path) -> None:
    places = ask(workspace, "query", "//m:low + //m:top.txt", "--output=location")
    assert places == ["m/BUILD.toml:11:1: sum rule //m:low", "m/top.txt:1:1: source file //m:top.txt"]
    assert ask(workspace, "query", "//m:low + //m:top", "--output=files") == ["m/low1.txt", "m/low2.txt", "m/top.txt"]
    outputs = ["modelbuild-out/default/m/apart/top.txt", "modelbuild-out/default/m/low/out.txt"]
    assert ask(workspace, "cquery", "//m:low + //m:apart", "--output=files") == outputs
    (folded,) = ask(workspace, "cquery", "//m:top", "--output=files")
    assert folded == "modelbuild-out/a/m/top/out.txt" or folded.startswith("modelbuild-out/~a/")
