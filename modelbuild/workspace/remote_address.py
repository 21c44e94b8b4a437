"""Addresses of remote caches and executors, such as grpcs://host:port/instance and s3://bucket/prefix."""

from __future__ import annotations

from dataclasses import dataclass

from modelbuild.errors import UsageError, did_you_mean

GRPC = ("grpc", "grpcs")
HTTP = ("http", "https")
STORES = ("file", "s3", "gs", "az")
SCHEMES = (*GRPC, *HTTP, *STORES)
_EXPECTED = "expected grpc[s]://host:port[/instance], http[s]://host/path, s3://, gs:// or az://bucket/prefix, or file:///folder"
_LOCAL = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a server.

    host   host:port; the bucket or container of an object store; '' for file
    path   without slashes at its ends: the instance's name, or the path below the host or in the bucket; for file, the
           absolute path of the folder
    """

    scheme: str
    host: str
    path: str = ""

    @property
    def private(self) -> bool:
        """Return whether the traffic is private: over TLS, to an object store, or on this machine."""
        return self.scheme in ("grpcs", "https", *STORES) or self.host.rpartition(":")[0] in _LOCAL

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}" + (f"/{self.path.lstrip('/')}" if self.path else "")


def parse_address(text: str, schemes: tuple[str, ...] = SCHEMES) -> Address:
    """Parse an address. Raises UsageError for a malformed address, and for an address that contains a password."""
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in schemes:
        hint = did_you_mean(scheme, schemes) if separator else ""
        expected = _EXPECTED if schemes != GRPC else "expected grpc[s]://host:port[/instance]"
        raise UsageError(f"'{_hidden(text)}' is not the address of a remote; {expected}{hint}")
    host, _, path = rest.partition("/")
    if "@" in host:
        raise UsageError(
            f"'{_hidden(text)}': a password in an address ends up in logs; use token_file, _command or _env"
        )
    if scheme != "file" and ("?" in rest or "#" in rest):
        raise UsageError(f"'{_hidden(text)}': expected an address without '?' and '#'")
    if scheme == "file":
        if host or not path.strip("/"):
            raise UsageError(f"'{text}': expected the absolute path of a folder, as in file:///srv/cache")
        return Address(scheme, "", f"/{path.strip('/')}")
    if not host or (scheme in GRPC and not _port(host)):
        raise UsageError(f"'{text}': expected {scheme}://host:port" if scheme in GRPC else f"'{text}': expected a host")
    return Address(scheme, host, path.strip("/"))


def _port(host: str) -> bool:
    name, _, port = host.rpartition(":")
    return bool(name) and port.isascii() and port.isdecimal()


def _hidden(text: str) -> str:
    """Return an address for display: without user, password and query (which may be a signature)."""
    scheme, separator, rest = text.rpartition("://")
    host, slash, path = rest.partition("?")[0].partition("#")[0].partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"
