"""Every private name of executorch that the steps use is there, in the version that they were checked on."""

from __future__ import annotations

import pytest

from modelbuild_rules.backend_api.steps import executorch_private
from tests.private_names import is_there


def test_the_version_is_the_one_checked() -> None:
    executorch_private.require()


@pytest.mark.parametrize("name", executorch_private.PRIVATE)
def test_a_name_is_there(name: str) -> None:
    assert is_there(name)


def test_a_name_that_is_gone_is_noticed() -> None:
    assert not is_there("executorch.exir.backend.backend_details:BackendDetails.nothing")
