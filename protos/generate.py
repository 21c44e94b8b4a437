"""Make modelbuild/remote/reapi.binpb, the descriptors of the Remote Execution API, of the .proto files beside this one.

Runs whenever the package is built or installed (see setup.py), and as `python protos/generate.py`.
"""

from __future__ import annotations

from pathlib import Path

from grpc_tools import protoc

PROTOS = Path(__file__).resolve().parent
TARGET = PROTOS.parent / "modelbuild" / "remote" / "reapi.binpb"
ROOTS = (
    "build/bazel/remote/execution/v2/remote_execution.proto",
    "google/bytestream/bytestream.proto",
    "google/rpc/error_details.proto",
)


def generate() -> None:
    """Raises RuntimeError when the compiler of .proto files refuses them."""
    # protoc brings google/protobuf/*.proto itself.
    own = Path(protoc.__file__).parent / "_proto"
    options = [f"-I{PROTOS}", f"-I{own}", "--include_imports", f"--descriptor_set_out={TARGET}"]
    if protoc.main(["protoc", *options, *ROOTS]) != 0:
        raise RuntimeError("protoc failed")


if __name__ == "__main__":
    generate()
