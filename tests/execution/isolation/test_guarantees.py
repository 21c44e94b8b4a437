"""The lines of `modelbuild info sandbox` for kernels with fewer features."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelbuild.execution.isolation import guarantees, landlock, namespaces, seccomp

NAMES = "an action without network and GPUs sees no names of other files"
OBJECTS = "an action makes no System V objects, message queues or kernel keys"


def lines(monkeypatch: pytest.MonkeyPatch, abi: int = 7, filters: bool = True, refusal: str = "") -> dict[str, bool]:
    """Return whether each possible guarantee holds, on such a kernel."""
    monkeypatch.setattr(landlock, "abi", lambda: abi)
    monkeypatch.setattr(seccomp, "available", lambda: filters)
    monkeypatch.setattr(namespaces, "refusal", lambda scratch: refusal)
    return {each.text: each.holds for each in guarantees.guarantees(Path("/nowhere")) if each.possible}


def test_all_holds_where_the_kernel_has_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(lines(monkeypatch).values()) == {True}
    assert NAMES in lines(monkeypatch)


@pytest.mark.parametrize(
    ("kernel", "lost"),
    [
        ({"abi": 5}, ["an action signals no process of others"]),
        ({"abi": 2}, ["an action signals no process of others", "native code opens no file that is not declared"]),
        ({"filters": False}, [OBJECTS, "an action without a network has none"]),
        ({"refusal": "Operation not permitted"}, [NAMES]),
        (
            {"abi": 0, "filters": False, "refusal": "x"},
            [
                "an action gets no shared memory",
                OBJECTS,
                "an action signals no process of others",
                "an action without a network has none",
                "an action without network and GPUs gets no Unix sockets",
                NAMES,
                "native code opens no file that is not declared",
                "of its rule package, native code reads the modules in its key only",
            ],
        ),
    ],
)
def test_missing_guarantees_are_reported(
    monkeypatch: pytest.MonkeyPatch, kernel: dict[str, object], lost: list[str]
) -> None:
    found = lines(monkeypatch, **kernel)  # type: ignore[arg-type]
    assert sorted(what for what, holds in found.items() if not holds) == lost
