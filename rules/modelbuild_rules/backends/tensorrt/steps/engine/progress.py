"""Show the progress of TensorRT's builder."""

from __future__ import annotations

from typing import Any

from modelbuild.step import Progress


def progress_monitor(trt: Any, progress: Progress) -> Any:
    """Return an IProgressMonitor that shows the innermost phase with its steps."""

    class Monitor(trt.IProgressMonitor):
        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)
            self._steps: dict[str, int] = {}

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            self._steps[phase_name] = num_steps
            progress(phase_name, 1, num_steps)

        def step_complete(self, phase_name: str, step: int) -> bool:
            """Return True, to go on. `step` counts from 0."""
            steps = self._steps.get(phase_name, 0)
            if step + 2 <= steps:
                progress(phase_name, step + 2, steps)
            return True

        def phase_finish(self, phase_name: str) -> None:
            self._steps.pop(phase_name, None)

    return Monitor()
