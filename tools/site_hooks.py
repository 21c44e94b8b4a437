"""Hooks of mkdocs.yml: the navigation of docs/index.md, the documents of the root folder, and links to sources.

A link to another file of the repository becomes the file's path as text: the site does not contain sources.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PROJECT = {f"{name}.md": f"project/{name.lower()}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")}
LINK = re.compile(r"(?<!!)\[(?P<text>[^]]*)\]\((?P<path>[^)#\s:]+)(?P<anchor>#[^)]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make the navigation of the headings and lists of docs/index.md."""
    index = (ROOT / "docs/index.md").read_text()
    sections: list[Any] = [{"Home": "index.md"}]
    for title, text in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", index, re.MULTILINE | re.DOTALL):
        links = (match["path"] for match in LINK.finditer(text))
        sections.append({title: [PROJECT[link[3:]] if link.startswith("../") else link for link in links]})
    config.nav = sections
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents of the root folder, and the pictures of docs that they show."""
    for name, uri in PROJECT.items():
        files.append(File.generated(config, uri, content=(ROOT / name).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return a page whose links lead to pages of the site."""
    uri = page.file.src_uri
    source = next((name for name, project in PROJECT.items() if project == uri), f"docs/{uri}")

    def moved(path: str) -> str | None:
        """Return the link to a file of the repository from this page; None for a file that the site lacks."""
        target = os.path.normpath(os.path.join(os.path.dirname(source), path))
        target = PROJECT.get(target, target.removeprefix("docs/") if target.startswith("docs/") else "")
        if files.get_file_from_path(target) is None:
            return None
        return os.path.relpath(target, os.path.dirname(uri) or ".")

    def link(match: re.Match[str]) -> str:
        path = moved(match["path"])
        if path is not None:
            return f"[{match['text']}]({path}{match['anchor'] or ''})"
        if not (ROOT / os.path.dirname(source) / match["path"]).exists():
            return match[0]  # strict mode reports it
        return f"`{match['text'].strip('`')}`"

    def picture(match: re.Match[str]) -> str:
        return f"{match[1]}{moved(match[2]) or match[2]}{match[3]}"

    text = LINK.sub(link, markdown)
    text = re.sub(r"(!\[[^]]*\]\()([^):\s]+)(\))", picture, text)
    return re.sub(r"(<img [^>]*?src=\")([^\":]+)(\")", picture, text)
