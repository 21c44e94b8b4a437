"""Write the arguments of the operators that the runtime has kernels for, from the schemas in the installed packages: a
header for the C++ reader, which checks the calls of a program.

python tools/operator_schema.py           write the file
python tools/operator_schema.py --check   exit with 1 if it differs
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[1]
CPP = REPOSITORY / "runtime/src/pte/operators.hpp"

# The lists of ExecuTorch's kernels, in its package's folder `kernels`.
LISTS = ("portable/functions.yaml", "portable/custom_ops.yaml", "portable/et_copy_ops.yaml", "quantized/quantized.yaml")

# Kernels of libexecutorch, which no list names: the arguments, with the last one as the result.
BUILT_IN = {
    **{f"executorch_prim::{name}.Scalar": "SSR" for name in ("add", "sub", "mul", "floordiv", "truediv", "mod")},
    **{f"executorch_prim::{name}.Scalar": "SSR" for name in ("eq", "gt", "lt", "ge", "le", "sym_max", "sym_min")},
    **{f"executorch_prim::{name}.Scalar": "SR" for name in ("neg", "ceil", "round", "trunc", "sym_float", "sym_int")},
    **{"executorch_prim::sym_not.Scalar": "SR", "executorch_prim::sym_ite.Scalar": "SSSR"},
    **{f"executorch_prim::{name}.int": "SSR" for name in ("floordiv", "mod")},
    **{"aten::sym_size.int": "TIR", "aten::_local_scalar_dense": "TR", "aten::sym_numel": "TR"},
    **{"executorch_prim::et_copy_index.tensor": "WTI", "executorch_prim::et_view.default": "TLV"},
}

_ARGUMENT = re.compile(r"(?:^|, )(\w+)(\(\w!\))?(\??)((?:\[\d*\])?)(\??) \w+")
_ENTRY = re.compile(r"^- (op|func): (.+?)\s*$", re.MULTILINE)
_SCALARS = {"int": "I", "SymInt": "I", "ScalarType": "I", "MemoryFormat": "I", "Layout": "I", "Device": "I"}
_SCALARS |= {"bool": "B", "float": "D", "Scalar": "S", "str": "N", "Tensor": "T"}
_LISTS = {"I": "L", "B": "O", "D": "F", "T": "A", "S": "X"}


def signature(schema: str) -> str:
    """Return a letter for each argument of a kernel: T tensor, W written tensor, I int, B bool, D double, S number, N
    string, and of lists L ints, O bools, F doubles, A tensors, Y written tensors. A small letter is optional. The last
    letter is R, for the value that a kernel without an `out` returns, or K for an `out` again."""
    arguments, _, returns = schema.partition("(")[2].rpartition(") -> ")
    letters = ""
    for kind, written, of_items, items, optional in _ARGUMENT.findall(arguments.replace("*, ", "")):
        letter = _SCALARS[kind]
        if items:
            letter = "Y" if written else _LISTS[letter]
            letter = "P" if of_items else letter
        elif written:
            letter = "W"
        letters += letter.lower() if optional or (of_items and not items) else letter
    return letters + ("K" if "W" in letters or "Y" in letters or returns == "()" else "R")


def schemas() -> dict[str, str]:
    """Return the schema of each operator, by its name in a program."""
    spec = find_spec("executorch")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("executorch is not installed")
    folder = Path(spec.submodule_search_locations[0]) / "kernels"
    found = {}
    names: set[str] = set()
    for key, value in (each for name in LISTS for each in _ENTRY.findall((folder / name).read_text())):
        if key == "func":
            name = value.partition("(")[0]
            found[name if "::" in name else f"aten::{name}"] = value
        else:
            names.add(f"aten::{value}")
    return found | {name: schema for name in sorted(names | _own()) if (schema := _schema(name))}


def _own() -> Iterable[str]:
    """Define the operators of modelbuild's own kernels, and return their names."""
    from modelbuild_rules.kernels.steps.builtin import OPERATORS
    from modelbuild_rules.operators.steps import detection_operators, lowered_operators

    detection_operators.register()
    lowered_operators.register()
    return OPERATORS


def _schema(name: str) -> str:
    import torch

    namespace, _, rest = name.partition("::")
    operator, _, overload = rest.partition(".")
    found: Any = getattr(getattr(torch.ops, namespace), operator, None)
    found = found and getattr(found, overload or "default", None)
    return str(found._schema) if found else ""


def cpp_header() -> str:
    signatures = BUILT_IN | {name: signature(schema) for name, schema in schemas().items()}
    lines = [
        "// The arguments of the operators that the runtime has kernels for, sorted by name. Written by",
        "// tools/operator_schema.py, which explains the letters.",
        "#pragma once",
        "",
        "#include <array>",
        "#include <string_view>",
        "#include <utility>",
        "",
        "namespace modelbuild {",
        "",
        "inline constexpr std::array<std::pair<std::string_view, std::string_view>,"
        f" {len(signatures)}> kOperators = {{{{",
        *(f'{{"{name}", "{letters}"}},' for name, letters in sorted(signatures.items())),
        "}};",
        "",
        "}  // namespace modelbuild",
    ]
    command = [str(Path(sys.executable).with_name("clang-format")), f"--assume-filename={CPP}"]
    text = "".join(f"{line}\n" for line in lines)
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=REPOSITORY).stdout


def main() -> None:
    text = cpp_header()
    if not CPP.exists() or CPP.read_text() != text:
        if "--check" in sys.argv[1:]:
            sys.exit(f"{CPP.relative_to(REPOSITORY)} differs")
        CPP.write_text(text)


if __name__ == "__main__":
    main()
