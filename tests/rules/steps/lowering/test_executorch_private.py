"""Every private name of executorch that the steps use is there, in the version that they were checked on."""

from __future__ import annotations

import dataclasses
import importlib
from importlib.metadata import version

import pytest

from modelbuild_rules.program.steps.linking.flatbuffer import installed
from modelbuild_rules.program.steps.lowering import executorch_private


def test_the_version_is_the_one_checked() -> None:
    assert version("executorch") == executorch_private.CHECKED


@pytest.mark.parametrize("name", executorch_private.PRIVATE)
def test_a_name_is_there(name: str) -> None:
    module, _, path = name.partition(":")
    found = importlib.import_module(module)
    for part in path.split("."):
        if dataclasses.is_dataclass(found) and part in {field.name for field in dataclasses.fields(found)}:
            return
        assert hasattr(found, part), name
        found = getattr(found, part)


@pytest.mark.parametrize("name", executorch_private.FILES)
def test_a_file_is_there(name: str) -> None:
    assert (installed() / name).is_file()
