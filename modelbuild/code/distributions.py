"""Installed distributions: versions, requirements, and the files listed in their RECORD."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from email.message import Message
    from importlib import metadata

# A distribution's name and the wanted extras.
Wanted = tuple[str, frozenset[str]]

# In RECORD: folder, name and size of a module or a native library.
_CODE = re.compile(r'\n(?:([^\n,"]*)/)?([^\n,"/]+\.(?:py|so|so\.[^\n,"/]*)),sha[^\n,]*,(\d+)')

# A requirement of an extra only.
_ONLY_EXTRA = re.compile(r";\s*extra\s*==\s*['\"]([^'\"]*)['\"]\s*$")


def canonical(name: str) -> str:
    """Return a distribution's name as PyPA normalizes it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parse(requirement: str) -> Wanted:
    """Parse a text such as `name[extra]`."""
    name, _, extras = requirement.partition("[")
    return canonical(name.strip()), frozenset(canonical(e.strip()) for e in extras.rstrip("] ").split(",") if e.strip())


class Distribution:
    """One installed distribution. Paths of its files are relative to `folder`; `markers` are its Python's markers,
    unless it is the Python of this process (see Interpreter)."""

    def __init__(self, found: metadata.Distribution, markers: Mapping[str, str] | None = None) -> None:
        self._found = found
        self._markers = markers
        self._required: dict[frozenset[str], tuple[Wanted, ...]] = {}
        self.folder = str(found.locate_file(""))

    @cached_property
    def _metadata(self) -> Message:
        from email import message_from_string

        text = self._found.read_text("METADATA") or self._found.read_text("PKG-INFO") or self._found.read_text("") or ""
        return message_from_string(text.partition("\n\n")[0])  # without the description, most of it

    @property
    def name(self) -> str:
        return canonical(self._metadata["Name"])

    @property
    def extras(self) -> list[str]:
        return [canonical(name) for name in self._metadata.get_all("Provides-Extra") or ()]

    @property
    def version(self) -> str:
        return str(self._metadata["Version"])

    @cached_property
    def record(self) -> str:
        """The text of RECORD; '' if there is none. It begins with a line break, so that each line follows one."""
        return "\n" + (self._found.read_text("RECORD") or "").replace("\r\n", "\n")

    @cached_property
    def record_file(self) -> str | None:
        """The path of RECORD; None if there is no RECORD, and therefore no digests."""
        match = re.search(r"\n([^\n,]+\.dist-info/RECORD),", self.record)
        return os.path.join(self.folder, match[1]) if match else None

    @cached_property
    def project(self) -> str | None:
        """The source folder of an editable install; None for any other distribution."""
        url = json.loads(self._found.read_text("direct_url.json") or "{}")
        if url.get("dir_info", {}).get("editable"):
            from urllib.parse import unquote, urlsplit

            return unquote(urlsplit(url["url"]).path)
        return None

    @property
    def has_record(self) -> bool:
        """Return whether RECORD describes the content of its modules. False for an editable install, and without a
        RECORD, as with `setup.py develop` and Linux distributions."""
        return self.project is None and self.record_file is not None

    @property
    def modules(self) -> Sequence[str]:
        """The top-level modules that an editable distribution lists; if it lists none, a module with its own name."""
        listed = (self._found.read_text("top_level.txt") or "").split()
        return listed or [self.name.replace("-", "_")]

    def records(self, path: str, digest: str = "sha") -> bool:
        """Return whether RECORD has a digest for a file (the given one, `sha256=...`, if any); or, for a path that ends
        in '/', for any file below it."""
        return f"\n{path}" in self.record if path.endswith("/") else f"\n{path},{digest}" in self.record

    @property
    def contents(self) -> list[str]:
        """The lines of RECORD (path, digest, size), sorted, except for the distribution's metadata and for files
        outside the folder, such as scripts, whose first lines contain Python's path."""
        own = os.path.basename(os.path.dirname(self.record_file or "")) + "/"
        lines = (line for line in self.record.split("\n") if ",sha" in line)
        return sorted(line for line in lines if not line.startswith(("..", "/", own)))

    @property
    def code(self) -> Mapping[str, Mapping[str, int]]:
        """Sizes of the modules and native libraries in RECORD, by folder ('' is the distribution's own) and name."""
        found: dict[str, dict[str, int]] = {}
        for folder, name, size in _CODE.findall(self.record):
            if not folder.startswith(".."):
                found.setdefault(folder, {})[name] = int(size)
        return found

    @property
    def packages(self) -> list[str]:
        """The top-level packages in RECORD; for an editable install, the packages in `source`."""
        if self.project is not None:
            return sorted(
                each for each in os.listdir(self.source) if os.path.isfile(f"{self.source}/{each}/__init__.py")
            )
        return [folder for folder, files in self.code.items() if folder.isidentifier() and "__init__.py" in files]

    @cached_property
    def source(self) -> str:
        """The folder of its packages; for an editable install, the folder in its .pth file, if it has such a file."""
        name = re.search(r"\n([^\n,/]+\.pth),", self.record) if self.project is not None else None
        lines = (self._found.read_text(f"../{name[1]}") or "").split() if name is not None else []
        return lines[0] if len(lines) == 1 else self.folder

    def requires(self, extras: frozenset[str]) -> tuple[Wanted, ...]:
        """Return its requirements on this machine, with the wanted extras."""
        if extras not in self._required:
            self._required[extras] = tuple(self._read_requirements(extras))
        return self._required[extras]

    def _read_requirements(self, extras: frozenset[str]) -> Iterator[Wanted]:
        from packaging.requirements import Requirement

        lines = self._metadata.get_all("Requires-Dist") if self.record_file is not None else self._found.requires
        for line in lines or ():
            extra = _ONLY_EXTRA.search(line)
            if extra is not None and canonical(extra[1]) not in extras:  # skips most lines unparsed
                continue
            requirement = Requirement(line)
            marker = requirement.marker
            given = self._markers or {}
            if marker is None or any(marker.evaluate({**given, "extra": extra}) for extra in extras or ("",)):
                yield canonical(requirement.name), frozenset(map(canonical, requirement.extras))


