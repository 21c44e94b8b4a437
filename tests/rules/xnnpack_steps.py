"""Compile a partition for XNNPACK, and store its weights, as a build does."""

from __future__ import annotations

from pathlib import Path

from modelbuild.step import Step


def compile_xnnpack(partition: Path, compiled: Path) -> Path:
    """Write the compiled partition to a new folder, and its code to another one, which is returned."""
    from modelbuild_rules.backends.xnnpack.steps import compile, storing

    code = compiled.with_name(f"{compiled.name}.code")
    for folder in (compiled, code):
        folder.mkdir(parents=True)
    compile.run(Step({"attributes": {}}, {"program": (partition / "program",)}, {"code": code}, code))
    storing.run(Step({}, {"code": (code,), "partition": (partition,)}, {"compiled": compiled}, compiled))
    return code
