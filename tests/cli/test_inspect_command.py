"""`modelbuild inspect`: any .pte, ours or not, and targets; as a table and as JSON."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.format_shapes import check_format
from tests.sealed_programs import seal_copy


def test_a_program_that_is_not_ours(workspace: Any, foreign_program: Path) -> None:
    ended = workspace.run("inspect", str(foreign_program), "--json")
    assert ended.code == 0, ended.err
    (method,) = ended.json["methods"]
    (partition,) = method["partitions"]
    assert (partition["backend"], partition["blob"], partition["id"]) == ("XnnpackBackend", None, None)
    blob = foreign_program.read_bytes()[partition["offset"] : partition["offset"] + partition["bytes"]]
    assert blob[4:8] == b"XH00"
    assert [value["shape"] for value in partition["arguments"]] == [[2, 8], [8]]
    assert {value["device"] for value in partition["arguments"]} == {"cpu"}
    assert method["operators"]["aten::nonzero.out"] == 1
    assert ended.json["left"] is None
    check_format("inspect", ended.json, ("methods[].operators", "methods[].partitions[].operators"))
    text = workspace.run("inspect", str(foreign_program)).out
    assert "XnnpackBackend" in text
    assert f"{partition['bytes']:,}" in text
    assert "kernels outside partitions, calls of each: aten::nonzero.out 1" in text


def test_reasons_come_from_delegation_json(workspace: Any, foreign_program: Path) -> None:
    size = workspace.run("inspect", str(foreign_program), "--json").json["methods"][0]["partitions"][0]["bytes"]
    refused = [{"backend": "xnnpack", "why": "no such XNNPACK operator"}]
    nonzero = {"name": "n0", "op": "aten.nonzero.default", "module": None, "backend": "portable", "refused": refused}
    taken = {"name": "n1", "op": "aten.relu.default", "backend": "xnnpack", "partition": "p7", "refused": []}
    part = {"id": "p7", "backend": "xnnpack", "nodes": 3, "processed_bytes": size, "about": {"made": "by hand"}}
    workspace.root.joinpath("theirs.pte").write_bytes(foreign_program.read_bytes())
    workspace.write({"delegation.json": json.dumps({"nodes": [nonzero, taken], "partitions": [part]})})
    text = workspace.run("inspect", "theirs.pte").out
    assert "0 p7  XnnpackBackend  3" in text
    assert "made by hand" in text
    assert "outside partitions: 1 node\n" in text
    assert "1 aten.nonzero.default, portable: xnnpack refused it: no such XNNPACK operator" in text
    assert "n0 (aten.nonzero.default), portable: xnnpack" in workspace.run("inspect", "theirs.pte", "--nodes").out
    assert workspace.run("inspect", "theirs.pte", "--json").json["left"] == [nonzero]
    workspace.write({"delegation.json": "{}"})
    assert workspace.run("inspect", "theirs.pte", "--json").json["left"] is None


def test_a_lone_file_shows_the_facts_of_its_manifest(workspace: Any, foreign_program: Path) -> None:
    """Without signature.json and delegation.json beside it."""
    (found,) = workspace.run("inspect", str(foreign_program), "--json").json["methods"][0]["partitions"]
    digest = hashlib.sha256(foreign_program.read_bytes()[found["offset"] :][: found["bytes"]]).hexdigest()
    facts = {
        "device": {"arch": "aarch64", "os": "linux", "compute_capabilities": ["8.7"]},
        "versions": {"torch": "2.14.0", "executorch": "1.5.1"},
        "parts": [{"id": "p3", "backend": "xnnpack", "bytes": found["bytes"], "sha256": digest}],
    }
    ports = {
        "inputs": [{"name": "image", "dtype": "float32", "shape": [2, 8]}],
        "outputs": [{"name": "places", "dtype": "int64", "shape": ["n", 1]}],
    }
    signature = {"version": 2, "methods": {"forward": ports}}
    seal_copy(foreign_program, workspace.root / "theirs.pte", **facts, signature=signature)
    ended = workspace.run("inspect", "theirs.pte", "--json")
    assert {name: ended.json[name] for name in facts} == facts
    (partition,) = ended.json["methods"][0]["partitions"]
    assert (partition["id"], partition["sha256"]) == ("p3", digest)
    text = workspace.run("inspect", "theirs.pte").out
    assert (
        "for linux on aarch64 with a GPU of compute capability 8.7\nmade with executorch 1.5.1, torch 2.14.0\n" in text
    )
    assert "  input  image: float32[2, 8]" in text
    (row,) = [line for line in text.splitlines() if "XnnpackBackend" in line]
    assert row.split()[:2] == ["0", "p3"]
    assert digest[:12] in row


def test_blobs_of_one_size_are_told_apart(workspace: Any, foreign_program: Path) -> None:
    found = workspace.run("inspect", str(foreign_program), "--json").json["methods"][0]["partitions"][0]
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
    workspace.root.joinpath("theirs.pte").write_bytes(foreign_program.read_bytes())
    workspace.write({"delegation.json": json.dumps({"nodes": [], "partitions": parts})})
    text = workspace.run("inspect", "theirs.pte").out
    assert f"0 p1  XnnpackBackend  4      {found['bytes']:,} + 1,234" in text
    assert "kernels 2; capabilities 86, 89" in text


@pytest.fixture(scope="module")
def engine_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a .pte with one TensorRT delegate, whose engine is fake but names its architectures like a real one."""
    import torch
    from executorch.exir import to_edge_transform_and_lower
    from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
    from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult

    from modelbuild_rules.backends.tensorrt.steps.engine.blob import Metadata, write_blob

    folder = tmp_path_factory.mktemp("engine")
    write_blob(folder / "blob", Metadata(("left",), ("right",), 1), b"accelerators={sm86 sm89}" * 4)

    class TensorRTBackend(BackendDetails):  # found by the name of its class
        @staticmethod
        def preprocess(program: Any, specs: Any) -> Any:
            return PreprocessResult((folder / "blob").read_bytes())

    class Everything(Partitioner):
        def partition(self, program: Any) -> Any:
            for node in program.graph.nodes:
                if node.op == "call_function":
                    node.meta["delegation_tag"] = "all"
            return PartitionResult(program, {"all": DelegationSpec(TensorRTBackend.__name__, [])})

    exported = torch.export.export(torch.nn.ReLU(), (torch.ones(2, 8),))
    lowered = to_edge_transform_and_lower(exported, partitioner=[Everything()]).to_executorch()
    (folder / "engine.pte").write_bytes(lowered.buffer)
    return folder / "engine.pte"


