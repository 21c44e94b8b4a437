"""Validate raw attributes against a schema; an error is one line with a location."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from modelbuild.analysis.undeclared_reads import UndeclaredRead, refused_reads
from modelbuild.api.attrs import Attrs, Path
from modelbuild.errors import LoadingError, Location, did_you_mean
from modelbuild.workspace.workspace import BUILT_IN

# What pydantic expected, by the type of its error.
_WORDS = {
    "bool_type": "true or false",
    "dict_type": "a table",
    "float_type": "a number",
    "int_type": "an integer",
    "list_type": "an array",
    "model_type": "a table",
    "string_type": "a string",
    "tuple_type": "an array",
}
# Maximum number of attributes that an error about an unknown attribute lists.
_MOST = 20


def validate(
    rule: str, name: str, schema: type[Attrs], raw: Mapping[str, Any], locate: Callable[[Path], Location]
) -> Attrs:
    """Validate in JSON mode: TOML's lists fill tuples, nothing else is converted. Raises LoadingError."""
    try:
        text = json.dumps(raw, allow_nan=False)
    except (TypeError, ValueError):
        path = _not_json(raw)
        raise LoadingError(
            f"attribute '{_dotted(path)}': dates, times, inf and nan are not attribute values", locate(path)
        ) from None
    try:
        with refused_reads():
            return schema.model_validate_json(text)
    except UndeclaredRead:
        raise
    except ValidationError as error:
        details, path = _choose_error([(each, _path(raw, each)) for each in error.errors(include_url=False)], locate)
        raise LoadingError(_line(rule, name, schema, details, path), locate(path)) from None
    except Exception as error:  # a bug in a validator
        if _raised_in(error) == BUILT_IN:
            raise
        problem = f"{type(error).__name__}: {error}"
        raise LoadingError(f"the attributes of {rule} '{name}' cannot be checked: {problem}", locate(())) from error


def _raised_in(error: BaseException) -> str:
    """Return the top-level package of the innermost frame of an exception."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]


def _choose_error(
    found: list[tuple[ErrorDetails, Path]], locate: Callable[[Path], Location]
) -> tuple[ErrorDetails, Path]:
    """Return the error to report. An error inside a value precedes an error of the whole value, which may be only its
    consequence; a wrong value precedes a missing value. If branches of a union expected different types, the error
    lists all of them."""
    inner = [(e, path) for e, path in found if not any(other[: len(path)] == path != other for _, other in found)]
    # A union's branches of other types come last.
    details, path = min(inner, key=lambda e: (e[0]["type"] == "missing", locate(e[1]), e[0]["type"].endswith("_type")))
    if _is_plain(details):
        others = [_expected(e) for e, other in inner if other == path and _is_plain(e)]
        details["msg"] = " or ".join(dict.fromkeys(others))
    return details, path


def _not_json(value: object, path: Path = ()) -> Path:
    if isinstance(value, Mapping):
        items: list[tuple[str | int, object]] = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    else:
        return path
    for key, item in items:
        try:
            json.dumps(item, allow_nan=False)
        except (TypeError, ValueError):
            return _not_json(item, (*path, key))
    return path


def _is_plain(details: ErrorDetails) -> bool:
    return details["msg"].startswith("Input should ")


def _expected(details: ErrorDetails) -> str:
    """Return the type that pydantic expected, in TOML's terms."""
    if details["type"] in _WORDS:
        return _WORDS[details["type"]]
    text = details["msg"].removeprefix("Input should be ").removeprefix("Input should ").partition(", got ")[0]
    return text[0].lower() + text[1:]


def _path(raw: object, details: ErrorDetails) -> Path:
    """Return pydantic's location without the names of union branches, which are in no file."""
    path: list[str | int] = []
    here = raw
    loc = details["loc"]
    for position, part in enumerate(loc):
        if isinstance(here, Mapping) and part in here:
            here = here[str(part)]
        elif isinstance(here, list) and isinstance(part, int) and part < len(here):
            here = here[part]
        elif details["type"] == "missing" and position == len(loc) - 1:
            here = None  # a missing attribute is also reported
        else:
            continue
        path.append(part)
    return tuple(path)


