"""The steps that an attribute of a backend's or a quantizer's table decides."""

from __future__ import annotations

from collections.abc import Collection
from typing import get_args

from modelbuild.api import Attrs, Source


class Decides:
    """The only steps whose keys contain an attribute: `exclude_ops: Annotated[Operators, Decides("partition")] = ()`.

    `Decides()` is for an attribute that is only checked.
    """

    def __init__(self, *steps: str) -> None:
        self.steps = steps


def decided(attrs: type[Attrs], name: str) -> tuple[str, ...] | None:
    """Return the steps that an attribute decides; None if its declaration does not state them."""
    marks = (each for each in attrs.model_fields[name].metadata if isinstance(each, Decides))
    return next((each.steps for each in marks), None)


def deciding(attrs: type[Attrs], step: str) -> list[str]:
    """Return the attributes that decide a step."""
    return [name for name in attrs.model_fields if step in (decided(attrs, name) or ())]


def check_decides(attrs: type[Attrs], steps: Collection[str], of_files: str = "") -> None:
    """Raise TypeError for an attribute without a `Decides`, or with an unknown step. Attributes that name a file decide
    the step `of_files` alone. `type` needs none."""
    for name, field in attrs.model_fields.items():
        given = decided(attrs, name)
        if name == "type":
            continue
        if given is None:
            expected = f"Annotated[..., Decides({', '.join(map(repr, steps))})] with one or more of these"
            raise TypeError(f"{attrs.__name__}.{name} states no step that it decides; expected {expected}")
        if unknown := sorted(set(given) - set(steps)):
            raise TypeError(f"{attrs.__name__}.{name} decides '{unknown[0]}'; expected one of {', '.join(steps)}")
        if Source in (field.annotation, *get_args(field.annotation)) and given != (of_files,):
            expected = f"a file that decides '{of_files}' alone" if of_files else "no file"
            raise TypeError(f"{attrs.__name__}.{name} is a file that decides {given}; expected {expected}")
