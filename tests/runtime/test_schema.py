"""The constants of ExecuTorch's files are those of the schemas in the installed executorch package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def generator(repository: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("program_schema", repository / "tools/program_schema.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


def test_the_files_are_current(generator: ModuleType) -> None:
    for path, text in generator.files().items():
        assert path.read_text() == text, "run python tools/program_schema.py"


def package(folder: Path, generator: ModuleType, program: str) -> Path:
    for name in (*generator.SOURCES, "schema/scalar_type.fbs"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    (folder / "schema/scalar_type.fbs").write_text("enum ScalarType : byte { BYTE = 0 }")
    (folder / "schema/program.fbs").write_text(program)
    return folder


def test_a_schema_is_read(generator: ModuleType, tmp_path: Path) -> None:
    read = generator.read_schema(
        package(
            tmp_path,
            generator,
            """
            enum Place : byte { INLINE = 0, // here
              FAR = 4, FARTHER }
            union Any { Text, Item }
            table Text { text: string; }
            table Item {
              place: Place = 0;  // field: ignored;
              any: Any;
              items: [Item];
              data: [ubyte] (force_align: 16);
              type: executorch_flatbuffer.ScalarType;
            }
            """,
        )
    )
    assert read.numbers == {"Place": {"INLINE": 0, "FAR": 4, "FARTHER": 5}, "Any": {"Text": 1, "Item": 2}}
    assert read.tables["Item"] == {
        "place": "int8",
        "any_type": "uint8",
        "any": "union Any",
        "items": "[table Item]",
        "data": "[uint8];16",
        "type": "int8",
    }


def test_a_default_other_than_zero_is_refused(generator: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="field number has the default 3"):
        generator.read_schema(package(tmp_path, generator, "table Item { number: int = 3; }"))


def test_the_tables_of_a_union_are_read(generator: ModuleType, tmp_path: Path) -> None:
    """As XNNPACK's schema has them, with another table for several members and a field that is no longer used."""
    program = """
        union Node { Add: _Pair, Sum: _Pair, One }
        table _Pair { input1_id: uint; input2_id: uint; output_id: uint; }
        table One { old: [ushort] (deprecated); input_id: uint; output_id: uint; scale: float; }
        """
    read = generator.read_schema(package(tmp_path, generator, program))
    assert read.members == {"Node": ["_Pair", "_Pair", "One"]}
    assert read.numbers["Node"] == {"Add": 1, "Sum": 2, "One": 3}
    assert list(read.tables["One"]) == ["old", "input_id", "output_id", "scale"]
