"""`modelbuild lsp` as an editor uses it: LSP over stdio, on a workspace with several packages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

pytest.importorskip("pygls", reason="not run: needs modelbuild[lsp]")

from tests.lsp.editor import Editor
from tests.workspace_builder import Workspace

SHARED = """[[device_target]]
name = "cpu"
arch = "x86_64"
visibility = ["//visibility:public"]

[[backend_stack]]
name = "stack_{n}"
backends = ["portable"]
visibility = ["//visibility:public"]
matrix = { n = [1, 2] }

[[filegroup]]
name = "hidden"
srcs = ["a.txt"]
"""
NET = """[[torch_model]]
name = "net"
entry = "net.py:Net"
inputs = [{ name = "x", shape = [1, 4], dtype = "float32" }]

[[pte_program]]
name = "program"
model = ":net"
stack = "//shared:stack_1"
device = "//shared:cpu"
"""
FILES = {
    "MODELBUILD.toml": "",
    "shared/BUILD.toml": SHARED,
    "shared/a.txt": "",
    "m/BUILD.toml": NET,
    "m/net.py": "import torch\n\n\nclass Net(torch.nn.Module):\n    pass\n",
}
BUILD = "m/BUILD.toml"


@pytest.fixture
def root(workspace: Workspace) -> Path:
    workspace.write(FILES)
    return workspace.root


def edit(root: Path, work: Callable[[Editor], Awaitable[None]]) -> None:
    async def session() -> None:
        async with Editor(root) as editor:
            await work(editor)

    asyncio.run(asyncio.wait_for(session(), 120))


def test_completion_of_rules_attributes_values_labels_and_files(root: Path) -> None:
    async def work(editor: Editor) -> None:
        editor.open(BUILD, "")

        async def at(text: str) -> dict[str, str]:
            return await editor.complete(BUILD, editor.type(BUILD, text))

        assert {"pte_program", "torch_model", "package"} <= (await at("[[pt|")).keys()
        attributes = await at(NET + "sta|")
        assert "stack" not in attributes  # the table has it
        assert attributes["visibility"] == "visibility = "
        assert {"dtype", "range"} <= (await at('[[torch_model]]\ninputs = [{ name = "x", |')).keys()
        assert (await at('[[torch_model]]\ninputs = [{ dtype = "f|" }]'))["float32"] == "float32"
        assert (await at("[[torch_model]]\ninputs = [{ dtype = |"))["float32"] == '"float32"'
        assert await at("[[pte_test]]\nflaky = |") == {"true": "true", "false": "false"}
        stacks = await at(NET.replace("//shared:stack_1", "|"))
        assert stacks.keys() == {"//shared:stack_1", "//shared:stack_2"}
        assert (await at(NET.replace('":net"', '":n|'))).keys() == {":net"}
        srcs = await at('[[torch_model]]\nname = "net"\nsrcs = ["|"]\n')
        assert "net.py" in srcs
        assert "//shared:hidden" not in srcs
        assert await at("[[torch_model]] # |") == {}

    edit(root, work)


def test_definitions_references_hover_and_symbols(root: Path) -> None:
    async def work(editor: Editor) -> None:
        editor.open(BUILD)

        async def defined(old: str, new: str) -> tuple[str, int] | None:
            return await editor.define(BUILD, editor.type(BUILD, NET.replace(old, new)))

        assert await defined("//shared:stack_1", "//sha|red:stack_1") == ("shared/BUILD.toml", 6)
        assert await defined('":net"', '":n|et"') == (BUILD, 1)
        assert await defined("net.py:Net", "net|.py:Net") == ("m/net.py", 4)
        assert await defined('"net.py:Net"\n', '"net.py:Net"\nsrcs = ["net.|py"]\n') == ("m/net.py", 1)
        assert await defined('"x"', '"|x"') is None
        name = editor.type(BUILD, NET.replace('"net"', '"n|et"', 1))
        assert await editor.refer(BUILD, name) == {(BUILD, 2), (BUILD, 8)}
        device = editor.type(BUILD, NET.replace("//shared:cpu", "//shared:c|pu"))
        assert await editor.refer(BUILD, device) == {("shared/BUILD.toml", 2), (BUILD, 10)}
        about = await editor.hover(BUILD, editor.type(BUILD, NET.replace("stack =", "sta|ck =")))
        assert about.startswith("**stack**: label of a backend_stack")
        assert "**pte_program**" in await editor.hover(BUILD, editor.type(BUILD, NET.replace("[[pte", "[[|pte")))
        inner = await editor.hover(BUILD, editor.type(BUILD, NET.replace("dtype", "d|type")))
        assert "float32" in inner
        listed = await editor.symbols(BUILD)
        assert [(each.name, each.detail, each.range.start.line) for each in listed] == [
            ("net", "torch_model", 0),
            ("program", "pte_program", 5),
        ]

    edit(root, work)


def test_a_named_matrix_is_completed_and_found(root: Path) -> None:
    matrix = '[[matrix]]\nname = "sizes"\nn = [1, 2]\n\n'
    target = '[[filegroup]]\nname = "f{n}"\nmatrix = "sizes"\nsrcs = []\n'

    async def work(editor: Editor) -> None:
        editor.open(BUILD, matrix + target)
        assert "matrix" in await editor.complete(BUILD, editor.type(BUILD, "[[ma|"))
        assert (await editor.complete(BUILD, editor.type(BUILD, '[[matrix]]\nname = "m"\n|'))).keys() == {"exclude"}
        editor.type(BUILD, matrix + target)
        assert await editor.problems(BUILD, 0) == []
        found = await editor.complete(BUILD, editor.type(BUILD, matrix + target.replace('"sizes"', "|")))
        assert found == {"sizes": '"sizes"'}
        use = editor.type(BUILD, matrix + target.replace("sizes", "si|zes"))
        assert await editor.define(BUILD, use) == (BUILD, 1)
        assert await editor.refer(BUILD, use) == {(BUILD, 2), (BUILD, 7)}
        assert await editor.hover(BUILD, use) == "**sizes**, matrix: `n = [1, 2]`"
        name = editor.type(BUILD, matrix.replace("sizes", "si|zes") + target)
        assert await editor.refer(BUILD, name) == {(BUILD, 2), (BUILD, 7)}
        editor.type(BUILD, matrix + target.replace("sizes", "size"))
        (wrong,) = await editor.problems(BUILD, 1)
        assert wrong.message == "no [[matrix]] with the name 'size'; did you mean 'sizes'?"
        assert wrong.range.start.line == 6

    edit(root, work)


def test_errors_have_exact_ranges_while_the_text_is_typed(root: Path) -> None:
    async def work(editor: Editor) -> None:
        editor.open(BUILD)
        assert await editor.problems(BUILD, 0) == []
        editor.type(BUILD, NET.replace("stack =", "stakc =").replace('"net.py:Net"', "3"))
        found = await editor.problems(BUILD, 2)
        lines = NET.replace("stack =", "stakc =").replace('"net.py:Net"', "3").splitlines()
        marked = [lines[e.range.start.line][e.range.start.character : e.range.end.character] for e in found]
        assert sorted(marked) == ["entry", "stakc"]
        assert any("did you mean 'stack'?" in each.message for each in found)
        editor.type(BUILD, NET.replace('name = "program"', 'name = "\U0001f600", wrong'))
        (broken,) = await editor.problems(BUILD, 1)
        assert broken.message.startswith("not valid TOML")
        assert broken.range.start.line == 6
        editor.type(BUILD, NET)
        assert await editor.problems(BUILD, 0) == []
        (root / "m/net.py").unlink()  # an editor reports it, or the next edit finds it
        editor.type(BUILD, NET + "\n")
        (missing,) = await editor.problems(BUILD, 1)
        assert missing.message.startswith("no file 'net.py' in //m")

    edit(root, work)


def test_labels_are_completed_while_the_file_is_broken_and_from_unsaved_files(root: Path) -> None:
    async def work(editor: Editor) -> None:
        editor.open(BUILD)
        editor.open("shared/BUILD.toml", SHARED.replace('name = "cpu"', 'name = "laptop"'))
        text = NET.replace('"//shared:cpu"', '"|').replace('dtype = "float32" }]', "dtype = ")
        assert (await editor.complete(BUILD, editor.type(BUILD, text))).keys() >= {"//shared:laptop"}
        text = NET.replace('[{ name = "x", shape = [1, 4], dtype = "float32" }]', "[{ ")
        assert (await editor.complete(BUILD, editor.type(BUILD, text.replace('":net"', '"|"')))).keys() == {":net"}

    edit(root, work)


def test_formatting_is_that_of_fmt_and_leaves_a_broken_file(root: Path, workspace: Workspace) -> None:
    untidy = NET.replace('name = "net"\nentry = "net.py:Net"', "entry='net.py:Net'\nname   = 'net'")

    async def work(editor: Editor) -> None:
        editor.open(BUILD, untidy)
        (made,) = await editor.format(BUILD)
        workspace.write({BUILD: untidy})
        assert workspace.run("fmt").code == 0
        assert (root / BUILD).read_text() == made
        editor.type(BUILD, made)
        assert await editor.format(BUILD) == []
        editor.type(BUILD, made + "[[")
        assert await editor.format(BUILD) == []

    edit(root, work)


def test_a_broken_workspace_is_an_error_in_its_file_and_ends_no_session(root: Path) -> None:
    async def work(editor: Editor) -> None:
        (root / "MODELBUILD.toml").write_text('rules = ["//none"]\n')
        editor.open(BUILD)
        (broken,) = await editor.problems("MODELBUILD.toml", 1)
        assert broken.message.startswith("no rule package '//none'")
        assert await editor.complete(BUILD, editor.type(BUILD, NET + "|")) == {}
        (root / "MODELBUILD.toml").write_text("")
        editor.type(BUILD, NET)
        assert await editor.problems("MODELBUILD.toml", 0) == []

    edit(root, work)


@pytest.mark.parametrize("packages", [30, pytest.param(2000, marks=pytest.mark.exhaustive)])
def test_a_large_workspace_is_answered_soon(root: Path, packages: int) -> None:
    """Of 100 targets in each package, an answer has at most a thousand, and those that the user begins to type."""
    for number in range(packages):
        (root / f"p{number}").mkdir()
        targets = "".join(f'[[filegroup]]\nname = "t{n}"\nsrcs = []\n' for n in range(100))
        text = f'[package]\ndefault_visibility = ["//visibility:public"]\n{targets}'
        (root / f"p{number}/BUILD.toml").write_text(text)

    async def work(editor: Editor) -> None:
        editor.open("p0/BUILD.toml")
        for text in ("", "//p9", "//p9:t5"):
            began = time.monotonic()
            at = editor.type("p0/BUILD.toml", f'[[filegroup]]\nname = "x"\nsrcs = ["{text}|"]\n')
            labels = (await editor.complete("p0/BUILD.toml", at)).keys()
            assert time.monotonic() - began < 10
            assert len(labels) <= 1000
            assert editor.partial
            assert text != "//p9:t5" or {"//p9:t5", "//p9:t50"} <= labels
            assert all(text in label for label in labels if label.startswith("//"))
        tables = "".join(f'[[filegroup]]\nname = "{name}"\nsrcs = ["//p7:{name}"]\n' for name in ("one", "two"))
        editor.type("p0/BUILD.toml", f"{tables}|")
        found = await editor.problems("p0/BUILD.toml", 2)
        assert [each.message[:15] for each in found] == ["no target 'one'", "no target 'two'"]

    edit(root, work)
