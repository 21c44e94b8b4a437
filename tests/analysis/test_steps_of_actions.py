"""The distributions that analysis adds to an action with a step of the workspace's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelbuild.actions import Action
from modelbuild.analysis.steps import Steps

SOURCES = {
    "rules/__init__.py": "",
    "rules/steps/__init__.py": "",
    "rules/steps/_shared.py": "import numpy\n",
    "rules/steps/plain.py": "import json\nfrom modelbuild.step import Step\n",
    "rules/steps/pictures.py": "def run(step):\n    import PIL.Image\n",
    "rules/steps/sums.py": "from own.steps import _shared\n",
}


@pytest.fixture
def steps(tmp_path: Path) -> Steps:
    for name, text in SOURCES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return Steps({"own": tmp_path / "rules"}, tmp_path)


@pytest.mark.parametrize(
    ("step", "tools", "expected"),
    [
        ("plain", (), ()),
        ("pictures", (), ("pillow",)),
        ("pictures", ("pillow",), ("pillow",)),
        ("pictures", ("click",), ("click", "pillow")),
        ("sums", (), ("numpy",)),
    ],
)
def test_imports_of_a_step_are_tools(
    steps: Steps, step: str, tools: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    action = Action("//:a#a", "//:a", "a", f"own.steps.{step}", tools=tools)
    assert steps.complete(action).tools == expected


def test_two_actions_of_a_step_may_name_different_tools(steps: Steps) -> None:
    for tools in ((), ("click",)):
        action = Action("//:a#a", "//:a", "a", "own.steps.plain", tools=tools)
        assert steps.complete(action).tools == tools
