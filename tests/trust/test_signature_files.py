"""Signature files whose members are misspelt, missing, empty or doubled, and folders with other things than files."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from model_signing import signing

from modelbuild.trust.signatures import NotVerified, SigningKey, Trusted, check_signature, sign, signature_path
from tests.trust.keys import write_certificate, write_key

KEY, CERTIFICATE, EXPIRED = "a key", "a certificate", "an expired certificate"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with signatures by a key, by a certificate and by an expired certificate."""
    made = tmp_path_factory.mktemp("signed")
    (made / "net.pte").write_bytes(b"a program")
    authority = write_key(made, "authority")
    write_certificate(authority, authority, name="authority", ca=True)
    for kind, days in ((CERTIFICATE, 30), (EXPIRED, -1)):
        key = write_key(made, kind)
        certificate = write_certificate(key, authority, days=days)
        signer = signing.Config().use_certificate_signer(
            private_key=key, signing_certificate=certificate, certificate_chain=[made / "authority.crt"]
        )
        signer.sign(made / "net.pte", made / kind)
    (made / KEY).write_bytes(sign(made / "net.pte", SigningKey(write_key(made, "release"))))
    return made


def _verify(folder: Path, kind: str, bundle: Any) -> None:
    signature = folder / "net.pte.sig"
    signature.write_text(bundle if isinstance(bundle, str) else json.dumps(bundle))
    key = folder / "release.pub" if kind == KEY else None
    check_signature(folder / "net.pte", signature, Trusted(key, () if key else (folder / "authority.crt",)))


def _problem(folder: Path, kind: str, bundle: Any) -> str:
    try:
        _verify(folder, kind, bundle)
    except NotVerified as error:
        return str(error)
    return ""


def _snake(name: str) -> str:
    return re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name)


