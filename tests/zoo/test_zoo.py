"""Models of timm, torchvision and transformers, and forms of our own, build for each stack, or fail with a known line.

`tests/zoo/table.py` writes a table of them. The parity of programs for XNNPACK is that of their pte_test.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.zoo import table
from tests.zoo.programs import STACKS, ZOO, add_runtime, build, limits, models

SAMPLE = (("//timm_models:mobilenetv3_small_100", "xnnpack"),)
"""Programs that are built by default."""

REST = [(model, stack) for stack in STACKS for model in models() if (model, stack) not in SAMPLE]


def check(model: str, stack: str, workspace: Path) -> None:
    shutil.copytree(ZOO, workspace, ignore=shutil.ignore_patterns("modelbuild-out"))
    outcome = build(model, stack, workspace)
    limit = limits(stack).get(model)
    assert "internal error" not in outcome.reason
    if limit is None:
        assert outcome.built, outcome.reason
        assert outcome.parity != "no", outcome.reason
        if outcome.parity == "not run":
            pytest.skip(outcome.reason)
    else:
        assert outcome.reason, f"{model} builds for {stack} now; remove it from limits.toml"
        assert limit in outcome.reason


@pytest.mark.slow
@pytest.mark.parametrize(("model", "stack"), SAMPLE)
def test_a_model_builds(model: str, stack: str, tmp_path: Path) -> None:
    check(model, stack, tmp_path / "zoo")


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("model", "stack"), REST)
def test_a_model_builds_or_its_limit_is_known(model: str, stack: str, tmp_path: Path) -> None:
    check(model, stack, tmp_path / "zoo")


def test_a_missing_runtime_is_one_line_before_any_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(table, "add_runtime", lambda workspace: add_runtime(tmp_path, tmp_path / "build"))
    monkeypatch.setattr(table, "build", lambda *_: pytest.fail("a program was built"))
    monkeypatch.setattr("sys.argv", ["table.py", "--stack", "xnnpack"])
    assert table.main() == 2
    line = f"error: {tmp_path / 'build'}: there is no C++ runtime; expected 'make runtime' first\n"
    assert capsys.readouterr().err == line


def test_limits_are_of_models_of_the_zoo() -> None:
    assert not [model for stack in STACKS for model in limits(stack) if model not in models()]


def test_the_page_contains_the_table_of_the_outcomes() -> None:
    """If this fails, run `python tests/zoo/table.py --write`."""
    assert table.PAGE.read_text() == table.page()


def test_each_program_that_failed_is_a_known_limit() -> None:
    failed = [each for each in table.kept() if not each.built or each.parity == "no"]
    assert [each for each in failed if limits(each.stack).get(each.model, "?") not in each.reason] == []
