"""Build modelbuild's graph with steps that run in the engine's process, for graphs so large that a process for each
step would take longer than the whole benchmark. Run it in the workspace with modelbuild's arguments; it leaves the same
cache and output tree as a real build.
"""

from __future__ import annotations

import importlib
import tempfile
from pathlib import Path
from typing import Any

import modelbuild.session.engine as engine
from modelbuild.actions import ActionResult, FileEntry
from modelbuild.cli import main
from modelbuild.execution.executor import ActionRequest, Outcome
from modelbuild.step import Step
from modelbuild.store.interface import Store


class Inline:
    """An Executor without processes, for steps that read and write small files."""

    def __init__(self, workspace_root: Path, store: Store, *_: Any, **__: Any) -> None:
        self._root = workspace_root
        self._store = store
        self._folder = Path(tempfile.mkdtemp(dir=store.scratch))  # type: ignore[attr-defined]

    def run(self, request: ActionRequest) -> Outcome:
        action = request.action
        inputs: dict[str, tuple[Path, ...]] = {}
        for item in request.inputs:
            path = item.source
            if path is None:
                assert isinstance(item.value, FileEntry)
                path = self._store.blob_path(item.value.digest)
            inputs[item.name] = (*inputs.get(item.name, ()), path)
        paths = {output.name: self._folder / output.path for output in action.outputs}
        step = Step(dict(action.params), inputs, paths, self._root, 1)
        importlib.import_module(action.step).run(step)
        outputs = tuple((name, self._store.put_output(path)) for name, path in paths.items())
        return Outcome(ActionResult(outputs, None, None), "", None, None)

    def close(self) -> None:
        if self._folder.exists():
            self._folder.rmdir()


if __name__ == "__main__":
    engine.LocalExecutor = Inline  # type: ignore[assignment, attr-defined, misc]
    main()
