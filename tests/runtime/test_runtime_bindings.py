"""The private names of executorch that the runtime uses."""

from __future__ import annotations

import inspect

from modelbuild_runtime import bindings


def test_private_names_are_there() -> None:
    library = bindings._library()
    assert "XnnpackBackend" in library._get_registered_backend_names()
    assert "aten::add.out" in library._get_operator_names()
    assert inspect.getdoc(library._load_for_executorch)
    assert callable(library.ExecuTorchModule.run_method)
