"""The private names of executorch that the runtime uses."""

from __future__ import annotations

import inspect


def test_private_names_are_there() -> None:
    import torch  # noqa: F401
    from executorch.extension.pybindings import _portable_lib

    assert "XnnpackBackend" in _portable_lib._get_registered_backend_names()
    assert "aten::add.out" in _portable_lib._get_operator_names()
    assert inspect.getdoc(_portable_lib._load_for_executorch)
    assert callable(_portable_lib.ExecuTorchModule.run_method)
