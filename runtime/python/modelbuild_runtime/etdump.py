"""Write the C++ runtime's events as an ETDump, which ExecuTorch's Inspector reads.

Uses executorch.devtools, which has no stable interface: the classes of etdump/schema_flatcc.py and serialize.py.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

from modelbuild_runtime.errors import ProgramError


def write_etdump(events: str, path: Path) -> None:
    """Write events (mb_take_profile) to a file. Raises ProgramError without the executorch package."""
    try:
        from executorch.devtools.etdump import schema_flatcc as schema
        from executorch.devtools.etdump.serialize import serialize_to_etdump_flatcc
    except ImportError as error:
        raise ProgramError(f"{path}: an ETDump needs the executorch package: {error}") from None
    runs = [
        schema.RunData(
            name="Execute",
            bundled_input_index=-1,
            allocators=[],
            events=[
                schema.Event(
                    profile_event=schema.ProfileEvent(
                        name=event["name"],
                        chain_index=event["chain"],
                        instruction_id=event["instruction"],
                        delegate_debug_id_int=event["index"],
                        delegate_debug_id_str=event["name"] if event["delegate"] and event["index"] < 0 else "",
                        delegate_debug_metadata=b"",
                        start_time=event["start_ns"],
                        end_time=event["end_ns"],
                    ),
                    allocation_event=None,
                    debug_event=None,
                )
                for event in run
            ],
        )
        for run in json.loads(events)["runs"]
    ]
    data = serialize_to_etdump_flatcc(schema.ETDumpFlatCC(version=0, run_data=runs))
    path.write_bytes(struct.pack("<I", len(data)) + data)  # as ExecuTorch's own tracer: the size first
