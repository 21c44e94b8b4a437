"""Signatures of files and folders in the format of OpenSSF Model Signing, by its package `model-signing`."""

from __future__ import annotations

import ast
import io
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from model_signing import hashing, signing, verifying
from OpenSSL.crypto import X509, X509Store, X509StoreContext, X509StoreContextError
from pydantic.alias_generators import to_camel
from sigstore_models.bundle.v1 import Bundle

from modelbuild.errors import UsageError
from modelbuild.lines import one_line
from modelbuild.trust.artifact_files import NotPlain, artifact_files, read_plain
from modelbuild.trust.strict_json import parse_json


class _SignatureFile:
    """The bundle in a signature file. Protobuf's JSON has two spellings of each name; `text`, the bundle for the
    verifier, has one."""

    def __init__(self, path: Path) -> None:
        """Raises OSError, and ValueError, TypeError, KeyError, AttributeError or RecursionError for anything but a
        bundle with one signature of one statement, and for unknown members."""
        values = parse_json(read_plain(path), _spelling)
        material = values["verificationMaterial"]
        # model-signing before 1.0 wrote bundles without these.
        material.setdefault("tlogEntries", [])
        if "publicKey" in material:
            material["publicKey"].setdefault("hint", None)
            for name in ("rawBytes", "keyDetails"):
                material["publicKey"].pop(name, None)
        self._bundle = Bundle.from_dict(values)
        self.text = self._bundle.to_json()
        envelope = self._bundle.dsse_envelope
        if envelope is None or len(envelope.signatures) != 1:
            raise ValueError("expected one signature of a statement")
        self._payload = envelope.payload

    def ignored(self) -> list[str]:
        """Return the paths in the signed folder that the signer excluded. Only a verified signature states them."""
        predicate = json.loads(self._payload).get("predicate", {})
        return [str(path) for path in predicate.get("serialization", {}).get("ignore_paths", ())]

    def certificates(self) -> list[x509.Certificate]:
        """Return the certificates in the signature, the signer's first. Raises ValueError if there is none."""
        chain = self._bundle.verification_material.x509_certificate_chain
        if chain is None or not chain.certificates:
            raise ValueError("it contains no certificate")
        return [x509.load_der_x509_certificate(each.raw_bytes) for each in chain.certificates]


def _spelling(name: str) -> str:
    """Return the spelling that protobuf's JSON prefers; a name in neither of its spellings is unknown."""
    return to_camel(name) if re.fullmatch("[a-z0-9_]+", name) else name


SUFFIX = ".sig"


class NotVerified(Exception):
    """A file does not meet the promises of its signer, its statement or a policy. The message is one line."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key on P-256 (PEM), with the passphrase that decrypts it, and optionally its certificate and the chain
    of certificates that leads to a root."""

    key: Path
    passphrase: bytes | None = None
    certificate: Path | None = None
    chain: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Trusted:
    """A public key (PEM), or certificates of authorities (PEM) with the subjects that may sign (none: anybody whom they
    certify). Signatures are compared with these."""

    key: Path | None = None
    chain: tuple[Path, ...] = ()
    subjects: tuple[str, ...] = ()


def signature_path(path: Path) -> Path:
    """Return the path of a file's or folder's signature, next to the file or folder."""
    return path.with_name(path.name + SUFFIX)


def sign(path: Path, key: SigningKey) -> bytes:
    """Return the signature of a file, or of all files in a folder. Raises UsageError for a key or a certificate that
    can't be used, and for a folder with anything but files in folders."""
    private = _private_key(key)
    with _in_memory(private) as file, TemporaryDirectory() as folder:
        try:
            artifact_files(path)
            config = signing.Config().set_hashing_config(_all_files())
            if key.certificate is None:
                config.use_elliptic_key_signer(private_key=file)
            else:
                _check_dates(key.certificate)
                # The package cannot read an empty chain.
                chain = key.chain or (key.certificate,)
                config.use_certificate_signer(
                    private_key=file, signing_certificate=key.certificate, certificate_chain=chain
                )
            config.sign(path, Path(folder) / "signature")
        except OSError as error:
            raise UsageError(f"{error.filename or path}: {error.strerror}") from None
        except NotPlain as error:
            raise UsageError(str(error)) from None
        except (ValueError, TypeError) as error:
            raise UsageError(f"{key.certificate or path}: {one_line(str(error))}") from None
        return (Path(folder) / "signature").read_bytes()


