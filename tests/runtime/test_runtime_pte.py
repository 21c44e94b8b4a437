"""Reading a .pte: facts equal to ExecuTorch's own, and damaged files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from executorch.extension.pybindings import _C  # at first: what is loaded last gets ExecuTorch's messages

from modelbuild_runtime.dtypes import NAMES, item_size
from modelbuild_runtime.errors import ProgramError
from modelbuild_runtime.files.pte import read_program_file

SAMPLES = ("two", "xnnpack", "dynamic", "bfloat16", "uint8", "nonzero", "channels_last", "counter")


@pytest.mark.parametrize("name", SAMPLES)
def test_as_executorch_says(samples: dict[str, Any], name: str) -> None:
    path = samples[name].path
    meta = _C._load_for_executorch(str(path)).method_meta("forward")
    (method,) = read_program_file(path).methods
    assert method.name == "forward"
    theirs_in = [meta.input_tensor_meta(i) for i in range(meta.num_inputs())]
    theirs_out = [meta.output_tensor_meta(i) for i in range(meta.num_outputs())]
    for ours, theirs in ((method.inputs, theirs_in), (method.outputs, theirs_out)):
        assert [(v.sizes, v.dtype) for v in ours] == [(tuple(t.sizes()), NAMES[t.dtype()]) for t in theirs]


def test_numbers_of_element_types_are_executorchs() -> None:
    from executorch.exir.scalar_type import ScalarType

    kinds = ("BYTE", "LONG", "FLOAT", "COMPLEX32", "COMPLEX64", "COMPLEX128", "BOOL", "BFLOAT16")
    names = [NAMES[int(ScalarType[kind])] for kind in kinds]
    assert names == ["uint8", "int64", "float32", "complex32", "complex64", "complex128", "bool", "bfloat16"]
    assert [item_size(name) for name in names] == [1, 8, 4, 4, 8, 16, 1, 2]


def test_facts_that_executorch_does_not_print(samples: dict[str, Any]) -> None:
    def read(name: str) -> Any:
        return read_program_file(samples[name].path).methods[0]

    assert [v.bounded for v in (read("dynamic").inputs[0], read("two").inputs[0])] == [True, False]
    assert read("channels_last").inputs[0].dim_order == (0, 2, 3, 1)
    assert read("nonzero").outputs[0].bounded
    assert read("number").inputs[1].constant == 3
    assert read_program_file(samples["external"].path).external == ("linear.bias", "linear.weight")
    assert read_program_file(samples["two"].path).external == ()
    (delegate,) = read("xnnpack").delegates
    assert delegate.backend == "XnnpackBackend"
    assert delegate.size > 100
    assert read("two").planned > 0


def test_delegate_size_is_that_of_its_segment(samples: dict[str, Any]) -> None:
    from executorch.exir._serialize._program import deserialize_pte_binary

    data = samples["xnnpack"].path.read_bytes()
    program = deserialize_pte_binary(data).program
    (inline,) = program.backend_delegate_data  # executorch moves segments back inline when it reads a file
    (delegate,) = read_program_file(samples["xnnpack"].path).methods[0].delegates
    assert delegate.size == len(inline.data)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an ExecuTorch program: the file is empty"),
        (b"hello", "not an ExecuTorch program: it does not start like a .pte"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "not an ExecuTorch program: it does not start like a .pte"),
        (b"\x04\0\0\0ET12", "not an ExecuTorch program: an offset points to byte -842093633 of 8"),
        (b"\xff\xff\xff\x7fET12", "not an ExecuTorch program: an offset points to byte 2147483647 of 8"),
        (
            b"\x04\0\0\0ET12eh00" + (24).to_bytes(4, "little") + (999).to_bytes(8, "little") + bytes(8),
            "not an ExecuTorch program: its header claims 999 bytes of program in a file of 32",
        ),
    ],
)
def test_files_that_are_no_program(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x.pte"
    path.write_bytes(content)
    with pytest.raises(ProgramError) as caught:
        read_program_file(path)
    assert str(caught.value) == f"{path}: {message}"


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match=r"nope\.pte: No such file or directory"):
        read_program_file(tmp_path / "nope.pte")
    with pytest.raises(ProgramError, match="Is a directory"):
        read_program_file(tmp_path)


def test_describing_needs_no_torch(samples: dict[str, Any]) -> None:
    code = (
        "import sys; from modelbuild_runtime import load; print(load(sys.argv[1]).describe());"
        "print(sorted({'torch', 'executorch', 'PIL'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(samples["xnnpack"].path)],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"
