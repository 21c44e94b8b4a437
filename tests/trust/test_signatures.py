"""`modelbuild sign` and `modelbuild verify` with keys and certificates: in the format of OpenSSF Model Signing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from model_signing import signing, verifying

from modelbuild.cli import invoke
from tests.trust.keys import write_certificate, write_key

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    write_key(tmp_path / "keys", "release")
    return tmp_path / "keys"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "net.pte"
    path.write_bytes(b"a program" * 100)
    return path


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    folder = tmp_path / "net_bundle"
    (folder / "program").mkdir(parents=True)
    (folder / "program/net.pte").write_bytes(b"a program")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    return folder


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """run("sign", ...) returns the exit code, and what is printed on stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> tuple[int, str]:
        code = invoke(list(map(str, arguments)))
        printed = capfd.readouterr()
        return code, printed.err if code else printed.out

    return call


def test_a_signed_file_or_folder_is_verified(run: Run, keys: Path, program: Path, bundle: Path) -> None:
    assert run("sign", program, bundle, "--key", keys / "release.pem")[0] == 0
    for path in (program, bundle):
        code, text = run("verify", path, "--key", keys / "release.pub")
        assert (code, text.splitlines()[0]) == (0, f"{path} is verified")
        # Also by the package that defines the format.
        config = verifying.Config().use_elliptic_key_verifier(public_key=keys / "release.pub")
        config.verify(path, f"{path}.sig")


def test_a_file_that_is_no_signature_is_not_replaced(run: Run, keys: Path, program: Path) -> None:
    other = Path(f"{program}.sig")
    other.write_bytes(b"-----BEGIN PGP SIGNATURE-----")
    expected = f"error: {other} is not a signature of modelbuild; remove it\n"
    assert run("sign", program, "--key", keys / "release.pem") == (2, expected)
    assert other.read_bytes() == b"-----BEGIN PGP SIGNATURE-----"
    other.unlink()
    for _ in range(2):
        assert run("sign", program, "--key", keys / "release.pem")[0] == 0


def test_a_signature_by_the_package_itself_is_accepted(run: Run, keys: Path, program: Path) -> None:
    signing.Config().use_elliptic_key_signer(private_key=keys / "release.pem").sign(program, f"{program}.sig")
    assert run("verify", program, "--key", keys / "release.pub")[0] == 0


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _payload(path: Path) -> None:
    """Replace the signed text by another."""
    bundle = json.loads(path.read_text())
    envelope = bundle["dsseEnvelope"]
    envelope["payload"] = (
        envelope["payload"][:40] + ("A" if envelope["payload"][40] != "A" else "B") + envelope["payload"][41:]
    )
    path.write_text(json.dumps(bundle))


