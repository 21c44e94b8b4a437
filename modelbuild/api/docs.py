"""Descriptions of attributes, read from a schema's source: the string after each attribute."""

from __future__ import annotations

import ast
import inspect
import textwrap


def attribute_docs(schema: type) -> dict[str, str]:
    """Return the docstrings of a class's attributes by attribute; empty if the source cannot be read."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(schema)))
    except (OSError, TypeError, SyntaxError):
        return {}
    (declared,) = tree.body
    assert isinstance(declared, ast.ClassDef)
    found: dict[str, str] = {}
    for attribute, text in zip(declared.body, declared.body[1:], strict=False):
        match attribute, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(doc))):
                found[name] = inspect.cleandoc(doc)
    return found
