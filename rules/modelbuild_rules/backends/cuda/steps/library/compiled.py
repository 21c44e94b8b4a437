"""Compile a partition to the library that the CUDA delegate loads."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from executorch.exir.tensor import scalar_type_enum

from modelbuild.step import Progress, ignore_progress
from modelbuild_rules.backend_api.steps.compiled import ABOUT
from modelbuild_rules.backends.cuda.steps.constants import layout, storage
from modelbuild_rules.backends.cuda.steps.generate.generate import Generated, generate
from modelbuild_rules.backends.cuda.steps.generate.weights import Constant
from modelbuild_rules.backends.cuda.steps.kernels.candidates import FILE, Candidates
from modelbuild_rules.backends.cuda.steps.kernels.tuning import Tuning, describe, read
from modelbuild_rules.backends.cuda.steps.library.link import check, dotted, link
from modelbuild_rules.backends.cuda.steps.storing import CONSTANTS, LIBRARY, VALUES

if TYPE_CHECKING:
    from modelbuild_rules.backends.cuda.documents import StoredConstant


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
    """Compile a partition's library and write it, and how its constants derive from the partition's weights, into an
    existing folder, as steps/storing.py reads them. Return the generated code.

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
    shutil.copyfile(library, folder / LIBRARY)
    _write_constants(generated.constants, changed, folder)
    about = {
        "capabilities": attributes["capabilities"],
        "glibc": dotted(needed.glibc),
        "kernels": [
            {"name": k.name, "registers": k.registers, "spilled_bytes": k.spilled, "shared_bytes": k.shared}
            for k in generated.kernels
        ],
        "estimate": generated.estimate,
        **({"state": sorted(changed.values())} if changed else {}),
        **_choices(tuned, tuning is not None),
    }
    if candidates is not None:
        versions = {name: version(name) for name in ("torch", "triton")}
        candidates.write(folder / FILE, **versions, capability=f"{lowest // 10}.{lowest % 10}")
    (folder / ABOUT).write_text(json.dumps(about, indent=1) + "\n")
    return generated


def _write_constants(constants: Sequence[Constant], changed: Mapping[str, str], folder: Path) -> None:
    """Write the constants of a library: recipes, and the values of those that are part of the code. `changed`: as for
    `compile`."""
    written: list[StoredConstant] = []
    for each in constants:
        kind, numbers = str(scalar_type_enum(each.tensor.dtype).value), (each.tensor.shape, each.tensor.stride())
        place = [",".join(map(str, number)) or "-" for number in numbers]
        made: StoredConstant = {
            "line": " ".join(
                [each.name, "cuda" if each.on_gpu else "cpu", kind, *place, str(each.tensor.storage_offset())]
            ),
            "state": changed.get(each.original, "-"),
            "layout": layout(each.tensor),
        }
        if each.recipe is None:
            (folder / VALUES).mkdir(exist_ok=True)
            made["value"] = str(len(written))
            (folder / VALUES / made["value"]).write_bytes(storage(each.tensor))
        else:
            made["recipe"] = each.recipe
        written.append(made)
    (folder / CONSTANTS).write_text(json.dumps(written, indent=1) + "\n")


def _choices(tuned: Tuning, given: bool) -> dict[str, Any]:
    """Return the facts for delegation.json: the number of tuned choices, and the choices made by cost."""
    if not given:
        return {}
    return {
        "choices": {"tuned": len(set(tuned.tuned)), "by_cost": [describe(key) for key in dict.fromkeys(tuned.by_cost)]}
    }
