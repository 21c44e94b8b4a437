"""`modelbuild report` without --output replaces no file but its own."""

from __future__ import annotations

from typing import Any


def test_a_file_of_the_user_is_not_replaced_by_default(workspace: Any, example_rules: dict[str, str]) -> None:
    build = '[[checksums]]\nname = "sums"\nsrcs = ["one.txt"]\n'
    workspace.write({**example_rules, "a/BUILD.toml": build, "a/one.txt": "1\n"})
    assert workspace.run("build", "//a:sums").code == 0
    page = workspace.root / "report.html"
    for text in ("<h1>Mine</h1>", ""):
        page.write_text(text)
        ended = workspace.run("report")
        problem = "report.html is not a page of modelbuild; expected --output FILE to replace it"
        assert (ended.code, ended.err) == (2, f"error: {problem}\n")
        assert page.read_text() == text
    assert workspace.run("report", "--output", "report.html").code == 0
    for _ in range(2):
        ended = workspace.run("report")
        assert (ended.code, ended.out) == (0, "report.html\n")
    assert page.read_text() != ""
