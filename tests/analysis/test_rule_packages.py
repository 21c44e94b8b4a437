"""Rule packages with folders: lookup of rules, their steps and the tables of extensible attributes."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelbuild.actions import Action
from modelbuild.analysis.analyze import Analyzer
from modelbuild.analysis.rules import load_rules
from modelbuild.errors import LoadingError
from modelbuild.labels import Label
from modelbuild.loading.loader import Loader
from modelbuild.workspace.workspace import load_workspace

FILES = {
    "MODELBUILD.toml": 'rules = ["//shop", "//more"]\n',
    "shop/__init__.py": "",
    "shop/sweets/__init__.py": "",
    "shop/sweets/mix.py": """
from typing import Annotated
from pydantic import Field
from modelbuild.api import Attrs, Extensible, Output, rule

class MixAttrs(Attrs):
    "Sweets."
    parts: tuple[Annotated[Attrs, Extensible("sweet")], ...] = Field(min_length=1)

@rule(attrs=MixAttrs)
def mix(ctx):
    for number, part in enumerate(ctx.attrs.parts):
        made = ctx.extension("sweet", part.type)
        outputs = [Output("o", "o")]
        ctx.action("cook", name=str(number), step=made.step, outputs=outputs, params=part.model_dump())
    ctx.action("wrap", step="wrap", outputs=outputs)
    return ()
""",
    "shop/sweets/steps/__init__.py": "",
    "shop/sweets/steps/wrap.py": "raise RuntimeError('the engine imports no steps')\n",
    "shop/sweet.py": """
from dataclasses import dataclass
from modelbuild.api import Extension

@dataclass(frozen=True)
class Sweet(Extension):
    step: str = ""
""",
    "shop/sweets/steps/boil.py": "",
    "shop/sweets/toffee.py": """
from typing import Literal
from modelbuild.api import Attrs
from shop.sweet import Sweet

class Toffee(Attrs):
    type: Literal["toffee"]
    salted: bool = False

TOFFEE = Sweet("sweet", "toffee", Toffee, step="boil")
""",
    "more/__init__.py": "",
    "more/fudge.py": """
from typing import Literal
from modelbuild.api import Attrs
from shop.sweet import Sweet

class Fudge(Attrs):
    type: Literal["fudge"]
    grams: int

FUDGE = Sweet("sweet", "fudge", Fudge, step="more.steps.stir")
""",
    "more/steps/__init__.py": "",
    "more/steps/stir.py": "",
    "BUILD.toml": """
[[mix]]
name = "box"
parts = [{ type = "fudge", grams = 3 }, { type = "toffee", salted = true }]
""",
}


def analyzed(root: Path, **changed: str) -> Analyzer:
    for name, text in (FILES | changed).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    workspace = load_workspace(root)
    rules = load_rules(root, workspace.config.rules, workspace.rule_locations())
    analyzer = Analyzer(Loader(workspace, rules.by_name), rules)
    analyzer.analyze(Label("", "box"))
    return analyzer


def test_a_rule_s_steps_are_in_the_folder_beside_it_and_others_have_their_whole_name(tmp_path: Path) -> None:
    actions = [node for node in analyzed(tmp_path).graph.nodes.values() if isinstance(node, Action)]
    assert [(action.step, dict(action.params)) for action in actions] == [
        ("more.steps.stir", {"type": "fudge", "grams": 3}),
        ("shop.sweets.steps.boil", {"type": "toffee", "salted": True}),
        ("shop.sweets.steps.wrap", {}),
    ]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            '[{ type = "tofee" }]',
            "BUILD.toml:4:10: attribute 'parts[0]': expected one of 'fudge', 'toffee', got 'tofee'; "
            "did you mean 'toffee'?",
        ),
        (
            '["tofee"]',
            "BUILD.toml:4:10: attribute 'parts[0]': expected 'fudge' or 'toffee', got 'tofee'; did you mean 'toffee'?",
        ),
        (
            '["fudge"]',
            "BUILD.toml:4:10: attribute 'parts[0]': 'fudge' has no default of 'grams'; expected a table with it",
        ),
        ('[{ type = "fudge" }]', "BUILD.toml:4:10: 'parts[0]' of mix 'box' lacks the attribute 'grams'"),
    ],
)
def test_a_wrong_table_of_another_package_is_told_at_its_place(tmp_path: Path, parts: str, message: str) -> None:
    with pytest.raises(LoadingError) as raised:
        analyzed(tmp_path, **{"BUILD.toml": f"\n[[mix]]\nname = 'box'\nparts = {parts}\n"})
    assert str(raised.value) == message


def test_two_extensions_of_one_name_are_refused(tmp_path: Path) -> None:
    same = FILES["more/fudge.py"].replace("fudge", "toffee")
    with pytest.raises(LoadingError, match=r"sweet 'toffee' of '//more' exists already in package 'shop'; rename one"):
        analyzed(tmp_path, **{"more/fudge.py": same})


def test_a_step_that_is_not_there_is_named_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(LoadingError, match=r"no step 'boyl'.*did you mean 'boil'"):
        analyzed(tmp_path, **{"shop/sweets/toffee.py": FILES["shop/sweets/toffee.py"].replace('"boil"', '"boyl"')})


def test_a_rule_with_the_name_of_another_table_is_refused(tmp_path: Path) -> None:
    mixing = FILES["shop/sweets/mix.py"].replace("def mix(ctx)", "def matrix(ctx)")
    with pytest.raises(
        LoadingError, match=r"MODELBUILD.toml:1:10: \[\[matrix\]\] declares no targets; rename the rule"
    ):
        analyzed(tmp_path, **{"shop/sweets/mix.py": mixing})
