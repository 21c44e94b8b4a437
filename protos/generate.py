"""Make modelbuild/remote/reapi.binpb, the descriptors of the Remote Execution API, of the .proto files beside this one.

hatchling runs it whenever the package is built or installed; so does `python protos/generate.py`. For a wheel, it also
adds a copy of modelbuild_runtime, for steps and programs in toolchains where that is not installed beside modelbuild.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grpc_tools import protoc
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROTOS = Path(__file__).resolve().parent
LIBRARY = PROTOS.parent / "runtime" / "python" / "modelbuild_runtime"
TARGET = PROTOS.parent / "modelbuild" / "remote" / "reapi.binpb"
ROOTS = (
    "build/bazel/remote/execution/v2/remote_execution.proto",
    "google/bytestream/bytestream.proto",
    "google/rpc/error_details.proto",
)


class BuildHook(BuildHookInterface):
    """Generates the descriptors before hatchling collects the files of a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        generate()
        if version != "editable":  # there, modelbuild_runtime is installed from the same checkout
            build_data["force_include"][str(LIBRARY)] = f"modelbuild/library/{LIBRARY.name}"


def generate() -> None:
    """Raises RuntimeError when the compiler of .proto files refuses them."""
    # protoc brings google/protobuf/*.proto itself.
    own = Path(protoc.__file__).parent / "_proto"
    options = [f"-I{PROTOS}", f"-I{own}", "--include_imports", f"--descriptor_set_out={TARGET}"]
    if protoc.main(["protoc", *options, *ROOTS]) != 0:
        raise RuntimeError("protoc failed")


if __name__ == "__main__":
    generate()
