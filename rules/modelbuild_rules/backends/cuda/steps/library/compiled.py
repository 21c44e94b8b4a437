"""Compile a partition to the library that the CUDA delegate loads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from modelbuild.step import Progress, ignore_progress
from modelbuild_rules.backends.cuda.steps.generate.generate import Generated, generate
from modelbuild_rules.backends.cuda.steps.kernels.candidates import FILE, Candidates
from modelbuild_rules.backends.cuda.steps.kernels.tuning import Tuning, describe, read
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
    limit = attributes.get("candidates", 0)
    candidates = Candidates(limit) if limit else None
    tuned = Tuning(read(tuning, version("torch"), version("triton"), lowest) if tuning else {})
    precision = attributes.get("precision", "fp32")
    generated = generate(program, specs, attributes["capabilities"], precision, tuned, candidates, progress)
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
    if candidates is not None:
        versions = {name: version(name) for name in ("torch", "triton")}
        candidates.write(folder / FILE, **versions, capability=f"{lowest // 10}.{lowest % 10}")
    (folder / ABOUT).write_text(json.dumps(about, indent=1) + "\n")
    return generated


def _choices(tuned: Tuning, given: bool) -> dict[str, Any]:
    """Return the facts for delegation.json: the number of tuned choices, and the choices made by cost."""
    if not given:
        return {}
    return {
        "choices": {"tuned": len(set(tuned.tuned)), "by_cost": [describe(key) for key in dict.fromkeys(tuned.by_cost)]}
    }
