"""Use an engine from elsewhere as a compiled partition.

Inputs   partition, engine   the partition, and the compiled partition that step prebuilt_engine wrote
Outputs  compiled            the same
"""

from __future__ import annotations

import shutil

from modelbuild.step import Step


def run(step: Step) -> None:
    shutil.copytree(step.input("engine"), step.outputs["compiled"], dirs_exist_ok=True)
