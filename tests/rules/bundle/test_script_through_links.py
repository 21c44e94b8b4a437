"""run.sh of a bundle finds its folder from anywhere, and through links."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from modelbuild_rules.bundle.steps.runtime_bundle import _script


@pytest.mark.parametrize("names", [["net"], ["net", "other"]])
def test_the_script_finds_its_bundle(tmp_path: Path, names: Sequence[str]) -> None:
    bundle = tmp_path / "a bundle -x"
    (bundle / "bin").mkdir(parents=True)
    (bundle / "run.sh").write_text(_script(names, "# A comment.\n"))
    (bundle / "bin/modelbuild-run").write_text("#!/bin/sh\nprintf '%s|' \"$@\"\n")
    for path in (bundle / "run.sh", bundle / "bin/modelbuild-run"):
        path.chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/net").symlink_to(os.path.relpath(bundle / "run.sh", tmp_path / "bin"))
    (tmp_path / "again").symlink_to("bin/net")
    (tmp_path / "folder").symlink_to(bundle)
    program = names[:1] if len(names) > 1 else []
    found = f"{bundle}/{program[0]}" if program else str(bundle)
    environment = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "CDPATH": "/"}
    for called in (bundle / "run.sh", "a bundle -x/run.sh", "./again", tmp_path / "bin/net", "net", "folder/run.sh"):
        command = [called, *program, "--input", "x y"]
        ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stderr) == (0, ""), called
        assert ended.stdout == f"{found}|--input|x y|"
    tools = tmp_path / "tools"  # a machine without readlink
    tools.mkdir()
    for name in ("sh", "dirname", "printf"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    plain = [bundle / "run.sh", *program]
    ended = subprocess.run(plain, env={"PATH": str(tools)}, capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == (f"{found}|", "")
