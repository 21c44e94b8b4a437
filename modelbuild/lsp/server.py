"""The language server for BUILD files: LSP over standard input and output."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from lsprotocol import types as lsp
from pygls import uris
from pygls.lsp.server import LanguageServer

from modelbuild import __version__
from modelbuild.analysis.attribute_order import table_order
from modelbuild.errors import LoadingError, ModelbuildError
from modelbuild.loading.package import PACKAGE_FILE
from modelbuild.lsp import completion, navigation
from modelbuild.lsp.cursor import Cursor, cursor_at
from modelbuild.lsp.diagnostics import Errors, Found, Search
from modelbuild.lsp.places import Span, span, span_at
from modelbuild.lsp.snapshot import Memory, WorkspaceSnapshot, package_of
from modelbuild.workspace.toml_document import parse_document
from modelbuild.workspace.toml_format import format_toml

# Seconds after the last edit until errors are searched.
_PAUSE = 0.2
_SOURCE = "modelbuild"
_BEGINNING = lsp.Position(0, 0)
_CHANGES = (
    lsp.TEXT_DOCUMENT_DID_OPEN,
    lsp.TEXT_DOCUMENT_DID_CHANGE,
    lsp.TEXT_DOCUMENT_DID_SAVE,
    lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES,
)
_KINDS = {
    "rule": lsp.CompletionItemKind.Class,
    "attribute": lsp.CompletionItemKind.Property,
    "value": lsp.CompletionItemKind.EnumMember,
    "label": lsp.CompletionItemKind.Reference,
    "file": lsp.CompletionItemKind.File,
}


class Server(LanguageServer):
    """A server for one workspace. Paths are relative to its root."""

    def __init__(self, root: Path) -> None:
        super().__init__("modelbuild", __version__)
        self.root = root
        self.memory = Memory()
        self._snapshot: WorkspaceSnapshot | None = None
        self._pending: asyncio.Task[None] | None = None
        self._search: Search | None = None
        self._reported: dict[str, set[str]] = {}

    def snapshot(self) -> WorkspaceSnapshot:
        """Return the current state of the workspace. Raises LoadingError for an error in MODELBUILD.toml or a rule
        package."""
        if self._snapshot is None:
            self._snapshot = WorkspaceSnapshot(self.root, self._texts(), self.memory)
        return self._snapshot

    def _texts(self) -> dict[str, str]:
        documents = self.workspace.text_documents
        return {path: document.source for uri, document in documents.items() if (path := self.path(uri))}

    def changed(self) -> None:
        """Forget the snapshot, and search errors when the user pauses."""
        self._snapshot = None
        if self._pending is not None:
            self._pending.cancel()
        if self._search is not None:
            self._search.over.set()
        self._pending = asyncio.get_running_loop().create_task(self._diagnose_soon())

    def path(self, uri: str) -> str:
        """Return the path of a file of the workspace; '' for any other file."""
        file = uris.to_fs_path(uri)
        if file is None:
            return ""
        for folder, root in ((Path(file), self.root), (Path(file).resolve(), self.root.resolve())):
            if folder.is_relative_to(root):
                return folder.relative_to(root).as_posix()
        return ""

    def uri(self, path: str) -> str:
        """Return the address of a file; for an open file, as the editor writes it."""
        opened = (uri for uri in self.workspace.text_documents if self.path(uri) == path)
        return next(opened, None) or uris.from_fs_path(str(self.root / path)) or ""

    def text(self, path: str) -> str:
        opened = (doc.source for uri, doc in self.workspace.text_documents.items() if self.path(uri) == path)
        try:
            return next(opened, None) or (self.root / path).read_text(errors="replace")
        except OSError:
            return ""

    def range(self, path: str, found: Span) -> lsp.Range:
        """Return a span in the units of the editor."""
        lines = self.text(path).replace("\r\n", "\n").splitlines(keepends=True)
        given = lsp.Range(lsp.Position(found.line, found.column), lsp.Position(found.last_line, found.last_column))
        return self.workspace.position_codec.range_to_client_units(lines, given)

    def at(self, uri: str, position: lsp.Position) -> tuple[WorkspaceSnapshot, str, Cursor] | None:
        """Return the package and the cursor of a position in a BUILD file; None in other files, and while the workspace
        cannot be loaded."""
        path = self.path(uri)
        if path.rpartition("/")[2] != PACKAGE_FILE:
            return None
        document = self.workspace.get_text_document(uri)
        try:
            snapshot = self.snapshot()
        except ModelbuildError:
            return None
        return snapshot, package_of(path), cursor_at(document.source, document.offset_at_position(position))

    async def _diagnose_soon(self) -> None:
        """Report the errors of every open BUILD file, and of files that they name. They are searched in a thread,
        because that can take long, and requests are answered meanwhile."""
        await asyncio.sleep(_PAUSE)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Found] = loop.create_future()
        texts = self._texts()
        files = [path for path in texts if path.rpartition("/")[2] == PACKAGE_FILE]
        self._search = Search(files, partial(WorkspaceSnapshot, self.root, texts, self.memory), loop, done)
        self._search.start()
        for path, found in (await done).items():
            self._report(path, self._of_workspace(path, found) if isinstance(found, ModelbuildError) else found)

    def _of_workspace(self, path: str, error: ModelbuildError) -> Errors:
        """Return an error of MODELBUILD.toml or a rule package."""
        place = error.location.path if error.location is not None else path
        found = span_at(self.text(place), error.location) if error.location is not None else Span(0, 0, 0, 1)
        return [(navigation.DocumentPlace(place, found), error.message)]

    def _report(self, path: str, errors: list[tuple[navigation.DocumentPlace, str]]) -> None:
        """Publish errors found from one BUILD file, by their files. Files that no longer have errors get an empty
        list."""
        by_file: dict[str, list[lsp.Diagnostic]] = {path: [], **{old: [] for old in self._reported.get(path, ())}}
        for place, message in errors:
            where = self.range(place.path, place.span)
            made = lsp.Diagnostic(where, message, severity=lsp.DiagnosticSeverity.Error, source=_SOURCE)
            by_file.setdefault(place.path, []).append(made)
        self._reported[path] = {file for file, found in by_file.items() if found}
        for file, found in by_file.items():
            self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(self.uri(file), found))

    def forget(self, uri: str) -> None:
        """Withdraw the errors of a closed file."""
        path = self.path(uri)
        for file in {path, *self._reported.pop(path, ())}:
            self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(self.uri(file), []))


def make_server(root: Path) -> Server:
    """Return the server of the workspace at a root."""
    server = Server(root)
    for register in (_documents, _completion, _navigation, _formatting):
        register(server)
    return server


def _documents(server: Server) -> None:
    for event in _CHANGES:

        @server.feature(event)
        async def changed(ls: Server, given: object) -> None:
            ls.changed()

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    async def closed(given: lsp.DidCloseTextDocumentParams) -> None:
        server.forget(given.text_document.uri)
        server.changed()

    @server.feature(lsp.INITIALIZED)
    async def initialized(given: lsp.InitializedParams) -> None:
        """Ask the editor to report changes of all files, because targets depend on them."""
        ability = server.client_capabilities.workspace
        watched = ability.did_change_watched_files if ability is not None else None
        if watched is not None and watched.dynamic_registration:
            watchers = [lsp.FileSystemWatcher("**/*")]
            options = lsp.DidChangeWatchedFilesRegistrationOptions(watchers)
            wanted = lsp.Registration("files", lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
            await server.client_register_capability_async(lsp.RegistrationParams([wanted]))


def _completion(server: Server) -> None:
    characters = ['"', ":", "/", "[", "=", " "]

    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=characters))
    def complete(given: lsp.CompletionParams) -> lsp.CompletionList:
        found = server.at(given.text_document.uri, given.position)
        if found is None:
            return lsp.CompletionList(False, [])
        snapshot, package, cursor = found
        document = server.workspace.get_text_document(given.text_document.uri)
        path = server.path(given.text_document.uri)
        where = server.range(path, span(document.source, cursor.start, cursor.end))
        behind = document.source[cursor.end : document.source.find("\n", cursor.end) % (len(document.source) + 1)]
        choices = completion.complete(snapshot, package, cursor)
        bare = behind.lstrip().startswith("=")
        return lsp.CompletionList(choices.partial, [_item(choice, where, bare) for choice in choices])


def _item(choice: completion.Choice, where: lsp.Range, bare: bool) -> lsp.CompletionItem:
    """Return an item. `bare`: an attribute's name without an equals sign, because one follows the cursor."""
    text = choice.label if choice.kind == "attribute" and bare else choice.insert
    return lsp.CompletionItem(
        choice.label,
        kind=_KINDS[choice.kind],
        detail=choice.detail or None,
        documentation=choice.about or None,
        sort_text=f"{0 if choice.first else 1}{choice.label}",
        filter_text=text if choice.kind not in ("rule", "attribute") else choice.label,
        text_edit=lsp.TextEdit(where, text),
    )


