"""Make the environment of a toolchain in the cache, once, and return its Python."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from modelbuild.code.interpreter import Interpreter
from modelbuild.errors import EnvironmentProblem
from modelbuild.store import environments
from modelbuild.store.environments import Environment, make_read_only, mark_used, read_environment
from modelbuild.store.files import make_folder, remove
from modelbuild.store.local import open_store
from modelbuild.store.lock import exclusive
from modelbuild.store.problems import explained
from modelbuild.toolchain.lock_file import Lock
from modelbuild.toolchain.pythons import BasePython, ask
from modelbuild.toolchain.uv import UvFailed, explain, run_uv
from modelbuild.wording import count, size_text

# Version of the manifest, and of the way in which environments are made.
_FORMAT = 1

_VENV = ("--no-project", "--relocatable", "--allow-existing", "--no-python-downloads")
_INSTALL = ("--no-deps", "--require-hashes", "--only-binary=:all:", "--compile-bytecode", "--preview-features=pylock")

# Digits (hex) of the name of an environment's folder.
_DIGITS = 32


@dataclass(frozen=True, slots=True)
class Wanted:
    """An environment: the label of its toolchain, its lock file, the Python to make it with, and the canonical names of
    the distributions that may be built from source."""

    label: str
    lock: Lock
    python: BasePython
    from_source: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the name of its folder: a digest of everything that decides its contents."""
        python = [self.python.program, self.python.version, self.python.platform]
        text = json.dumps([_FORMAT, self.lock.digest, sorted(self.from_source), python])
        return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def make(wanted: Wanted, root: Path, cache: Path, say: Callable[[str], object] = lambda text: None) -> Interpreter:
    """Return the Python of an environment, which is made if the cache lacks it. Other builds that need it wait. An
    environment appears complete or not at all.

    root   the workspace, in which uv reads its configuration
    say    called with lines about the progress

    Raises EnvironmentProblem.
    """
    folder = cache / environments.FOLDER / wanted.name
    found = _ready(folder)
    if found is None:
        with open_store(cache), explained(cache):  # no environment is evicted meanwhile
            top = folder.parent
            make_folder(cache, top)
            with exclusive(top / f"{wanted.name}{environments.LOCK}", top):
                found = _ready(folder) or _install(wanted, root, cache, folder, say)
    mark_used(found)
    return _interpreter(found, wanted)


def find(wanted: Wanted, cache: Path) -> Environment | None:
    """Return an environment if the cache has it, without marking it as used."""
    return _ready(cache / environments.FOLDER / wanted.name)


def check_there(interpreter: Interpreter) -> None:
    """Raise EnvironmentProblem if the environment of a toolchain's Python no longer exists."""
    if _ready(Path(interpreter.prefix)) is None:
        raise EnvironmentProblem(f"{interpreter.toolchain} was removed from the cache after it was made; build again")


def _ready(folder: Path) -> Environment | None:
    found = read_environment(folder)
    if found is None or (found.facts.get("format"), found.facts.get("prefix")) != (_FORMAT, str(folder)):
        return None
    return found if os.access(folder / "bin/python", os.X_OK) else None


def _install(wanted: Wanted, root: Path, cache: Path, folder: Path, say: Callable[[str], object]) -> Environment:
    """Make an environment next to its final folder, and rename it. The caller holds its lock."""
    for old in (folder, *folder.parent.glob(f"{folder.name}-*{environments.PARTIAL}")):
        remove(str(old))
    packages = count(wanted.lock.packages, "package")
    say(f"making {wanted.label}: {packages} of {wanted.lock.path} for Python {wanted.python.version}")
    began = time.monotonic()
    partial = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", suffix=environments.PARTIAL, dir=folder.parent))
    try:
        _run_uv(wanted, root, cache, partial)
        size = _describe(partial, folder)
        make_read_only(partial)
        os.rename(partial, folder)
    except BaseException:
        with suppress(OSError):
            remove(str(partial))
        raise
    say(f"made {wanted.label} in {time.monotonic() - began:.1f} s: {size_text(size)}")
    found = _ready(folder)
    if found is None:
        raise EnvironmentProblem(f"{folder} was removed while it was made; build again")
    return found


def _run_uv(wanted: Wanted, root: Path, cache: Path, partial: Path) -> None:
    program = str(partial / "bin/python")
    sources = [f"--no-binary={name}" for name in wanted.from_source]
    try:
        run_uv(["venv", "--quiet", *_VENV, "--python", wanted.python.program, str(partial)], root)
        run_uv(["pip", "install", *_INSTALL, *sources, "--python", program, "--requirements", wanted.lock.path], root)
    except UvFailed as error:
        raise explain(str(error), wanted.lock, cache, wanted.python.version, wanted.python.platform) from None


def _describe(partial: Path, folder: Path) -> int:
    """Write the manifest of an environment that will be at `folder`. Returns the bytes of its files."""
    facts = ask(str(partial / "bin/python"), str(folder))
    size = sum(os.lstat(f"{top}/{name}").st_size for top, _, files in os.walk(partial) for name in files)
    manifest = {
        "format": _FORMAT,
        "bytes": size,
        "prefix": str(folder),
        "base_prefix": facts["base_prefix"],
        "version": facts["version"],
        "path": [entry.replace(str(partial), str(folder), 1) for entry in facts["path"]],
        "suffixes": facts["suffixes"],
        "stdlib": facts["stdlib"],
        "markers": facts["markers"],
    }
    (partial / environments.MANIFEST).write_text(json.dumps(manifest))
    return size


def _interpreter(found: Environment, wanted: Wanted) -> Interpreter:
    facts = found.facts
    return Interpreter(
        program=str(found.folder / "bin/python"),
        prefix=str(found.folder),
        base_prefix=facts["base_prefix"],
        version=facts["version"],
        path=tuple(facts["path"]),
        suffixes=tuple(facts["suffixes"]),
        stdlib=frozenset(facts["stdlib"]),
        markers=facts["markers"],
        toolchain=wanted.label,
        lock=wanted.lock.path,
    )
