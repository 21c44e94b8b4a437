"""The export step, run on sources that a test writes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from modelbuild.step import Step, StepError, ignore_progress

FOLDERS = ("program", "weights", "calls")
FILES = {"signature": "signature.json", "examples": "examples.safetensors", "debug": "debug.json"}
INPUT = {"name": "x", "shape": [2, 3], "dtype": "float32", "range": None}


@dataclass(frozen=True)
class Exported:
    """The outputs of the step."""

    folder: Path

    def json(self, output: str) -> Any:
        """Return a document; of the signature that of its method."""
        found = json.loads((self.folder / FILES[output]).read_text())
        return found["methods"]["forward"] if output == "signature" else found

    def bytes(self, *but: str) -> dict[str, bytes]:
        """Return every file by its path, except those of some outputs."""
        out = {FILES.get(name, name) for name in but}
        paths = [p.relative_to(self.folder) for p in sorted(self.folder.rglob("*")) if p.is_file()]
        return {str(p): (self.folder / p).read_bytes() for p in paths if p.parts[0] not in out}

    def program(self) -> Any:
        from modelbuild_rules.model.steps.exported.program import load_program

        return load_program(self.folder / "program", self.folder / "weights")

    def examples(self) -> list[Any]:
        from safetensors.torch import load_file

        found = load_file(self.folder / "examples.safetensors")
        return [found[str(place)] for place in range(len(found))]


def run_export(
    root: Path,
    source: str,
    inputs: Any = (INPUT,),
    files: Mapping[str, tuple[Path, ...]] | None = None,
    show: Callable[[str], object] = ignore_progress,
    **params: Any,
) -> Exported:
    """Export m/net.py:Net of a workspace, whose source begins with the usual imports. `show` gets the progress."""
    from modelbuild_rules.model.steps import export

    (root / "m").mkdir(parents=True, exist_ok=True)
    text = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n" + dedent(source)
    (root / "m" / "net.py").write_text(text)
    folder = root / f"out{sum(1 for _ in root.glob('out*'))}"
    for name in FOLDERS:
        (folder / name).mkdir(parents=True)
    files = dict(files or {})
    defaults = {
        "entry": "m/net.py:Net",
        "method": "forward",
        "kwargs": {},
        "prepare": None,
        "weights": sorted(n.removeprefix("weights.") for n in files if n.startswith("weights.")),
        "allow_missing": not files,
        "inputs": list(inputs),
        "call": None,
        "dynamic": {},
        "outputs": None,
        "seed": 0,
    }
    outputs = {name: folder / name for name in FOLDERS} | {name: folder / path for name, path in FILES.items()}
    path, modules = list(sys.path), set(sys.modules)
    try:
        inputs = {"srcs": (root / "m" / "net.py",), **files}
        export.run(Step(defaults | params, inputs, outputs, root, show=show))
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            if str(getattr(sys.modules[name], "__file__", None) or root).startswith(str(root)):
                del sys.modules[name]
    return Exported(folder)


@pytest.fixture
def export(tmp_path: Path) -> Callable[..., Exported]:
    """Return run_export in the test's folder, or in the given `root`."""

    def run(source: str, *args: Any, root: Path = tmp_path / "workspace", **kwargs: Any) -> Exported:
        return run_export(root, source, *args, **kwargs)

    return run


@pytest.fixture
def refusal(export: Callable[..., Exported]) -> Callable[..., str]:
    """Return a function that runs an export that must be refused, and returns the reason."""

    def run(*args: Any, **kwargs: Any) -> str:
        with pytest.raises(StepError) as error:
            export(*args, **kwargs)
        assert "\n" not in str(error.value)
        return str(error.value)

    return run
