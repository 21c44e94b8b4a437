"""Composite operators that torch collects are the same ones, found with fewer questions to the dispatcher."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch
from torch._export import utils

from modelbuild_rules.backend_api.steps.composite_operators import composite_operators_found_once


def test_all_are_collected_with_new_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = utils._collect_all_valid_cia_ops()
    find = utils._materialize_cpp_cia_ops
    with patch.object(utils, "_materialize_cpp_cia_ops", side_effect=find) as asked, composite_operators_found_once():
        assert utils._collect_all_valid_cia_ops() == utils._collect_all_valid_cia_ops() == expected
        assert asked.call_count == 1
        library = torch.library.Library("composite_operators_test", "DEF")
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")
        new = torch.ops.composite_operators_test.twice.default
        assert utils._collect_all_valid_cia_ops() == expected | {new}
        assert asked.call_count == 2
    assert utils._materialize_cpp_cia_ops is find
    library._destroy()
