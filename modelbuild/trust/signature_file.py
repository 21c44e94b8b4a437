"""A signature file: a Sigstore bundle in JSON, parsed once, by the message types of the package that verifies it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from cryptography import x509
from pydantic.alias_generators import to_camel
from sigstore_models.bundle.v1 import Bundle

from modelbuild.trust.artifact_files import read_plain
from modelbuild.trust.strict_json import parse_json


class SignatureFile:
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
