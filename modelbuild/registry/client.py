"""Requests to a registry: the OCI distribution specification 1.1, over urllib.

urllib has the proxies and certificates of the environment. A login is sent only over TLS or to this machine, and never
to the server that a registry redirects to.
"""

from __future__ import annotations

import http.client
import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from modelbuild.registry.address import RegistryAddress
from modelbuild.registry.credentials import BadConfiguration, Login, find_login
from modelbuild.transfer import build_opener

# Seconds to wait before each attempt of a request.
ATTEMPTS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
_TIMEOUT = 30.0
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
_LONGEST = 200
# A longer manifest or token is refused; the specification suggests 4 MiB.
MOST = 4 << 20

T = TypeVar("T")
Body = Callable[[], bytes | Iterable[bytes]]


class RegistryProblem(Exception):
    """A request failed. `passing`: another attempt may succeed. `status` is HTTP's, or 0."""

    def __init__(self, message: str, passing: bool = False, status: int = 0) -> None:
        super().__init__(message)
        self.passing = passing
        self.status = status


class Registry:
    """A repository of a registry. `push`: ask for the right to write. Methods raise RegistryProblem."""

    def __init__(self, address: RegistryAddress, push: bool = False) -> None:
        self.address = address
        self._scope = f"repository:{urllib.parse.urlsplit(address.base).path[4:]}:pull{',push' * push}"
        self._authorization = ""
        self._login: Login | None = None
        self._asked = False
        self._reached = False
        self._opener = build_opener()

    def send(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, body: Body | None = None
    ) -> http.client.HTTPResponse:
        """Return the answer to one request, which must succeed. Relative addresses are relative to the repository."""
        target = url if "://" in url else f"{self.address.base}{url}" if url[0] == "/" else f"{self.address.base}/{url}"
        for last in (False, True):
            request = urllib.request.Request(target, body() if body else None, dict(headers or {}), method=method)
            request.add_header("User-Agent", "modelbuild")
            if self._authorization and self._is_own(target):
                request.add_unredirected_header("Authorization", self._authorization)
            try:
                answer: http.client.HTTPResponse = self._opener.open(request, timeout=_TIMEOUT)
                self._reached = True
                return answer
            except urllib.error.HTTPError as error:
                self._reached = True
                with error:
                    if error.code == 401 and not last and self._is_own(target):
                        self._authorize(error.headers.get_all("WWW-Authenticate") or [])
                        continue
                    raise self._problem(error) from None
            except urllib.error.URLError as error:
                raise RegistryProblem(self._line(error.reason), passing=True) from None
            except (OSError, http.client.HTTPException) as error:
                raise RegistryProblem(self._line(error), passing=True) from None
            except ValueError as error:
                raise RegistryProblem(self._line(error)) from None
        raise AssertionError

    def ask(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, body: Body | None = None
    ) -> RegistryAnswer:
        """Return the answer to a request with its body, after several attempts if needed."""
        # A registry that has never answered is probably the wrong host, so its requests are not repeated.
        return retried(lambda: self._ask(method, url, headers, body), lambda: self._reached)

    def _ask(self, method: str, url: str, headers: Mapping[str, str] | None, body: Body | None) -> RegistryAnswer:
        with self.send(method, url, headers, body) as answer:
            try:
                data = answer.read(MOST + 1)
            except (OSError, http.client.HTTPException) as error:
                raise RegistryProblem(self._line(error), passing=True) from None
            if len(data) > MOST:
                raise RegistryProblem(f"the registry sent more than {MOST} bytes for {url}")
            return RegistryAnswer(answer.status, answer.headers, data)

    def _is_own(self, url: str) -> bool:
        return urllib.parse.urlsplit(url).netloc == urllib.parse.urlsplit(self.address.base).netloc

    def _authorize(self, challenges: list[str]) -> None:
        """Get the authorization that a registry demands: a token, or the login itself."""
        if not self._asked:
            try:
                self._login, self._asked = find_login(self.address.host), True
            except BadConfiguration as error:
                raise RegistryProblem(str(error)) from None
        for challenge in challenges:
            kind, _, text = challenge.strip().partition(" ")
            values = dict(re.findall(r'(\w+)="([^"]*)"', text))
            if kind.lower() == "bearer" and "realm" in values:
                self._authorization = f"Bearer {self._token(values)}"
                return
            if kind.lower() == "basic" and self._login is not None and not self._login.refresh_token:
                self._authorization = f"Basic {self._login.basic}"
                return
        if self._login is None:
            message = f"HTTP 401: it demands a login, and none is configured for {self.address.host}"
            raise RegistryProblem(f"{message}; `docker login` or `oras login` configures one", status=401)
        raise RegistryProblem("HTTP 401: it demands an unknown kind of login", status=401)

    def _token(self, challenge: Mapping[str, str]) -> str:
        realm, login = challenge["realm"], self._login
        if not (realm.startswith("https://") or (self.address.local and realm.startswith("http://"))):
            raise RegistryProblem("the service for its tokens has no TLS; expected https://")
        query = {"scope": self._scope, "service": challenge.get("service", "")}
        data = None
        if login is not None and login.refresh_token:
            query |= {"grant_type": "refresh_token", "refresh_token": login.refresh_token, "client_id": "modelbuild"}
            data = urllib.parse.urlencode(query).encode()
            request = urllib.request.Request(realm, data)
        else:
            request = urllib.request.Request(f"{realm}{'&' if '?' in realm else '?'}{urllib.parse.urlencode(query)}")
        if login is not None and data is None:
            request.add_unredirected_header("Authorization", f"Basic {login.basic}")
        try:
            with self._opener.open(request, timeout=_TIMEOUT) as answer:
                found = json.loads(answer.read(MOST))
                return str(found.get("token") or found["access_token"])
        except urllib.error.HTTPError as error:
            with error:
                raise self._problem(error) from None
        except (OSError, http.client.HTTPException) as error:
            raise RegistryProblem(self._line(error), passing=True) from None
        except (ValueError, KeyError, AttributeError):
            raise RegistryProblem("the service for its tokens sent none") from None

    def _problem(self, error: urllib.error.HTTPError) -> RegistryProblem:
        """Return the problem of an unsuccessful answer. A registry's own message may repeat a request."""
        text = f"HTTP {error.code} {error.reason}"
        try:
            first = json.loads(error.read(MOST))["errors"][0]
            text = f"HTTP {error.code}: {first.get('message') or first['code']}"
        except (OSError, ValueError, LookupError, TypeError, AttributeError, http.client.HTTPException):
            pass
        if error.code in (401, 403):
            known = "the login" if self._login else "no login"
            text = f"{text} (with {known} configured for {self.address.host})"
        return RegistryProblem(self._line(text), error.code in _TRANSIENT, error.code)

    def _line(self, problem: object) -> str:
        """Return a problem in one short line, without secrets."""
        text = " ".join(str(problem).split()) or type(problem).__name__
        secrets = [self._authorization.partition(" ")[2]]
        if self._login is not None:
            secrets += [self._login.basic, self._login.password, self._login.refresh_token]
        for secret in filter(None, secrets):
            text = text.replace(secret, "(secret)")
        return text[:_LONGEST]


@dataclass(frozen=True, slots=True)
class RegistryAnswer:
    status: int
    headers: Any
    body: bytes


def retried(work: Callable[[], T], again: Callable[[], bool]) -> T:
    """Return the result of work that may raise RegistryProblem; after a problem that may pass, work is repeated if
    again() is true."""
    for delay in ATTEMPTS[1:]:
        try:
            return work()
        except RegistryProblem as problem:
            if not problem.passing or not again():
                raise
        time.sleep(delay)
    return work()
