"""Describe the blobs of delegates, each by the module that the delegate's backend declares."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelbuild.errors import LoadingError

if TYPE_CHECKING:
    from modelbuild.api.extension import Extension
    from modelbuild_runtime.files.pte import Delegate


class Blobs:
    """The backends that describe blobs. `extensions` loads them, on the first delegate of a program."""

    def __init__(self, extensions: Callable[[], Iterable[Extension]] = tuple) -> None:
        self._extensions = extensions

    @cached_property
    def _by_delegate(self) -> dict[str, Extension]:
        # A workspace's own backends come after modelbuild's and take precedence.
        return {each.delegate: each for each in self._extensions() if each.describing}

    def describe(self, path: Path, delegate: Delegate) -> dict[str, Any] | None:
        """Return a description of a delegate's blob in a .pte, as JSON values; None if no backend describes it. Raises
        LoadingError for a backend that fails."""
        backend = self._by_delegate.get(delegate.backend)
        return None if backend is None else _described(backend, path, delegate)


def _described(backend: Extension, path: Path, delegate: Delegate) -> dict[str, Any]:
    from modelbuild.api.blob import Blob
    from modelbuild.api.rule_errors import describe_callback_error

    try:
        found = importlib.import_module(backend.describing).describe(path, delegate.offset, delegate.size)
        if not isinstance(found, Blob):
            raise TypeError(f"{backend.describing}.describe returned {type(found).__name__}; expected Blob")
        described = {"summary": found.summary, "inputs": found.inputs, "outputs": found.outputs, "facts": found.facts}
        return dict(json.loads(json.dumps(described)))
    except ValueError as error:
        return {"problem": str(error)}
    except Exception as error:
        raise LoadingError(
            f"{backend.point} '{backend.name}' failed to describe its blob: {describe_callback_error(error)}"
        ) from error
