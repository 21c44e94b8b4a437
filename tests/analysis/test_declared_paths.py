"""Paths and artifacts that a rule declares and that no action may have: each is an error at the target."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from modelbuild.analysis.analyze import Analyzer
from modelbuild.analysis.rules import load_rules
from modelbuild.errors import LoadingError
from modelbuild.labels import Label
from modelbuild.loading.loader import Loader
from modelbuild.workspace.workspace import load_workspace
from tests.program_build import program_build

RULE = """
from modelbuild.api import *

class OwnAttrs(Attrs):
    srcs: Sources = ()

@rule(attrs=OwnAttrs)
def own(ctx):
    def action(name, *outputs, **inputs):
        return ctx.action(name, step="write", outputs=outputs, inputs=inputs)
    made = action("tree", Output("t", "t", "tree"), Output("f", "f"))
    {body}
    return (Files(()),)
"""


def analyze(root: Path, body: str, build: str = '[[own]]\nname = "o"\n', target: str = "o") -> Analyzer:
    files = {
        "MODELBUILD.toml": 'rules = ["//listing"]\n',
        "listing/__init__.py": "",
        "listing/own.py": RULE.replace("{body}", body),
        "listing/steps/__init__.py": "",
        "listing/steps/write.py": "",
        "BUILD.toml": "\n" + build,
        **dict.fromkeys((".outputs/x", "a.txt"), ""),
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    workspace = load_workspace(root)
    rules = load_rules(root, workspace.config.rules)
    analyzer = Analyzer(Loader(workspace, rules.by_name), rules)
    analyzer.analyze(Label("", target))
    return analyzer


LONG = "a" * 256
PATHS = ["../../../../x", "a/../../x", "/abs", "", ".", "..", "a//b", "a/./b", "a/", "a\0b", LONG, f"a/{LONG}"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("body", "what"),
    [
        ('action("x", Output("o", PATH))', "output 'o'"),
        ('action("x", Output("o", PATH, "tree"))', "output 'o'"),
        ('ctx.expand(reads=made["f"], promises=[Output("o", PATH)], then=None)', "promise 'o'"),
        ('ctx.expand(reads=made["f"], promises=[PATH], then=None)', "promise '"),
        ('action("x", i=SourceArtifact(PATH))', "a file of the workspace"),
        ("return (Files((SourceArtifact(PATH),)),)", "a file of the workspace"),
    ],
)
def test_a_path_that_leaves_the_action_s_folder(tmp_path: Path, body: str, what: str, path: str) -> None:
    with pytest.raises(LoadingError) as caught:
        analyze(tmp_path, body.replace("PATH", repr(path)))
    assert str(caught.value).startswith(f"BUILD.toml:2:1: rule 'own' fails: PathError: {what}")
    assert " is not a path within a folder; expected names of at most 255 bytes joined by '/'" in str(caught.value)


@pytest.mark.parametrize("path", [path for path in PATHS if path])
@pytest.mark.parametrize("body", ['action("x", i=PART)', "return (Files((PART,)),)"])
def test_a_part_of_a_folder_that_is_not_in_it(tmp_path: Path, body: str, path: str) -> None:
    with pytest.raises(LoadingError, match=r"a part of output 't' of //:o#tree: .* is not a path within a folder"):
        analyze(tmp_path, body.replace("PART", f'DerivedArtifact("//:o#tree", "t", {path!r})'))


@pytest.mark.parametrize("name", [*PATHS, "a/b"])
def test_an_input_whose_name_is_no_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(
        LoadingError, match=r"^BUILD.toml:2:1: rule 'own' fails: PathError: .* (is not a path|is a path)"
    ):
        analyze(tmp_path, f'action("x", **{{{name!r}: made["f"]}})')


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('action("x", Output("a", "x"), Output("b", "x"))', "outputs of //:o#x: 'x' occurs twice"),
        ('action("x", Output("a", "x"), Output("b", "x/y"))', "outputs of //:o#x: 'x/y' is below 'x'"),
        ('action("x", Output("a", "x/y/z"), Output("b", "x", "tree"))', "outputs of //:o#x: 'x/y/z' is below 'x'"),
        ('action("x", Output("a", "x"), Output("a", "y"))', "//:o#x has two outputs of the same name"),
        ('action("x", Output("a", "x", "dir"))', "output 'a' is a 'dir'; expected 'file' or 'tree'"),
        (
            'ctx.expand(reads=made["f"], promises=["a", "a"], then=None)',
            "//:o#expand has two promises of the same name",
        ),
        ('action("x", i=SourceArtifact(".outputs/x"))', "'.outputs/x': reserved for the engine's files"),
        ('action("x", i=DerivedArtifact("//:o#tree", "f", "x"))', "output 'f' of //:o#tree is a file"),
        ('action("x", i=DerivedArtifact("//:o#tree", "g"))', "//:o#tree has no output 'g'; expected one of: t, f"),
        ('action("x", i=DerivedArtifact("//:p#tree", "t"))', "'t' of //:p#tree is read, which is not declared"),
        ('return (Files((DerivedArtifact("//:p#tree", "t"),)),)', "'t' of //:p#tree is read, which is not declared"),
        ('ctx.expand(reads=DerivedArtifact("a", "b"), promises=[], then=None)', "'b' of a is read, which is not decl"),
    ],
)
def test_outputs_that_clash_and_artifacts_that_nothing_makes(tmp_path: Path, body: str, problem: str) -> None:
    with pytest.raises(LoadingError, match=rf"^BUILD.toml:2:1: rule 'own' fails: \w+: {re.escape(problem)}"):
        analyze(tmp_path, body)


def test_a_source_where_the_engine_s_own_files_are(tmp_path: Path) -> None:
    """A wrong path is the user's error in a built-in rule too, because the user named it."""
    for srcs in ('[".outputs/x"]', '{ glob = [".outputs/x"] }'):
        with pytest.raises(LoadingError, match=r"^BUILD.toml:4:\d+: '.outputs/x': reserved for the engine's files"):
            analyze(tmp_path, "pass", f'[[filegroup]]\nname = "g"\nsrcs = {srcs}\n', "g")


def test_a_target_whose_name_makes_an_output_s_name_too_long(tmp_path: Path) -> None:
    """This is an error of the user, not of the built-in rule."""
    name = "n" * 252
    build = program_build('{ type = "portable" }').replace('name = "program"', f'name = "{name}"')
    (tmp_path / "net.py").touch()
    with pytest.raises(LoadingError, match=r"^BUILD.toml:\d+:1: rule 'pte_program' fails: PathError: promise 'pte': "):
        analyze(tmp_path, "pass", build, name)


def test_a_part_of_a_folder_lies_under_the_input_s_name(tmp_path: Path) -> None:
    """The index of a part among several is in no key."""
    parts = [f'DerivedArtifact("//:o#tree", "t", "{path}")' for path in ("p7", "deep/3.npy", "b")]
    analyzer = analyze(tmp_path, f'action("x", part={parts[0]}, all=[{", ".join(parts)}, made["f"]])')
    assert [item.path for item in analyzer.graph.nodes["//:o#x"].inputs] == [
        ".inputs/part.0/part",
        ".inputs/all.0/all",
        ".inputs/all.1/all.npy",
        ".inputs/all.2/all",
        ".inputs/all.3/f",
    ]
