"""What MODELBUILD.toml and the command line say of remotes. Read on every build: imports nothing big."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from modelbuild.workspace.remote_address import Address

Upload: TypeAlias = Literal["always", "ci-only", "never"]
Download: TypeAlias = Literal["toplevel", "all", "minimal"]
PLACES = ("remote", "local")
MOST_SECONDS = 1_000_000  # of a timeout: sockets and clocks take no number of any size
DEFAULT_PLACES = PLACES
# Kind of action ('*': every other one) and where it runs: places in the order to try.
Strategy: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]

UPLOADS: tuple[str, ...] = get_args(Upload)
DOWNLOADS: tuple[str, ...] = get_args(Download)


@dataclass(frozen=True, slots=True)
class Security:
    """How to know the servers, and how they know us. At most one of the tokens is set.

    ca                certificates to trust in place of the system's (PEM)
    cert, key         our own certificate and its key (PEM), for mutual TLS
    token_file, token_command, token_env   where the bearer token comes from: never kept, shown or part of a key
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
    """
    timeout    seconds without any progress after which a call counts as failed
    queue_notice  seconds that an action waits for a worker before a notice says so
    executor   a server of the Remote Execution API with workers; None: actions run here
    python     the interpreter on the workers
    platform   what every worker has to have, as the server's properties
    gpus       models of the workers' GPUs, where this machine has none
    lookups    whether results are looked for in the cache; no user's setting
    """

    cache: Address | None = None
    upload: Upload = "always"
    download: Download = "toplevel"
    timeout: float = 10.0
    queue_notice: float = 60.0
    security: Security = Security()
    executor: Address | None = None
    python: str = "python3"
    platform: tuple[tuple[str, str], ...] = ()
    gpus: tuple[str, ...] = ()
    strategy: Strategy = ()
    lookups: bool = True

    @property
    def leaves_outputs(self) -> bool:
        """Whether outputs stay in the caches instead of being laid out."""
        return self.cache is not None and self.download == "minimal"

    @property
    def lookups_at_once(self) -> int:
        """Looking for a result far away is mostly waiting."""
        return 2 if self.cache is None else 16

    def uploads(self, environ: Mapping[str, str]) -> bool:
        """Whether results go up: CI services set CI."""
        ci = environ.get("CI", "").lower() not in ("", "0", "false")
        return self.upload == "always" or (self.upload == "ci-only" and ci)


NO_REMOTE = RemoteSettings()
