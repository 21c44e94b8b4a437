"""The store of a build: the local store, with a remote cache behind it if configured."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from modelbuild.actions import Action
from modelbuild.code.step_sources import StepCode
from modelbuild.errors import ResultDiffers, UsageError
from modelbuild.events import Notice, Reporter, UploadsAwaited
from modelbuild.execution.executor import Executor
from modelbuild.store.interface import Store
from modelbuild.store.local import LocalStore
from modelbuild.workspace.remote_address import GRPC, HTTP, Address
from modelbuild.workspace.remote_settings import RemoteSettings

if TYPE_CHECKING:
    from modelbuild.remote.cache.interface import Cache


@contextmanager
def shared(
    local: LocalStore, settings: RemoteSettings, reporter: Reporter, environ: Mapping[str, str] = os.environ
) -> Iterator[Store]:
    """Yield a store to build with. At the end, waits for uploads; after an exception, drops them.

    Raises EnvironmentProblem for a missing package or certificate file, and UsageError for a token without encryption.
    Problems with the remote itself are reported as Notices.
    """
    if settings.cache is None:
        yield local
        return
    from modelbuild.remote.cache.client import Client
    from modelbuild.remote.cache.store import RemoteStore

    cache = open_cache(settings.cache, settings)
    client = Client(cache, local, lambda text: reporter.emit(Notice(text)))
    store = RemoteStore(local, client, settings, settings.uploads(environ))
    finish = False
    try:
        yield store
        finish = True
    except ResultDiffers:
        # The new output should also replace the unusable result in the remote cache.
        finish = True
        raise
    finally:
        store.close(finish, lambda results, size: reporter.emit(UploadsAwaited(results, size)))


def executing(
    here: Executor, settings: RemoteSettings, store: Store, local: LocalStore, code: StepCode, reporter: Reporter
) -> tuple[Executor, Callable[[Action], bool]]:
    """Return an executor to build with, which is the given executor, combined with remote workers if configured; and
    whether an action will run on this machine.

    Raises as shared() does.
    """
    if settings.executor is None:
        return here, lambda action: True
    from modelbuild.remote.cache.client import Client
    from modelbuild.remote.execution.executor import RemoteExecutor
    from modelbuild.remote.execution.queue_watch import QueueWatch
    from modelbuild.remote.execution.remote_action import Workers
    from modelbuild.remote.execution.service import Execution
    from modelbuild.remote.execution.strategy_executor import StrategyExecutor

    # StrategyExecutor reports problems, because it knows their consequences.
    client = Client(open_cache(settings.executor, settings), local, lambda text: None)
    execution = Execution(settings.executor, settings)
    leave = settings.executor == settings.cache and settings.download != "all"
    name, there = str(settings.executor), dict(settings.toolchains)
    workers = Workers(code, settings.python, dict(settings.platform), there)

    def say(text: str) -> None:
        reporter.emit(Notice(text))

    queue = QueueWatch(name, settings.queue_notice, say)
    remote = RemoteExecutor(execution, client, store, local, workers, queue, leave)
    both = StrategyExecutor(here, remote, name, settings.strategy, say)
    return both, both.runs_here


def open_cache(address: Address, settings: RemoteSettings) -> Cache:
    """Return a client for the protocol of an address."""
    if settings.security.has_token and not address.private:
        raise UsageError(f"{address}: a token would travel in clear; expected {address.scheme}s://")
    if address.scheme in GRPC:
        from modelbuild.remote.cache.grpc_cache import GrpcCache

        return GrpcCache(address, settings)
    if address.scheme in HTTP:
        from modelbuild.remote.cache.http_cache import HttpCache

        return HttpCache(address, settings)
    from modelbuild.remote.cache.object_cache import ObjectCache

    return ObjectCache(address, settings)
