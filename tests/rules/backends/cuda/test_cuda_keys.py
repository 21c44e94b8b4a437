"""The key of a library: it has in it how kernels are chosen, and a tuning file's content."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import modelbuild
from modelbuild.actions import Action, FileEntry, SourceArtifact, StagedInput
from modelbuild.analysis.rules import load_rules
from modelbuild.code.step_sources import StepCode
from modelbuild.execution.keys import key_of, material_of
from modelbuild.execution.resolver import Resolver
from modelbuild.rule_runner import AnalysedTarget
from modelbuild.session.source_files import Sources
from modelbuild.store.digests import digest_file
from modelbuild.store.local import open_store

PLAN = b'[{"id": "p0", "entry": 0, "nodes": 3, "bytes": 100}]'
WORK = b'[{"id": "k0", "description": "mm"}]'
SAME = FileEntry(digest_file(Path(__file__)))  # represents outputs of earlier actions

Made = Callable[..., dict[str, str]]


@pytest.fixture
def keys(tmp_path: Path, analysed: Callable[..., AnalysedTarget]) -> Made:
    """Keys by mnemonic of the actions of a program of one library: keys(', candidates = 4', tuning="{}")."""

    def made(more: str = "", tuning: str = "", capability: str = "8.6") -> dict[str, str]:
        (tmp_path / "a.json").write_text(tuning)
        program = analysed(f'{{ type = "cuda"{more} }}', '{ type = "portable" }', capability=capability)
        program.expand(PLAN)
        program.expand(WORK, name="kernels:p0")

        def staged(action: Action) -> list[StagedInput]:
            return [
                StagedInput(each.name, each.path, None, FileEntry(digest_file(tmp_path / each.artifact.path)))
                if isinstance(each.artifact, SourceArtifact)
                else StagedInput(each.name, each.path, None, SAME)
                for each in action.inputs
            ]

        roots = {"modelbuild": Path(modelbuild.__file__).parent, **load_rules(tmp_path, ()).packages}
        with open_store(tmp_path / "store") as store:
            making = Resolver(StepCode(roots), tmp_path, store.read_bytes, Sources(tmp_path, store))
            return {
                action.mnemonic: key_of(material_of(making.resolve(action, staged(action))))
                for action in program.actions.values()
            }

    return made


@pytest.mark.parametrize(
    "more",
    [
        ", candidates = 4",
        ', precision = "tf32"',
        ', tuning = "a.json"',
    ],
)
def test_how_kernels_are_chosen_is_in_the_key_of_what_is_compiled_alone(keys: Made, more: str) -> None:
    usual, other = keys(), keys(more)
    changed = {name for name in {*usual, *other} if usual.get(name) != other.get(name)}
    assert "compile" in changed
    assert changed <= {"compile", *(["emit"] if "candidates" in more else [])}


def test_the_capability_and_the_number_of_candidates_are_in_it(keys: Made) -> None:
    assert len({keys(f", candidates = {number}")["compile"] for number in (2, 4)}) == 2
    assert len({keys(", candidates = 4", capability=each)["compile"] for each in ("8.6", "9.0")}) == 2


def test_a_tuning_files_content_is_in_it(keys: Made) -> None:
    named = ', tuning = "a.json"'
    assert keys(named, "one")["compile"] == keys(named, "one")["compile"] != keys(named, "other")["compile"]
    assert keys("", "one") == keys("", "other")
