"""The facts about a model for its SBOM."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelbuild.api import Artifact, Component, Contents, SourceArtifact
from modelbuild_rules.method_names import FORWARD
from modelbuild_rules.providers import ExportedMethod

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import Signature, SignatureOutput

_LOW_BIT = ("int2", "int4", "int8", "uint2", "uint4", "uint8", "float8_e4m3fn", "float8_e5m2")


def model_contents(
    name: str, license: str, models: Mapping[str, ExportedMethod], data: tuple[Artifact, ...]
) -> Contents:
    """Return the contents of a model: a component of each method. `data` are files that the model's code reads."""
    datasets = tuple(artifact.path for artifact in data if isinstance(artifact, SourceArtifact))
    names = [name if method == FORWARD else f"{name}.{method}" for method in models]
    files = [file for each in models.values() for file in (each.program, each.signature)]
    return Contents(tuple(files), partial(_components, names, license, datasets))


def _components(
    names: Sequence[str], license: str, datasets: tuple[str, ...], *files: Mapping[str, Path]
) -> list[Component]:
    found = []
    for name, program, signature in zip(names, files[::2], files[1::2], strict=True):
        described: Signature = json.loads(signature[""].read_bytes())
        (interface,) = described["methods"].values()
        found.append(
            Component(
                name,
                kind="model",
                license=license,
                properties=_facts(program["program.json"].read_text()),
                inputs=tuple(map(_line, interface["inputs"])),
                outputs=tuple(map(_line, interface["outputs"])),
                datasets=datasets,
            )
        )
    return found


def _line(tensor: SignatureOutput) -> str:
    return f"{tensor['name']}: {tensor['dtype']}[{', '.join(map(str, tensor['shape']))}]"


def _facts(text: str) -> dict[str, str]:
    """Return the number of parameters, the types of weights and the kind of quantization of an exported program."""
    document = json.loads(text)
    tensors: dict[str, Any] = {each["name"]: each for each in document["tensors"]}
    # A tensor with several names has one file.
    parameters = {
        tensors[target]["file"]: prod(tensors[target]["shape"])
        for kind, _, target, _ in document["inputs"]
        if kind == "PARAMETER"
    }
    types = sorted({each["dtype"] for each in tensors.values()})
    found = {"parameters": str(sum(parameters.values()))}
    if types:
        found["weight types"] = ", ".join(types)
    if "quantized_decomposed." in text or "torchao." in text:
        found["quantization"] = ", ".join(each for each in types if each in _LOW_BIT) or "activations"
    return found