def check_signature(path: Path, signature: Path, trusted: Trusted) -> None:
    """Compare a file or folder with its signature. Raises NotVerified unless one of the trusted keys made it for these
    bytes, and UsageError for a key or certificate that cannot be read."""
    if not signature.exists():
        raise NotVerified(f"{path} is not signed; expected {signature}")
    verifier = verifying.Config().set_hashing_config(_all_files())
    if trusted.key is not None:
        _public_key(trusted.key)
        verifier.use_elliptic_key_verifier(public_key=trusted.key)
    else:
        for each in trusted.chain:
            _certificates(each)
        verifier.use_certificate_verifier(certificate_chain=trusted.chain)
    try:
        files = artifact_files(path)
        given = _SignatureFile(signature)
        # The verifier reads the bundle as it was parsed here, not the file again.
        with _in_memory(given.text.encode()) as file, redirect_stdout(io.StringIO()):  # the package prints warnings
            verifier.verify(path, file)
        _check_ignored(path, files, given.ignored(), signature)
        if trusted.key is None:
            _check_certificate(signature, given.certificates(), trusted)
    except NotPlain as error:
        raise NotVerified(str(error)) from None
    except InvalidSignature:
        raise NotVerified(f"{path}: another key made the signature {signature}") from None
    except X509StoreContextError as error:
        raise NotVerified(f"{signature}: its certificate is not trusted: {one_line(str(error))}") from None
    except OSError as error:
        raise NotVerified(f"{error.filename or signature}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise NotVerified(_reason(path, signature, error)) from None


def _reason(path: Path, signature: Path, error: Exception) -> str:
    text = one_line(str(error))
    if text.startswith("Key mismatch"):
        return f"{path}: another key made the signature {signature}"
    if text.startswith("Signature mismatch"):
        return f"{path} was changed after it was signed: {one_line(_changes(str(error)))}"
    return f"{signature} is not a signature for this: {type(error).__name__}: {text[:200]}"


def _changes(message: str) -> str:
    """Return the files that differ, from the message of model-signing, which ends with a list of texts."""
    kinds = {"Extra files found": "added {}", "Missing files": "missing {}", "Hash mismatch": "{} differs"}
    found = []
    for each in ast.literal_eval(message.partition(": ")[2]):
        kind = next((kind for kind in kinds if each.startswith(kind)), "")
        match = re.match(r"Hash mismatch for '(.*)': Expected '|.* in model '.*': (.*)", each, re.DOTALL)
        names = match and (match[1] or match[2])
        found.append(kinds[kind].format(names) if kind and names else each)
    return "; ".join(found)


def _all_files() -> Any:
    # By default, the package ignores git's files, where other files could be hidden.
    return hashing.Config().set_ignored_paths(paths=(), ignore_git_paths=False)


def _private_key(key: SigningKey) -> bytes:
    """Return the key without encryption, in PEM."""
    text = _read(key.key, Path.read_bytes)  # also of a pipe, which needs no file on a disk
    try:
        found = serialization.load_pem_private_key(text, key.passphrase)
    except TypeError:
        expected = "no passphrase" if key.passphrase is not None else "its passphrase in MODELBUILD_KEY_PASSPHRASE"
        raise UsageError(f"{key.key}: expected {expected}") from None
    except (ValueError, UnsupportedAlgorithm):
        what = "a private key in PEM" if key.passphrase is None else "a private key in PEM, and its passphrase"
        raise UsageError(f"{key.key}: expected {what}") from None
    if not isinstance(found, ec.EllipticCurvePrivateKey) or not isinstance(found.curve, ec.SECP256R1):
        raise UsageError(f"{key.key}: expected a key on the curve P-256, as `openssl ecparam -name prime256v1` makes")
    formats = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return bytes(found.private_bytes(*formats))


def _public_key(path: Path) -> None:
    try:
        found = serialization.load_pem_public_key(_read(path))
    except (ValueError, UnsupportedAlgorithm):
        raise UsageError(f"{path}: expected a public key in PEM") from None
    if not isinstance(found, ec.EllipticCurvePublicKey) or not isinstance(found.curve, ec.SECP256R1):
        raise UsageError(f"{path}: expected a key on the curve P-256")


def _certificates(path: Path) -> list[x509.Certificate]:
    try:
        return list(x509.load_pem_x509_certificates(_read(path)))
    except ValueError:
        raise UsageError(f"{path}: expected certificates in PEM") from None


def _check_dates(path: Path) -> None:
    """Raise UsageError for a certificate that is not valid now."""
    if problem := _expired(_certificates(path)[0]):
        raise UsageError(f"{path}: {problem}")


def _check_ignored(path: Path, files: Iterable[str], ignored: Sequence[str], signature: Path) -> None:
    """Raise NotVerified for files that the signer excluded, except the signature itself."""
    own = os.path.relpath(signature, path)
    hidden = [name for name in files if name != own and any(Path(name).is_relative_to(each) for each in ignored)]
    if path.is_dir() and hidden:
        raise NotVerified(f"{path}: its signature does not cover {one_line(', '.join(hidden))}")


def _check_certificate(signature: Path, chain: Sequence[x509.Certificate], trusted: Trusted) -> None:
    """Raise NotVerified for a signature by a certificate that is not valid now, and X509StoreContextError if one of the
    authorities is not: without a trusted time of signing, an expired certificate proves nothing. (The package uses the
    time at which its validity began.)"""
    for each in chain:
        if problem := _expired(each):
            raise NotVerified(f"{signature}: its certificate {problem}")
    store = X509Store()
    for authority in (each for path in trusted.chain for each in _certificates(path)):
        store.add_cert(X509.from_cryptography(authority))
    signer, *others = map(X509.from_cryptography, chain)
    X509StoreContext(store, signer, others).verify_certificate()
    subject = chain[0].subject.rfc4514_string()
    if trusted.subjects and subject not in trusted.subjects:
        expected = " or ".join(trusted.subjects)
        raise NotVerified(f"{signature}: its certificate is of {subject or 'nobody'}; expected {expected}")


def _expired(certificate: x509.Certificate) -> str:
    now = datetime.now(UTC)
    if now > certificate.not_valid_after_utc:
        return f"expired on {certificate.not_valid_after_utc:%Y-%m-%d}"
    if now < certificate.not_valid_before_utc:
        return f"is not valid before {certificate.not_valid_before_utc:%Y-%m-%d}"
    return ""


def _read(path: Path, read: Callable[[Path], bytes] = read_plain) -> bytes:
    try:
        return read(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


@contextmanager
def _in_memory(data: bytes) -> Iterator[str]:
    """Yield the path of a file in memory, for a function that reads a key from a path: a decrypted key must not be on a
    disk."""
    number = os.memfd_create("key", os.MFD_CLOEXEC)
    try:
        os.write(number, data)
        yield f"/proc/self/fd/{number}"
    finally:
        os.close(number)


def trusted_keys(keys: Sequence[Path], chain: Sequence[Path], subjects: Sequence[str] = ()) -> list[Trusted]:
    """Return one entry for each key, and one for all certificates together."""
    authorities = [Trusted(chain=tuple(chain), subjects=tuple(subjects))] if chain else []
    return [*(Trusted(key) for key in keys), *authorities]


def check_any(path: Path, signature: Path, trusted: Sequence[Trusted]) -> Trusted:
    """Return the trusted key that made a signature. Raises NotVerified as check_signature(), for the first key."""
    problem: NotVerified | None = None
    for each in trusted:
        try:
            check_signature(path, signature, each)
        except NotVerified as error:
            problem = problem or error
        else:
            return each
    assert problem is not None
    raise problem
