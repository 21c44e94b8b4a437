"""`inspect` and `run` on damaged files: the file's contents, or one line and a documented exit code."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from modelbuild.errors import UsageError
from modelbuild.inspect.facts import gather
from modelbuild.inspect.text import lines
from tests.hostile import cases, damaged, mutated, run_property

PORTS: dict[str, Any] = {
    "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 8], "dynamic": {}, "range": [0, 1]}],
    "outputs": [{"name": "o", "dtype": "int64", "shape": ["u0", 1]}],
}
SIGNATURE: dict[str, Any] = {"version": 2, "methods": {"forward": PORTS}}
NODE = {"name": "n0", "op": "aten.nonzero.default", "module": None, "backend": "portable"}


def delegation(size: int) -> dict[str, Any]:
    return {
        "version": 1,
        "totals": {"xnnpack": {"nodes": 1}},
        "partitions": [
            {
                **{"id": f"p{index}", "backend": "xnnpack", "nodes": 3, "processed_bytes": size, "named_bytes": 5},
                **{"processed_sha256": f"{index}" * 64, "about": {"kernels": [{"a": 1}], "c": [86, 89], "t": "x"}},
            }
            for index in range(2)
        ],
        "nodes": [
            {**NODE, "refused": [{"backend": "xnnpack", "why": "no such operator"}]},
            {"name": "n1", "op": "o", "backend": "xnnpack", "partition": "p0", "index": 0, "refused": []},
        ],
    }


@pytest.fixture
def program(foreign_program: Path, tmp_path: Path) -> Path:
    """Return a copy of a program, with copies of the files beside it."""
    path = tmp_path / "p.pte"
    shutil.copy(foreign_program, path)
    size = gather(path)["methods"][0]["partitions"][0]["bytes"]
    (tmp_path / "delegation.json").write_text(json.dumps(delegation(size)))
    (tmp_path / "signature.json").write_text(json.dumps(SIGNATURE))
    return path


def shown(program: Path) -> list[str]:
    facts = gather(program)
    json.dumps(facts)
    return [*lines(facts, every_node=False), *lines(facts, every_node=True)]


def test_all_that_is_to_be_damaged_is_good_before(program: Path) -> None:
    assert "outside partitions: 1 node" in shown(program)
    assert "  input  x: float32[2, 8]" in shown(program)


@cases(100, 5_000)
@pytest.mark.parametrize("name", ["delegation.json", "signature.json"])
def test_damaged_files_beside_a_program_are_shown_or_refused(program: Path, name: str, examples: int) -> None:
    good = (program.parent / name).read_bytes()

    def holds(content: bytes) -> None:
        (program.parent / name).write_bytes(content)
        with suppress(UsageError):
            shown(program)

    changed = mutated(json.loads(good)).map(lambda tables: json.dumps(tables, default=repr).encode())
    run_property(examples, changed | damaged(good), holds)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            b"{",
            "delegation.json: invalid JSON: EOF while parsing an object at line 1 column 1; expected the file",
        ),
        (b"\xff", "delegation.json: invalid JSON: "),
        (b"[" * 100_000, "delegation.json: invalid JSON: recursion limit exceeded"),
        (
            b"[]",
            "delegation.json: input should be an object; expected the file that a build writes next to the program",
        ),
        (b'{"nodes": 3, "partitions": []}', "delegation.json: nodes: input should be a valid array"),
        (
            b'{"nodes": [{}], "partitions": []}',
            "delegation.json: nodes[0].name: field required; expected the file that a build",
        ),
        (
            b'{"nodes": [], "partitions": [{"processed_bytes": "9"}]}',
            "delegation.json: partitions[0].processed_bytes: input should be a valid integer; expected the file",
        ),
        (
            b'{"nodes": [{"name": "a", "op": "b", "backend": "c", "refused": [{"backend": "d"}]}], "partitions": []}',
            "delegation.json: nodes[0].refused[0].why: field required; expected the file that a build writes "
            "next to the program",
        ),
    ],
)
def test_a_damaged_delegation_is_told_by_its_place(program: Path, content: bytes, problem: str) -> None:
    (program.parent / "delegation.json").write_bytes(content)
    with pytest.raises(UsageError) as caught:
        gather(program)
    assert str(caught.value).startswith(f"{program.parent}/{problem}")


@pytest.mark.parametrize("flag", ["--json", "--nodes"])
def test_a_damaged_delegation_ends_the_command_in_one_line(workspace: Any, program: Path, flag: str) -> None:
    (program.parent / "delegation.json").write_text('{"nodes": [3], "partitions": []}')
    ended = workspace.run("inspect", str(program), flag)
    assert (ended.code, ended.out) == (2, "")
    line, end = ended.err.split("\n")
    assert line.startswith(f"error: {program.parent}/delegation.json: nodes[0]: input should be an object; expected ")
    assert end == ""


def test_an_object_that_is_no_delegation_is_left_alone(program: Path) -> None:
    (program.parent / "delegation.json").write_text('{"nodes": []}')
    assert gather(program)["left"] is None


def test_names_of_several_lines_are_shown_on_one(workspace: Any, program: Path) -> None:
    size = gather(program)["methods"][0]["partitions"][0]["bytes"]
    hostile = json.loads(json.dumps(delegation(size)).replace("aten.nonzero.default", "a\\n\\u001b[31mb"))
    (program.parent / "delegation.json").write_text(json.dumps(hostile))
    (program.parent / "signature.json").write_text(json.dumps(SIGNATURE).replace('"x"', '"x\\n\\u2028"'))
    ended = workspace.run("inspect", str(program))
    assert ended.code == 0
    assert "  1 a\\n\\x1b[31mb, portable: xnnpack refused it: no such operator\n" in ended.out
    assert "  input  x\\n\\u2028: float32[2, 8]\n" in ended.out
