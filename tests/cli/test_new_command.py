"""`modelbuild new`: appended targets, values of the workspace in them, and what it refuses."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from modelbuild.analysis.rules import load_rules
from modelbuild.api.rule import Rule
from modelbuild.cli import invoke
from modelbuild.errors import ExitCode
from tests.workspace_builder import Workspace

New = Callable[..., tuple[int, str, str]]

BUILD = """# The first line.
[[backend_stack]]   # shared
name    = 'stack'
visibility = ["//models:__pkg__"]
backends = [
    { type = "portable" }, # the only one
]
"""
MODELS = """[[torch_model]]
name = "net"
entry = "net.py:Net"
inputs = [{ name = "x", shape = [1], dtype = "float32" }]
# The last line."""


@pytest.fixture
def new(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> New:
    """Return a function that runs `modelbuild new ...` in a workspace with two packages."""
    workspace.write({"MODELBUILD.toml": "", "BUILD.toml": BUILD, "models/BUILD.toml": MODELS, "models/net.py": ""})

    def run(*arguments: str, folder: str = ".") -> tuple[int, str, str]:
        code = invoke(["-C", str(workspace.root / folder), "new", *arguments])
        return code, *capsys.readouterr()

    return run


def text(workspace: Workspace, name: str) -> str:
    return (workspace.root / name).read_text()


def test_appends_a_target_with_labels_of_the_workspace_and_keeps_the_rest(new: New, workspace: Workspace) -> None:
    code, out, err = new("pte_program", "net_program", "--package", "//models")
    assert (code, err) == (0, "")
    assert out == 'Added //models:net_program to models/BUILD.toml\n  model = ":net"\n  stack = "//:stack"\n'
    added = '\n\n[[pte_program]]\nname = "net_program"\nmodel = ":net"\nstack = "//:stack"\n'
    assert text(workspace, "models/BUILD.toml") == MODELS + added
    assert text(workspace, "BUILD.toml") == BUILD
    assert workspace.run("cquery", "deps(//models:net_program)").out.split() == [
        *("//:stack", "//models:net", "//models:net.py", "//models:net_program"),
    ]


def test_the_package_is_by_default_that_of_the_folder(new: New, workspace: Workspace) -> None:
    assert new("pte_program", "p", folder="models")[1].startswith("Added //models:p to models/BUILD.toml\n")
    assert new("backend_stack", "other")[1].startswith("Added //:other to BUILD.toml\n")
    assert text(workspace, "BUILD.toml").startswith(BUILD)


def test_values_that_nothing_in_the_workspace_fits_are_marked(new: New, workspace: Workspace) -> None:
    code, out, _ = new("pte_program", "p", "--package", "//elsewhere")
    assert code == 0
    assert out.endswith("Placeholders: model (modelbuild help pte_program)\n")
    assert text(workspace, "elsewhere/BUILD.toml") == (
        '[[pte_program]]\nname = "p"\nmodel = ":net"  # placeholder\nstack = ["xnnpack", "portable"]\n'
    )


def test_a_package_s_only_python_file_and_class_are_the_entry(new: New, workspace: Workspace) -> None:
    workspace.write({"deep/er/unet.py": "import math\n\n\nclass UNet:\n    pass\n"})
    assert new("torch_model", "unet", "--package", "//deep/er")[0] == 0
    (target,) = tomllib.loads(text(workspace, "deep/er/BUILD.toml"))["torch_model"]
    assert target["entry"] == "unet.py:UNet"


def test_keeps_line_ends_of_windows(new: New, workspace: Workspace) -> None:
    (workspace.root / "BUILD.toml").write_bytes(BUILD.replace("\n", "\r\n").encode())
    assert new("filegroup", "files")[0] == 0
    data = (workspace.root / "BUILD.toml").read_bytes()
    assert data.startswith(BUILD.replace("\n", "\r\n").encode())
    assert data.count(b"\n") == data.count(b"\r\n")


@pytest.fixture(scope="module")
def rules(repository: Path) -> Mapping[str, Rule]:
    return load_rules(repository, []).by_name


def test_every_rule_and_the_workspaces_own_can_be_added(
    new: New, workspace: Workspace, rules: Mapping[str, Rule], example_rules: dict[str, str]
) -> None:
    workspace.write(example_rules)
    for rule in (*rules, "checksums"):
        assert new(rule, f"my_{rule}", "--package", "//all_of_them")[0] == 0, rule
    ended = workspace.run("query", "//all_of_them:all")
    assert (ended.code, len(ended.out.split())) == (0, len(rules) + 1)


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["pte_program", "net", "--package", "//models"], ExitCode.USAGE,
         "//models:net is taken by the torch_model at models/BUILD.toml:1:1; expected another name"),
        (["pte_progarm", "x"], ExitCode.USAGE, "no rule 'pte_progarm'; did you mean 'pte_program'?"),
        (["filegroup", "a b"], ExitCode.USAGE, "'a b' is not a name; expected letters, digits and any of _.+@=-"),
        (["filegroup", "all"], ExitCode.USAGE, "'all' is not a name; expected letters, digits and any of _.+@=-"),
        (["filegroup", "x", "--package", "//../y"], ExitCode.USAGE,
         "'//../y' is not a package; expected a folder of the workspace such as //models"),
        (["filegroup", "x", "--package", "//broken"], ExitCode.LOADING_FAILED,
         "broken/BUILD.toml:1:3: no rule 'filegruop'; did you mean 'filegroup'?"),
        (["filegroup", "x", "--package", "//inline"], ExitCode.USAGE,
         "{root}/inline/BUILD.toml: its targets are not tables; expected [[filegroup]] for each"),
    ],
)  # fmt: skip
def test_refuses_and_leaves_the_files_alone(
    new: New, workspace: Workspace, arguments: list[str], code: int, problem: str
) -> None:
    files = {
        "broken/BUILD.toml": '[[filegruop]]\nname = "a"\n',
        "inline/BUILD.toml": 'filegroup = [{ name = "a", srcs = [] }]\n',
    }
    workspace.write(files)
    assert new(*arguments) == (code, "", f"error: {problem.format(root=workspace.root)}\n")
    for name, before in {**files, "BUILD.toml": BUILD, "models/BUILD.toml": MODELS}.items():
        assert text(workspace, name) == before
