"""The example detector with TensorRT, without a GPU: partitions, and refused nodes with reasons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modelbuild_rules.program.steps.linking.manifest import seal
from tests.workspace_builder import Workspace

PROGRAM = "//models:detector_rtx"


def left_for(nodes: list[dict[str, Any]], op: str) -> set[tuple[str, str]]:
    """Return the backend of an operator outside TensorRT's partitions, and TensorRT's reason."""
    why = [(node, refused) for node in nodes if node["op"] == op for refused in node["refused"]]
    return {(node["backend"], refused["why"]) for node, refused in why if refused["backend"] == "tensorrt"}


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_detector_is_two_engines_and_what_depends_on_values(workspace: Workspace, repository: Path) -> None:
    workspace.copy_in(repository / "examples")
    ran = workspace.ran(PROGRAM)
    assert {f"{PROGRAM}#compile:p0", f"{PROGRAM}#compile:p1"} <= ran
    facts = workspace.run("inspect", PROGRAM, "--json").json
    (method,) = facts["methods"]
    engines = [part for part in method["partitions"] if part["backend"] == "TensorRTBackend"]
    assert [part["id"] for part in engines] == ["p0", "p1"]
    assert [part["nodes"] > 200 for part in engines] == [True, True]
    for part in engines:
        blob, engine = part["blob"], part["blob"]["facts"]
        assert (part["target_device"], engine["device_id"], engine["warning"]) == ("cuda:0", 0, None)
        assert engine["compute_capabilities"] == ["8.6", "8.9"]
        assert len(blob["inputs"]) + len(blob["outputs"]) == len(part["arguments"])
        assert {value["device"] for value in part["arguments"]} == {"cuda:0"}
    # Five levels of the pyramid, and the faces at the end.
    nonzero = "aten.nonzero.default"
    assert sum(node["op"] == nonzero for node in facts["left"]) == 6
    why = "its converter needs an output allocator: the result's size depends on values"
    assert left_for(facts["left"], nonzero) == {("portable", why)}
    assert "an input or output has a size that depends on values" in {
        reason for node in facts["left"] for _, reason in left_for([node], node["op"])
    }
    text = workspace.run("inspect", PROGRAM).out
    assert f"  6 {nonzero}, portable: tensorrt refused it: {why}; xnnpack refused it: " in text
    assert "on GPU 0\n" in text

    # The output of inspect for engines that do not name their GPU.
    program = (workspace.root / "modelbuild-out/rtx/models/detector_rtx/detector_rtx.pte").read_bytes()
    (workspace.root / "told.pte").write_bytes(program.replace(b'"device_id":0', b'"device__d":0'))
    seal(workspace.root / "told.pte")
    (method,) = workspace.run("inspect", "told.pte", "--json").json["methods"]
    told = [part["blob"]["facts"] for part in method["partitions"] if part["blob"]]
    warning = "it names no GPU to run on; cuda:0 is assumed"
    assert [(engine["device_id"], engine["warning"]) for engine in told] == [(0, warning)] * 2
    assert f"on GPU 0 (warning: {warning})" in workspace.run("inspect", "told.pte").out
