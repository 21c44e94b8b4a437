"""EachEventOnce more, where a result out of a cache named what nobody has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from modelbuild.building.request import Request
from modelbuild.errors import ResultDiffers
from modelbuild.events import Notice, Reporter
from modelbuild.report.repeated_events import EachEventOnce

T = TypeVar("T")


def again(work: Callable[[Request, Reporter], T], request: Request, reporter: Reporter) -> T:
    """Do what a request asks for; with nothing out of the remote cache when what is in there cannot be relied on."""
    reporter = EachEventOnce(reporter)  # the second time most is found in the cache that the first time made
    try:
        return work(request, reporter)
    except ResultDiffers as problem:
        reporter.emit(Notice(f"{problem}; beginning again without results of the remote cache"))
    return work(replace(request, remote=replace(request.remote, lookups=False)), reporter)
