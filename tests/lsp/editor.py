"""An editor for tests: speaks LSP with `modelbuild lsp` in a process of its own."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Self

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient


class Editor:
    """An editor with the files of a workspace. In texts `|` is the cursor."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.client = LanguageClient("tests", "1")
        self.published: dict[str, list[lsp.Diagnostic]] = {}
        self.partial = False
        self.failures: list[str] = []
        self._news = asyncio.Event()
        self._version = 0

        @self.client.feature(lsp.WINDOW_SHOW_MESSAGE)
        def failed(given: lsp.ShowMessageParams) -> None:
            self.failures.append(given.message)

        @self.client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(given: lsp.PublishDiagnosticsParams) -> None:
            self.published[Path(given.uri.removeprefix("file://")).relative_to(root).as_posix()] = list(
                given.diagnostics
            )
            self._news.set()

    async def __aenter__(self) -> Self:
        await self.client.start_io(sys.executable, "-m", "modelbuild", "-C", str(self.root), "lsp")
        abilities = lsp.ClientCapabilities(general=lsp.GeneralClientCapabilities(position_encodings=["utf-16"]))
        await self.client.initialize_async(lsp.InitializeParams(abilities, root_uri=self.root.as_uri()))
        self.client.initialized(lsp.InitializedParams())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.shutdown_async(None)
        self.client.exit(None)
        await asyncio.wait_for(self.client.stop(), 10)
        assert self.failures == []

    def uri(self, path: str) -> str:
        return (self.root / path).as_uri()

    def open(self, path: str, text: str | None = None) -> lsp.Position:
        """Open a file, or with a text an edited one. Returns the cursor."""
        marked = (self.root / path).read_text() if text is None else text
        item = lsp.TextDocumentItem(self.uri(path), "toml", self._next(), marked.replace("|", "", 1))
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        return cursor(marked)

    def type(self, path: str, text: str) -> lsp.Position:
        """Replace the text of an open file, and forget the errors of the last. Returns the cursor."""
        self.published.pop(path, None)
        self._news.clear()
        document = lsp.VersionedTextDocumentIdentifier(self._next(), self.uri(path))
        whole = lsp.TextDocumentContentChangeWholeDocument(text.replace("|", "", 1))
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(document, [whole]))
        return cursor(text)

    def _next(self) -> int:
        self._version += 1
        return self._version

    async def complete(self, path: str, at: lsp.Position) -> dict[str, str]:
        """Return the text that each completion inserts, by its label."""
        found = await self.client.text_document_completion_async(lsp.CompletionParams(self._document(path), at))
        assert isinstance(found, lsp.CompletionList)
        self.partial = found.is_incomplete
        return {item.label: item.text_edit.new_text for item in found.items if item.text_edit is not None}

    async def hover(self, path: str, at: lsp.Position) -> str:
        found = await self.client.text_document_hover_async(lsp.HoverParams(self._document(path), at))
        return found.contents.value if found is not None and isinstance(found.contents, lsp.MarkupContent) else ""

    async def define(self, path: str, at: lsp.Position) -> tuple[str, int] | None:
        """Return the file and the line, from 1, of a definition."""
        found = await self.client.text_document_definition_async(lsp.DefinitionParams(self._document(path), at))
        return self._place(found) if isinstance(found, lsp.Location) else None

    async def refer(self, path: str, at: lsp.Position) -> set[tuple[str, int]]:
        context = lsp.ReferenceContext(include_declaration=True)
        given = lsp.ReferenceParams(context, self._document(path), at)
        return {self._place(each) for each in await self.client.text_document_references_async(given) or ()}

    async def symbols(self, path: str) -> list[lsp.DocumentSymbol]:
        given = lsp.DocumentSymbolParams(self._document(path))
        found = await self.client.text_document_document_symbol_async(given) or []
        return [each for each in found if isinstance(each, lsp.DocumentSymbol)]

    async def format(self, path: str) -> list[str]:
        given = lsp.DocumentFormattingParams(self._document(path), lsp.FormattingOptions(4, True))
        return [each.new_text for each in await self.client.text_document_formatting_async(given) or ()]

    async def problems(self, path: str, count: int) -> list[lsp.Diagnostic]:
        """Return the errors of a file, once there are so many."""
        async with asyncio.timeout(60):
            while len(self.published.get(path, [None] * (count + 1))) != count:  # none are published yet
                self._news.clear()
                await self._news.wait()
        return self.published[path]

    def _document(self, path: str) -> lsp.TextDocumentIdentifier:
        return lsp.TextDocumentIdentifier(self.uri(path))

    def _place(self, found: lsp.Location) -> tuple[str, int]:
        path = Path(found.uri.removeprefix("file://")).relative_to(self.root)
        return path.as_posix(), found.range.start.line + 1


def cursor(text: str) -> lsp.Position:
    """Return the position of `|` in UTF-16 units; the beginning without."""
    before = text.partition("|")[0] if "|" in text else ""
    line = before.rpartition("\n")[2]
    return lsp.Position(before.count("\n"), len(line.encode("utf-16-le")) // 2)
