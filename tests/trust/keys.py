"""Keys and certificates of tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_NOW = datetime.now(UTC)
_PEM = serialization.Encoding.PEM


def write_key(folder: Path, name: str, passphrase: str = "", curve: ec.EllipticCurve | None = None) -> Path:
    """Write NAME.pem and NAME.pub; return the first."""
    key = ec.generate_private_key(curve or ec.SECP256R1())
    folder.mkdir(exist_ok=True, parents=True)
    hidden = serialization.BestAvailableEncryption(passphrase.encode()) if passphrase else serialization.NoEncryption()
    path = folder / f"{name}.pem"
    path.write_bytes(key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, hidden))
    public = key.public_key().public_bytes(_PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    path.with_suffix(".pub").write_bytes(public)
    return path


def write_certificate(key: Path, authority: Path, *, name: str = "release", days: int = 30, ca: bool = False) -> Path:
    """Write KEY.crt, signed by the key of an authority whose certificate is beside it (by itself for equal paths). With
    negative days, it has expired."""
    own, issuer = _load(key), _load(authority)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    parent = authority.with_suffix(".crt")
    by = subject if authority == key else x509.load_pem_x509_certificate(parent.read_bytes()).subject
    end = _NOW + timedelta(days=days)
    usage = x509.KeyUsage(not ca, False, False, False, False, ca, ca, False, False)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by)
        .public_key(own.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(_NOW, end) - timedelta(days=60 if ca else 30))
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .sign(issuer, hashes.SHA256())
    )
    path = key.with_suffix(".crt")
    path.write_bytes(made.public_bytes(_PEM))
    return path


def _load(path: Path) -> ec.EllipticCurvePrivateKey:
    found = serialization.load_pem_private_key(path.read_bytes(), None)
    assert isinstance(found, ec.EllipticCurvePrivateKey)
    return found
