"""Logins for registries, as other tools store them: the configuration of Docker, of podman, and .netrc."""

from __future__ import annotations

import base64
import binascii
import json
import netrc
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

# The name of Docker's own registry in Docker's configuration.
_DOCKER_KEY = "https://index.docker.io/v1/"
_SECONDS = 60  # limit of a credential helper


class BadConfiguration(Exception):
    """Raised for a configuration that cannot be read. The message does not quote it."""


@dataclass(frozen=True, slots=True)
class Login:
    """A user with a password, or the refresh token of an OAuth login. repr() shows neither."""

    user: str = field(repr=False)
    password: str = field(repr=False)
    refresh_token: str = field(default="", repr=False)

    @property
    def basic(self) -> str:
        return base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


def find_login(host: str, environ: Mapping[str, str] = os.environ) -> Login | None:
    """Return the login for a registry's host (and port), from the first of these sources that has a login:
    DOCKER_AUTH_CONFIG, REGISTRY_AUTH_FILE, the config.json in DOCKER_CONFIG or ~/.docker, podman's auth.json, and
    .netrc.

    Raises BadConfiguration.
    """
    for place, config in _configurations(environ):
        found = _in_configuration(place, config, host, environ)
        if found is not None:
            return found
    return _in_netrc(host, environ)


def configuration_files(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the paths of the files that may contain logins, except .netrc."""
    home = environ.get("HOME") or os.path.expanduser("~")
    docker = environ.get("DOCKER_CONFIG") or f"{home}/.docker"
    config = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    run = [f"{environ['XDG_RUNTIME_DIR']}/containers/auth.json"] if environ.get("XDG_RUNTIME_DIR") else []
    given = [environ["REGISTRY_AUTH_FILE"]] if environ.get("REGISTRY_AUTH_FILE") else []
    return [*given, f"{docker}/config.json", *run, f"{config}/containers/auth.json"]


def _configurations(environ: Mapping[str, str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if text := environ.get("DOCKER_AUTH_CONFIG"):
        yield "DOCKER_AUTH_CONFIG", _parsed("DOCKER_AUTH_CONFIG", text)
    for path in configuration_files(environ):
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, UnicodeDecodeError):
            raise BadConfiguration(f"{path} cannot be read") from None
        yield path, _parsed(path, text)


def _parsed(place: str, text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise BadConfiguration(f"{place} is not a JSON object")
    return found


def _in_configuration(place: str, config: Mapping[str, Any], host: str, environ: Mapping[str, str]) -> Login | None:
    names = [host, f"https://{host}", f"https://{host}/v1/", f"https://{host}/v2/"]
    names += [_DOCKER_KEY] if host == "docker.io" else []
    helpers, auths = config.get("credHelpers"), config.get("auths")
    helper = helpers.get(host) if isinstance(helpers, dict) else None
    if helper or config.get("credsStore"):
        for name in names if not helper else names[:1]:
            found = _from_helper(str(helper or config["credsStore"]), name, environ)
            if found is not None:
                return found
    for name in names:
        entry = auths.get(name) if isinstance(auths, dict) else None
        if isinstance(entry, dict) and (login := _of_entry(place, entry)) is not None:
            return login
    return None


def _of_entry(place: str, entry: Mapping[str, Any]) -> Login | None:
    """Return the login of an entry of `auths`; None for an empty entry, whose login a helper has."""
    if entry.get("identitytoken"):
        return Login("", "", str(entry["identitytoken"]))
    if entry.get("username") and entry.get("password"):
        return Login(str(entry["username"]), str(entry["password"]))
    if not entry.get("auth"):
        return None
    try:
        user, colon, password = base64.b64decode(str(entry["auth"]), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        colon = ""
    if not colon:
        raise BadConfiguration(f"{place} has a login that is not the base64 of USER:PASSWORD")
    return Login(user, password.rstrip("\0"))


def _from_helper(helper: str, name: str, environ: Mapping[str, str]) -> Login | None:
    """Return the output of a credential helper; None if it has no login."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", helper):
        raise BadConfiguration("a credential helper's name is not a word")
    program = f"docker-credential-{helper}"
    try:
        done = subprocess.run(
            [program, "get"],
            input=name,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
            env=dict(environ),
        )
    except FileNotFoundError:
        raise BadConfiguration(f"the credential helper {program} is not installed") from None
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        raise BadConfiguration(f"the credential helper {program} did not answer") from None
    if done.returncode:
        return None
    found = _parsed(program, done.stdout)
    user, secret = str(found.get("Username", "")), str(found.get("Secret", ""))
    return Login("", "", secret) if user == "<token>" else Login(user, secret)


def _in_netrc(host: str, environ: Mapping[str, str]) -> Login | None:
    path = environ.get("NETRC") or f"{environ.get('HOME') or os.path.expanduser('~')}/.netrc"
    try:
        entries = netrc.netrc(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, netrc.NetrcParseError):
        raise BadConfiguration(f"{path} cannot be parsed") from None
    found = entries.authenticators(host) or entries.authenticators(re.sub(r":\d+\Z", "", host))
    return Login(found[0], found[2]) if found else None
