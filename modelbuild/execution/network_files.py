"""The files that an action with a network may read, in addition to the files that every action may read.

These are the configuration of programs that fetch, certificates, and the local places that the configuration or the
action names: folders of wheels, package indexes and `file:` addresses.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from configparser import Error, RawConfigParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from modelbuild.code.search_path import under
from modelbuild.execution.isolation.environment import without
from modelbuild.registry.credentials import configuration_files

# Configuration of programs that fetch, relative to the home folder and to the user's configuration folder.
_IN_HOME = (".netrc", ".pip", ".gitconfig", ".curlrc", ".wgetrc")
_IN_CONFIG = ("pip", "git", "curlrc")

_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_SYSTEM_CERTIFICATES = ("/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem")

# pip's options that name files, folders or addresses; each may also be a variable such as PIP_FIND_LINKS.
_PIP = ("find-links", "index-url", "extra-index-url", "cert", "client-cert", "constraint")


def readable(workspace: Path, *params: Any) -> list[str]:
    """Return real paths of existing files and folders. The workspace is excluded from a folder that contains it.

    params   JSON values of the action, which may contain `file:` addresses; an address in the workspace must be an
             input
    """
    root = os.path.realpath(workspace)
    mirrors = [path for path in _addresses(params) if not under(os.path.realpath(path), root)]
    named = [*_configuration(), *_certificates(), *_resolver(), *_indexes(), *mirrors]
    found = dict.fromkeys(os.path.realpath(path) for path in named if os.path.exists(path))
    return [part for path in found for part in without(path, [root])]


def _configuration() -> Iterator[str]:
    yield from (f"{_home()}/{name}" for name in _IN_HOME)
    yield from (f"{_config()}/{name}" for name in _IN_CONFIG)
    yield from filter(None, map(os.environ.get, ("NETRC", "PIP_CONFIG_FILE")))
    yield from configuration_files()


def _home() -> str:
    return os.path.expanduser("~")


def _config() -> str:
    return os.environ.get("XDG_CONFIG_HOME") or f"{_home()}/.config"


def _certificates() -> Iterator[str]:
    import ssl

    yield from filter(None, map(os.environ.get, _CERTIFICATES))
    yield from _SYSTEM_CERTIFICATES
    built_in = ssl.get_default_verify_paths()
    yield from (built_in.openssl_cafile, built_in.openssl_capath)


def _resolver() -> Iterator[str]:
    """Yield the folder of a resolv.conf outside /etc, where each new file replaces the old file."""
    real = os.path.realpath("/etc/resolv.conf")
    if not real.startswith("/etc/"):
        yield os.path.dirname(real)


def _indexes() -> Iterator[str]:
    """Yield the local places in pip's configuration: package sources, and files."""
    settings = [os.environ.get(f"PIP_{name.upper().replace('-', '_')}", "") for name in _PIP]
    files = ["/etc/xdg/pip/pip.conf", "/etc/pip.conf", f"{sys.prefix}/pip.conf", f"{_home()}/.pip/pip.conf"]
    files += [f"{_config()}/pip/pip.conf", os.environ.get("PIP_CONFIG_FILE", "")]
    for file in files:
        settings += _options(file)
    for word in " ".join(settings).split():
        if path := _local(word):
            yield path
            # Pages of an index (by convention in a folder `simple`) and other pages link to files in the same folder.
            folder = os.path.dirname(path.rstrip("/"))
            if (path.rstrip("/").endswith("/simple") or path.endswith(".html")) and not _is_wide(folder):
                yield folder


def _options(file: str) -> list[str]:
    """Return the values of pip's options in a configuration file; empty if it cannot be parsed."""
    parser = RawConfigParser(strict=False)
    try:
        parser.read(file)
    except (Error, OSError, UnicodeDecodeError):
        return []
    return [value for section in parser.values() for name, value in section.items() if name.replace("_", "-") in _PIP]


def _addresses(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if value.startswith("file:"):
            yield _local(value)
    elif isinstance(value, Mapping):
        yield from _addresses(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _addresses(item)


def _local(word: str) -> str:
    """Return the absolute path that a word of a setting names; '' if it names none."""
    if word.startswith("file:"):
        return unquote(urlsplit(word).path)
    path = os.path.expanduser(word)
    return path if path.startswith("/") else ""


def _is_wide(folder: str) -> bool:
    """Return whether a folder contains the home folder, and therefore many files unrelated to packages."""
    return under(os.path.realpath(_home()), os.path.realpath(folder))
