"""The code of a partition's library, as steps pass it on: generated, then linked."""

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
from modelbuild_rules.backends.cuda.steps.library.images import read_usage
from modelbuild_rules.backends.cuda.steps.library.link import check, dotted, link
from modelbuild_rules.backends.cuda.steps.storing import CONSTANTS, LIBRARY, VALUES

if TYPE_CHECKING:
    from modelbuild_rules.backends.cuda.documents import StoredConstant

KERNELS = "kernels.json"
"""In the folder of generated code: the key of each kernel's request, by the kernel's name in the library's source."""


def write_code(
    program: Any,
    specs: Sequence[Any],
    attributes: Mapping[str, Any],
    changed: Mapping[str, str],
    tuning: Path | None,
    folder: Path,
    progress: Progress = ignore_progress,
) -> Generated:
    """Generate a partition's code, and write it into an existing folder without the C++ source and the requests of
    kernels; return it.

    changed   the qualified names of the buffers that the partition changes, by their names in its program
    tuning    a tuning file

    Raises StepError for an invalid tuning file.
    """
    lowest, limit = min(attributes["capabilities"]), attributes.get("candidates", 0)
    candidates = Candidates(limit) if limit else None
    tuned = Tuning(read(tuning, version("torch"), version("triton"), lowest) if tuning else {})
    precision = attributes.get("precision", "fp32")
    made = generate(program, specs, attributes["capabilities"], precision, tuned, candidates, progress)
    (folder / KERNELS).write_text(json.dumps({each.name: each.request.key for each in made.kernels}, indent=1) + "\n")
    _write_constants(made.constants, changed, folder)
    about = {
        "capabilities": attributes["capabilities"],
        "estimate": made.estimate,
        **({"state": sorted(changed.values())} if changed else {}),
        **_choices(tuned, tuning is not None),
    }
    (folder / ABOUT).write_text(json.dumps(about, indent=1) + "\n")
    if candidates is not None:
        versions = {name: version(name) for name in ("torch", "triton")}
        candidates.write(folder / FILE, **versions, capability=f"{lowest // 10}.{lowest % 10}")
    return made


def write_linked(
    generated: Path,
    objects: Sequence[Path],
    kernels: Sequence[Path],
    target: str,
    runtime: Path,
    work: Path,
    folder: Path,
) -> None:
    """Link a library, and write it into an existing folder, with how its constants derive from the partition's
    weights, as steps/storing.py reads them.

    generated  a folder of `write_code`
    objects    of its source, and of what all libraries have in common
    kernels    the folders of its compiled kernels, one for each request, in the order of their keys
    runtime    the folder of backend_api/steps/cpp_compiler.py (make_runtime) for the machine
    work       an empty folder to build in

    Raises StepError if the library needs symbols or a glibc that are missing at run time.
    """
    keys: dict[str, str] = json.loads((generated / KERNELS).read_text())
    compiled = dict(zip(sorted(set(keys.values())), kernels, strict=True))
    named = {name: compiled[key] for name, key in keys.items()}
    library = link(objects, named, target, runtime, work)
    needed = check(library, target)
    shutil.copytree(generated, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(KERNELS, ABOUT))
    shutil.copyfile(library, folder / LIBRARY)
    about = json.loads((generated / ABOUT).read_text())
    about["glibc"] = dotted(needed.glibc)
    usages = {name: read_usage(each) for name, each in named.items()}
    about["kernels"] = [
        {"name": name, "registers": each.registers, "spilled_bytes": each.spilled, "shared_bytes": each.shared}
        for name, each in usages.items()
    ]
    (folder / ABOUT).write_text(json.dumps(about, indent=1) + "\n")


def _write_constants(constants: Sequence[Constant], changed: Mapping[str, str], folder: Path) -> None:
    """Write the constants of a library: recipes, and the values of those that are part of the code. `changed`: as for
    `write_code`."""
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
