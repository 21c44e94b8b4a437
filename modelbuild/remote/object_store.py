"""Object stores, and folders used as object stores, through obstore."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from modelbuild.remote.problems import Kind, RemoteProblem
from modelbuild.transfer import TooSlow
from modelbuild.workspace.remote_address import Address

# Prefixes of the environment variables that obstore itself reads.
_VARIABLES = {"s3": "AWS", "gs": "GOOGLE", "az": "AZURE"}


def open_object_store(address: Address, timeout: float, retries: int) -> tuple[Any, str]:
    """Return obstore's store for an address, and the prefix of all paths in it. Credentials come from the store's usual
    environment variables. `timeout` is in seconds, `retries` the number of further attempts of a request. Raises
    ImportError if obstore is not installed."""
    from obstore import store

    if address.scheme == "file":
        # The first upload creates folders: a store rooted in the folder would have to create it now.
        return store.LocalStore(), f"{address.path.lstrip('/')}/"
    seconds = timedelta(seconds=timeout)
    opened = store.from_url(
        str(address),
        retry_config={"max_retries": retries, "retry_timeout": seconds * (retries + 1)},
        client_options={
            "connect_timeout": seconds,
            "timeout": timedelta(days=1),
            "read_timeout": seconds,
            # With explicit options, obstore does not read this variable itself.
            "allow_http": os.environ.get(f"{_VARIABLES[address.scheme]}_ALLOW_HTTP", "").lower() == "true",
        },
    )
    return opened, ""


@contextmanager
def translated() -> Iterator[None]:
    """Raise RemoteProblem for obstore's errors."""
    from obstore import exceptions

    try:
        yield
    except TooSlow as error:
        raise RemoteProblem("slow", str(error)) from None
    except FileNotFoundError:
        raise RemoteProblem("missing", "not there") from None
    except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError, PermissionError) as error:
        raise RemoteProblem("refused", _line(error)) from None
    except (exceptions.BaseError, OSError) as error:
        text = _line(error)
        kind: Kind = "full" if "No space left" in text else "slow" if "timed out" in text else "down"
        raise RemoteProblem(kind, text) from None


def _line(error: Exception) -> str:
    """Return an error's text in one short line, without the dump of the request after it."""
    return " ".join(str(error).partition("\n\n")[0].split())[:200]
