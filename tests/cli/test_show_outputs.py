"""--show-outputs: which built targets are listed."""

from __future__ import annotations

from tests.workspace_builder import Workspace

MATRIX = '[[filegroup]]\nname = "f{n}"\nsrcs = ["x"]\nmatrix = { n = ['
COUNT = 25


def test_no_target_the_first_or_all_are_listed_also_when_nothing_changed(workspace: Workspace) -> None:
    numbers = ", ".join(map(str, range(COUNT)))
    workspace.write({"MODELBUILD.toml": "", "BUILD.toml": f"{MATRIX}{numbers}] }}\n", "x": ""})

    def listed(*flags: str) -> tuple[int, bool]:
        found = {tuple(workspace.run("build", "//...", *flags).out.splitlines()[:-1]) for _ in range(2)}
        assert len(found) == 1  # the second run prints what the first one did
        (lines,) = found
        return sum(line.startswith("//") for line in lines), "and 5 targets more" in lines

    assert listed() == listed("--show-outputs=summary") == (20, True)
    assert listed("--show-outputs", "all") == (COUNT, False)
    assert listed("--show-outputs", "none") == (0, False)
