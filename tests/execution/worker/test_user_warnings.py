"""Warnings of libraries in the output of actions."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from modelbuild.execution.worker.child import only_of_users

LIBRARY = (
    "import warnings\ndef library(user=None):\n    warnings.warn('of the library', stacklevel=1)\n    user and user()\n"
)
USER = "import warnings\ndef mine():\n    warnings.warn('of the user')\ndef calls(library):\n    library()\n"


def functions(source: str, file: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {"__name__": name}
    exec(compile(source, file, "exec"), found)
    return found


@pytest.mark.parametrize(
    ("file", "package"),
    [("/action/net.py", "net"), ("/workspace/tools/rules/steps/step.py", "tools_rules.steps.step")],
)
def test_only_warnings_below_code_of_the_user_are_shown(
    monkeypatch: pytest.MonkeyPatch, file: str, package: str
) -> None:
    told: list[str] = []
    library = functions(LIBRARY, "/site-packages/torch/x.py", "torch.x")["library"]
    user = functions(USER, file, package)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", lambda message, *rest: told.append(str(message)))
        only_of_users(
            lambda name: name.removeprefix("/action/") if name.startswith("/action/") else "",
            ["modelbuild", "modelbuild_rules", "tools_rules"],
        )
        library()
        assert told == []
        library(user["mine"])
        assert told == ["of the user"]
        user["calls"](library)
        assert told == ["of the user", "of the library"]
