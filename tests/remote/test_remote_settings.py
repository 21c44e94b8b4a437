"""Addresses, the table [remote], and flags."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from modelbuild.errors import EnvironmentProblem, LoadingError, UsageError
from modelbuild.remote.open import open_cache
from modelbuild.remote.problems import RemoteProblem
from modelbuild.remote.token import AccessToken
from modelbuild.session.request import Flags, make_request
from modelbuild.workspace.remote_address import Address, parse_address
from modelbuild.workspace.remote_settings import RemoteSettings, Security
from modelbuild.workspace.workspace import Workspace, load_workspace


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("grpc://localhost:8980", Address("grpc", "localhost:8980")),
        ("grpcs://cache.example:443/a/b/", Address("grpcs", "cache.example:443", "a/b")),
        ("http://cache.example/x", Address("http", "cache.example", "x")),
        ("s3://bucket/some/prefix", Address("s3", "bucket", "some/prefix")),
        ("file:///srv/cache/", Address("file", "", "/srv/cache")),
    ],
)
def test_an_address(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert str(address) == text.rstrip("/")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("localhost:8980", "expected grpc[s]://"),
        ("grcp://localhost:8980", "did you mean 'grpc'?"),
        ("grpc://localhost", "expected grpc://host:port"),
        ("https://", "expected a host"),
        ("file://srv/cache", "absolute path"),
        ("https://me:s3cret@cache.example", "a password in an address"),
        ("ftp://me:s3cret@cache.example", "is not the address"),
        ("https://cache.example/x?signature=s3cret", "without '?' and '#'"),
        ("az://container/x#s3cret", "without '?' and '#'"),
    ],
)
def test_invalid_addresses(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_address(text)
    assert said in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_gpus_of_workers_are_stated_as_keys_have_them(tmp_path: Path) -> None:
    assert load(tmp_path, "[remote]\n").config.remote.gpus == ()
    stated = load(tmp_path, '[remote]\ngpus = ["NVIDIA L4 (8.9)"]\n')
    assert stated.config.remote.gpus == ("NVIDIA L4 (8.9)",)
    with pytest.raises(LoadingError, match=r"^MODELBUILD\.toml:2:9: 'gpus': .* 'NVIDIA L4 \(8\.9\)', got 'NVIDIA L4'$"):
        load(tmp_path, '[remote]\ngpus = ["NVIDIA L4"]\n')


def test_toolchains_that_workers_have(tmp_path: Path) -> None:
    text = '[remote.toolchains]\n"//:tools" = "/t/python"\n"@modelbuild//toolchains:xnnpack" = "/x/python"\n'
    found = load(tmp_path, text).config.remote.toolchains
    assert found == (("//:tools", "/t/python"), ("@modelbuild//toolchains:xnnpack", "/x/python"))


def load(tmp_path: Path, text: str) -> Workspace:
    (tmp_path / "MODELBUILD.toml").write_text(text)
    return load_workspace(tmp_path, {"MODELBUILD_CACHE_DIR": "/c"})


WHOLE = """
[remote]
cache = "grpcs://cache.example:443/team"
upload = "ci-only"
download = "all"
timeout = 3
queue_notice = 7
jobs = 40
tls_ca = "ca.pem"
tls_cert = "/etc/me.pem"
tls_key = "/etc/me.key"
token_command = ["login", "--print"]
"""


def test_the_table(tmp_path: Path) -> None:
    settings = load(tmp_path, WHOLE).config.remote
    security = Security(
        tmp_path / "ca.pem", Path("/etc/me.pem"), Path("/etc/me.key"), token_command=("login", "--print")
    )
    assert settings == RemoteSettings(
        Address("grpcs", "cache.example:443", "team"), "ci-only", "all", 3, 7, security, jobs=40
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('cache = "cache.example"', "2:1: 'cache': 'cache.example' is not the address of a remote"),
        ('upload = "allways"', "did you mean 'always'?"),
        ('download = "none"', 'expected one of "toplevel", "all", "minimal"'),
        ("jobs = 0", "'jobs': expected"),
        ("timeout = 0", "'timeout': expected a duration from 1 s to 1000000 s, got 0"),
        ('queue_notice = "1 m"', "'queue_notice': expected a duration such as"),
        ('tls_cert = "x"', "expected 'tls_cert' and 'tls_key' together"),
        ('token_file = "x"\ntoken_env = "X"', "'token_env': 'token_file' is already set"),
        (
            'platform = { gpus = "{gpus}" }',
            "'gpus': '{gpus}' is an unknown field; expected {cpu}, {memory}",
        ),
        ("toolchains = { tools = 1 }", "'tools': expected an interpreter on the workers, got 1"),
        ('toolchains = { "//a b" = "python3" }', "'//a b': '//a b' is not a label"),
        ('cash = "x"', "unknown key 'cash' of [remote]; did you mean 'cache'?"),
    ],
)
def test_errors_in_the_table_are_located(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(LoadingError) as caught:
        load(tmp_path, f"[remote]\n{line}\n")
    assert said in str(caught.value)
    assert str(caught.value).startswith("MODELBUILD.toml:")


@pytest.mark.parametrize(
    ("flags", "cache", "download"),
    [
        ({}, "grpcs://cache.example:443/team", "all"),
        ({"remote_cache": "http://other"}, "http://other", "all"),
        ({"remote_cache": "", "remote_download": "minimal"}, None, "minimal"),
        ({"remote_download": "toplevel"}, "grpcs://cache.example:443/team", "toplevel"),
    ],
)
def test_the_command_line_goes_before_the_file(
    tmp_path: Path, flags: dict[str, Any], cache: str | None, download: str
) -> None:
    request = make_request(load(tmp_path, WHOLE), tmp_path, ("...",), Flags(**flags))
    assert (request.means.remote.cache and str(request.means.remote.cache)) == cache
    assert request.means.remote.download == download
    assert request.means.remote.upload == "ci-only"


@pytest.mark.parametrize(("flags", "jobs"), [({}, 40), ({"remote_jobs": 7}, 7), ({"jobs": 3}, 40)])
def test_jobs_of_the_remote_are_apart_from_jobs_here(tmp_path: Path, flags: dict[str, int], jobs: int) -> None:
    request = make_request(load(tmp_path, WHOLE), tmp_path, ("...",), Flags(**flags))  # type: ignore[arg-type]
    assert request.means.remote.jobs == jobs
    assert request.means.jobs == flags.get("jobs", len(os.sched_getaffinity(0)))


def test_a_token_does_not_travel_in_clear() -> None:
    settings = RemoteSettings(security=Security(token_env="TOKEN"))
    for address in ("grpc://cache.example:80", "http://cache.example"):
        with pytest.raises(UsageError, match="in clear"):
            open_cache(parse_address(address), settings)
    for address in ("grpc://127.0.0.1:80", "http://localhost:80"):
        open_cache(parse_address(address), settings).close()


def test_certificates_that_are_not_there_are_an_error(tmp_path: Path) -> None:
    settings = RemoteSettings(security=Security(ca=tmp_path / "ca.pem"))
    for address in ("grpcs://cache.example:443", "https://cache.example"):
        with pytest.raises(EnvironmentProblem):
            open_cache(parse_address(address), settings)


def test_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    (tmp_path / "token").write_text("first\n")
    token = AccessToken(Security(token_file=tmp_path / "token"), lambda: now[0])
    assert token.headers() == [("authorization", "Bearer first")]
    (tmp_path / "token").write_text("second\n")
    assert token.headers() == [("authorization", "Bearer first")]
    now[0] += 301
    assert token.headers() == [("authorization", "Bearer second")]
    assert AccessToken(Security(token_command=("echo", "printed"))).headers() == [("authorization", "Bearer printed")]
    monkeypatch.setenv("TOKEN", "of the environment")
    for wrong in (
        Security(token_env="TOKEN"),
        Security(token_env="NO_SUCH_VARIABLE"),
        Security(token_file=tmp_path / "nowhere"),
        Security(token_command=("false",)),
    ):
        with pytest.raises(RemoteProblem) as caught:
            AccessToken(wrong).headers()
        assert caught.value.kind == "refused"
        assert "of the environment" not in str(caught.value)
    assert AccessToken(Security()).headers() == []
