"""One file of weights for several programs: equal weights once, and different ones of one name refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from modelbuild.step import Step, StepError
from modelbuild_rules.backend_api.steps.named_data import Named
from modelbuild_rules.bundle.steps import shared_weights
from modelbuild_rules.program.steps.linking.data_file import read_data, write_data
from modelbuild_rules.program.steps.linking.segments import Blob, Contents
from modelbuild_runtime.files.data_file import check_data_file

VECTOR = {"scalar_type": 6, "sizes": [2], "dim_order": [0]}


def written(folder: Path, name: str, data: Mapping[str, bytes]) -> Path:
    """Write a .ptd of entries; those called `raw...` are not tensors."""
    entries = []
    for key, content in data.items():
        file = folder / f"{name}.{key}"
        file.write_bytes(content)
        layout = None if key.startswith("raw") else VECTOR
        entries.append((Named(key, file, external=True, layout=layout), Blob.file(file)))  # type: ignore[arg-type]
    path = folder / f"{name}.ptd"
    write_data(entries, Contents(), path, folder)
    return path


def joined(folder: Path, programs: Mapping[str, Mapping[str, bytes]]) -> Path:
    files = tuple(written(folder, name, data) for name, data in programs.items())
    shared_weights.run(Step({"programs": list(programs)}, {"ptd": files}, {"ptd": folder / "all.ptd"}, folder))
    return folder / "all.ptd"


def test_equal_weights_are_there_once(tmp_path: Path) -> None:
    backbone = bytes(range(200)) * 1000
    programs = {
        "one": {"raw.backbone": backbone, "head": b"12345678"},
        "two": {"raw.backbone": backbone, "raw.copy": backbone, "other": b"87654321"},
    }
    path = joined(tmp_path, programs)
    check_data_file(path)
    assert path.stat().st_size < len(backbone) + 10_000
    found = {entry.key: (blob.read(), entry.layout) for entry, blob in read_data(path)}
    assert found == {
        "raw.backbone": (backbone, None),
        "head": (b"12345678", VECTOR),
        "raw.copy": (backbone, None),
        "other": (b"87654321", VECTOR),
    }


@pytest.mark.parametrize("content", [b"87654321", b"123456781"])
def test_different_weights_of_one_name_are_an_error(tmp_path: Path, content: bytes) -> None:
    problem = "'head' of two differs from that of one, and one file of weights has one tensor of each name; expected"
    with pytest.raises(StepError, match="^" + re.escape(problem)):
        joined(tmp_path, {"one": {"head": b"12345678"}, "two": {"head": content}})
