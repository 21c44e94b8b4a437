"""Addresses of contents in a registry: oci://host:port/name:tag, or oci://host:port/name@sha256:digest."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

SCHEME = "oci://"
EXPECTED = "oci://HOST[:PORT]/NAME[:TAG] or oci://HOST[:PORT]/NAME@sha256:DIGEST"

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
TAG = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"
_ADDRESS = re.compile(
    rf"oci://(?P<host>(?:[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(?::[0-9]{{1,5}})?)/(?P<name>{_PART}(?:/{_PART})*)"
    rf"(?::(?P<tag>{TAG}))?(?:@(?P<digest>sha256:[0-9a-f]{{64}}))?",
    re.ASCII,
)
_LOCAL = ("localhost", "127.0.0.1", "[::1]")
# Docker's own registry is at another host than its addresses name, and keeps names of one part in `library/`.
_DOCKER, _DOCKER_HOST = "docker.io", "registry-1.docker.io"


@dataclass(frozen=True, slots=True)
class RegistryAddress:
    """A repository in a registry, and a tag or a digest (sha256:...) in it; '' for none."""

    host: str
    name: str
    tag: str = ""
    digest: str = ""

    @property
    def local(self) -> bool:
        """Return whether the registry is on this machine; it is then used without TLS."""
        return self.host.rpartition(":")[0] in _LOCAL or self.host in _LOCAL

    @property
    def base(self) -> str:
        """The address of the repository in the registry's API."""
        host, name = self.host, self.name
        if host == _DOCKER:
            host, name = _DOCKER_HOST, name if "/" in name else f"library/{name}"
        return f"{'http' if self.local else 'https'}://{host}/v2/{name}"

    def at(self, digest: str) -> RegistryAddress:
        """Return the address of a digest in the same repository."""
        return replace(self, tag="", digest=digest)

    def __str__(self) -> str:
        return (
            f"{SCHEME}{self.host}/{self.name}"
            + (f":{self.tag}" * bool(self.tag))
            + f"@{self.digest}" * bool(self.digest)
        )


def parse_registry_address(text: str) -> RegistryAddress | None:
    """Parse an address; None if the text is not an address."""
    found = _ADDRESS.fullmatch(text)
    if found is None or len(found["name"]) > 255:
        return None
    return RegistryAddress(found["host"], found["name"], found["tag"] or "", found["digest"] or "")
