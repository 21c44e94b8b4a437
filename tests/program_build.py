"""The BUILD file of one program, for tests of its use."""

from __future__ import annotations

CAPABILITY = 'compute_capabilities = ["8.6"]'


def program_build(backends: str, entry: str = "net.py:Model", shape: str = "[2]", device: str = CAPABILITY) -> str:
    """Return a BUILD file: //:program is //:model (`entry`, with an input x), lowered with the `backends` (tables of
    TOML) for //:device, an x86_64 with the attributes in `device`."""
    return f"""
[[torch_model]]
name = "model"
entry = "{entry}"
inputs = [{{ name = "x", shape = {shape}, dtype = "float32" }}]

[[pte_program]]
name = "program"
model = ":model"
stack = ":stack"
device = ":device"

[[device_target]]
name = "device"
arch = "x86_64"
{device}

[[backend_stack]]
name = "stack"
backends = [
    {backends},
]
"""
