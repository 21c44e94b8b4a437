"""The JSON that the reader of checkpoints prints."""

from __future__ import annotations

from typing import Literal, TypedDict


class CheckpointInput(TypedDict):
    """An input: sizes, or names of dynamic dimensions."""

    name: str
    shape: list[int | str]
    dtype: str


class Checkpoint(TypedDict):
    """The contents of a checkpoint.

    tensors  name, type and sizes of each tensor of a state dict
    inputs   inputs of an exported program
    call     its arguments as Python writes a call; None for all inputs by position
    dynamic  its dimensions of variable size by name: bounds, or a sum or multiple of others
    """

    kind: Literal["state dict", "exported program", "TorchScript"]
    tensors: list[tuple[str, str, list[int]]]
    inputs: list[CheckpointInput]
    call: str | None
    dynamic: dict[str, str | dict[str, int]]
