"""`modelbuild inspect`: any .pte, ours or not, and targets; as a table and as JSON."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def test_a_program_that_is_not_ours(world: Any, foreign_program: Path) -> None:
    ended = world.run("inspect", str(foreign_program), "--json")
    assert ended.code == 0, ended.err
    (method,) = ended.json["methods"]
    (partition,) = method["partitions"]
    assert (partition["backend"], partition["engine"], partition["id"]) == ("XnnpackBackend", None, None)
    blob = foreign_program.read_bytes()[partition["offset"] : partition["offset"] + partition["bytes"]]
    assert blob[4:8] == b"XH00"
    assert [value["shape"] for value in partition["arguments"]] == [[2, 8], [8]]
    assert {value["device"] for value in partition["arguments"]} == {"cpu"}
    assert method["operators"]["aten::nonzero.out"] == 1
    assert ended.json["left"] is None
    text = world.run("inspect", str(foreign_program)).out
    assert "XnnpackBackend" in text
    assert f"{partition['bytes']:,}" in text
    assert "kernels outside partitions, calls of each: aten::nonzero.out 1" in text


def test_reasons_come_from_delegation_json(world: Any, foreign_program: Path) -> None:
    size = world.run("inspect", str(foreign_program), "--json").json["methods"][0]["partitions"][0]["bytes"]
    refused = [{"backend": "xnnpack", "why": "no such XNNPACK operator"}]
    nonzero = {"name": "n0", "op": "aten.nonzero.default", "module": None, "backend": "portable", "refused": refused}
    taken = {"name": "n1", "op": "aten.relu.default", "backend": "xnnpack", "partition": "p7", "refused": []}
    part = {"id": "p7", "backend": "xnnpack", "nodes": 3, "processed_bytes": size, "about": {"made": "by hand"}}
    world.root.joinpath("theirs.pte").write_bytes(foreign_program.read_bytes())
    world.write({"delegation.json": json.dumps({"nodes": [nonzero, taken], "partitions": [part]})})
    text = world.run("inspect", "theirs.pte").out
    assert "0 p7  XnnpackBackend  3" in text
    assert "made by hand" in text
    assert "outside partitions: 1 node\n" in text
    assert "1 aten.nonzero.default, portable: xnnpack refused it: no such XNNPACK operator" in text
    assert "n0 (aten.nonzero.default), portable: xnnpack" in world.run("inspect", "theirs.pte", "--nodes").out
    assert world.run("inspect", "theirs.pte", "--json").json["left"] == [nonzero]
    world.write({"delegation.json": "{}"})
    assert world.run("inspect", "theirs.pte", "--json").json["left"] is None


def test_blobs_of_one_size_are_told_apart(world: Any, foreign_program: Path) -> None:
    found = world.run("inspect", str(foreign_program), "--json").json["methods"][0]["partitions"][0]
    blob = foreign_program.read_bytes()[found["offset"] : found["offset"] + found["bytes"]]
    digests = (hashlib.sha256(b"another").hexdigest(), hashlib.sha256(blob).hexdigest())
    parts = [
        {
            "id": f"p{i}",
            "nodes": 3 + i,
            "processed_bytes": found["bytes"],
            "processed_sha256": digest,
            "named_bytes": 1234,
        }
        for i, digest in enumerate(digests)
    ]
    parts[1]["about"] = {"kernels": [{"name": "a"}, {"name": "b"}], "capabilities": [86, 89]}
    world.root.joinpath("theirs.pte").write_bytes(foreign_program.read_bytes())
    world.write({"delegation.json": json.dumps({"nodes": [], "partitions": parts})})
    text = world.run("inspect", "theirs.pte").out
    assert f"0 p1  XnnpackBackend  4      {found['bytes']:,} + 1,234" in text
    assert "kernels 2; capabilities 86, 89" in text


def test_a_target_is_built_first(world: Any, foreign_program: Path) -> None:
    world.write({"MODELBUILD.toml": "", "m/BUILD.toml": '[[filegroup]]\nname = "p"\nsrcs = ["p.pte"]\n'})
    (world.root / "m/p.pte").write_bytes(foreign_program.read_bytes())
    ended = world.run("inspect", "//m:p", "--json")
    assert ended.code == 0, ended.err
    assert ended.json["methods"][0]["partitions"][0]["backend"] == "XnnpackBackend"
    assert "expected the label of one" in world.run("inspect", "//m/...").err


def test_a_model_is_not_exported_to_find_that_it_is_no_program(world: Any) -> None:
    model = """
[[torch_model]]
name = "m"
entry = "m.py:M"
srcs = ["m.py"]
inputs = [{ name = "x", shape = [1], dtype = "float32" }]
"""
    world.write({"MODELBUILD.toml": "", "m/BUILD.toml": model, "m/m.py": "raise SystemExit('never run')\n"})
    ended = world.run("inspect", "//m:m")
    message = "error: //m:m: expected a target that gives one .pte, but it gives signature.json, debug.json"
    assert (ended.code, ended.out, ended.err.splitlines()) == (2, "", [message])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.pte", None, "no file none.pte; expected a .pte, or the label of a target that gives one"),
        ("empty.pte", b"", "not an ExecuTorch program: the file is empty"),
        ("other.pte", b"x" * 64, "not an ExecuTorch program: it does not start as a .pte does"),
        ("photo.png", b"\x89PNG" * 9, "not an ExecuTorch program: it does not start as a .pte does"),
    ],
)
def test_what_is_no_program(world: Any, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        (world.root / name).write_bytes(content)
    ended = world.run("inspect", name)
    assert ended.code == 2
    assert message in ended.err
    assert "Traceback" not in ended.err


def test_it_needs_no_torch(foreign_program: Path) -> None:
    script = (
        "import sys\nfrom pathlib import Path\nfrom modelbuild.inspect.facts import gather\n"
        f"gather(Path({str(foreign_program)!r}))\nassert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
