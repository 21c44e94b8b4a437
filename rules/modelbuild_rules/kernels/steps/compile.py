"""Compile a library of kernels for a kind of machine. Torch-free.

Inputs   operators          JSON: [KernelOperator], as kernels/steps/operators.py writes it
         srcs, headers      C++, at their workspace paths
         runtime            tree: the output of backend_api/steps/cpp_runtime.py for the machine
Params   name               the library's name
         target             as "x86_64-linux-gnu.2.28"
Outputs  library            lib<name>.so
         description        <name>.kernels.json, from which the C++ runtime finds the library
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from modelbuild.step import Step, StepError
from modelbuild_rules.backend_api.steps.cpp_compiler import compile_object, link_library, stub_library
from modelbuild_rules.backend_api.steps.elf import Needs, needs
from modelbuild_rules.kernels.steps.registration import declarations, function_of, registration, signature

if TYPE_CHECKING:
    from modelbuild_rules.kernels.documents import KernelOperator

_RUNTIME = "libexecutorch.so"
_OF_EXECUTORCH = ("_ZN10executorch", "_ZNK10executorch", "_ZN5torch8executor", "_ZTIN10executorch", "_ZTVN10executorch")
"""Prefixes of the symbols that the runtime's library defines."""

_OTHER_RESULT = "functions that differ only in their return type cannot be overloaded"


def run(step: Step) -> None:
    operators: list[KernelOperator] = json.loads(step.input("operators").read_bytes())
    target = step.params["target"]
    with TemporaryDirectory() as made:
        work = Path(made)
        sources = _lay_out(step, work, operators)
        objects = []
        for number, source in enumerate(sources, 1):
            step.progress("source", number, len(sources))
            objects.append(_compiled(source, target, work, operators))
        step.progress("linking")
        library = work / f"lib{step.params['name']}.so"
        # No symbol has a name of this pattern: the library registers its kernels when it is loaded.
        runtime = stub_library(_RUNTIME, [], target, work)
        link_library(objects, step.input("runtime"), [runtime], "modelbuild_nothing*", target, library)
        found = needs(library)
        _check(found, operators, [str(source.relative_to(work)) for source in sources[1:]])
        shutil.copyfile(library, step.outputs["library"])
    described = {
        "libraries": [library.name],
        "operators": sorted(each["name"] for each in operators),
        "glibc": ".".join(map(str, found.glibc)),
    }
    step.outputs["description"].write_text(json.dumps(described, indent=1) + "\n")


def _lay_out(step: Step, work: Path, operators: Sequence[KernelOperator]) -> list[Path]:
    """Copy the sources and headers to their workspace paths in a folder. Return the generated source, then the copied
    sources."""
    generated = work / "modelbuild_registration"
    generated.mkdir()
    (generated / "declarations.hpp").write_text(declarations(operators))
    sources = [generated / "registration.cpp"]
    sources[0].write_text(registration(operators))
    for path in (*step.inputs["srcs"], *step.inputs.get("headers", ())):
        copy = work / path.relative_to(step.root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        if path in step.inputs["srcs"]:
            sources.append(copy)
    return sources


def _compiled(source: Path, target: str, work: Path, operators: Sequence[KernelOperator]) -> Path:
    try:
        return compile_object(source, target, _flags(work), work)
    except StepError as error:
        for line in str(error).splitlines():
            if _OTHER_RESULT in line:
                place = line.partition(": error: ")[0]
                wanted = " or ".join(f"`{signature(each)}`" for each in operators)
                message = f"{place}: the function's result is not that of its operator; expected {wanted}"
                raise StepError(message) from None
        raise


def _flags(work: Path) -> list[str]:
    """Return the compiler's flags. Paths of this machine are mapped to names."""
    spec = find_spec("executorch")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    include = next((path for each in folders if (path := Path(each) / "include").is_dir()), None)
    if include is None:
        raise StepError("the package 'executorch' has no headers; install modelbuild[models]")
    c10 = include / "executorch/runtime/core/portable_type/c10"
    return [
        "-std=c++20",
        "-O2",
        "-DNDEBUG",
        "-DC10_USING_CUSTOM_GENERATED_MACROS",
        f"-ffile-prefix-map={work}=.",
        f"-ffile-prefix-map={include}=executorch",
        f"-isystem{include}",
        f"-isystem{c10}",
        "-I.",
        "-include",
        "modelbuild_registration/declarations.hpp",
    ]


def _check(found: Needs, operators: Sequence[KernelOperator], sources: Sequence[str]) -> None:
    """Raise StepError for a symbol that neither the sources nor the runtime's library define."""
    unknown = sorted(each for each in found.undefined if not each.startswith(_OF_EXECUTORCH))
    for operator in operators:
        namespace, _, name = function_of(operator).partition("::")
        # A function's symbol has its name, and the types of its parameters.
        beginning = f"_ZN{len(namespace)}{namespace}{len(name)}{name}E"
        if any(each.startswith(beginning) for each in unknown):
            raise StepError(
                f"{', '.join(sources)}: no function for the operator {operator['schema']}; expected"
                f" `{signature(operator)}`"
            )
    if unknown:
        raise StepError(f"{', '.join(sources)}: {', '.join(unknown)} is not defined; expected it in 'srcs'")
