"""Settings of remotes, from MODELBUILD.toml and the command line. Read on every build: imports nothing big."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from modelbuild.workspace.remote_address import Address

Upload: TypeAlias = Literal["always", "ci-only", "never"]
Download: TypeAlias = Literal["toplevel", "all", "minimal"]
PLACES = ("remote", "local")
DEFAULT_PLACES = PLACES
# Kind of action ('*': every other kind), and places to run it in the order to try.
Strategy: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]

UPLOADS: tuple[str, ...] = get_args(Upload)
DOWNLOADS: tuple[str, ...] = get_args(Download)


@dataclass(frozen=True, slots=True)
class Security:
    """Authentication in both directions. At most one of the tokens is set.

    ca                certificates to trust instead of the system's (PEM)
    cert, key         our own certificate and its key (PEM), for mutual TLS
    token_file, token_command, token_env   source of the bearer token, which is never stored, shown or part of a key
    """

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    token_file: Path | None = None
    token_command: tuple[str, ...] = ()
    token_env: str = ""

    @property
    def has_token(self) -> bool:
        return bool(self.token_file or self.token_command or self.token_env)


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    """Remote caching and execution.

    timeout       seconds after which a call fails that is slower than transfer.LEAST_RATE
    queue_notice  seconds that an action waits for a worker before a notice is printed
    executor      a Remote Execution API server with workers; None: actions run on this machine
    jobs          number of actions that are at that server at once
    python        the interpreter on the workers
    platform      properties that every worker must have, in the server's terms
    gpus          models of the workers' GPUs, for a machine without GPUs
    toolchains    toolchains that workers have: the label of each, and its interpreter there
    lookups       whether results are looked up in the cache; not a user's setting
    """

    cache: Address | None = None
    upload: Upload = "always"
    download: Download = "toplevel"
    timeout: float = 10.0
    queue_notice: float = 60.0
    security: Security = Security()
    executor: Address | None = None
    jobs: int = 100
    python: str = "python3"
    platform: tuple[tuple[str, str], ...] = ()
    gpus: tuple[str, ...] = ()
    strategy: Strategy = ()
    toolchains: tuple[tuple[str, str], ...] = ()
    lookups: bool = True

    @property
    def leaves_outputs(self) -> bool:
        """Return whether outputs stay in the caches instead of being laid out."""
        return self.cache is not None and self.download == "minimal"

    @property
    def lookups_at_once(self) -> int:
        """Return the number of concurrent lookups: a remote lookup is mostly waiting."""
        return 2 if self.cache is None else 16

    def uploads(self, environ: Mapping[str, str]) -> bool:
        """Return whether results are uploaded. CI services set the variable CI."""
        ci = environ.get("CI", "").lower() not in ("", "0", "false")
        return self.upload == "always" or (self.upload == "ci-only" and ci)


NO_REMOTE = RemoteSettings()
