"""Blobs of the TensorRT delegate: the runtime's parser accepts valid ones and refuses all others."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modelbuild_rules.backends.tensorrt.steps.engine.blob import Metadata, write_blob

Check = Callable[[bytes], str]
ENGINE = b"engine of sixteen" * 4


@pytest.fixture(scope="module")
def check(native: Path, tmp_path_factory: pytest.TempPathFactory) -> Check:
    path = tmp_path_factory.mktemp("blobs") / "blob"

    def run(blob: bytes) -> str:
        path.write_bytes(blob)
        done = subprocess.run([native / "bin/blob_check", path], capture_output=True, text=True, check=True)
        return done.stdout.rstrip("\n")

    return run


def metadata(**changed: Any) -> dict[str, Any]:
    """Return metadata like torch_tensorrt's; a value of None omits a field."""
    bindings = [
        {"name": "x", "dtype": "torch.float32", "shape": [2, 16], "is_input": True},
        {"name": "y", "dtype": "torch.float32", "shape": [2, 16], "is_input": False},
    ]
    described = {
        "io_bindings": bindings,
        "aliased_io": [],
        "hardware_compatible": False,
        "device_id": 0,
        "serialized_metadata": "",
        "target_platform": "linux_x86_64",
        **changed,
    }
    return {name: value for name, value in described.items() if value is not None}


def blob(described: Any = None, magic: bytes = b"TR01", engine: bytes = ENGINE, **header: int) -> bytes:
    """Return a blob; `header` replaces its header."""
    text = (
        described
        if isinstance(described, bytes)
        else json.dumps(metadata() if described is None else described).encode()
    )
    at = (32 + len(text) + 15) & ~15
    fields = {"metadata_at": 32, "metadata_size": len(text), "engine_at": at, "engine_size": len(engine), **header}
    start = struct.pack("<4sIIIQ8s", magic, *fields.values(), b"\1" + bytes(7))
    return start + text + bytes(at - 32 - len(text)) + engine


def binding(**fields: Any) -> dict[str, Any]:
    return metadata(io_bindings=[fields, {"name": "y", "is_input": False}])


def alias(**fields: Any) -> dict[str, Any]:
    return metadata(aliased_io=[fields])


BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "0 bytes, less than a header"),
    "31 bytes": (blob()[:31], "31 bytes, less than a header"),
    "other magic": (blob(magic=b"TR99"), "begin with TR01 or TR02"),
    "text": (b"{}" * 40, "begin with TR01 or TR02"),
    "metadata in the header": (blob(metadata_at=16), "metadata begin inside the header"),
    "metadata at 0": (blob(metadata_at=0), "metadata begin inside the header"),
    "metadata at the end of numbers": (blob(metadata_at=0xFFFFFFFF), "metadata reach into the engine"),
    "metadata too long": (blob(metadata_size=0xFFFFFFFF), "claims 4294967295 bytes of metadata"),
    "metadata into the engine": (blob(metadata_size=4096), "metadata reach into the engine"),
    "metadata wrap around": (blob(metadata_at=0xFFFFFFF0, metadata_size=0x1000), "metadata reach into the engine"),
    "engine not aligned": (blob(engine_at=257), "does not begin at a multiple of 16"),
    "engine in the header": (blob(engine_at=16), "metadata reach into the engine"),
    "engine behind the end": (blob(engine_at=1 << 20), "ends after its own"),
    "engine at the end of numbers": (blob(engine_at=0xFFFFFFF0), "ends after its own"),
    "engine too long": (blob(engine_size=len(ENGINE) + 1), "ends after its own"),
    "engine wraps around": (blob(engine_size=0xFFFFFFFFFFFFFFFF), "ends after its own"),
    "engine wraps to a small number": (blob(engine_size=0x10000000000000000 - 16), "ends after its own"),
    "cut in the engine": (blob()[:-1], "ends after its own"),
    "cut in the metadata": (blob()[:60], "ends after its own"),
    "no engine": (blob(engine=b""), "its engine is empty"),
    "no metadata": (blob(b""), "are not JSON"),
    "half of the JSON": (blob(json.dumps(metadata()).encode()[:40]), "are not JSON"),
    "two of JSON": (blob(json.dumps(metadata()).encode() * 2), "are not JSON"),
    "not UTF-8": (blob(b'{"io_bindings": "\xff\xfe"}'), "are not JSON"),
    "zeros": (blob(bytes(64)), "are not JSON"),
    "deep": (blob(b"[" * 100_000), "are not JSON"),
    "deep and whole": (blob(b"[" * 100_000 + b"]" * 100_000), "the metadata is not an object"),
    "a list": (blob([]), "the metadata is not an object"),
    "a number": (blob(7), "the metadata is not an object"),
    "no bindings": (blob(metadata(io_bindings=None)), 'lacks "io_bindings"'),
    "bindings no list": (blob(metadata(io_bindings={"x": 1})), '"io_bindings" is not a list'),
    "a binding no object": (blob(metadata(io_bindings=["x"])), "a binding is not an object"),
    "no name": (blob(binding(is_input=True)), 'a binding lacks "name"'),
    "name empty": (blob(binding(name="", is_input=True)), '"name" is not a name'),
    "name a number": (blob(binding(name=1, is_input=True)), '"name" is not a name'),
    "no is_input": (blob(binding(name="x")), 'a binding lacks "is_input"'),
    "is_input a number": (blob(binding(name="x", is_input=1)), "neither true nor false"),
    "same name": (blob(binding(name="y", is_input=True)), "two bindings are called 'y'"),
    "no output": (blob(metadata(io_bindings=[{"name": "x", "is_input": True}])), "no binding is an output"),
    "device text": (blob(metadata(device_id="0")), '"device_id" is not an integer'),
    "device true": (blob(metadata(device_id=True)), '"device_id" is not an integer'),
    "device a fraction": (blob(metadata(device_id=0.5)), '"device_id" is not an integer'),
    "device negative": (blob(metadata(device_id=-1)), '"device_id" is -1; expected 0 to 127'),
    "device 128": (blob(metadata(device_id=128)), '"device_id" is 128'),
    "device huge": (blob(metadata(device_id=1 << 64)), '"device_id" is not an integer'),
    "device almost huge": (blob(metadata(device_id=(1 << 64) - 1)), "expected 0 to 127"),
    "aliases no list": (blob(metadata(aliased_io={})), '"aliased_io" is not a list'),
    "alias no object": (blob(metadata(aliased_io=["y"])), "an alias is not an object"),
    "alias of nothing": (blob(alias(output="z", input="x")), "names 'z', which is not such a binding"),
    "alias to an output": (blob(alias(output="y", input="y")), "names 'y', which is not such a binding"),
    "alias lacks its input": (blob(alias(output="y")), 'an alias lacks "input"'),
    "alias twice": (blob(metadata(aliased_io=[{"output": "y", "input": "x"}] * 2)), "two aliases of 'y'"),
}


@pytest.mark.parametrize("what", BAD)
def test_refuses(check: Check, what: str) -> None:
    data, reason = BAD[what]
    said = check(data)
    assert said.startswith("bad "), said
    assert reason in said


def test_takes_what_the_rules_write(check: Check, tmp_path: Path) -> None:
    path = tmp_path / "blob"
    write_blob(path, Metadata(("a", "b"), ("c",), 3), ENGINE)
    assert check(path.read_bytes()) == f"ok cuda:3 in a b out c aliases 0 engine {len(ENGINE)}"


def test_takes_what_torch_tensorrt_writes(check: Check) -> None:
    assert check(blob()) == f"ok cuda:0 in x out y aliases 0 engine {len(ENGINE)}"
    aliased = metadata(aliased_io=[{"output": "y", "input": "x", "kind": "kv_cache_update"}], device_id=1)
    assert check(blob(aliased, magic=b"TR02")) == f"ok cuda:1 in x out y aliases 1 engine {len(ENGINE)}"
    # Fields of later versions, and a missing device in blobs of earlier ones, are accepted.
    assert check(blob(metadata(device_id=None, aliased_io=None, later=[1]))).startswith("ok cuda:0 ")
    assert check(blob() + b"more").startswith("ok ")


@pytest.mark.slow
@pytest.mark.xdist_group("sanitizers")
def test_reads_nothing_outside_of_a_blob(sanitized: Path, sanitizer_options: dict[str, str], tmp_path: Path) -> None:
    """Parse every kind of bad blob with the compilers' sanitizers. (test_native_fuzz.py has random damage.)"""
    paths = []
    for number, (data, _) in enumerate(BAD.values()):
        paths.append(tmp_path / f"{number}.blob")
        paths[-1].write_bytes(data)
    command = [sanitized / "bin/blob_check", *paths]
    done = subprocess.run(command, env=sanitizer_options, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    said = done.stdout.splitlines()
    assert len(said) == len(BAD) >= 30
    assert all(line.startswith("bad ") for line in said)
