"""The library of a partition: what AOTInductor makes of it for the CUDA delegate, with or without a GPU here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from modelbuild.step import StepError
from modelbuild_rules.backends.cuda.steps.generate.generate import Generated, generate
from modelbuild_rules.backends.cuda.steps.kernels.driver import CardProcess
from modelbuild_rules.backends.cuda.steps.kernels.tuning import FILE, Tuning, read, said, written
from modelbuild_rules.backends.cuda.steps.library.link import check, dotted, link
from modelbuild_rules.program.steps.linking.named_data import write_named
from modelbuild_rules.program.steps.partitions.compiled import ABOUT, PROCESSED


def compile(
    program: Any,
    specs: Sequence[Any],
    attributes: Mapping[str, Any],
    runtime: Path,
    work: Path,
    folder: Path,
    tuning: Path | None = None,
) -> Generated:
    """Make a partition's library and write what the delegate reads into an existing folder. Returns what it is made of.

    runtime   what _cpp.make_runtime made for attributes["target"]
    work      an empty folder to build in
    tuning    a tuning file
    """
    lowest = min(attributes["capabilities"])
    card = _card(lowest, attributes.get("gpu")) if attributes.get("build_on") == "gpu" else None
    tuned = Tuning(read(tuning, version("torch"), version("triton"), lowest) if tuning else {})
    generated = generate(program, specs, attributes["capabilities"], attributes.get("precision", "fp32"), tuned, card)
    library = link(generated, attributes["capabilities"], attributes["target"], runtime, work)
    needed = check(library, attributes["target"])
    code = library.read_bytes()
    weights = bytes(generated.weights)
    # Keys and layout are those of AotiBackend.preprocess (executorch/backends/aoti/aoti_backend.py).
    keys = [f"{hashlib.sha256(code).hexdigest()}_so_blob", f"{hashlib.sha256(weights).hexdigest()}_weights_blob"]
    (folder / PROCESSED).write_text("\n".join(keys))
    write_named(folder, [(keys[0], code, 1, False, None), (keys[1], weights, 1, True, None)])
    about = {
        "capabilities": attributes["capabilities"],
        "glibc": dotted(needed.glibc),
        "kernels": [
            {"name": k.name, "registers": k.registers, "spilled_bytes": k.spilled, "shared_bytes": k.shared}
            for k in generated.kernels
        ],
        **_choices(tuned, tuning is not None),
    }
    if card is not None:
        seen = {"gpu": card.name, "driver": card.driver}
        entries = [{**entry, **seen} for entry in tuned.made.values()]
        (folder / FILE).write_text(written(entries, version("torch"), version("triton"), lowest))
    (folder / ABOUT).write_text(json.dumps(about, indent=1) + "\n")
    return generated


def _choices(tuned: Tuning, given: bool) -> dict[str, Any]:
    """For delegation.json: how many choices were timed or came from a tuning file, and which did not."""
    found = {"timed": len(tuned.made)} if tuned.made else {"tuned": len(set(tuned.tuned))} if given else {}
    return {"choices": {**found, "by_cost": [said(key) for key in dict.fromkeys(tuned.by_cost)]}} if found else {}


def _card(capability: int, name: str | None) -> CardProcess:
    """The GPU here. Raises StepError where it is none of the capability (as 86), or of another name."""
    card = CardProcess()
    if card.capability != capability:
        wanted, found = (f"{number // 10}.{number % 10}" for number in (capability, card.capability))
        raise StepError(
            f"the GPU here, {card.name}, has compute capability {found}; the device target asks for {wanted}; expected"
            " a GPU of that one, or the other in the device target"
        )
    if name is not None and name not in card.name:
        raise StepError(f"the GPU here is {card.name}; expected one with '{name}' in its name, as gpu asks for")
    return card
