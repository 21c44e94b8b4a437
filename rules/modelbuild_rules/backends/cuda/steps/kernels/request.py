"""A request to compile a Triton kernel: everything that decides its code, and nothing of the program that needs it.

Inductor numbers its kernels, and writes to their decorators what it knows of the program. A request has neither, so
equal kernels of all programs are compiled once.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

_NUMBERED = re.compile(r"(triton_\w+?)_\d+\Z")
_DRIVER = "triton_helpers.set_driver_to_gpu()"

Pairs = list[list[Any]]
"""A dictionary whose keys are places of arguments, as pairs of a list and a value."""


@dataclass(frozen=True)
class Request:
    """A request, in JSON values.

    name        of the function
    source      Python source of a module that defines it
    signature   the types of its arguments by name; "constexpr" for constants
    constants   the values of arguments
    attributes  what is known of arguments, such as alignment
    options     of Triton's compiler, such as num_warps
    capability  as 86
    products    Triton's precision of float32 products that state none (compiler.py)
    """

    name: str
    source: str
    signature: Mapping[str, str]
    constants: Pairs
    attributes: Pairs
    options: Mapping[str, Any]
    capability: int
    products: str | None

    @cached_property
    def key(self) -> str:
        """The digest of the request."""
        return hashlib.sha256(self.text().encode()).hexdigest()

    def text(self) -> str:
        """Return the request as JSON."""
        return json.dumps(asdict(self), indent=1)


def read_request(text: str) -> Request:
    """Return a request from its JSON."""
    return Request(**json.loads(text))


def of(source: Any, options: Mapping[str, Any], capability: int, products: str | None) -> Request:
    """Return the request for a kernel (triton.compiler.ASTSource). Raises TypeError for constants that JSON cannot
    represent."""
    name, text = _without_program(source.fn)
    constants = [[list(place), value] for place, value in sorted(source.constants.items())]
    attributes = [[list(place), value] for place, value in sorted(source.attrs.items())]
    signature = {name: str(kind) for name, kind in source.signature.items()}
    made = Request(name, text, signature, constants, attributes, dict(options), capability, products)
    made.text()
    return made


def _without_program(function: Any) -> tuple[str, str]:
    """Return the name of a function (a JITFunction) without its number, and its module without the function's other
    decorators. Line numbers stay."""
    text, name = Path(function.fn.__code__.co_filename).read_text(), function.fn.__name__
    lines = text.splitlines()
    (defined,) = (each for each in ast.parse(text).body if isinstance(each, ast.FunctionDef) and each.name == name)
    for each in defined.decorator_list:
        if ast.unparse(each) != "triton.jit":
            lines[each.lineno - 1 : each.end_lineno] = [""] * ((each.end_lineno or each.lineno) - each.lineno + 1)
    short = _NUMBERED.sub(r"\1", name)
    if not re.search(rf"\b{short}\b", text):
        lines[defined.lineno - 1] = lines[defined.lineno - 1].replace(f"def {name}(", f"def {short}(", 1)
        name = short
    return name, "\n".join(lines).replace(_DRIVER, "") + "\n"