def _line(rule: str, name: str, schema: type[Attrs], details: ErrorDetails, path: Path) -> str:
    what = _dotted(path)
    last = str(path[-1]) if path else ""
    kind = details["type"]
    if kind == "extra_forbidden":
        owner = f"{rule} '{name}'" if len(path) == 1 else f"'{_dotted(path[:-1])}'"
        owners = _owners(schema, details["loc"])
        new = next((each.renamed[last] for each in owners if issubclass(each, Attrs) and last in each.renamed), "")
        known = _fields(owners)
        hint = f"; expected '{new}'" if new else did_you_mean(last, known)
        if not hint and len(known) <= _MOST:
            hint = f"; expected one of {', '.join(known)}"
        return f"unknown attribute '{last}' of {owner}{hint}"
    if kind == "missing" and isinstance(path[-1], int):
        return (
            f"attribute '{_dotted(path[:-1])}': expected more than {_items(path[-1])}, got {_shown(details['input'])}"
        )
    if kind == "missing":
        owner = f"{rule} '{name}'" if len(path) == 1 else f"'{_dotted(path[:-1])}' of {rule} '{name}'"
        return f"{owner} lacks the attribute '{last}'"
    message = details["msg"]
    context = details.get("ctx", {})
    if kind == "literal_error":
        got, allowed = details["input"], str(context["expected"])
        return f"attribute '{what}': expected {allowed}, got {_shown(got)}{did_you_mean(str(got), _quoted(allowed))}"
    if kind == "union_tag_invalid":
        tag, allowed = str(context["tag"]), str(context["expected_tags"])
        return f"attribute '{what}': expected one of {allowed}, got '{tag}'{did_you_mean(tag, _quoted(allowed))}"
    if kind == "union_tag_not_found":
        return f"attribute '{what}': expected a table with {context['discriminator']}"
    if kind == "value_error":
        return f"attribute '{what}': {context['error']}"
    if kind == "too_short":
        message = f"at least {_items(context['min_length'])}"
    if kind == "too_long":
        message = f"at most {_items(context['max_length'])}"
    return f"attribute '{what}': expected {message}, got {_shown(details['input'])}"


def _owners(schema: type[BaseModel], loc: tuple[str | int, ...]) -> list[type[BaseModel]]:
    """Return the schemas that the table with an unknown attribute, at pydantic's location, may have."""
    models: list[type[BaseModel]] = [schema]
    for part in loc[:-1]:
        fields = [info for model in models for name, info in model.model_fields.items() if part in (name, info.alias)]
        if fields:
            models = [model for info in fields for model in _models(info.annotation)]
        else:  # an index, a key, or the name of a branch of a union
            models = [model for model in models if part in _names(model)] or models
    return models


def _fields(models: Iterable[type[BaseModel]]) -> list[str]:
    """Return the names of the attributes of these schemas."""
    return list(dict.fromkeys(info.alias or name for model in models for name, info in model.model_fields.items()))


def _names(model: type[BaseModel]) -> tuple[object, ...]:
    """Return the values of `type` by which a union distinguishes tables."""
    return get_args(model.model_fields["type"].annotation) if "type" in model.model_fields else ()


def _models(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in getattr(annotation, "__args__", ()) for model in _models(inner)]


def _dotted(path: Path) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _items(count: int) -> str:
    return f"{count} item{'s' * (count != 1)}"


def _shown(value: object) -> str:
    text = f"'{value}'" if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def _quoted(allowed: str) -> list[str]:
    """Return the words in a list such as "'a', 'b' or 'c'"."""
    return allowed.split("'")[1::2]
