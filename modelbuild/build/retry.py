"""Retry a build without remote results after a cached result turned out to be unusable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from modelbuild.build.request import Request
from modelbuild.errors import ResultDiffers
from modelbuild.events import Notice, Reporter
from modelbuild.repeated_events import EachEventOnce

T = TypeVar("T")


def retry_without_remote(work: Callable[[Request, Reporter], T], request: Request, reporter: Reporter) -> T:
    """Call `work`; if an action's output differs from the remote cache's, call it again without remote results."""
    reporter = EachEventOnce(reporter)  # the second time finds results of the first one in the cache
    try:
        return work(request, reporter)
    except ResultDiffers as problem:
        reporter.emit(Notice(f"{problem}; restarting without results of the remote cache"))
    return work(replace(request, remote=replace(request.remote, lookups=False)), reporter)
