"""The errors of a BUILD file, found as a build finds them: one error of the file itself, or one error of each of its
targets."""

from __future__ import annotations

from modelbuild.errors import LoadingError, ModelbuildError
from modelbuild.lsp.navigation import DocumentPlace
from modelbuild.lsp.places import Span, span_at
from modelbuild.lsp.snapshot import WorkspaceSnapshot, build_file


def diagnose(snapshot: WorkspaceSnapshot, package: str) -> list[tuple[DocumentPlace, str]]:
    """Return the errors of a package's targets, each once with its place, which may be in another file."""
    try:
        targets = list(snapshot.loader.package(package).targets.values())
    except ModelbuildError as error:
        return [(_place(snapshot, package, error), error.message)]
    analyzer = snapshot.analyzer()
    found: dict[tuple[DocumentPlace, str], None] = {}
    for target in targets:
        try:
            analyzer.analyze(target.label)
        except ModelbuildError as error:
            found[_place(snapshot, package, error), error.message] = None
    return list(found)


def _place(snapshot: WorkspaceSnapshot, package: str, error: ModelbuildError) -> DocumentPlace:
    """Return the place of an error; if it has no place, the beginning of the package's BUILD file."""
    if not isinstance(error, LoadingError) or error.location is None:
        return DocumentPlace(build_file(package), Span(0, 0, 0, 1))
    path = error.location.path
    text = snapshot.texts.get(path)
    if text is None:
        try:
            text = (snapshot.workspace.root / path).read_text(errors="replace")
        except OSError:
            text = ""
    return DocumentPlace(path, span_at(text, error.location))
