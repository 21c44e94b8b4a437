"""Check of the remote cache: a small blob is stored, read and compared."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from modelbuild.api.probe import Finding
from modelbuild.errors import ModelbuildError
from modelbuild.workspace.remote_settings import RemoteSettings

_BYTES = 64


def check_remote(settings: RemoteSettings, environ: Mapping[str, str] = os.environ) -> Finding:
    """Return whether the remote cache stores a blob and returns it; without upload, whether it answers."""

    address = settings.cache
    if address is None:
        return Finding("remote cache", "ok", "none is configured")
    try:
        from modelbuild.remote.open import open_cache
        from modelbuild.remote.problems import RemoteProblem
        from modelbuild.store.digests import digest_bytes

        data = os.urandom(_BYTES)
        digest = digest_bytes(data)
        cache = open_cache(address, settings)
    except ModelbuildError as error:
        return Finding("remote cache", "error", f"{address}: {error}")
    uploads = settings.uploads(environ)
    started = time.monotonic()
    try:
        if uploads:
            cache.write_small({digest: data})
        found = cache.read_small([digest]).get(digest)
    except RemoteProblem as problem:
        fix = "check [remote] in MODELBUILD.toml (docs/reference/remote.md); builds work without it"
        return Finding("remote cache", "error", f"{address}: {problem}", fix)
    finally:
        cache.close()
    took = f"{(time.monotonic() - started) * 1000:.0f} ms"
    if not uploads:
        return Finding("remote cache", "ok", f"{address} answers in {took}; this machine uploads nothing")
    if found != data:
        lost = "does not return a blob that was stored" if found is None else "returns other bytes than were stored"
        return Finding("remote cache", "error", f"{address} {lost}", "check the server")
    return Finding("remote cache", "ok", f"{address} stores and returns a blob of {_BYTES} bytes in {took}")
