"""Broken workspaces: one line with the place and the expected content, and the documented exit code."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest


class Bad(NamedTuple):
    """Files beside an empty MODELBUILD.toml, the arguments, and the line after `error: `."""

    files: dict[str, str]
    line: str
    arguments: tuple[str, ...] = ("build", "//...")
    code: int = 3


GROUP = '[[filegroup]]\nname = "g"\nsrcs = []\n'
DEVICE = '[[device_target]]\nname = "cpu"\narch = "x86_64"\n'


def own_rule(body: str, step: str = "def run(step): ...\n") -> dict[str, str]:
    """Return a workspace with a rule of its own, whose function has this body from line 6 on, and one target of it."""
    return {
        "MODELBUILD.toml": 'rules = ["//r"]\n',
        "r/__init__.py": "",
        "r/x.py": "from modelbuild.api import Attrs, Files, Output, rule\nclass A(Attrs):\n    pass\n@rule(attrs=A)\n"
        f"def own(ctx):\n{body}\n",
        "r/steps/__init__.py": "",
        "r/steps/write.py": step,
        "BUILD.toml": '\n[[own]]\nname = "o"\n',
    }


TABLE = {
    "toml syntax": Bad(
        {"BUILD.toml": "[[filegroup]]\nname = \n"},
        "BUILD.toml:2:8: not valid TOML: Invalid value",
    ),
    "unknown rule": Bad(
        {"BUILD.toml": '[[filegruop]]\nname = "g"\n'},
        "BUILD.toml:1:3: no rule 'filegruop'; did you mean 'filegroup'?",
    ),
    "a backend for a stack": Bad(
        {"BUILD.toml": '[[pte_program]]\nname = "p"\nmodel = ":g"\nstack = "xnnpack"\n' + GROUP},
        "BUILD.toml:4:1: no target 'xnnpack' in //; expected [\"xnnpack\"], if this is meant to be no target",
    ),
    "wrong type": Bad(
        {"BUILD.toml": '[[filegroup]]\nname = "g"\nsrcs = ["a", 1]\n'},
        "BUILD.toml:3:14: attribute 'srcs[1]': expected a string, got 1",
    ),
    "no such file": Bad(
        {"BUILD.toml": '[[filegroup]]\nname = "g"\nsrcs = ["model.py"]\n', "models.py": ""},
        "BUILD.toml:3:9: no file 'model.py' in //; did you mean 'models.py'?",
    ),
    "unknown target": Bad(
        {"BUILD.toml": '[[filegroup]]\nname = "g"\nsrcs = [":weigths"]\n' + GROUP.replace('"g"', '"weights"')},
        "BUILD.toml:3:9: no target 'weigths' in //; did you mean 'weights'?",
    ),
    "unknown package": Bad(
        {"BUILD.toml": '[[filegroup]]\nname = "g"\nsrcs = ["//model:x"]\n', "models/BUILD.toml": ""},
        "BUILD.toml:3:9: no package //model: there is no model/BUILD.toml; did you mean '//models'?",
    ),
    "a target without files as a source": Bad(
        {"BUILD.toml": DEVICE + '[[filegroup]]\nname = "g"\nsrcs = [":cpu"]\n'},
        "BUILD.toml:6:9: ':cpu' is a device_target, which provides no files",
    ),
    "a select without a match": Bad(
        {"BUILD.toml": DEVICE + '[[filegroup]]\nname = "g"\nsrcs = { select = { ":cpu" = [] } }\n'},
        "BUILD.toml:6:10: this select has no default, and no device is configured; it has //:cpu",
    ),
    "a select for an unknown device": Bad(
        {"BUILD.toml": DEVICE + '[[filegroup]]\nname = "g"\nsrcs = { select = { ":cpy" = [], default = [] } }\n'},
        "BUILD.toml:6:21: no target 'cpy' in //; did you mean 'cpu'?",
    ),
    "a rule package that is not there": Bad(
        {"MODELBUILD.toml": 'rules = ["//tools/rules"]\n'},
        "MODELBUILD.toml:1:10: no rule package '//tools/rules': expected tools/rules/__init__.py",
    ),
    "a rule package that does not load": Bad(
        {"MODELBUILD.toml": 'rules = ["//r"]\n', "r/__init__.py": "", "r/x.py": "import nothing_of_the_kind\n"},
        "MODELBUILD.toml:1:10: rule package '//r' does not load: ModuleNotFoundError: No module named "
        "'nothing_of_the_kind' (r/x.py:1)",
    ),
    "a rule package that is not Python": Bad(
        {"MODELBUILD.toml": 'rules = ["//r"]\n', "r/__init__.py": "", "r/x.py": "a = 1\nb = (\n"},
        "MODELBUILD.toml:1:10: rule package '//r' does not load: SyntaxError: '(' was never closed (r/x.py:2)",
    ),
    "a rule package that ends Python": Bad(
        {"MODELBUILD.toml": 'rules = ["//r"]\n', "r/__init__.py": "", "r/x.py": "raise SystemExit(7)\n"},
        "MODELBUILD.toml:1:10: rule package '//r' does not load: SystemExit: 7 (r/x.py:1)",
    ),
    "a rule package that is a module": Bad(
        {"MODELBUILD.toml": 'rules = ["zipfile"]\n'},
        "MODELBUILD.toml:1:10: no rule package 'zipfile'; expected a package with an __init__.py",
    ),
    "a rule package that is a part of Python": Bad(
        {"MODELBUILD.toml": 'rules = ["sys"]\n'},
        "MODELBUILD.toml:1:10: no rule package 'sys'; expected a package with an __init__.py",
    ),
    "a rule package that hides one of Python's": Bad(
        {"MODELBUILD.toml": 'rules = ["//turtle"]\n', "turtle/__init__.py": ""},
        "MODELBUILD.toml:1:10: rule package '//turtle' would hide another module called 'turtle'; rename it",
    ),
    "a validator that fails": Bad(
        {
            **own_rule("    return ()"),
            "r/x.py": "from typing import Annotated\nfrom pydantic import AfterValidator\n"
            "from modelbuild.api import Attrs, rule\ndef bad(value): return {}[value]\n"
            "class A(Attrs):\n    a: Annotated[str, AfterValidator(bad)] = 'x'\n"
            "@rule(attrs=A)\ndef own(ctx):\n    return ()\n",
            "BUILD.toml": '\n[[own]]\nname = "o"\na = "k"\n',
        },
        "BUILD.toml:2:1: the attributes of own 'o' cannot be checked: KeyError: 'k'",
    ),
    "an attribute without a JSON Schema": Bad(
        {
            **own_rule("    return ()"),
            "r/x.py": "from collections.abc import Callable\nfrom modelbuild.api import Attrs, rule\n"
            "class A(Attrs):\n    a: Callable[[], int] | None = None\n@rule(attrs=A)\ndef own(ctx):\n    return ()\n",
        },
        "an attribute has no JSON Schema: Cannot generate a JsonSchema for core_schema.CallableSchema",
        ("help", "own"),
    ),
    "a step with a NUL byte": Bad(
        own_rule('    ctx.action("own", step="write", outputs=[])', step="a = 1\n\0"),
        "r/steps/write.py:2:1: not Python: source code cannot contain null bytes",
    ),
    "a step that is nested too deep": Bad(
        own_rule('    ctx.action("own", step="write", outputs=[])', step="a = " + "-" * 100_000 + "1\n"),
        "r/steps/write.py:1:1: not Python: nested too deep",
    ),
    "an action whose name is not one line": Bad(
        own_rule('    ctx.action("own", name="a\\nb", step="write", outputs=[])'),
        "BUILD.toml:2:1: rule 'own' fails: ValueError: 'a\\nb' names an action; expected UTF-8 without control "
        "characters and line breaks (r/x.py:6)",
    ),
    "a rule that ends Python": Bad(
        own_rule("    raise SystemExit"), "BUILD.toml:2:1: rule 'own' fails: SystemExit:  (r/x.py:6)"
    ),
    "a rule package that Python cannot import": Bad(
        {"MODELBUILD.toml": 'rules = ["tools.rules"]\n', "tools/rules/__init__.py": ""},
        "MODELBUILD.toml:1:10: no rule package 'tools.rules'; expected a package that Python can import, or //folder "
        "for one of the workspace",
    ),
    "a rule that raises": Bad(
        own_rule("    return (Files(srcs),)"),
        "BUILD.toml:2:1: rule 'own' fails: NameError: name 'srcs' is not defined (r/x.py:6)",
    ),
    "a rule that returns nothing": Bad(
        own_rule("    pass"),
        "BUILD.toml:2:1: rule 'own' fails: TypeError: it returns None; expected a tuple of providers, such as "
        "(Files(...),)",
    ),
    "a rule whose files are none": Bad(
        own_rule('    return (Files(("a.txt",)),)'),
        "BUILD.toml:2:1: rule 'own' fails: TypeError: it returns Files(files=('a.txt',)); expected a tuple of "
        "artifacts, such as Files((made[...],))",
    ),
    "a rule whose step is not there": Bad(
        own_rule('    ctx.action("own", step="wirte", outputs=[])'),
        "BUILD.toml:2:1: no step 'wirte': there is no r/steps/wirte.py; did you mean 'write'?",
    ),
    "a step that is not Python": Bad(
        own_rule('    ctx.action("own", step="write", outputs=[])', "def run(step):\n    x = [\n"),
        "r/steps/write.py:2:9: not Python: '[' was never closed",
    ),
    "params that are no JSON": Bad(
        own_rule('    ctx.action("own", step="write", outputs=[], params={"a": {1}})'),
        "BUILD.toml:2:1: rule 'own' fails: TypeError: Object of type set is not JSON serializable (r/x.py:6)",
    ),
    "an input that is no artifact": Bad(
        own_rule('    ctx.action("own", step="write", outputs=[], inputs={"a": ["a.txt"]})'),
        "BUILD.toml:2:1: rule 'own' fails: TypeError: input 'a' has 'a.txt'; expected artifacts, as ctx.files() gives "
        "them (r/x.py:6)",
    ),
    "python that names no input": Bad(
        own_rule('    ctx.action("own", step="write", outputs=[], python=("srcs",))'),
        "BUILD.toml:2:1: rule 'own' fails: ValueError: python names the input 'srcs', which the action does not have "
        "(r/x.py:6)",
    ),
    "notes that name no output": Bad(
        own_rule('    ctx.action("own", step="write", outputs=[], notes="text")'),
        "BUILD.toml:2:1: rule 'own' fails: ValueError: notes names the output 'text', which the action does not have "
        "(r/x.py:6)",
    ),
    "an output that leaves its folder": Bad(
        own_rule('    ctx.action("own", step="write", outputs=[Output("o", "../../../../x")])'),
        "BUILD.toml:2:1: rule 'own' fails: PathError: output 'o': '../../../../x' is not a path within a folder; "
        "expected names of at most 255 bytes joined by '/', in UTF-8 without control characters, none of "
        "them '', '.' or '..' (r/x.py:6)",
    ),
    "a name that is too long": Bad(
        {"BUILD.toml": f'[[filegroup]]\nname = "{"g" * 256}"\nsrcs = []\n'},
        f"BUILD.toml:2:1: '{'g' * 56}... is not a name; expected letters, digits and any of _.+@=-, at most 255",
    ),
    "two rules of one name": Bad(
        {
            "MODELBUILD.toml": 'rules = ["//r"]\n',
            "r/__init__.py": "",
            "r/x.py": "from modelbuild.api import Attrs, rule\nclass A(Attrs):\n    pass\n@rule(attrs=A)\n"
            "def filegroup(ctx):\n    return ()\n",
        },
        "MODELBUILD.toml:1:10: rule 'filegroup' of '//r' exists already in package 'modelbuild_rules'; rename one",
    ),
    "no such target on the command line": Bad(
        {"a/BUILD.toml": GROUP}, "no target 'gg' in //a; did you mean 'g'?", ("build", "//a:gg"), 2
    ),
    "a target of another package, on the command line": Bad(
        {"BUILD.toml": "", "models/BUILD.toml": GROUP, "broken/BUILD.toml": "["},
        "no target 'g' in //; did you mean '//models:g'?",
        ("build", "g"),
        2,
    ),
    "a device of another package": Bad(
        {"BUILD.toml": GROUP, "devices/BUILD.toml": DEVICE},
        "no target 'cpu' in //; did you mean '//devices:cpu'?",
        ("build", "//:g", "--device", "cpu"),
        2,
    ),
    "no such package on the command line": Bad(
        {"models/BUILD.toml": GROUP},
        "no package //model: there is no model/BUILD.toml; did you mean '//models'?",
        ("build", "//model:g"),
        2,
    ),
    "a device that is none": Bad(
        {"BUILD.toml": GROUP}, "//:g is a filegroup, not a device", ("build", "//:g", "--device", "//:g"), 2
    ),
    "an unknown option": Bad(
        {"BUILD.toml": GROUP}, "no option '--jbs'; did you mean '--jobs'?", ("build", "//:g", "--jbs"), 2
    ),
    "an unknown command": Bad({"BUILD.toml": GROUP}, "no command 'biuld'; did you mean 'build'?", ("biuld", "//:g"), 2),
}


@pytest.mark.sampled
@pytest.mark.parametrize("case", TABLE)
def test_one_line_for(workspace: Any, case: str) -> None:
    bad = TABLE[case]
    workspace.write({"MODELBUILD.toml": "", **bad.files})
    ended = workspace.run(*bad.arguments)
    assert (ended.err, ended.code) == (f"error: {bad.line}\n", bad.code)
    assert ended.out == ""


def test_outside_of_any_workspace(workspace: Any) -> None:
    ended = workspace.run("build", "//...")
    assert ended.code == 2
    assert ended.err.startswith("error: no MODELBUILD.toml in ")
    assert len(ended.err.splitlines()) == 1


def test_a_traceback_is_shown_when_asked_for(workspace: Any) -> None:
    workspace.write({"MODELBUILD.toml": "[build]\njob = 2\n"})
    ended = workspace.run("--verbose-failures", "build", "//...")
    assert ended.code == 3
    assert "Traceback" in ended.err
