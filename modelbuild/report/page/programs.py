"""The programs among a build's outputs, as data of the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from modelbuild.errors import ModelbuildError
from modelbuild.events import TargetBuilt
from modelbuild.inspect.blobs import Blobs
from modelbuild.inspect.facts import gather
from modelbuild.inspect.stages import add_stages


def programs(root: Path, targets: Iterable[TargetBuilt], blobs: Blobs) -> Iterator[dict[str, Any]]:
    """Yield each .pte among the outputs of targets, by its path in the workspace at `root`."""
    for target in targets:
        for output in target.outputs:
            if output.endswith(".pte"):
                yield {"label": target.label, "config": target.config, **program(root / output, blobs), "path": output}


def program(path: Path, blobs: Blobs) -> dict[str, Any]:
    """Return the facts of a program with its stages; `problem` for a file that cannot be read."""
    try:
        return described(gather(path, blobs))
    except ModelbuildError as error:
        return {"path": str(path), "problem": str(error)}


def described(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of a program, with its stages instead of its calls."""
    found = add_stages(facts)
    for method in found["methods"]:
        del method["calls"]
    return found
