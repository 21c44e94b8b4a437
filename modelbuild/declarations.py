"""Check a rule's declarations: every path stays in its folder."""

from __future__ import annotations

from collections.abc import Mapping

from modelbuild.actions import Action, DerivedArtifact, Expansion
from modelbuild.paths import RESERVED, PathError, check_apart, check_path


def check_outputs(action: Action) -> None:
    """Raise PathError or ValueError for outputs that a step cannot write side by side into its folder."""
    for output in action.outputs:
        _check(output.path, f"output '{output.name}'")
        if output.kind not in ("file", "tree"):
            raise ValueError(f"output '{output.name}' is a {output.kind!r}; expected 'file' or 'tree'")
    if len(kinds(action)) < len(action.outputs):
        raise ValueError(f"{action.id} has two outputs of the same name: {', '.join(o.name for o in action.outputs)}")
    try:
        check_apart(output.path for output in action.outputs)
    except PathError as error:
        raise PathError(f"outputs of {action.id}: {error}") from None


def check_promises(expansion: Expansion) -> None:
    """Raise PathError or ValueError for promises that no output can fulfil."""
    for promise, path in zip(expansion.promises, expansion.names, strict=True):
        _check(path, f"promise '{promise}'")
    if len(kinds(expansion)) < len(expansion.promises):
        raise ValueError(f"{expansion.id} has two promises of the same name: {', '.join(expansion.promises)}")


def check_part(artifact: DerivedArtifact, kind: str) -> None:
    """Raise PathError for an impossible part of an output. `kind` is the output's kind, '' if not known yet."""
    _check(artifact.subpath, f"a part of output '{artifact.output}' of {artifact.action}")
    if kind == "file":
        raise PathError(f"output '{artifact.output}' of {artifact.action} is a file; expected a tree to take a part of")


def check_source(path: str) -> None:
    """Raise PathError for a path that no workspace file can have in an action's folder."""
    _check(path, "a file of the workspace")
    if path.partition("/")[0] in RESERVED:
        raise PathError(f"{path!r}: reserved for the engine's files; expected another name")


def kinds(node: Action | Expansion) -> Mapping[str, str]:
    """Return the kind of each output by name; '' for promises."""
    if isinstance(node, Expansion):
        return dict.fromkeys(node.promises, "")
    return {output.name: output.kind for output in node.outputs}


def _check(path: str, what: str) -> None:
    try:
        check_path(path)
    except PathError as error:
        raise PathError(f"{what}: {error}") from None
