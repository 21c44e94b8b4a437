"""Compile a partition for TensorRT. backend_api/steps/compile.py documents the inputs, params and outputs of all
compile steps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modelbuild.step import Progress, Step, ignore_progress
from modelbuild_rules.backend_api.steps.compile import input_partition
from modelbuild_rules.backend_api.steps.compiled import PROCESSED
from modelbuild_rules.backend_api.steps.named_data import write_named
from modelbuild_rules.backends.tensorrt.steps.engine.about import write_about
from modelbuild_rules.backends.tensorrt.steps.engine.blob import Metadata, write_blob
from modelbuild_rules.backends.tensorrt.steps.engine.engine import build
from modelbuild_rules.backends.tensorrt.steps.engine.plan_header import read_header


def run(step: Step) -> None:
    program, _ = input_partition(step)
    compile(program, step.params["attributes"], step.outputs["compiled"], step.progress)


def compile(program: Any, attributes: Mapping[str, Any], folder: Path, progress: Progress = ignore_progress) -> None:
    """Build a partition's engine and write its blob into an existing folder."""
    engine = build(program, attributes, progress)
    metadata = Metadata(
        engine.inputs,
        engine.outputs,
        attributes["gpu"],
        platform=attributes["platform"],
        precisions=engine.precisions,
    )
    write_blob(folder / PROCESSED, metadata, engine.plan)
    write_named(folder, ())
    write_about(folder, read_header(bytes(memoryview(engine.plan)[:256])), attributes["compute_capabilities"])
