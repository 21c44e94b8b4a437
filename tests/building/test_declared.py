"""What is written down of targets is what they declared, or nothing."""

from __future__ import annotations

from modelbuild.actions import Action, DerivedArtifact, Expansion, Input, Output, Resources, SourceArtifact, Telling
from modelbuild.building.declared import decode, encode

MADE = DerivedArtifact("//a:b#export", "program", "part/one")
SOURCE = SourceArtifact("a/é.py")
ACTION = Action(
    id="//a:b (//devices:c)#export",
    owner="//a:b (//devices:c)",
    mnemonic="export",
    step="rules.steps.export",
    inputs=(Input("srcs", "a/é.py", SOURCE), Input("program", ".inputs/program.0/one", MADE)),
    outputs=(Output("out", "out.bin"), Output("all", "all", "tree")),
    params={"shape": [1, None, {"min": 2}], "text": "line\nline\t"},
    unkeyed={"url": "https://example.org"},
    tools=("torch",),
    python=("srcs",),
    plugins=("rules.steps.extra",),
    env=(("A", "1"),),
    preload=("torch", "numpy"),
    network=True,
    resources=Resources(2, 3, 1, "8.9"),
    description="exports",
)


def test_what_was_declared_comes_back() -> None:
    """Every field is given above another value than its default."""
    plain = Action(id="", owner="", mnemonic="", step="")
    same = {name for name in Action.__slots__ if getattr(ACTION, name) == getattr(plain, name)}
    assert same == {"telling"}
    line = encode([ACTION], {"default": (MADE, SOURCE), "devices~c": ()})
    assert line is not None
    assert "\n" not in line
    assert decode(line) == ([ACTION], {"default": (MADE, SOURCE), "devices~c": ()})


def test_functions_are_not_written_down() -> None:
    telling = Action(id="a", owner="a", mnemonic="a", step="a", telling=Telling((), str))
    expansion = Expansion("a", "a", MADE, (), lambda expander, data: {}, "rules", ())
    assert encode([ACTION, telling], {}) is None
    assert encode([expansion, ACTION], {}) is None
