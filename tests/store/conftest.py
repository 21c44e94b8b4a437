"""Stores to test, and children that are killed."""

from __future__ import annotations

import functools
import itertools
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from modelbuild.actions import ActionResult, FileEntry
from modelbuild.store.local import LocalStore, open_store

Child: TypeAlias = Callable[[Callable[[], None]], int]


@pytest.fixture
def warnings() -> list[str]:
    """Return the store's warnings."""
    return []


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def store(cache: Path, warnings: list[str]) -> Iterator[LocalStore]:
    """Return a store that must not warn."""
    with open_store(cache, warn=warnings.append) as store:
        yield store
    assert warnings == []


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """write("a/b", b"text", executable=False) -> the path of a new file."""

    def make(name: str, data: bytes = b"", executable: bool = False) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o755 if executable else 0o644)
        return path

    return make


@pytest.fixture
def remember() -> Callable[..., ActionResult]:
    """remember(store, key, *datas) puts an action of which each output is one of the datas."""

    def put(store: LocalStore, key: str, *datas: bytes, step: str = "rules.step") -> ActionResult:
        outputs = tuple((f"o{i}", FileEntry(store.put_bytes(data))) for i, data in enumerate(datas))
        result = ActionResult(outputs, seconds=0.5, max_rss=7)
        store.put_action(key, result, {"step": step, "key": key})
        return result

    return put


@pytest.fixture
def kill_at_each_call(child: Child) -> Callable[..., int]:
    """kill_at_each_call(work, check) runs work in a child repeatedly, killing it (SIGKILL) after its first system call
    that changes a file, then after its second, ..., and calls check after each, until a run completes. Returns the
    number of killed children."""
    names = ("link", "unlink", "rename", "replace", "rmdir", "mkdir", "utime", "fsync", "fchmod", "chmod")

    def run(work: Callable[[], None], check: Callable[[], None]) -> int:
        for killed in itertools.count():
            status = child(functools.partial(_doomed, work, names, killed))
            check()
            if status != -signal.SIGKILL:
                assert status == 0
                return killed
        raise AssertionError("unreachable")

    return run


def _doomed(work: Callable[[], None], names: tuple[str, ...], survive: int) -> None:
    left = [survive]

    def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            answer = original(*args, **kwargs)
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return answer

        return call

    for name in names:
        setattr(os, name, wrapped(getattr(os, name)))
    work()
