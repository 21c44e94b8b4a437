"""Download a file from the first address that has the pinned bytes."""

from __future__ import annotations

import base64
import hashlib
import http.client
import netrc
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from modelbuild.redaction import without_secrets
from modelbuild.registry.address import SCHEME, parse_registry_address
from modelbuild.registry.client import RegistryProblem
from modelbuild.step import Step, StepError
from modelbuild.transfer import build_opener
from modelbuild_rules.files.steps.registry_file import open_file

# Seconds to wait before each round; a round tries every address that has not failed permanently.
ROUNDS = (0.0, 1.0, 4.0)
TIMEOUT = 30.0
CHUNK = 1 << 20

# HTTP statuses that may change soon; any other 4xx is permanent.
TRANSIENT = frozenset({408, 425, 429})


class PermanentFailure(Exception):
    """Raised for an address that another attempt would not help."""


def run(step: Step) -> None:
    """Download the file. Params: urls, sha256, executable. Raises StepError, with a reason for each address, if none
    has the file."""
    target = step.outputs["file"]
    problems: dict[str, str] = {}
    urls = list(step.params["urls"])
    for delay in ROUNDS:
        time.sleep(delay if urls else 0.0)
        for url in list(urls):
            try:
                _download(url, target, step.params["sha256"])
            except RegistryProblem as problem:
                problems[url] = str(problem)
                if not problem.passing:
                    urls.remove(url)
            except PermanentFailure as problem:
                problems[url] = str(problem)
                urls.remove(url)
            except (OSError, http.client.HTTPException) as problem:
                problems[url] = _reason(problem)
            else:
                if step.params["executable"]:
                    target.chmod(0o755)
                return
            print(without_secrets(f"{url}: {problems[url]}"), file=sys.stderr)
    raise StepError(
        "cannot download: " + "; ".join(without_secrets(f"{url}: {problem}") for url, problem in problems.items())
    )


def _download(url: str, target: Path, sha256: str) -> None:
    digest = hashlib.sha256()
    try:
        with _open(url, sha256) as response, target.open("wb") as file:
            promised = response.headers["Content-Length"]
            while chunk := response.read(CHUNK):
                digest.update(chunk)
                file.write(chunk)
            received = file.tell()
    except urllib.error.HTTPError as error:
        if 400 <= error.code < 500 and error.code not in TRANSIENT:
            raise PermanentFailure(f"HTTP {error.code} {error.reason}") from None
        raise
    except urllib.error.URLError as error:
        if isinstance(error.reason, FileNotFoundError | IsADirectoryError | PermissionError):
            raise PermanentFailure(_reason(error)) from None
        raise
    except ValueError as error:
        raise PermanentFailure(str(error)) from None
    if promised is not None and promised.isdecimal() and received < int(promised):
        raise ConnectionError(f"the connection ended after {received} of {promised} bytes")
    if digest.hexdigest() != sha256:
        raise PermanentFailure(f"wrong SHA-256: expected {sha256}, got {digest.hexdigest()} ({received} bytes)")


def _open(url: str, sha256: str) -> http.client.HTTPResponse:
    """Return the response to a request for a file. It has the file's bytes."""
    if url.startswith(SCHEME):
        address = parse_registry_address(url)
        assert address is not None  # the rule checked it
        return open_file(address, sha256)
    request = urllib.request.Request(url, headers={"User-Agent": "modelbuild"})
    for name, value in _login(url).items():
        request.add_unredirected_header(name, value)
    answer: http.client.HTTPResponse = build_opener().open(request, timeout=TIMEOUT)
    return answer


def _login(url: str) -> dict[str, str]:
    """Return the header with the user name and the password that the .netrc file has for an address, if any. They are
    sent only over TLS or to this machine."""
    address = urllib.parse.urlsplit(url)
    file = os.environ.get("NETRC") or os.path.expanduser("~/.netrc")
    private = address.scheme == "https" or address.hostname in ("localhost", "127.0.0.1", "::1")
    if not private or address.scheme == "file" or not os.path.isfile(file):
        return {}
    try:
        found = netrc.netrc(file).authenticators(address.hostname or "")
    except (OSError, ValueError, netrc.NetrcParseError):
        raise PermanentFailure(f"{os.path.basename(file)} cannot be parsed") from None
    if found is None:
        return {}
    return {"Authorization": "Basic " + base64.b64encode(f"{found[0]}:{found[2]}".encode()).decode()}


def _reason(problem: Exception) -> str:
    if isinstance(problem, urllib.error.HTTPError):
        return f"HTTP {problem.code} {problem.reason}"
    if isinstance(problem, urllib.error.URLError):
        return str(problem.reason)
    if isinstance(problem, http.client.IncompleteRead):
        return "the connection ended in the middle of the file"
    return str(problem) or type(problem).__name__
