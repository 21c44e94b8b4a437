"""The model card of a hub shows names as they are."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt

from modelbuild.lines import one_line
from modelbuild.publish.content import About, Content, PublishedFile
from modelbuild.publish.model_card import MARK, model_card

HOSTILE = ["<img src=x>", "a|b", "`x`", "[a](b)", "---\nlicense: mit", "a\n# b", "'\": x", "<!-- ", "a ##"]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_name_is_markup(text: str) -> None:
    about = About(f"//a:{text}", "1", [f"LicenseRef-{text}"], [text], [text])
    card = model_card(Content([PublishedFile(text, Path("x"), "0" * 64, 1, False)], {}, (), about)).decode()
    front, _, body = card.removeprefix("---\n").partition("\n---\n")
    assert yaml.safe_load(front)["license_name"] == f"LicenseRef-{text}"
    tokens = MarkdownIt("commonmark").enable("table").parse(body)
    assert [token.content.strip() for token in tokens if token.type == "html_block"] == [MARK]
    assert [token.content for token in tokens if token.type == "heading_close"] == [""] * 3
    lines = [(token, token.children or []) for token in tokens if token.type == "inline"]
    assert {child.type for _, children in lines for child in children} <= {"text", "code_inline"}
    shown = ["".join(child.content for child in children) for _, children in lines]
    line = one_line(text)
    assert shown == [
        *(
            one_line(f"{about.name} 1").strip(),
            f"Built by modelbuild from //a:{line}.",
            "file",
            "bytes",
            "SHA-256",
            line,
            "1",
            "0" * 64,
        ),
        *("Inputs", line, "Outputs", line),
    ]