class Distributions:
    """The distributions in some folders. The first distribution with a name hides others. `markers`: see Distribution.
    `beside`: the distributions that find() returns if these folders lack them."""

    def __init__(
        self, path: Sequence[str], markers: Mapping[str, str] | None = None, beside: Distributions | None = None
    ) -> None:
        self.path = tuple(path)
        self._markers = markers
        self._beside = beside
        self._by_name: dict[str, Distribution | None] = {}
        self._by_folder: Mapping[str, list[Distribution]] = {}
        self._projects: list[Distribution] | None = None

    def find(self, name: str) -> Distribution | None:
        """Return the distribution of a canonical name."""
        if name not in self._by_name:
            found = next(self._discover(name=name), None)
            self._by_name[name] = self._beside.find(name) if found is None and self._beside is not None else found
        return self._by_name[name]

    def is_beside(self, name: str) -> bool:
        """Return whether find() takes the distribution with this name from `beside`."""
        found = self.find(name)
        return found is not None and self._beside is not None and found is self._beside.find(name)

    def all(self) -> Iterator[Distribution]:
        """Yield each distribution once."""
        for folder in dict.fromkeys(self.path):
            yield from self.in_folder(folder)

    def projects(self) -> list[Distribution]:
        """Return the distributions installed in editable mode."""
        if self._projects is None:
            self._projects = [each for each in self.all() if each.project is not None]
        return self._projects

    def in_folder(self, folder: str) -> list[Distribution]:
        """Return the distributions with files in a folder."""
        if not self._by_folder:
            found: dict[str, list[Distribution]] = {}
            for each in self._discover():
                found.setdefault(each.folder, []).append(each)
            self._by_folder = found
        return self._by_folder.get(folder, [])

    def _discover(self, name: str | None = None) -> Iterator[Distribution]:
        from importlib import metadata  # most builds need no distribution

        # Not all finders of this process: in a worker, these hide distributions.
        found = PathFinder.find_distributions(metadata.DistributionFinder.Context(name=name, path=list(self.path)))
        return (Distribution(each, self._markers) for each in found)
