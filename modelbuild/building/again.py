"""Once more, where a result out of a cache named what nobody has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from modelbuild.building.request import Request
from modelbuild.errors import ResultDiffers
from modelbuild.report.events import Notice, Reporter

T = TypeVar("T")


def again(work: Callable[[Request], T], request: Request, reporter: Reporter) -> T:
    """Do what a request asks for; with nothing out of the remote cache when what is in there cannot be relied on."""
    try:
        return work(request)
    except ResultDiffers as problem:
        reporter.emit(Notice(f"{problem}; beginning again without results of the remote cache"))
    return work(replace(request, remote=replace(request.remote, lookups=False)))
