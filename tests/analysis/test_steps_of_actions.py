"""The distributions and modules that analysis adds to an action."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelbuild.actions import Action
from modelbuild.analysis.steps import Steps
from modelbuild.code.step_sources import StepCode, source
from modelbuild.errors import LoadingError

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


def test_the_source_of_a_preload_is_in_the_key(steps: Steps, tmp_path: Path) -> None:
    """Modules of rule packages that a worker imports first are plug-ins; others are distributions."""
    action = Action("//:a#a", "//:a", "a", "own.steps.plain", preload=("json", "own.steps.sums"))
    complete = steps.complete(action)
    assert (complete.plugins, complete.preload) == (("own.steps.sums",), action.preload)
    assert complete.tools == ("numpy",)
    before = StepCode({"own": tmp_path / "rules"}).digest(*complete.modules)
    (tmp_path / "rules/steps/_shared.py").write_text("import numpy  # changed\n")
    source.cache_clear()
    assert StepCode({"own": tmp_path / "rules"}).digest(*complete.modules) != before


def test_a_preload_that_is_not_there_is_an_error(steps: Steps) -> None:
    action = Action("//:a#a", "//:a", "a", "own.steps.plain", preload=("own.steps.sum",))
    with pytest.raises(LoadingError, match=r"no step 'sum': there is no rules/steps/sum.py; did you mean 'sums'"):
        steps.complete(action)
