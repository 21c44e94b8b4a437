"""Parse stored facts; reject anything that was not written by this module's counterparts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from modelbuild.actions import Place
from modelbuild.history.action_facts import VERSION, ActionFacts, TargetFacts
from modelbuild.ids import ActionId, TargetId

_Seconds = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
_Input = Annotated[list[str], Field(min_length=3, max_length=3)]


class _Table(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class _Material(_Table):
    """The parts of a key that differences are computed from."""

    model_config = ConfigDict(strict=True, extra="allow")

    step: str
    code: str
    params: dict[str, Any]
    inputs: list[_Input]
    outputs: list[Any]
    tools: dict[str, Any]
    env: dict[str, Any]


class _Place(_Table):
    worker: str = ""
    queued: _Seconds = 0.0
    fetching: _Seconds = 0.0
    running: _Seconds = 0.0
    sending: _Seconds = 0.0


class _Facts(_Table):
    id: str
    owner: str
    mnemonic: str
    key: str
    status: str
    seconds: _Seconds
    material: _Material
    modules: dict[str, str]
    makers: list[str]
    outputs: dict[str, str]
    place: _Place


class _Target(_Table):
    rule: str
    attributes: dict[str, Any]
    needs: list[str]


class _Dump(_Table):
    version: Literal[1]
    actions: list[_Facts]
    targets: dict[str, _Target]


def check_target(value: Any) -> TargetFacts:
    """Return a target's attributes unchanged. Raises ValueError for anything else."""
    return cast(TargetFacts, _checked(_Target, value))


def facts_of(value: Mapping[str, Any]) -> ActionFacts:
    """Return the facts with these members. Raises ValueError for members that no action has."""
    given = _checked(_Facts, value)
    if given["makers"] and len(given["makers"]) != len(given["material"]["inputs"]):
        raise ValueError("makers: expected one for each input")
    place = Place(**{"worker": "", **given["place"]}) if given["place"] else None
    own = {"id": ActionId(given["id"]), "owner": TargetId(given["owner"]), "place": place}
    return ActionFacts(**{**given, **own, "makers": tuple(given["makers"])})


def load_dump(text: bytes) -> tuple[dict[str, ActionFacts], dict[str, TargetFacts]]:
    """Return the facts by action and the targets by node from the text of `facts.dump`. Raises ValueError for other
    text."""
    try:
        dump = _Dump.model_validate_json(text).model_dump(exclude_unset=True)
    except ValidationError as error:
        raise ValueError(_line(error)) from None
    assert dump["version"] == VERSION
    return {each["id"]: facts_of(each) for each in dump["actions"]}, dump["targets"]


def _checked(schema: type[_Table], value: Any) -> dict[str, Any]:
    try:
        schema.model_validate(value)
    except ValidationError as error:
        raise ValueError(_line(error)) from None
    return dict(value)


def _line(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    return f"{place}: {first['msg']}" if place else first["msg"]
