"""Read lock files: requirements with hashes, as pip and uv write them, and pylock.toml (PEP 751)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelbuild.code.distributions import canonical
from modelbuild.errors import LoadingError, Location
from modelbuild.workspace.toml_document import Document, read_document

# Options of a requirements file that choose where packages come from, which no key contains.
_SOURCES = (
    *("-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--no-index", "--trusted-host"),
    *("--only-binary", "--no-binary", "--prefer-binary", "--require-hashes", "--pre"),
)

_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[[^\]]*\])?\s*(?=$|[-=<>~!@;,*(])"
    r"(?:(?P<pinned>===?\s*(?P<version>[^\s;,*]+)|@\s*\S+)\s*(?=;|--|$))?"
)
_HASH = re.compile(r"--hash[= ](sha(?:256|384|512):[0-9a-f]+)")
_COMMENT = re.compile(r"(^|\s)#.*")

_COMPILE = "`uv pip compile --generate-hashes`"


@dataclass(frozen=True, slots=True)
class Pin:
    """A pinned distribution: canonical name, version ('' for an address), and its place in the lock file."""

    name: str
    version: str
    location: Location


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock file, by its path relative to the workspace. `digest` is the SHA-256 (hex) of its pins: names, versions,
    markers and hashes, without comments and without the places that packages come from."""

    path: str
    pins: tuple[Pin, ...]
    digest: str

    @property
    def packages(self) -> int:
        """The number of pinned packages; a lock file may pin a package in several versions, for different Pythons."""
        return len({pin.name for pin in self.pins})

    def pin(self, name: str) -> Pin | None:
        """Return the pin of a distribution."""
        wanted = canonical(name)
        return next((pin for pin in self.pins if pin.name == wanted), None)


def read_lock(root: Path, path: str, from_source: Sequence[str] = ()) -> Lock:
    """Read a lock file. Raises LoadingError, located, for a package that is not pinned, has no hash or only a source
    archive, and for a file of another kind.

    from_source  canonical names of distributions that may be built from their source archives
    """
    if path.rpartition("/")[2] in ("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock"):
        expected = f"expected requirements with hashes, as {_COMPILE} and `uv export` write them, or a pylock.toml"
        raise LoadingError(f"the lock of a project is not installed as it is; {expected}", Location(path, 1, 1))
    if path.endswith(".toml"):
        document, values, _ = read_document(root, path)
        found = list(_packages(document, values, frozenset(from_source)))
        more: Any = values.get("requires-python", "")
    else:
        found = list(_requirements(path, _text(root, path)))
        more = ""
    if not found:
        raise LoadingError(f"no package is pinned here; expected lines as {_COMPILE} writes them", Location(path, 1, 1))
    lines = [more, *sorted(text for _, text in found)]
    digest = hashlib.sha256(json.dumps(lines).encode()).hexdigest()
    return Lock(path, tuple(pin for pin, _ in found), digest)


def _text(root: Path, path: str) -> str:
    try:
        return (root / path).read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise LoadingError(f"{error.strerror}; expected a lock file", Location(path, 1, 1)) from None
    except UnicodeDecodeError:
        raise LoadingError("not UTF-8; expected a lock file", Location(path, 1, 1)) from None


def _requirements(path: str, text: str) -> Iterator[tuple[Pin, str]]:
    """Yield each requirement, with its text: one line without comments."""
    for number, line in _logical_lines(text):
        where = Location(path, number, 1)
        word = re.split(r"[\s=]", line, maxsplit=1)[0]
        if word in _SOURCES:
            continue
        if word.startswith("-"):
            raise LoadingError(f"'{word}' is not allowed in a lock; expected packages with versions and hashes", where)
        match = _REQUIREMENT.match(line)
        shown = line.partition("--hash")[0].partition(";")[0].strip()
        if match is None:
            raise LoadingError(f"'{shown}' is not a requirement; expected name==version --hash=sha256:...", where)
        if match["pinned"] is None:
            raise LoadingError(f"'{shown}' is not pinned; expected {match['name']}==version --hash=sha256:...", where)
        hashes = sorted(_HASH.findall(line))
        if not hashes:
            raise LoadingError(f"'{shown}' has no hash; expected --hash=sha256:..., as {_COMPILE} writes", where)
        marker = line.partition(";")[2].partition("--hash")[0].strip()
        pin = Pin(canonical(match["name"]), match["version"] or "", where)
        yield pin, json.dumps([pin.name, "".join(match[0].split()), " ".join(marker.split()), hashes])


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines that are neither empty nor comments, with the number of each; a backslash at the end continues a
    line."""
    start, parts = 1, ""
    for number, line in enumerate(text.split("\n"), 1):
        if not parts:
            start = number
        if line.endswith("\\"):
            parts += line[:-1] + " "
            continue
        whole = _COMMENT.sub("", parts + line).strip()
        parts = ""
        if whole:
            yield start, whole


def _packages(document: Document, values: Mapping[str, Any], from_source: frozenset[str]) -> Iterator[tuple[Pin, str]]:
    packages = values.get("packages")
    if not isinstance(packages, list) or "lock-version" not in values:
        raise document.error((), "not a lock file; expected a pylock.toml (PEP 751), with [[packages]]")
    for index, package in enumerate(packages):
        at = ("packages", index)
        name = package.get("name") if isinstance(package, dict) else None
        if not isinstance(name, str):
            raise document.error(at, 'a package without a name; expected name = "..."')
        for kind in ("vcs", "directory"):
            if kind in package:
                raise document.error((*at, kind), f"'{name}' has no hash: it is from a {kind}; expected wheels")
        archives = [*_tables(package.get("wheels")), *_tables([package.get("archive")])]
        if canonical(name) in from_source:
            archives += _tables([package.get("sdist")])
        if not archives:
            advice = "expected wheels, or its name in 'from_source' of the toolchain"
            raise document.error(at, f"'{name}' has no wheel; {advice}")
        hashes = []
        for archive in archives:
            given = archive.get("hashes")
            if not isinstance(given, dict) or not given:
                raise document.error(at, f"'{name}' has no hash; expected hashes = {{ sha256 = \"...\" }}")
            hashes += sorted(f"{kind}:{value}" for kind, value in given.items())
        version = str(package.get("version", ""))
        pin = Pin(canonical(name), version, document.location(at))
        yield pin, json.dumps([pin.name, version, str(package.get("marker", "")), sorted(hashes)])


def _tables(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
