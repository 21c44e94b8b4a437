"""run.sh of a bundle: names in it are no commands."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from modelbuild_rules.bundle.steps.runtime_bundle import _comment, _script

HOSTILE = [
    "$(touch made)",
    "`touch made`",
    "a\ntouch made\n#",
    "a\r\ntouch made",
    "'; touch made; '",
    '"; touch made; "',
]


@pytest.mark.parametrize("text", [*HOSTILE, "a\\"])
@pytest.mark.parametrize("names", [["net"], ["net", "other"]])
def test_a_library_that_is_missing_is_a_comment(tmp_path: Path, text: str, names: list[str]) -> None:
    _run(tmp_path, _script(names, _comment(text)))


@pytest.mark.parametrize("text", [each for each in HOSTILE if "\n" not in each])
def test_a_name_of_a_program_is_no_command(tmp_path: Path, text: str) -> None:
    ended = _run(tmp_path, _script([text, "net"], ""))
    assert (ended.returncode, ended.stderr) == (2, f"error: expected a program first: {text}, net\n")


def _run(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    (folder / "run.sh").write_text(script)
    ended = subprocess.run(["sh", "run.sh", "none"], cwd=folder, capture_output=True, text=True, check=False)
    assert [path.name for path in folder.iterdir()] == ["run.sh"]
    return ended