def _navigation(server: Server) -> None:
    def location(place: navigation.DocumentPlace) -> lsp.Location:
        return lsp.Location(server.uri(place.path), server.range(place.path, place.span))

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def define(given: lsp.DefinitionParams) -> lsp.Location | None:
        found = server.at(given.text_document.uri, given.position)
        place = navigation.definition(*found) if found is not None else None
        return location(place) if place is not None else None

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    def refer(given: lsp.ReferenceParams) -> list[lsp.Location]:
        found = server.at(given.text_document.uri, given.position)
        places = navigation.references(*found) if found is not None else []
        return [location(place) for place in places[0 if given.context.include_declaration else 1 :]]

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hover(given: lsp.HoverParams) -> lsp.Hover | None:
        found = server.at(given.text_document.uri, given.position)
        text = navigation.hover(*found) if found is not None else ""
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text)) if text else None

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def symbols(given: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        path = server.path(given.text_document.uri)
        found = server.at(given.text_document.uri, _BEGINNING)
        if found is None:
            return []
        listed = navigation.symbols(found[0], package_of(path))
        kind = lsp.SymbolKind.Object
        return [
            lsp.DocumentSymbol(name, kind, server.range(path, whole), server.range(path, header), detail=rule)
            for name, rule, whole, header in listed
        ]


def _formatting(server: Server) -> None:
    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def reformat(given: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
        """Return the edit that `modelbuild fmt` would make; none for a document that is not TOML."""
        path = server.path(given.text_document.uri)
        found = server.at(given.text_document.uri, _BEGINNING)
        if found is None:
            return []
        document = server.workspace.get_text_document(given.text_document.uri)
        try:
            text = parse_document(path, document.source.encode(errors="replace"))[0].text
        except LoadingError:
            return []
        made = format_toml(text, table_order(found[0].rules.by_name))
        if made == text:
            return []
        made = made.replace("\n", "\r\n") if "\r\n" in document.source else made
        return [lsp.TextEdit(lsp.Range(lsp.Position(0, 0), lsp.Position(len(document.lines) + 1, 0)), made)]
