"""Compile a partition to the library that the CUDA delegate loads, with or without a GPU."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from modelbuild.step import Progress, StepError, ignore_progress
from modelbuild_rules.backends.cuda.steps.generate.generate import Generated, generate
from modelbuild_rules.backends.cuda.steps.kernels.driver import CardProcess
from modelbuild_rules.backends.cuda.steps.kernels.tuning import FILE, Tuning, describe, read, tuning_text
from modelbuild_rules.backends.cuda.steps.library.link import check, dotted, link
from modelbuild_rules.program.steps.linking.named_data import NamedBytes, write_named
from modelbuild_rules.program.steps.partitions.compiled import ABOUT, PROCESSED


def compile(
    program: Any,
    specs: Sequence[Any],
    attributes: Mapping[str, Any],
    runtime: Path,
    work: Path,
    folder: Path,
    tuning: Path | None = None,
    progress: Progress = ignore_progress,
) -> Generated:
    """Compile a partition's library and write the delegate's files into an existing folder. Return the generated code.

    runtime   the folder of cpp/steps/compiler.py (make_runtime) for attributes["target"]
    work      an empty folder to build in
    tuning    a tuning file
    """
    lowest = min(attributes["capabilities"])
    card = _card(lowest, attributes.get("gpu")) if attributes.get("build_on") == "gpu" else None
    tuned = Tuning(read(tuning, version("torch"), version("triton"), lowest) if tuning else {})
    precision = attributes.get("precision", "fp32")
    generated = generate(program, specs, attributes["capabilities"], precision, tuned, card, progress)
    progress("linking")
    library = link(generated, attributes["capabilities"], attributes["target"], runtime, work)
    needed = check(library, attributes["target"])
    code = library.read_bytes()
    weights = bytes(generated.weights)
    # Keys and layout are those of AotiBackend.preprocess (executorch/backends/aoti/aoti_backend.py).
    keys = [f"{hashlib.sha256(code).hexdigest()}_so_blob", f"{hashlib.sha256(weights).hexdigest()}_weights_blob"]
    (folder / PROCESSED).write_text("\n".join(keys))
    write_named(folder, [NamedBytes(keys[0], code, 1, False), NamedBytes(keys[1], weights, 1, True)])
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
        (folder / FILE).write_text(tuning_text(entries, version("torch"), version("triton"), lowest))
    (folder / ABOUT).write_text(json.dumps(about, indent=1) + "\n")
    return generated


def _choices(tuned: Tuning, given: bool) -> dict[str, Any]:
    """Return the facts for delegation.json: the number of timed or tuned choices, and the choices made by cost."""
    found = {"timed": len(tuned.made)} if tuned.made else {"tuned": len(set(tuned.tuned))} if given else {}
    return {"choices": {**found, "by_cost": [describe(key) for key in dict.fromkeys(tuned.by_cost)]}} if found else {}


def _card(capability: int, name: str | None) -> CardProcess:
    """Return the GPU of this machine. Raises StepError if its capability (as 86) or name is wrong."""
    card = CardProcess()
    if card.capability != capability:
        wanted, found = (f"{number // 10}.{number % 10}" for number in (capability, card.capability))
        raise StepError(
            f"this machine's GPU, {card.name}, has compute capability {found}, the device target {wanted}; expected"
            " a GPU or a device target with the same one"
        )
    if name is not None and name not in card.name:
        raise StepError(f"this machine's GPU is {card.name}; expected one with '{name}' in its name (attribute 'gpu')")
    return card