SUMMARY = "for compute capability 8.6, 8.9 on GPU 1"


@pytest.mark.parametrize("files", [{}, {"MODELBUILD.toml": ""}], ids=["outside a workspace", "in a workspace"])
def test_a_backend_that_comes_with_modelbuild_describes_its_blobs(
    new_workspace: Any, engine_program: Path, files: dict[str, str]
) -> None:
    workspace = new_workspace()
    workspace.write(files)
    ended = workspace.run("inspect", str(engine_program), "--json")
    assert ended.code == 0, ended.err
    blob = ended.json["methods"][0]["partitions"][0]["blob"]
    assert (blob["inputs"], blob["outputs"]) == (["left"], ["right"])
    assert (blob["facts"]["device_id"], blob["facts"]["compute_capabilities"]) == (1, ["8.6", "8.9"])
    text = workspace.run("inspect", str(engine_program)).out
    assert SUMMARY in text
    assert "in  left: float32[2, 8]" in text


def test_a_blob_that_its_backend_cannot_read_is_said(workspace: Any, engine_program: Path) -> None:
    (workspace.root / "other.pte").write_bytes(engine_program.read_bytes().replace(b"TR01", b"TR99"))
    ended = workspace.run("inspect", "other.pte", "--json")
    problem = "not a TensorRT delegate's blob; expected it to begin with TR01"
    assert (ended.code, ended.json["methods"][0]["partitions"][0]["blob"]) == (0, {"problem": problem})
    assert problem in workspace.run("inspect", "other.pte").out


OWN = """
from typing import Literal
from modelbuild.api import Attrs, Extension

class Own(Attrs):
    type: Literal["own"]

OWN = Extension("backend", "own", Own, delegate="XnnpackBackend", describing="tools_rules.steps.reading")
"""
READING = """
from modelbuild.api import Blob

def describe(path, offset, size):
    with path.open("rb") as file:
        file.seek(offset)
        magic = file.read(8)[4:].decode()
    return Blob(f"{magic} of {size} bytes", ("a",), ("b",), {"magic": magic})
"""


def own_backend(workspace: Any, reading: str) -> Any:
    files = {"__init__.py": "", "own.py": OWN, "steps/__init__.py": "", "steps/reading.py": reading}
    workspace.write({"MODELBUILD.toml": 'rules = ["//tools/rules"]\n'})
    workspace.write({f"tools/rules/{name}": text for name, text in files.items()})
    return workspace


def test_a_backend_of_the_workspace_describes_its_blobs(new_workspace: Any, foreign_program: Path) -> None:
    workspace = own_backend(new_workspace(), READING)
    (method,) = workspace.run("inspect", str(foreign_program), "--json").json["methods"]
    (partition,) = method["partitions"]
    summary = f"XH00 of {partition['bytes']} bytes"
    assert partition["blob"] == {"summary": summary, "inputs": ["a"], "outputs": ["b"], "facts": {"magic": "XH00"}}
    text = workspace.run("inspect", str(foreign_program)).out
    assert summary in text
    assert "in  a: float32[2, 8]" in text


