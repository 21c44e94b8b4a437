"""Write the constants of ExecuTorch's files from the schemas in the installed executorch package: a module for the
Python reader and the linker, and headers for the C++ reader, one of them for the blobs of XNNPACK.

python tools/program_schema.py           write the files
python tools/program_schema.py --check   exit with 1 if one differs
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
PYTHON = REPOSITORY / "runtime/python/modelbuild_runtime/files/schema.py"
CPP = REPOSITORY / "runtime/src/pte/schema.hpp"
XNNPACK = REPOSITORY / "runtime/src/pte/xnnpack_schema.hpp"

# Files of the executorch package, and the start of the names of their tables here.
SOURCES = {"schema/program.fbs": "", "extension/flat_tensor/serialize/flat_tensor.fbs": "Ptd"}
XNNPACK_SOURCES = {"backends/xnnpack/serialization/runtime_schema.fbs": ""}
_ENUMS = "schema/scalar_type.fbs"

_SCALARS = {
    **{"bool": "bool", "byte": "int8", "ubyte": "uint8", "int": "int32", "uint": "uint32", "long": "int64"},
    **{
        "short": "int16",
        "ushort": "uint16",
        "float": "float32",
        "double": "float64",
        "int32": "int32",
        "int64": "int64",
        "uint8": "uint8",
        "uint32": "uint32",
    },
    "uint64": "uint64",
}
_COMMENT = re.compile(r"//.*")
_DECLARATION = re.compile(r"\b(table|enum|union)\s+(\w+)\s*(?::\s*(\w+)\s*)?\{([^}]*)\}")
_FIELD = re.compile(
    r"(\w+)\s*:\s*(\[?)\s*([\w.]+)\s*\]?\s*(?:=\s*(\w+)\s*)?(?:\(\s*(?:deprecated|force_align\s*:\s*(\d+))\s*\)\s*)?;"
)
_MEMBER = re.compile(r"(\w+)\s*(?::\s*(\w+)\s*)?(?:=\s*(\d+))?\s*(?:,|$)")


@dataclass(slots=True)
class Schema:
    """Members of enums and unions by name, with their numbers; fields of tables, with their types."""

    numbers: dict[str, dict[str, int]] = field(default_factory=dict)
    members: dict[str, list[str]] = field(default_factory=dict)  # the tables of each union
    tables: dict[str, dict[str, str]] = field(default_factory=dict)


def read_schema(package: Path, sources: Mapping[str, str] = SOURCES) -> Schema:
    found = Schema()
    types = dict(_SCALARS)
    for match in _declarations(package / _ENUMS):
        types[match[2]] = _SCALARS[match[3]]
    for source, start in sources.items():
        declared = list(_declarations(package / source))
        for kind, name, base, body in (match.groups() for match in declared):
            types[name] = types[base] if base else f"{kind} {start}{name}"
            if kind != "table":
                found.numbers[name] = _members(body, 0 if base else 1)
            if kind == "union":
                found.members[name] = [table or member for member, table, _ in _MEMBER.findall(body)]
        for kind, name, _, body in (match.groups() for match in declared):
            if kind == "table":
                found.tables[start + name] = _fields(body, types)
    return found


def _declarations(path: Path) -> list[re.Match[str]]:
    return list(_DECLARATION.finditer(_COMMENT.sub("", path.read_text())))


def _members(body: str, number: int) -> dict[str, int]:
    found = {}
    for name, _, given in _MEMBER.findall(body):
        found[name] = number = int(given or number)
        number += 1
    return found


def _fields(body: str, types: dict[str, str]) -> dict[str, str]:
    """Return the fields of a table in order, with their types: `int32`, `string`, `table Tensor`, `[table EValue]`,
    `[uint8];16` for an alignment of 16 bytes, `union KernelTypes` after the field of its number."""
    found = {}
    for name, vector, kind, default, alignment in _FIELD.findall(body):
        if default not in ("", "0", "CPU", "xnn_datatype_invalid"):
            raise SystemExit(f"field {name} has the default {default}; expected 0")
        type = "string" if kind == "string" else types[kind.rpartition(".")[2]]
        if type.startswith("union"):
            found[f"{name}_type"] = "uint8"
        found[name] = (f"[{type}]" if vector else type) + (f";{alignment}" if alignment else "")
    return found


def python_module(schema: Schema) -> str:
    lines = [
        '"""The fields of tables of a .pte and a .ptd, by their positions, and the members of enums and unions.',
        "",
        'Written by tools/program_schema.py."""',
        "",
        "from __future__ import annotations",
        "",
        "from modelbuild_runtime.files.flatbuffer import Field",
        "",
    ]
    for name, members in schema.numbers.items():
        lines += [f"class {name}:", *(f"    {member} = {number}" for member, number in members.items())]
    for name, fields in schema.tables.items():
        lines += [f"class {name}:", *([] if fields else ["    pass"])]
        for number, (each, type) in enumerate(fields.items()):
            kind, _, alignment = type.partition(";")
            lines += [f'    {each} = Field({number}, "{kind}"{alignment and f", {alignment}"})']
    return _formatted([sys.executable, "-m", "ruff", "format", "--stdin-filename", str(PYTHON), "-"], lines)


