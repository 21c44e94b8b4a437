"""Every private name of executorch that the steps use is there, in a version that they were checked on."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from modelbuild_rules.program.steps.linking.flatbuffer import installed
from modelbuild_rules.program.steps.lowering import executorch_private
from tests.private_names import is_there


def test_the_version_is_the_one_checked() -> None:
    assert executorch_private.require() == version("executorch")


@pytest.mark.parametrize("name", executorch_private.BINDINGS)
def test_a_name_of_the_bindings_is_there(name: str) -> None:
    assert callable(getattr(executorch_private.bindings(), name))


@pytest.mark.parametrize("name", executorch_private.PRIVATE)
def test_a_name_is_there(name: str) -> None:
    assert is_there(name)


def test_a_name_that_is_gone_is_noticed() -> None:
    assert not is_there("executorch.exir.backend.backend_details:BackendDetails.nothing")


@pytest.mark.parametrize("name", executorch_private.FILES)
def test_a_file_is_there(name: str) -> None:
    assert (installed() / name).is_file()
