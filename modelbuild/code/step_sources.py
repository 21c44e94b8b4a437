"""A step's source, for its key: its module, and every module of modelbuild or of a rule package that it imports."""

from __future__ import annotations

import ast
import hashlib
import threading
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# CPython 3.11 counts the depth of a tree for all threads together, and fails when two threads parse at once.
_parsing = threading.Lock()

# The fields of statements that contain statements. Expressions, most of a tree, contain no import.
_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")


class StepCode:
    """Finds a step's modules by reading their import statements (also inside functions, but not under `if
    TYPE_CHECKING`). `roots` maps import names of rule packages, and `modelbuild`, to their folders."""

    def __init__(self, roots: Mapping[str, Path]) -> None:
        self.roots = dict(roots)
        self._closures: dict[tuple[str, ...], tuple[tuple[str, Path], ...]] = {}
        self._modules: dict[tuple[str, ...], dict[str, str]] = {}
        self._digests: dict[tuple[str, ...], str] = {}

    def closure(self, *modules: str) -> tuple[tuple[str, Path], ...]:
        """Return (import name, file) of modules and everything that they import, sorted by name. Raises KeyError for an
        unknown module."""
        if modules not in self._closures:
            for module in modules:
                if self._file(module) is None:
                    raise KeyError(module)
            found: dict[str, Path] = {}
            pending = list(modules)
            while pending:
                name = pending.pop()
                file = self._file(name)
                if name in found or file is None:
                    continue
                found[name] = file
                pending += _parents(name)
                pending += imports(file, name)
            self._closures[modules] = tuple(sorted(found.items()))
        return self._closures[modules]

    def digest(self, *modules: str) -> str:
        """Return the SHA-256 (hex) of the names and contents of the closure."""
        if modules not in self._digests:
            lines = [f"{name} {digest}\n" for name, digest in self.modules(*modules).items()]
            self._digests[modules] = hashlib.sha256("".join(lines).encode()).hexdigest()
        return self._digests[modules]

    def modules(self, *modules: str) -> Mapping[str, str]:
        """Return the SHA-256 (hex) of each module of the closure, by import name."""
        if modules not in self._modules:
            self._modules[modules] = {name: source(file).digest for name, file in self.closure(*modules)}
        return self._modules[modules]

    def _file(self, module: str) -> Path | None:
        return source_file(self.roots, module)


def source_file(roots: Mapping[str, Path], module: str) -> Path | None:
    """Return a module's file, by its import name and the folders of its possible packages."""
    top, *rest = module.split(".")
    if top not in roots:
        return None
    base = roots[top].joinpath(*rest)
    init = base / "__init__.py"
    if init.is_file():
        return init
    plain = base.with_name(base.name + ".py")
    return plain if rest and plain.is_file() else None


def _parents(module: str) -> Iterator[str]:
    while "." in module:
        module = module.rpartition(".")[0]
        yield module


@dataclass(frozen=True, slots=True)
class StepSource:
    """A Python file: the SHA-256 (hex) of its bytes, and their imports (see imported_names)."""

    digest: str
    imported: tuple[tuple[str, int], ...]


@cache
def source(file: Path) -> StepSource:
    """Read a file once per process, so that its key and its code agree. Raises SyntaxError and OSError."""
    data = file.read_bytes()
    return StepSource(hashlib.sha256(data).hexdigest(), tuple(imported_names(data)))


def changed(module: str) -> str:
    """Return the error for a module that differs from the module in the key."""
    return f"module {module} changed during the build; build again"


def imports(file: Path, module: str) -> list[str]:
    """Return every name that a file may import as a module; `from a import b` counts as `a` and `a.b`."""
    is_package = file.name == "__init__.py"
    return [_absolute(name, level, module, is_package) for name, level in source(file).imported]


def imported_names(source: bytes) -> list[tuple[str, int]]:
    """Return (dotted name, relative level) of every import in some Python source. Raises SyntaxError for anything
    else."""
    found: dict[tuple[str, int], None] = {}
    pending: list[ast.AST] = [parse(source)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            found.update(((alias.name, 0), None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            found[base, node.level] = None
            found.update(((f"{base}.{a.name}".lstrip("."), node.level), None) for a in node.names if a.name != "*")
        elif isinstance(node, ast.If) and any(map(_is_type_checking, ast.walk(node.test))):
            pending += node.orelse
        else:
            for block in _BLOCKS:
                pending += getattr(node, block, ())
    return list(found)


def parse(source: bytes) -> ast.Module:
    """Parse some Python source. Raises SyntaxError, with a line and column, for any error."""
    if b"\0" in source:
        before = source.partition(b"\0")[0]
        line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
        raise SyntaxError("source code cannot contain null bytes", ("", line, column, None))
    try:
        with _parsing, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as "\d": they do not contain the file's name
            return ast.parse(source)
    except (MemoryError, RecursionError, ValueError) as error:
        problem = str(error) if isinstance(error, ValueError) else "nested too deep"
        raise SyntaxError(problem, ("", 1, 1, None)) from None
    except SyntaxError as error:
        error.lineno, error.offset = error.lineno or 1, error.offset or 1
        raise


def _is_type_checking(node: ast.AST) -> bool:
    return (isinstance(node, ast.Name) and node.id == "TYPE_CHECKING") or (
        isinstance(node, ast.Attribute) and node.attr == "TYPE_CHECKING"
    )


def _absolute(name: str, level: int, module: str, is_package: bool) -> str:
    if level == 0:
        return name
    parts = module.split(".")
    base = parts[: len(parts) - level + (1 if is_package else 0)]
    return ".".join([*base, *([name] if name else [])])
