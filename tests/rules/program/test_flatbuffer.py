"""Records of ExecuTorch's schemas: written and read back, without executorch."""

from __future__ import annotations

import subprocess
import sys

import pytest

from modelbuild_rules.program.steps.linking.flatbuffer import Record, read_program, write_program
from modelbuild_runtime.files import schema

VALUES = [
    ("Null", {}),
    ("Int", {"int_val": -(2**40)}),
    ("Bool", {"bool_val": True}),
    ("Double", {"double_val": 0.5}),
    ("String", {"string_val": "é"}),
    ("IntList", {"items": [1, -1]}),
    ("DoubleList", {"items": [0.5]}),
    ("BoolList", {"items": [True, False]}),
    ("TensorList", {"items": []}),
    ("Tensor", {"scalar_type": 6, "sizes": [2, 3], "dim_order": b"\0\1", "data_buffer_idx": 1}),
]


def program() -> Record:
    values = [
        Record(schema.EValue, val_type=getattr(schema.KernelTypes, kind), val=Record(getattr(schema, kind), **fields))
        for kind, fields in VALUES
    ]
    plan = Record(schema.ExecutionPlan, name="forward", values=values)
    inline = [Record(schema.BackendDelegateInlineData, data=b"ab")]
    return Record(schema.Program, version=1, execution_plan=[plan], backend_delegate_data=inline)


def test_every_kind_of_field_is_read_as_written() -> None:
    data = write_program(program())
    assert data[4:8] == b"ET12"
    assert read_program(data) == program()
    assert data.index(b"ab") % 16 == 0


def test_an_unknown_field_is_an_error() -> None:
    with pytest.raises(AttributeError, match="NamedData has no field name"):
        Record(schema.NamedData, name="x")


def test_linking_imports_no_executorch() -> None:
    program = (
        "import sys, tests.rules.program.test_flatbuffer as t, modelbuild_rules.program.steps.linking.link;"
        "t.test_every_kind_of_field_is_read_as_written();"
        "sys.exit('executorch' in sys.modules or 'torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
