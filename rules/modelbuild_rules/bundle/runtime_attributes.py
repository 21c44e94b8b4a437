"""The attribute `runtime`: the packed C++ runtime, and libraries that it needs in addition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelbuild.api import Artifact, Attrs, Context, Source
from modelbuild_rules.bundle.vendor_library import VendorLibrary


class RuntimeArchive(Source):
    """The archive of the C++ runtime, as a path or a label."""

    __slots__ = ()

    where_from = (
        "`make runtime` writes the C++ runtime's archive, build/runtime.tar, and `make runtime ARCH=aarch64`"
        " build/runtime-aarch64.tar; copy or link it here"
    )


class Runtime(Attrs):
    """The C++ runtime of programs."""

    archive: RuntimeArchive | None = None
    """The archive of `make runtime` for the device's architecture (build/runtime.tar); by default the installed runtime
    (`modelbuild[runtime]`)."""

    libraries: tuple[VendorLibrary, ...] = ()
    """Libraries that the runtime lacks: TensorRT's. By default, the machine must have them."""


def runtime_inputs(ctx: Context[Any], runtime: Runtime) -> dict[str, Artifact]:
    """Return the inputs of a step that lays out a runtime (bundle/steps/runtime/)."""
    inputs = {"runtime": ctx.file(runtime.archive)} if runtime.archive else {}
    for index, each in enumerate(runtime.libraries):
        inputs[f"library.{index}"] = ctx.file(each.file)
        if each.license_file is not None:
            inputs[f"license.{index}"] = ctx.file(each.license_file)
    return inputs


def library_params(runtime: Runtime) -> list[Mapping[str, str]]:
    """Return the parameter `libraries` of a step that lays out a runtime."""
    return [{"version": each.version, "license": each.license} for each in runtime.libraries]


def runtime_places(ctx: Context[Any]) -> dict[str, Any]:
    """Return the places of the archive and of the libraries, as "BUILD.toml:4:1", for a step's errors."""
    libraries = range(len(ctx.attrs.runtime.libraries))
    return {
        "place": str(ctx.error(("runtime", "archive"), "").location),
        "library_places": [str(ctx.error(("runtime", "libraries", index), "").location) for index in libraries],
    }
