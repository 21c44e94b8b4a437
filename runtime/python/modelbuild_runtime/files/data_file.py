"""Open files of ExecuTorch, and check a .ptd. Torch-free.

The format of a .ptd is executorch/extension/flat_tensor/serialize/flat_tensor.fbs (identifier FT01) behind a header
("FH01") at byte 8, as executorch 1.5.1 writes it.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from modelbuild_runtime.errors import ProgramError
from modelbuild_runtime.files.flatbuffer import Buffer, Malformed, Table
from modelbuild_runtime.files.manifest import Damaged, read_manifest
from modelbuild_runtime.files.schema import PtdFlatTensor, PtdNamedData
from modelbuild_runtime.files.segments import segment_extents

_HEADER = 48


@contextmanager
def opened(path: Path, kind: str) -> Iterator[memoryview]:
    """Map a file's bytes. Raises ProgramError for a file that cannot be read, is not a `kind`, or is damaged."""
    if path.exists() and not (path.is_file() or path.is_dir()):  # a pipe would wait for its writer
        raise ProgramError(f"{path}: not a regular file")
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            view = memoryview(mapped)
            try:
                yield view
            except Malformed as problem:
                raise ProgramError(f"{path}: not {kind}: {problem}") from None
            except Damaged as problem:
                raise ProgramError(f"{path}: is damaged: {problem}") from None
            finally:
                view.release()
    except OSError as error:
        raise ProgramError(f"{path}: {error.strerror or error}") from None
    except ValueError:  # mmap of an empty file
        raise ProgramError(f"{path}: not {kind}: the file is empty") from None


def check_data_file(path: Path, verify: bool = True) -> None:
    """Raise ProgramError for a .ptd that is damaged, or with offsets outside the file."""
    with opened(path, "external data of ExecuTorch") as data:
        read_manifest(data, verify)
        if len(data) < _HEADER or bytes(data[4:12]) != b"FT01FH01":
            raise Malformed("it does not start like a .ptd")
        begin, size, base = struct.unpack_from("<QQQ", data, 16)
        if begin + size > len(data):
            raise Malformed(f"its header claims {size} bytes at byte {begin} in a file of {len(data)}")
        with data[: begin + size] as flatbuffer:
            root = Table.root(Buffer(flatbuffer))
            segments = segment_extents(root.tables(PtdFlatTensor.segments), base, len(data))
            named = tuple(root.tables(PtdFlatTensor.named_data))
            if not named:
                raise Malformed("it lists no data")
            for entry in named:
                number = entry.integer(PtdNamedData.segment_index)
                if number >= len(segments):
                    raise Malformed(f"segment {number} does not exist")
