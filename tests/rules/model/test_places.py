"""Steps' messages about nodes contain places in the model's source."""

from __future__ import annotations

import json

from modelbuild.actions import DerivedArtifact
from modelbuild_rules.model import source_places
from modelbuild_rules.providers import ExportedMethod

DEBUG = json.dumps({"topk": {"module": "head", "source": "net.py:12"}, "sin": {"module": "body"}}).encode()
REPORT = json.dumps(
    [
        {"name": "aten_topk_default", "origin": "topk", "partition": "p0", "index": 3},
        {"name": "aten_sin_default", "origin": "sin", "partition": "p1", "index": 3},
        {"name": "aten_topk_default_1", "origin": "topk_1", "partition": "p0", "index": 3},
        {"name": "aten_cos_default", "origin": None},
    ]
).encode()
MODEL = ExportedMethod(
    *(DerivedArtifact("m", name) for name in ("program", "weights", "signature", "examples", "calls", "debug"))
)


def test_of_a_program() -> None:
    error_text = source_places.of_program(MODEL)
    assert error_text.reads == (MODEL.debug,)
    problem = "no kernel for aten.topk.default (node aten_topk_default from topk; why), node aten_sin_default from sin"
    assert error_text.format(problem, DEBUG) == (
        "no kernel for aten.topk.default (node aten_topk_default at net.py:12; why), node aten_sin_default"
    )


def test_of_a_partition() -> None:
    report = DerivedArtifact("p", "report")
    error_text = source_places.of_partition(MODEL, report, "p0")
    assert error_text.reads == (MODEL.debug, report)
    text = error_text.format("no kernel for operator 3 of the partition (aten.topk.default)", DEBUG, REPORT)
    # One partition can occur in several places.
    assert text == (
        "no kernel for node aten_topk_default at net.py:12 and node aten_topk_default_1 (aten.topk.default)"
    )
    unknown = "operator 9 of the partition"
    assert error_text.format(unknown, DEBUG, REPORT) == unknown
