"""The bearer token: fetched when needed, kept only in memory, and never written."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable

from modelbuild.remote.problems import RemoteProblem, keep_secret
from modelbuild.workspace.remote_settings import Security

# In seconds. Tokens of commands are valid for minutes to hours; files may be replaced during a build.
_FRESH = 300.0
_COMMAND_TIMEOUT = 30.0


class AccessToken:
    """The source of a bearer token. Safe for many threads."""

    def __init__(self, security: Security, clock: Callable[[], float] = time.monotonic) -> None:
        self._security = security
        self._clock = clock
        self._lock = threading.Lock()
        self._value = ""
        self._until = float("-inf")

    def headers(self) -> list[tuple[str, str]]:
        """Return the header with the token, or no header without a token. Raises RemoteProblem 'refused' if the token
        is unavailable."""
        if not self._security.has_token:
            return []
        with self._lock:
            if self._clock() >= self._until:
                self._value = self._fetch()
                self._until = self._clock() + _FRESH
            return [("authorization", f"Bearer {self._value}")]

    def _fetch(self) -> str:
        value = self._read().strip()
        if not value or not value.isascii() or not value.isprintable() or " " in value:
            raise RemoteProblem("refused", f"{self._source()} contains no token")
        keep_secret(value)
        return value

    def _source(self) -> str:
        if self._security.token_file:
            return f"token_file {self._security.token_file}"
        return f"token_env {self._security.token_env}" if self._security.token_env else "token_command"

    def _read(self) -> str:
        security = self._security
        try:
            if security.token_file is not None:
                return security.token_file.read_text()
            if security.token_command:
                # Stderr of the command is for the user, so it may be shown; stdout is the token.
                done = subprocess.run(
                    security.token_command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True,
                    timeout=_COMMAND_TIMEOUT,
                )  # fmt: skip
                return done.stdout
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            why = error.strerror if isinstance(error, OSError) else type(error).__name__
            raise RemoteProblem("refused", f"{self._source()} cannot be used: {why}") from None
        return os.environ.get(security.token_env, "")
