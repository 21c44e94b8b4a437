"""Symbolic sizes of a serialized program: expressions as JSON, symbols under canonical names, read into a new ShapeEnv.

Private names used, checked on torch 2.14.0: torch.fx.experimental.symbolic_shapes (ShapeEnv with its backed_var_to_val,
var_to_range, unbacked_symint_counter, unbacked_symfloat_counter, constrain_symbol_range, add_backed_var_to_val,
create_symintnode, create_symfloatnode, create_symboolnode; _free_unbacked_symbols_with_path),
torch.utils._sympy.functions, torch.utils._sympy.numbers.int_oo, torch.utils._sympy.symbol (SymT, prefix_str,
symbol_is_type), torch.utils._sympy.value_ranges.ValueRanges, and torch.SymInt.node (expr, shape_env). None is patched.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv, _free_unbacked_symbols_with_path
from torch.utils._sympy import functions as torch_functions
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.symbol import SymT, prefix_str, symbol_is_type
from torch.utils._sympy.value_ranges import ValueRanges

Json = Any
SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_KINDS = (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT, SymT.FLOAT)
_UNBACKED = (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT)
_COMMUTATIVE = {"Add", "Mul", "And", "Or", "Max", "Min", "torch.Max", "torch.Min"}


class SymbolWriter:
    """Write symbolic numbers as JSON. Symbols are named by kind and order of first appearance: s0, s1, u0, ..."""

    def __init__(self, range_constraints: Mapping[Any, Any]) -> None:
        self._ranges = range_constraints
        self._names: dict[Any, str] = {}
        self._count: dict[str, int] = {}
        self.table: list[Json] = []

    def write(self, number: Any) -> Json:
        """Return the expression of a SymInt, SymFloat or SymBool as JSON (see `_expression`)."""
        return self._expression(number.node.expr, number.node.shape_env)

    def _expression(self, expr: Any, env: Any) -> Json:
        """Return an expression as JSON: a symbol is its name, a function a list of its name and arguments."""
        if isinstance(expr, sympy.Symbol):
            return self._name(expr, env)
        if isinstance(expr, sympy.Integer):
            return int(expr)
        if isinstance(expr, sympy.Rational):
            return ["Rational", int(expr.p), int(expr.q)]
        if isinstance(expr, sympy.Float):
            return ["Float", float(expr).hex()]
        if isinstance(expr, (sympy.logic.boolalg.BooleanTrue, sympy.logic.boolalg.BooleanFalse)):
            return bool(expr)
        name = _class_name(type(expr))
        arguments = [self._expression(a, env) for a in expr.args]
        if name in _COMMUTATIVE:
            arguments.sort(key=json.dumps)
        return [name, *arguments]

    def _name(self, symbol: Any, env: Any) -> str:
        if symbol in self._names:
            return self._names[symbol]
        prefix = next((prefix_str[kind] for kind in _KINDS if symbol_is_type(symbol, kind)), "s")
        number = self._count.get(prefix, 0)
        self._count[prefix] = number + 1
        name = self._names[symbol] = f"{prefix}{number}"
        bounds = self._ranges.get(symbol) or env.var_to_range.get(symbol)
        hint = env.backed_var_to_val.get(symbol)
        self.table.append(
            {
                "name": name,
                "min": _bound(bounds.lower) if bounds else None,
                "max": _bound(bounds.upper) if bounds else None,
                "hint": None if hint is None else self._expression(hint, env),
                "integer": bool(symbol.is_integer),
                "positive": bool(symbol.is_positive),
            }
        )
        return name


class SymbolReader:
    """Read symbolic numbers from JSON into one new ShapeEnv."""

    def __init__(self, table: list[Json]) -> None:
        self.env = ShapeEnv(assume_static_by_default=True)
        self.range_constraints: dict[Any, Any] = {}
        self._symbols: dict[str, Any] = {}
        self._unbound: set[Any] = set()
        for entry in table:
            self._declare(entry)

    def _declare(self, entry: Json) -> None:
        name = entry["name"]
        assumptions = {"integer": True} if entry["integer"] else {"real": True}
        if entry["positive"]:
            assumptions["positive"] = True
        symbol = self._symbols[name] = sympy.Symbol(name, **assumptions)
        lower = -int_oo if entry["min"] is None else self._expression(entry["min"])
        upper = int_oo if entry["max"] is None else self._expression(entry["max"])
        if entry["integer"]:
            self.env.constrain_symbol_range(symbol, compiler_min=lower, compiler_max=upper)
            self.range_constraints[symbol] = ValueRanges(lower, upper)
        if entry["hint"] is not None:
            self.env.add_backed_var_to_val(symbol, self._expression(entry["hint"]))
        if any(symbol_is_type(symbol, kind) for kind in _UNBACKED):
            self._unbound.add(symbol)
            if symbol_is_type(symbol, SymT.UNBACKED_INT):
                self.env.unbacked_symint_counter += 1
            else:
                self.env.unbacked_symfloat_counter += 1
                self.env.var_to_range[symbol] = ValueRanges.unknown()

    def integer(self, expression: Json) -> Any:
        return self.env.create_symintnode(self._expression(expression), hint=None)

    def float(self, expression: Json) -> Any:
        return self.env.create_symfloatnode(self._expression(expression), hint=None)

    def boolean(self, expression: Json) -> Any:
        return self.env.create_symboolnode(self._expression(expression))

    def bindings(self, value: Any) -> dict[Any, Any]:
        """Return the symbols that this node's result binds first, with their paths in the result."""
        if not self._unbound:
            return {}
        found: dict[Any, Any] = _free_unbacked_symbols_with_path(
            value, (), shape_env=self.env, pending=self._unbound, simplify=True
        )
        return found

    def _expression(self, written: Json) -> Any:
        if isinstance(written, str):
            return self._symbols[written]
        if isinstance(written, bool):
            return sympy.true if written else sympy.false
        if isinstance(written, int):
            return sympy.Integer(written)
        name, *arguments = written
        if name == "Rational":
            return sympy.Rational(*arguments)
        if name == "Float":
            return sympy.Float(float.fromhex(arguments[0]))
        return _class(name)(*(self._expression(a) for a in arguments))


def _bound(value: Any) -> Json:
    """Return a bound of an integer's range; None if it is unbounded."""
    return int(value) if isinstance(value, (int, sympy.Integer)) else None


def _class_name(cls: type) -> str:
    name = f"torch.{cls.__name__}" if cls.__module__ == torch_functions.__name__ else cls.__name__
    if _find(name) is not cls:
        raise ValueError(f"a size is computed with {cls.__module__}.{cls.__name__}, which the program format lacks")
    return name


def _class(name: str) -> Any:
    cls = _find(name)
    if cls is None:
        raise ValueError(f"'{name}' is not a function of sizes")
    return cls


def _find(name: str) -> Any:
    """Return the sympy class of a name; torch's own functions are written `torch.Name`."""
    here, name = (torch_functions, name.removeprefix("torch.")) if name.startswith("torch.") else (sympy, name)
    cls = getattr(here, name, None)
    return cls if isinstance(cls, type) and issubclass(cls, sympy.Basic) else None