def _members(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each member of each object."""
    for name, inner in (
        value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())
    ):
        if isinstance(value, dict):
            yield (*at, name)
        yield from _members(inner, (*at, name))


def _changed(bundle: Any, path: tuple[Any, ...], change: Callable[[Any, str], object]) -> Any:
    """Return a copy of a bundle in which `change` has changed a member of an object."""
    made = inner = json.loads(json.dumps(bundle))
    for name in path[:-1]:
        inner = inner[name]
    change(inner, path[-1])
    return made


def _respell(inner: Any, name: str) -> None:
    inner[_snake(name)] = inner.pop(name)


CHANGES: dict[str, Callable[[Any, str], object]] = {
    "as it is": lambda inner, name: None,
    "in snake_case": _respell,
    "absent": lambda inner, name: inner.pop(name),
    "null": lambda inner, name: inner.update({name: None}),
    "empty": lambda inner, name: inner.update({name: type(inner[name])()}),
    "in both spellings": lambda inner, name: inner.update({_snake(name): inner[name]}),
    "doubled with nothing": lambda inner, name: inner.update({_snake(name): type(inner[name])()}),
    "beside an unknown member": lambda inner, name: inner.update({"unknown": 1}),
    "in capitals": lambda inner, name: inner.update({name.upper(): inner.pop(name)}),
}
# Members without which, or with nothing in which, the signature proves as much.
UNUSED = {"hint", "publicKey", "tlogEntries", "keyid"}


@pytest.mark.parametrize("kind", [KEY, CERTIFICATE, EXPIRED])
@pytest.mark.parametrize("change", CHANGES)
def test_each_member_counts_in_either_spelling_and_once(folder: Path, kind: str, change: str) -> None:
    original = json.loads((folder / kind).read_text())
    paths = list(_members(original))
    assert len(paths) >= 10
    for path in paths:
        bundle = _changed(original, path, CHANGES[change])
        same = change in ("as it is", "in snake_case") or bundle == original
        emptied = bundle == _changed(original, path, CHANGES["empty"])
        problem = _problem(folder, kind, bundle)
        assert "\n" not in problem
        if same:
            assert ("expired on" in problem) if kind == EXPIRED else not problem, path
        elif not problem:
            assert kind != EXPIRED, path
            assert emptied or change in ("absent", "null"), path
            assert path[-1] in UNUSED, path


@pytest.mark.parametrize("kind", [KEY, CERTIFICATE, EXPIRED])
def test_a_name_that_is_written_twice_is_refused(folder: Path, kind: str) -> None:
    text = (folder / kind).read_text()
    for name in set(re.findall(r'"(\w+)":', text)):
        with pytest.raises(NotVerified, match="two members of one name"):
            _verify(folder, kind, text.replace(f'"{name}":', f'"{name}":"","{name}":', 1))


def test_an_authority_that_has_expired_proves_nothing(tmp_path: Path) -> None:
    (tmp_path / "net.pte").write_bytes(b"a program")
    authority, key = write_key(tmp_path, "authority"), write_key(tmp_path, "release")
    write_certificate(authority, authority, name="authority", ca=True, days=-1)
    certificate = write_certificate(key, authority)
    made = sign(tmp_path / "net.pte", SigningKey(key, certificate=certificate, chain=(certificate,)))
    signature_path(tmp_path / "net.pte").write_bytes(made)
    with pytest.raises(NotVerified, match=r"its certificate is not trusted: .*expired"):
        check_signature(tmp_path / "net.pte", tmp_path / "net.pte.sig", Trusted(chain=(tmp_path / "authority.crt",)))


def _socket(path: Path) -> None:
    # The path of a socket is limited to 107 bytes.
    there, here = os.open(path.parent, os.O_RDONLY), socket.socket(socket.AF_UNIX)
    here.bind(f"/proc/self/fd/{there}/{path.name}")
    here.close()
    os.close(there)


THINGS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a link to a file": (lambda path: path.symlink_to("run.sh"), "is a symbolic link"),
    "a link to a folder": (lambda path: path.symlink_to("program"), "is a symbolic link"),
    "a link to another folder": (lambda path: path.symlink_to("/etc"), "is a symbolic link"),
    "a link to its own folder": (lambda path: path.symlink_to("."), "is a symbolic link"),
    "a link to nothing": (lambda path: path.symlink_to("nothing"), "is a symbolic link"),
    "a pipe": (os.mkfifo, "is a named pipe"),
    "a socket": (_socket, "is a socket"),
    "an empty folder": (lambda path: path.mkdir(), "is an empty folder"),
    "empty folders": (lambda path: (path / "inner").mkdir(parents=True), "is an empty folder"),
    "a name with a line break": (lambda path: path.with_name("a\nb").symlink_to("x"), "\\nb is a symbolic link"),
}


@pytest.fixture
def ends() -> Iterator[None]:
    """Fails a test that waits for the writer of a pipe."""

    def fail(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("ends")
@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("place", ["added", "program/added"])
def test_a_folder_has_only_what_was_signed(tmp_path: Path, thing: str, place: str) -> None:
    bundle, key = tmp_path / "bundle", SigningKey(write_key(tmp_path, "release"))
    (bundle / "program").mkdir(parents=True)
    (bundle / "program/net.pte").write_bytes(b"a program")
    (bundle / "run.sh").write_text("#!/bin/sh\n")
    signature_path(bundle).write_bytes(sign(bundle, key))
    trusted = Trusted(tmp_path / "release.pub")
    check_signature(bundle, signature_path(bundle), trusted)
    make, message = THINGS[thing]
    make(bundle / place)
    with pytest.raises(NotVerified, match=re.escape(message)) as problem:
        check_signature(bundle, signature_path(bundle), trusted)
    assert "\n" not in str(problem.value)


def test_files_that_the_signer_ignored_are_not_covered(tmp_path: Path) -> None:
    key = write_key(tmp_path, "release")
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "net.pte").write_bytes(b"a program")
    # By default, the package ignores git's files.
    signing.Config().use_elliptic_key_signer(private_key=key).sign(bundle, signature_path(bundle))
    trusted = Trusted(tmp_path / "release.pub")
    check_signature(bundle, signature_path(bundle), trusted)
    (bundle / ".git").mkdir()
    (bundle / ".git/config").write_text("x")
    with pytest.raises(NotVerified, match=r"its signature does not cover \.git/config"):
        check_signature(bundle, signature_path(bundle), trusted)
