"""Dynamic dimensions for torch.export, and their names in the exported program."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.export import Dim

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import DeclaredInput, DynamicDimension

_DIM = re.compile(r"(?P<name>\w+) = Dim\('\w+'(?:, min=(?P<min>\d+))?(?:, max=(?P<max>\d+))?\)\Z")
_DEPENDENT = re.compile(r"(?P<name>\w+) = (?P<size>.*[A-Za-z_].*)\Z")
_CONSTANT = re.compile(r"\w+ = \d+\Z")
_NAMED = re.compile(r"(\w+) = (L\[\S+\.size\(\)\[\d+\])")
_SOURCE = re.compile(r"L\['(\w+)'\]\S*?\.size\(\)\[(\d+)\]")
_LEAST = 2  # torch omits this minimum


def dynamic_shapes(
    inputs: Sequence[DeclaredInput], examples: Sequence[torch.Tensor], dynamic: Mapping[str, DynamicDimension]
) -> torch.export.ShapesCollection | None:
    """Return the dynamic dimensions of example inputs for torch.export; None if there are none."""
    if not dynamic:
        return None
    dims = {name: _dim(name, dynamic) for name in dynamic}
    shapes = torch.export.ShapesCollection()
    for each, example in zip(inputs, examples, strict=True):
        shapes[example] = {axis: dims[size] for axis, size in enumerate(each["shape"] or ()) if isinstance(size, str)}
    return shapes


def _dim(name: str, dynamic: Mapping[str, DynamicDimension]) -> Any:
    """Return a dimension. torch.export has no sums of dimensions: it finds their relation in the model."""
    each = dynamic[name]
    terms = each.get("terms", {})
    if each.get("auto") or any(dynamic[other].get("auto") for other in terms):
        return Dim.AUTO(min=each["min"], max=each["max"])
    if len(terms) > 1:
        return Dim.DYNAMIC(min=each["min"], max=each["max"])
    if not terms:
        return Dim(name, min=each["min"], max=each["max"])
    ((other, factor),) = terms.items()
    whole = _dim(other, dynamic)
    multiple = whole * factor if factor > 1 else whole
    return multiple + each["plus"] if each.get("plus") else multiple


def names_of_symbols(
    declared: Sequence[Sequence[int | str]], found: Sequence[Sequence[Any]], dynamic: Mapping[str, DynamicDimension]
) -> dict[str, str]:
    """Return the declared name, or an expression of it, for each symbol in the shapes of a program's inputs."""
    names: dict[str, str] = {}
    derived: list[tuple[str, Any]] = []
    for shape, sizes in zip(declared, found, strict=True):
        for name, size in zip(shape, sizes, strict=True):
            if not isinstance(name, str) or isinstance(size, int):
                continue
            if size.node.expr.is_Symbol:
                names.setdefault(str(size), name)
            else:
                derived.append((name, size.node.expr))
    for name, expr in derived:
        unknown = [symbol for symbol in expr.free_symbols if str(symbol) not in names]
        if len(unknown) == 1:
            names[str(unknown[0])] = _solved(name, expr, unknown[0], dynamic)
    return names


def _solved(name: str, expr: Any, symbol: Any, dynamic: Mapping[str, DynamicDimension]) -> str:
    """Return the size of a symbol in terms of the dimension `name`, whose size is `expr`."""
    factor = expr.coeff(symbol)
    rest = expr - factor * symbol
    terms = dynamic[name].get("terms", {})
    if list(terms.values()) == [factor] and rest == dynamic[name].get("plus", 0):
        return next(iter(terms))
    return f"({name} - {rest})//{factor}" if rest else f"{name}//{factor}"


def constraint(text: str) -> str:
    """Return the first constraint in a message of torch.export, with the names of dimensions: `n` for `n =
    L['x'].size()[0]`, and `dimension 0 of 'x'` for an unnamed dimension."""
    first = next((line[4:] for line in text.splitlines() if line.startswith("  - ")), text)
    sentence = first.partition(". ")[0].rstrip(".")
    for name, source in _NAMED.findall(sentence):
        sentence = sentence.replace(f"{name} = {source}", name).replace(source, name)
    return _SOURCE.sub(lambda found: f"dimension {found[2]} of '{found[1]}'", sentence)


def suggested(fixes: str) -> str:
    """Return torch.export's suggested dimensions as a BUILD file has them: `n = "2*n2"`; '' if it has no names for
    them."""
    lines = []
    for line in fixes.splitlines():
        if found := _DIM.match(line.strip()):
            bounds = f"min = {found['min'] or _LEAST}" + (f", max = {found['max']}" if found["max"] else "")
            lines.append(f"{found['name']} = {{ {bounds} }}")
        elif found := _DEPENDENT.match(line.strip()):
            lines.append(f'{found["name"]} = "{found["size"]}"')
        elif _CONSTANT.match(line.strip()):
            lines.append(line.strip())
        else:
            return ""
    return ", ".join(lines)
