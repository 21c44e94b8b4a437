"""Checks of the machine: the cache's disk, the sandbox, GPUs and their driver."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from modelbuild.api.probe import Finding
from modelbuild.errors import EnvironmentProblem, ModelbuildError
from modelbuild.execution.gpus import visible
from modelbuild.execution.isolation.guarantees import guarantees
from modelbuild.store.ownership import claim
from modelbuild.wording import size_text
from modelbuild.workspace.remote_settings import RemoteSettings

# Free bytes on the cache's disk: a build of a large model needs the first number, any build the second.
_PLENTY, _LITTLE = 10 << 30, 1 << 30
_DRIVER = Path("/proc/driver/nvidia/version")
_CONTROL = Path("/dev/nvidiactl")


def check_cache(cache: Path) -> Finding:
    """Return whether the cache's folder is writable and a cache, and its disk has room."""
    existing = cache
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    try:
        with tempfile.TemporaryDirectory(dir=existing):
            free = shutil.disk_usage(existing).free
        if cache.is_dir():
            claim(cache, write=False)
    except (OSError, EnvironmentProblem) as error:
        text = f"{cache}: {error.strerror}" if isinstance(error, OSError) else str(error)
        return Finding("cache", "error", text, "choose another folder with MODELBUILD_CACHE_DIR")
    text = f"{cache}, {size_text(free)} free"
    if free >= _PLENTY:
        return Finding("cache", "ok", text)
    fix = "free some space, run modelbuild cache gc, or choose another folder with MODELBUILD_CACHE_DIR"
    return Finding("cache", "error" if free < _LITTLE else "warning", f"{text}; expected {size_text(_PLENTY)}", fix)


def check_sandbox(cache: Path) -> Iterator[Finding]:
    """Yield a finding for each guarantee of the sandbox that a newer or less restricted kernel would give."""

    possible = [each for each in guarantees(cache) if each.possible]
    for each in possible:
        if not each.holds:
            yield Finding("sandbox", "warning", str(each), "builds work; see docs/explanation/sandbox.md")
    if all(each.holds for each in possible):
        yield Finding("sandbox", "ok", f"all {len(possible)} guarantees hold (modelbuild info sandbox)")


def check_gpus() -> Finding:
    """Return the GPUs and the driver's version, or the reason why there are none."""

    models = visible()
    driver = _driver()
    if models:
        return Finding("gpu", "ok", f"{', '.join(models)}, {driver}")
    if not _CONTROL.exists():
        return Finding("gpu", "ok", "none; programs for GPUs are built as usual, but can't run or be tested here")
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if hidden is not None:
        return Finding("gpu", "warning", f"CUDA sees no GPU with CUDA_VISIBLE_DEVICES={hidden!r}", "unset it")
    return Finding(
        "gpu", "warning", f"CUDA does not start, {driver}", "check that nvidia-smi works in this environment"
    )


def _driver() -> str:
    try:
        found = re.search(r"\s(\d+\.\d+(?:\.\d+)*)\s", _DRIVER.read_text())
    except OSError:
        found = None
    return f"driver {found[1]}" if found else "driver of unknown version"


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
