"""The content to publish: files, facts about them, and documents that are attached to them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from modelbuild.errors import EnvironmentProblem, ExitCode, ModelbuildError, UsageError

# Names of documents next to published files; a signature is next to the file or folder that it signs.
PROVENANCE, SBOM, SIGNATURE_SUFFIX = "provenance.intoto.json", "sbom.cdx.json", ".sig"


class PublishError(ModelbuildError):
    """A registry or a store cannot be reached, refuses a login, or contains something else under the name."""

    exit_code = ExitCode.PUBLISH_FAILED


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file by its path among the target's outputs. `sha256` is hexadecimal."""

    path: str
    source: Path
    sha256: str
    size: int
    executable: bool


@dataclass(frozen=True, slots=True)
class Attachment:
    """A document about the content, such as its provenance. `kind` is its artifact type in a registry; `name` is the
    name of its file next to the content elsewhere."""

    kind: str
    name: str
    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class About:
    """Facts for people: the label of the target, the version of a release ('' for none), the licences of its parts, and
    the inputs and outputs of its models, one line each."""

    target: str = ""
    version: str = ""
    licenses: Sequence[str] = ()
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()

    @property
    def name(self) -> str:
        return self.target.rpartition(":")[2].rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Content:
    """Files in the order of their paths, annotations of the manifest, attachments, and facts that no manifest has."""

    files: Sequence[PublishedFile]
    annotations: Mapping[str, str] = field(default_factory=dict)
    attachments: Sequence[Attachment] = ()
    about: About = About()


@dataclass(frozen=True, slots=True)
class Published:
    """The result: the address (with the digest in a registry), the digest of the manifest, the names of the uploaded
    files and attachments, and whether a tag was set or moved."""

    address: str
    digest: str
    uploaded: Sequence[str]
    attached: Sequence[str]
    tagged: bool = False


def read_files(outputs: Mapping[str, Path]) -> list[PublishedFile]:
    """Return the files of outputs, which are files or folders, by path. Raises UsageError if there is none, and
    EnvironmentProblem for a file that cannot be read."""
    found = [file for name, path in outputs.items() for file in _files(name, path)]
    if not found:
        raise UsageError("expected a target with files")
    return sorted(found, key=lambda file: file.path)


def _files(name: str, path: Path) -> Iterator[PublishedFile]:
    if path.is_dir():
        for each in sorted(path.iterdir()):
            yield from _files(f"{name}/{each.name}", each)
        return
    try:
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            status = os.fstat(file.fileno())
    except OSError as error:
        raise EnvironmentProblem(f"{path}: {error.strerror}; build again") from None
    yield PublishedFile(name, path, sha256, status.st_size, bool(status.st_mode & 0o100))