BAD = {
    "unsigned": (lambda p, k: Path(f"{p}.sig").unlink(), "is not signed; expected"),
    "a changed byte": (lambda p, k: _flip(p), "was changed after it was signed"),
    "another key": (lambda p, k: write_key(k, "release"), "another key made the signature"),
    "a truncated signature": (lambda p, k: os.truncate(f"{p}.sig", 100), "is not a signature for this"),
    "an empty signature": (lambda p, k: os.truncate(f"{p}.sig", 0), "is not a signature for this"),
    "a signature with another payload": (lambda p, k: _payload(Path(f"{p}.sig")), "another key made the signature"),
    "JSON of another kind": (lambda p, k: Path(f"{p}.sig").write_text("[1]"), "is not a signature for this"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_signatures_are_one_line(run: Run, keys: Path, program: Path, case: str) -> None:
    assert run("sign", program, "--key", keys / "release.pem")[0] == 0
    spoil, message = BAD[case]
    spoil(program, keys)
    code, text = run("verify", program, "--key", keys / "release.pub")
    assert code == 1
    assert text.count("\n") == 1
    assert text.startswith("error: ")
    assert message in text


@pytest.mark.parametrize("name", ["extra", ".git/config", ".gitignore"])
def test_a_file_added_to_a_signed_folder_is_found(run: Run, keys: Path, bundle: Path, name: str) -> None:
    assert run("sign", bundle, "--key", keys / "release.pem")[0] == 0
    (bundle / name).parent.mkdir(exist_ok=True)
    (bundle / name).write_text("x")
    code, text = run("verify", bundle, "--key", keys / "release.pub")
    assert (code, text) == (1, f"error: {bundle} was changed after it was signed: added {name}\n")


def test_files_that_changed_or_are_missing_are_named(run: Run, keys: Path, bundle: Path) -> None:
    (bundle / "it's: odd").write_text("1")
    (bundle / "gone").write_text("1")
    assert run("sign", bundle, "--key", keys / "release.pem")[0] == 0
    (bundle / "it's: odd").write_text("2")
    (bundle / "gone").unlink()
    code, text = run("verify", bundle, "--key", keys / "release.pub")
    assert (code, text) == (1, f"error: {bundle} was changed after it was signed: missing gone; it's: odd differs\n")


def test_a_link_in_a_folder_is_not_signed(run: Run, keys: Path, bundle: Path) -> None:
    (bundle / "link").symlink_to("/etc/passwd")
    code, text = run("sign", bundle, "--key", keys / "release.pem")
    assert (code, text.count("\n")) == (2, 1)


def test_an_encrypted_key_needs_its_passphrase(
    run: Run, keys: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = write_key(keys, "hidden", "CANARY-passphrase")
    code, text = run("sign", program, "--key", key)
    assert (code, text) == (2, f"error: {key}: expected its passphrase in MODELBUILD_KEY_PASSPHRASE\n")
    monkeypatch.setenv("MODELBUILD_KEY_PASSPHRASE", "CANARY-wrong")
    code, text = run("sign", program, "--key", key)
    assert (code, text) == (2, f"error: {key}: expected a private key in PEM, and its passphrase\n")
    monkeypatch.setenv("MODELBUILD_KEY_PASSPHRASE", "CANARY-passphrase")
    assert run("sign", program, "--key", key)[0] == 0
    assert run("verify", program, "--key", keys / "hidden.pub")[0] == 0


def test_keys_that_cannot_sign_are_one_line(run: Run, keys: Path, program: Path, tmp_path: Path) -> None:
    other = write_key(keys, "other", curve=ec.SECP384R1())
    (keys / "text.pem").write_text("no key")
    for key, expected in (
        (other, "expected a key on the curve P-256"),
        (keys / "text.pem", "expected a private key in PEM"),
        (keys / "missing.pem", "No such file or directory"),
        (keys / "release.pub", "expected a private key in PEM"),
    ):
        code, text = run("sign", program, "--key", key)
        assert (code, text.count("\n")) == (2, 1)
        assert expected in text


@pytest.fixture
def authority(keys: Path) -> Path:
    key = write_key(keys, "authority")
    return write_certificate(key, key, name="authority", ca=True)


def _sign_with_certificate(run: Run, keys: Path, program: Path) -> tuple[int, str]:
    return run("sign", program, "--key", keys / "release.pem", "--certificate", keys / "release.crt")


def test_a_certificate_of_a_trusted_authority_verifies(run: Run, keys: Path, program: Path, authority: Path) -> None:
    write_certificate(keys / "release.pem", keys / "authority.pem")
    assert _sign_with_certificate(run, keys, program)[0] == 0
    assert run("verify", program, "--certificate-chain", authority)[0] == 0
    other = write_key(keys, "elsewhere")
    unknown = write_certificate(other, other, name="elsewhere", ca=True)
    code, text = run("verify", program, "--certificate-chain", unknown)
    assert (code, text.count("\n")) == (1, 1)
    assert "its certificate is not trusted" in text


def test_an_expired_certificate_neither_signs_nor_verifies(
    run: Run, keys: Path, program: Path, authority: Path
) -> None:
    write_certificate(keys / "release.pem", keys / "authority.pem", days=-1)
    code, text = _sign_with_certificate(run, keys, program)
    assert (code, text.count("\n")) == (2, 1)
    assert "expired on" in text
    # Signed while it was valid.
    signer = signing.Config().use_certificate_signer(
        private_key=keys / "release.pem", signing_certificate=keys / "release.crt", certificate_chain=[authority]
    )
    signer.sign(program, f"{program}.sig")
    code, text = run("verify", program, "--certificate-chain", authority)
    assert (code, text.count("\n")) == (1, 1)
    assert "its certificate expired on" in text


def test_a_certificate_of_another_key_does_not_sign(run: Run, keys: Path, program: Path, authority: Path) -> None:
    write_certificate(keys / "release.pem", keys / "authority.pem")
    write_key(keys, "release")
    code, text = _sign_with_certificate(run, keys, program)
    assert (code, text.count("\n")) == (2, 1)
    assert "does not match" in text


def test_verify_without_anything_to_compare_with_is_an_error(run: Run, program: Path) -> None:
    code, text = run("verify", program)
    assert code == 2
    assert "nothing to verify" in text