def cpp_header(schema: Schema, files: str = "a .pte and a .ptd", namespace: str = "schema") -> str:
    lines = [
        f"// The fields of tables of {files}, by their positions, and the members of enums and unions.",
        "// Written by tools/program_schema.py.",
        "#pragma once",
        "",
        *(["#include <array>", ""] if "XNodeUnion" in schema.members else []),
        f"namespace modelbuild::{namespace} {{",
        "",
    ]
    for name, members in schema.numbers.items():
        values = ", ".join(f"{_constant(member)} = {number}" for member, number in members.items())
        lines += [f"struct {name} {{ enum : int {{ {values} }}; }};"]
    for name, fields in schema.tables.items():
        if fields:
            lines += [f"struct {name.lstrip('_')} {{ enum : int {{ {', '.join(map(_constant, fields))} }}; }};"]
    if nodes := schema.members.get("XNodeUnion"):
        lines += _node_values([schema.tables[name] for name in nodes])
    lines += ["", f"}}  // namespace modelbuild::{namespace}"]
    clang_format = Path(sys.executable).with_name("clang-format")
    return _formatted([str(clang_format), f"--assume-filename={CPP}"], lines)


def _node_values(nodes: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the declaration of the fields that name the values of each kind of node."""
    found = []
    for fields in nodes:
        values = [(number, name) for number, name in enumerate(fields) if name.endswith("_id")]
        sides = ([n for n, name in values if name.startswith("output") is output] for output in (False, True))
        found.append([side + [-1] * (6 - len(side)) for side in sides])
    rows = ", ".join("{{" + ", ".join("{" + ", ".join(map(str, side)) + "}" for side in node) + "}}" for node in found)
    return [
        "// The fields with the values that a node reads, and those with the values that it writes, by the number of",
        "// its kind in XNodeUnion less 1; -1 fills the rest.",
        f"inline constexpr std::array<std::array<std::array<int, 6>, 2>, {len(found)}> kNodeValues = {{{{{rows}}}}};",
    ]


def _constant(name: str) -> str:
    """Return kExecutionPlan for execution_plan, and kInline for INLINE; a name in camel case stays."""
    if "_" not in name and not name.isupper():
        return f"k{name[0].upper()}{name[1:]}"
    return "k" + "".join(word.capitalize() for word in name.split("_"))


def _formatted(command: list[str], lines: list[str]) -> str:
    text = "".join(f"{line}\n" for line in lines)
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=REPOSITORY).stdout


def files() -> dict[Path, str]:
    """Return the text of each file."""
    spec = find_spec("executorch")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("executorch is not installed")
    package = Path(spec.submodule_search_locations[0])
    schema = read_schema(package)
    xnnpack = cpp_header(read_schema(package, XNNPACK_SOURCES), "a blob of XNNPACK", "schema::xnnpack")
    return {PYTHON: python_module(schema), CPP: cpp_header(schema), XNNPACK: xnnpack}


def main() -> None:
    stale = [path for path, text in files().items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv[1:]:
        sys.exit("\n".join(f"{path.relative_to(REPOSITORY)} differs" for path in stale) or 0)
    for path in stale:
        path.write_text(files()[path])
        print(f"{path.relative_to(REPOSITORY)}: of executorch {version('executorch')}")


if __name__ == "__main__":
    main()