@pytest.mark.parametrize(
    ("reading", "problem"),
    [
        ("def describe(path, offset, size):\n    return 3 / 0\n", "ZeroDivisionError: division by zero"),
        ("def describe(path, offset, size):\n    return {}\n", "describe returned dict; expected Blob"),
        (READING.replace('"magic": magic', '"magic": path'), "Object of type PosixPath is not JSON serializable"),
        ("import nothing_of_the_kind\n", "No module named 'nothing_of_the_kind'"),
    ],
)
def test_a_backend_that_fails_to_describe_a_blob_is_named(
    new_workspace: Any, foreign_program: Path, reading: str, problem: str
) -> None:
    ended = own_backend(new_workspace(), reading).run("inspect", str(foreign_program))
    assert (ended.code, ended.out, len(ended.err.splitlines())) == (3, "", 1), ended.err
    assert ended.err.startswith("error: backend 'own' failed to describe its blob: ")
    assert problem in ended.err


def test_rules_that_do_not_load_keep_no_program_from_being_inspected(new_workspace: Any, engine_program: Path) -> None:
    workspace = own_backend(new_workspace(), READING)
    workspace.write({"tools/rules/own.py": "import nothing_of_the_kind\n"})
    ended = workspace.run("inspect", str(engine_program))
    assert (ended.code, len(ended.err.splitlines())) == (0, 1)
    assert ended.err.startswith("warning: ")
    assert SUMMARY in ended.out


def test_a_target_is_built_first(workspace: Any, foreign_program: Path) -> None:
    workspace.write({"MODELBUILD.toml": "", "m/BUILD.toml": '[[filegroup]]\nname = "p"\nsrcs = ["p.pte"]\n'})
    (workspace.root / "m/p.pte").write_bytes(foreign_program.read_bytes())
    ended = workspace.run("inspect", "//m:p", "--json")
    assert ended.code == 0, ended.err
    assert ended.json["methods"][0]["partitions"][0]["backend"] == "XnnpackBackend"
    assert "expected the label of one" in workspace.run("inspect", "//m/...").err


def test_a_model_is_not_exported_to_find_that_it_is_no_program(workspace: Any) -> None:
    model = """
[[torch_model]]
name = "m"
entry = "m.py:M"
inputs = [{ name = "x", shape = [1], dtype = "float32" }]
"""
    workspace.write({"MODELBUILD.toml": "", "m/BUILD.toml": model, "m/m.py": "raise SystemExit('never run')\n"})
    ended = workspace.run("inspect", "//m:m")
    message = "error: //m:m: expected a target with one .pte, but it has signature.json, debug.json"
    assert (ended.code, ended.out, ended.err.splitlines()) == (2, "", [message])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.pte", None, "no file none.pte; expected a .pte, or the label of a target that builds one"),
        ("empty.pte", b"", "not an ExecuTorch program: the file is empty"),
        ("other.pte", b"x" * 64, "not an ExecuTorch program: it does not start like a .pte"),
        ("photo.png", b"\x89PNG" * 9, "not an ExecuTorch program: it does not start like a .pte"),
    ],
)
def test_invalid_programs(workspace: Any, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        (workspace.root / name).write_bytes(content)
    ended = workspace.run("inspect", name)
    assert ended.code == 2
    assert message in ended.err
    assert "Traceback" not in ended.err


def test_it_needs_no_torch(foreign_program: Path) -> None:
    script = (
        "import sys\nfrom pathlib import Path\nfrom modelbuild.inspect.facts import gather\n"
        f"gather(Path({str(foreign_program)!r}))\nassert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_calls_are_in_order_with_the_calls_that_made_their_arguments(workspace: Any, foreign_program: Path) -> None:
    ended = workspace.run("inspect", str(foreign_program), "--json")
    (method,) = ended.json["methods"]
    delegates = [call["delegate"] for call in method["calls"] if call["kernel"] == ""]
    assert delegates == [0]
    first, *rest = method["calls"]
    assert (first["after"], first["inputs"]) == ([], True)
    assert all(made < number for number, call in enumerate(method["calls"]) for made in call["after"])
    assert all(call["after"] or call["inputs"] for call in rest)


def test_it_says_on_how_many_calls_a_program_was_compared(workspace: Any, foreign_program: Path) -> None:
    workspace.root.joinpath("theirs.pte").write_bytes(foreign_program.read_bytes())
    workspace.write({"delegation.json": json.dumps({"nodes": [], "partitions": []})})
    assert "not compared with its model" in workspace.run("inspect", "theirs.pte").out.splitlines()
    methods = {"forward": {"calls": ["the example inputs", "drawn inputs"], "random": False}}
    workspace.write({"verified.json": json.dumps({"version": 1, "methods": methods})})
    assert "compared with its model on 2 calls" in workspace.run("inspect", "theirs.pte").out.splitlines()
    workspace.write({"verified.json": "[]"})
    ended = workspace.run("inspect", "theirs.pte")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "verified.json: not the result of a comparison with a model" in ended.err
