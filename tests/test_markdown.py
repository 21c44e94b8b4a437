"""Texts in Markdown are shown as they are."""

from __future__ import annotations

import pytest
from markdown_it import MarkdownIt

from modelbuild.lines import one_line
from modelbuild.markdown import markdown, markdown_code
from tests.hostile import NASTY

HOSTILE = [
    *(text for text in NASTY if len(text) < 300),
    *("a|b", "`code`", "``", "a`b", "|`|`", "<img src=x onerror=y>", "<!--", "</td></tr></table>", "<details>", "&lt;"),
    *("[a](javascript:x)", "![a](x)", "[a]: b", "*a*", "__a__", "_a_", "a_b_c", "~~a~~", "$a$", "\\", "\\|", "a\\`b"),
    *("# a #", "a ##", "- a", "<https://x>", "&amp;", "a\n\n# b", "\r\n---\r\n", "--- x"),
]
_PARSER = MarkdownIt("commonmark").enable("table").enable("strikethrough")


def _shown(text: str, kinds: tuple[str, ...]) -> list[str]:
    """Return the text of each inline part that the page has; they must be of these kinds."""
    found = []
    for token in _PARSER.parse(text):
        if token.type == "inline":
            assert {child.type for child in token.children or ()} <= {*kinds}, text
            found.append("".join(child.content for child in token.children or ()))
        assert token.type not in ("html_block", "code_block", "fence", "hr"), text
    return found


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("quote", [markdown, markdown_code])
def test_a_text_is_shown_as_it_is(text: str, quote: type[str]) -> None:
    kinds = ("text", "code_inline") if quote is markdown_code else ("text",)
    line = one_line(text).strip()
    if not line:
        return
    cells = _shown(f"| a | b |\n| --- | --- |\n| {quote(text)} | end |\n", kinds)
    assert [each.strip() for each in cells] == ["a", "b", line, "end"]
    assert [each.strip() for each in _shown(f"# {quote(text)}\n", kinds)] == [line]


def test_plain_names_stay_readable() -> None:
    assert markdown("//models/a_b:net_program") == "//models/a_b:net_program"
    assert markdown_code("//a:b") == "`//a:b`"
