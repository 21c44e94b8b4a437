"""The attributes of backends and quantizers state what they decide."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest

from modelbuild.api import Attrs, Source
from modelbuild_rules.backend_api.backend import Backend
from modelbuild_rules.backend_api.decides import Decides
from modelbuild_rules.backend_api.quantizer import Quantizer


class Table(Attrs):
    type: Literal["npu"]
    nodes: Annotated[int, Decides("partition")] = 1
    code: Annotated[int, Decides("compile")] = 2
    both: Annotated[int, Decides("partition", "compile")] = 3
    checked: Annotated[int, Decides()] = 4
    tuning: Annotated[Source | None, Decides("compile")] = None


VALUES = {"nodes": 1, "code": 2, "both": 3, "checked": 4}


def test_each_step_gets_the_attributes_that_decide_it() -> None:
    backend = Backend("backend", "npu", Table)
    assert backend.partition_attributes(VALUES, {}) == {"nodes": 1, "both": 3}
    assert backend.compile_attributes(VALUES, {}) == {"code": 2, "both": 3}


def test_methods_get_the_named_facts_of_a_device() -> None:
    backend = Backend("backend", "npu", Table, device=("arch", "memory"))
    facts = backend.facts({"arch": "aarch64", "os": "linux", "memory": 8})
    assert facts == {"arch": "aarch64", "memory": 8}
    assert backend.compile_attributes(VALUES, facts) == {"code": 2, "both": 3, "arch": "aarch64", "memory": 8}


def test_a_conversion_has_the_attributes_of_the_calibration() -> None:
    class Ranges(Attrs):
        type: Literal["npu"]
        observer: Annotated[str, Decides("calibrate")] = "min_max"
        scales: Annotated[int, Decides("convert")] = 1

    quantizer = Quantizer("quantizer", "npu", Ranges)
    given = {"observer": "min_max", "scales": 1}
    assert quantizer.attributes(given, calibrates=True) == {"observer": "min_max"}
    assert quantizer.attributes(given, calibrates=False) == given


@pytest.mark.parametrize(
    ("attribute", "problem"),
    [
        (
            int,
            "Wrong.x states no step that it decides; expected Annotated[..., Decides('partition', 'compile', 'emit')]",
        ),
        (Annotated[int, Decides("lower")], "Wrong.x decides 'lower'; expected one of partition, compile, emit"),
        (
            Annotated[Source | None, Decides("partition")],
            "Wrong.x is a file that decides ('partition',); expected a file that decides 'compile' alone",
        ),
    ],
)
def test_a_declaration_that_does_not_state_it_is_an_error(attribute: object, problem: str) -> None:
    wrong = type("Wrong", (Attrs,), {"__annotations__": {"x": attribute}, "__module__": __name__})
    with pytest.raises(TypeError) as raised:
        Backend("backend", "wrong", wrong)
    assert str(raised.value).startswith(problem)
