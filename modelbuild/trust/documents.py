"""Read the documents that belong to an artifact: its provenance and its bill of materials."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelbuild.errors import UsageError
from modelbuild.store.files import open_plain
from modelbuild.trust.artifact_files import NotPlain, artifact_files, read_plain
from modelbuild.trust.provenance import BUILD_TYPE, PREDICATE, RELEASE_TYPE, STATEMENT, test_results
from modelbuild.trust.signatures import NotVerified
from modelbuild.trust.strict_json import parse_json


@dataclass(frozen=True, slots=True)
class Statement:
    """A provenance, read from a file.

    subjects  SHA-256 of each file by name
    tests     SHA-256 of the files that each passed test read, by label
    actions   key and outputs of each action, by id
    """

    subjects: Mapping[str, str]
    target: str
    device: str
    builder: str
    commit: str
    dirty: bool
    tests: Mapping[str, frozenset[str]]
    actions: Mapping[str, tuple[str, Mapping[str, str]]]


@dataclass(frozen=True, slots=True)
class Part:
    """A line of a bill of materials: its type, name and licences ('' for none)."""

    kind: str
    name: str
    licenses: tuple[str, ...]


def artifact_digests(path: Path) -> dict[str, str]:
    """Return the SHA-256 of a file by its name, or of all files of a folder by their paths in it. Raises UsageError for
    a path that cannot be read, and NotVerified for a folder with anything but files in folders."""
    try:
        return {name: _sha256(file) for name, file in artifact_files(path).items()}
    except NotPlain as error:
        raise NotVerified(str(error)) from None
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}") from None


def _sha256(path: Path) -> str:
    with open_plain(os.fspath(path)) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_statement(path: Path) -> Statement:
    """Return the provenance in a file. Raises NotVerified for anything that `modelbuild attest` does not write."""
    data = _json(path, "a provenance of `modelbuild attest`")
    try:
        predicate = data["predicate"]
        definition = predicate["buildDefinition"]
        if (data["_type"], data["predicateType"]) != (STATEMENT, PREDICATE):
            raise ValueError("another kind of statement")
        if definition["buildType"] not in (BUILD_TYPE, RELEASE_TYPE):
            raise ValueError("another type of build")
        revision = next((each for each in definition["resolvedDependencies"] if each.get("name") == "workspace"), None)
        return Statement(
            _by_name((str(each["name"]), str(each["digest"]["sha256"])) for each in data["subject"]),
            str(definition["externalParameters"]["target"]),
            str(definition["externalParameters"]["device"]),
            str(predicate["runDetails"]["builder"]["id"]),
            str(revision["digest"]["gitCommit"]) if revision else "",
            bool(revision["annotations"]["dirty"]) if revision else True,
            dict(test_results(predicate)),
            {
                str(each["id"]): (str(each["key"]), dict(each["outputs"]))
                for each in definition["internalParameters"]["actions"]
            },
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problem = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise NotVerified(f"{path}: expected a provenance of `modelbuild attest`; {problem[:200]}") from None


def _by_name(digests: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return digests by name. Raises ValueError for two digests of one name."""
    found: dict[str, str] = {}
    for name, digest in digests:
        if found.setdefault(name, digest) != digest:
            raise ValueError(f"two digests of {name!r}")
    return found


def read_bill(path: Path) -> tuple[Mapping[str, str], list[Part]]:
    """Return the SHA-256 of the files that a bill of materials describes, by name, and the parts in them. Raises
    NotVerified for anything but CycloneDX in JSON."""
    data = _json(path, "a bill of materials in CycloneDX")
    try:
        if data["bomFormat"] != "CycloneDX":
            raise ValueError("another format")
        outputs = _by_name(
            (str(file["name"]), str(each["content"]))
            for file in data["metadata"]["component"]["components"]
            for each in file["hashes"]
            if each["alg"] == "SHA-256"
        )
        parts = [
            Part(str(each["type"]), str(each["name"]), tuple(_licenses(each)))
            for each in data.get("components", ())
            if each.get("scope") != "excluded"
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problem = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise NotVerified(f"{path}: expected a bill of materials in CycloneDX; {problem[:200]}") from None
    return outputs, parts


def _licenses(component: Mapping[str, Any]) -> Iterator[str]:
    for each in component.get("licenses", ()):
        if "expression" in each:
            yield str(each["expression"])
        else:
            yield str(each["license"].get("id") or each["license"]["name"])


def _json(path: Path, expected: str) -> Any:
    try:
        return parse_json(read_plain(path))
    except OSError as error:
        raise NotVerified(f"{path}: {error.strerror}; expected {expected}") from None
    except (ValueError, RecursionError) as error:
        raise NotVerified(f"{path}: not JSON: {str(error)[:200]}; expected {expected}") from None
