"""The facts about a model for its SBOM."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelbuild.api import Artifact, Component, Contents, SourceArtifact
from modelbuild_rules.providers import ExportedModel

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import Signature, SignatureOutput

_LOW_BIT = ("int2", "int4", "int8", "uint2", "uint4", "uint8", "float8_e4m3fn", "float8_e5m2")


def model_contents(name: str, license: str, model: ExportedModel, data: tuple[Artifact, ...]) -> Contents:
    """Return the contents of a model. `data` are files that its code reads."""
    datasets = tuple(artifact.path for artifact in data if isinstance(artifact, SourceArtifact))
    return Contents((model.program, model.signature), partial(_components, name, license, datasets))


def _components(
    name: str, license: str, datasets: tuple[str, ...], program: Mapping[str, Path], signature: Mapping[str, Path]
) -> list[Component]:
    interface: Signature = json.loads(signature[""].read_bytes())
    return [
        Component(
            name,
            kind="model",
            license=license,
            properties=_facts(program["program.json"].read_text()),
            inputs=tuple(map(_line, interface["inputs"])),
            outputs=tuple(map(_line, interface["outputs"])),
            datasets=datasets,
        )
    ]


def _line(tensor: SignatureOutput) -> str:
    return f"{tensor['name']}: {tensor['dtype']}[{', '.join(map(str, tensor['shape']))}]"


def _facts(text: str) -> dict[str, str]:
    """Return the number of parameters, the types of weights and the kind of quantization of an exported program."""
    document = json.loads(text)
    tensors: dict[str, Any] = {each["name"]: each for each in document["tensors"]}
    # A tensor with several names is one file.
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
