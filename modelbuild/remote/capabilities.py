"""A server's capabilities."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

from modelbuild.remote.problems import RemoteProblem

_SHA256 = 1
_ZSTD = 1


@dataclass(frozen=True, slots=True)
class Offer:
    """The capabilities of a server.

    updates   whether it accepts action results
    batch     bytes of a batch; 0: unspecified
    largest   bytes of the largest accepted blob; 0: unspecified
    zstd      whether streams may be compressed; batch_zstd: also blobs of a batch
    """

    updates: bool
    batch: int
    largest: int
    zstd: bool
    batch_zstd: bool


def read_offer(found: Any) -> Offer:
    """Parse capabilities. Raises RemoteProblem when the server does not support SHA-256."""
    if _SHA256 not in found.digest_functions:
        raise RemoteProblem("refused", "it does not know digests by SHA-256")
    able = importlib.util.find_spec("zstandard") is not None
    return Offer(
        found.action_cache_update_capabilities.update_enabled,
        found.max_batch_total_size_bytes,
        found.max_cas_blob_size_bytes,
        able and _ZSTD in found.supported_compressors,
        able and _ZSTD in found.supported_batch_update_compressors,
    )
