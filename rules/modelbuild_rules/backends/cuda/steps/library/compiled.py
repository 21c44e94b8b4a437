"""Compile a partition to the library that the CUDA delegate loads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from executorch.exir.tensor import scalar_type_enum

from modelbuild.step import Progress, ignore_progress
from modelbuild_rules.backend_api.steps.compiled import ABOUT, PROCESSED
from modelbuild_rules.backend_api.steps.named_data import NamedBytes, write_named
from modelbuild_rules.backends.cuda.steps.generate.generate import Generated, generate
from modelbuild_rules.backends.cuda.steps.generate.weights import Constant
from modelbuild_rules.backends.cuda.steps.kernels.candidates import FILE, Candidates
from modelbuild_rules.backends.cuda.steps.kernels.tuning import Tuning, describe, read
from modelbuild_rules.backends.cuda.steps.library.link import check, dotted, link


def compile(
    program: Any,
    specs: Sequence[Any],
    attributes: Mapping[str, Any],
    changed: Mapping[str, str],
    runtime: Path,
    work: Path,
    folder: Path,
    tuning: Path | None = None,
    progress: Progress = ignore_progress,
) -> Generated:
    """Compile a partition's library and write the delegate's files into an existing folder. Return the generated code.

    changed   the qualified names of the buffers that the partition changes, by their names in its program
    runtime   the folder of backend_api/steps/cpp_compiler.py (make_runtime) for attributes["target"]
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
    key = f"{hashlib.sha256(code).hexdigest()}_so_blob"
    listed, *constants = weights_list(generated.constants, changed)
    (folder / PROCESSED).write_text(f"{key}\n\n{listed.key}")
    write_named(folder, [NamedBytes(key, code, 1, False), listed, *constants])
    about = {
        "capabilities": attributes["capabilities"],
        "glibc": dotted(needed.glibc),
        "kernels": [
            {"name": k.name, "registers": k.registers, "spilled_bytes": k.spilled, "shared_bytes": k.shared}
            for k in generated.kernels
        ],
        **({"state": sorted(changed.values())} if changed else {}),
        **_choices(tuned, tuning is not None),
    }
    if candidates is not None:
        versions = {name: version(name) for name in ("torch", "triton")}
        candidates.write(folder / FILE, **versions, capability=f"{lowest // 10}.{lowest % 10}")
    (folder / ABOUT).write_text(json.dumps(about, indent=1) + "\n")
    return generated


def weights_list(constants: Sequence[Constant], changed: Mapping[str, str]) -> list[NamedBytes]:
    """Return the list of a part's constants (runtime/aoti/constants.hpp), a line for each, and each constant as a
    separate entry, so that several partitions share it. `changed`: as for `compile`."""
    lines = []
    named = {}
    for each in constants:
        data = each.storage()
        key = f"{hashlib.sha256(data).hexdigest()}_constant"
        named[key] = NamedBytes(key, data, 1, True)
        place = [",".join(map(str, numbers)) or "-" for numbers in (each.tensor.shape, each.tensor.stride())]
        lines.append(
            " ".join(
                [
                    each.name,
                    "cuda" if each.on_gpu else "cpu",
                    str(scalar_type_enum(each.tensor.dtype).value),
                    *place,
                    str(each.tensor.storage_offset()),
                    key,
                    changed.get(each.original, "-"),
                ]
            )
        )
    text = "".join(f"{line}\n" for line in lines).encode()
    key = f"{hashlib.sha256(text).hexdigest()}_constants"
    return [NamedBytes(key, text, 1, False), *named.values()]


def _choices(tuned: Tuning, given: bool) -> dict[str, Any]:
    """Return the facts for delegation.json: the number of tuned choices, and the choices made by cost."""
    if not given:
        return {}
    return {
        "choices": {"tuned": len(set(tuned.tuned)), "by_cost": [describe(key) for key in dict.fromkeys(tuned.by_cost)]}
    }
