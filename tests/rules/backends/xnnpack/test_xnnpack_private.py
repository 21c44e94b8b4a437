"""Every private name of executorch that the steps for XNNPACK use is there, in the version that was checked."""

from __future__ import annotations

import pytest

from modelbuild_rules.backend_api.steps import executorch_private
from modelbuild_rules.backends.xnnpack.steps import executorch_xnnpack_private
from tests.private_names import is_there


@pytest.mark.parametrize("name", executorch_xnnpack_private.PRIVATE)
def test_a_name_is_there(name: str) -> None:
    assert is_there(name)


def test_the_version_is_the_one_checked() -> None:
    text = " ".join((executorch_xnnpack_private.__doc__ or "").split())
    assert f"requires, {executorch_private.CHECKED}." in text
