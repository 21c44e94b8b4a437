"""Parse Python expressions in attributes, without evaluating them."""

from __future__ import annotations

import ast
import warnings

_LONGEST = 10_000


def parse_expression(text: str) -> ast.expr:
    """Return the syntax tree of an expression. Raises ValueError with the reason for any other text."""
    if len(text) > _LONGEST:
        raise ValueError(f"more than {_LONGEST} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # SyntaxWarnings about dubious literals, such as 1if
            return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ValueError(error.msg) from None
    except (MemoryError, RecursionError):
        raise ValueError("nested too deep") from None
