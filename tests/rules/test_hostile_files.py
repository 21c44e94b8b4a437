"""Arbitrary contents of files that a target names: steps accept them or fail in one line."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from PIL import Image
from safetensors.torch import save

from modelbuild.step import StepError
from modelbuild_rules.backends.cuda.steps.kernels.timing import tuning_text
from modelbuild_rules.backends.cuda.steps.kernels.tuning import describe, read
from modelbuild_rules.bundle.steps.runtime.archive import Calls, lay_out
from modelbuild_rules.files.steps.pypi_file import extract
from modelbuild_rules.model.steps.eager.entry import load_weights
from modelbuild_rules.model.steps.eager.example_inputs import example_inputs
from tests.hostile import cases, damaged, mutated, run_property

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:torch")


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(3, 2))


def saved(value: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file, **options)
    return file.getvalue()


def compressed(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for entry in source.infolist():
            packed.writestr(entry.filename, source.read(entry))
    return file.getvalue()


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def png() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (4, 4)).save(file, "PNG")
    return file.getvalue()


def packed(runtime: Any) -> bytes:
    runner = b"\x7fELF\2\1\1" + bytes(11) + b"\x3e" + bytes(45)
    files = dict.fromkeys(RUNTIME["files"], b"") | {"bin/modelbuild-run": runner}
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, content in {**files, "runtime.json": json.dumps(runtime, default=repr).encode()}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return file.getvalue()


def weights(path: Path) -> None:
    load_weights(Net(), {"": path}, allow_missing=True)


def example(path: Path) -> None:
    declared = {"name": "x", "shape": None, "dtype": None, "range": None}
    example_inputs([declared], {}, 0, {"example.0": (path,)})


def tuning(path: Path) -> None:
    for key, entry in read(path, "2.14.0", "3.8.0", 90).items():
        assert describe(key)
        assert isinstance(entry.chosen, dict)


def runtime(path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        lay_out(path, Calls(), Path(folder))


def wheel(path: Path) -> None:
    params = {"path": "x/y.pt", "sha256": hashlib.sha256(b"weights" * 99).hexdigest()}
    extract(path, params, path.with_suffix(".out"))


def wheel_of(method: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("x/y.pt", b"weights" * 99)
        archive.writestr("x/z.pt", b"other")
    return file.getvalue()


CHOICE = {
    **{"op": "mm", "inputs": ["float32 [8, 4]"], "output": "float32 [8, 8]", "options": {"A": 1, "B": "x"}},
    **{"chosen": {"template": "mm", "BLOCK_M": 64}, "microseconds": 3.5, "by_cost": 4.0, "gpu": "H100"},
}
TUNING = tuning_text([CHOICE, {**CHOICE, "op": "bmm"}], "2.14.0", "3.8.0", "9.0").encode()
RUNTIME: dict[str, Any] = {
    **{"version": 2, "versions": {}, "driver": "580", "cudart": "lib/cudart.so"},
    **{"backends": {"CudaBackend": {"files": ["lib/cuda.so"], "flavours": [], "no_flavour": "none"}}},
    **{"kernels": "lib/kernels.so", "quantized_kernels": "lib/kernels.so"},
    "files": {
        "bin/modelbuild-run": {"needs": ["lib/core.so"], "glibc": "2.28"},
        **{f"lib/{name}.so": {"needs": [], "glibc": "2.1"} for name in ("core", "cuda", "kernels")},
    },
}
STATE = {"w": torch.zeros(3, 2)}
GOOD: tuple[tuple[Callable[[Path], None], str, bytes], ...] = (
    (weights, "w.safetensors", save(STATE)),
    (weights, "w.pt", saved(STATE)),
    (weights, "w.pt", saved({"state_dict": STATE})),
    (weights, "w.pt", saved(STATE, _use_new_zipfile_serialization=False)),
    (example, "x.pt", saved(torch.zeros(2, 2))),
    (example, "x.npy", npy(np.zeros((2, 3), np.float32))),
    (example, "x.png", png()),
    (tuning, "t.json", TUNING),
    (runtime, "r.tar", packed(RUNTIME)),
    *((wheel, "w.whl", wheel_of(method)) for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA)),
)
BAD: tuple[tuple[Callable[[Path], None], str, bytes, str], ...] = (
    (weights, "w.pt", saved({1: torch.zeros(1)}), "w.pt: expected a state dict, a table of tensors by name"),
    (weights, "w.pt", saved({"w": torch.zeros(3, 2).to_sparse()}), "the weights cannot be loaded into the module: "),
    (weights, "w.pt", compressed(saved(STATE)), "w.pt: cannot be read as weights only: it is compressed; expected"),
    (example, "x.pt", compressed(saved(torch.zeros(1))), "x.pt: cannot be read as a tensor: it is compressed; "),
    (example, "x.pt", saved(torch.zeros(2, 2).to_sparse()), "x.pt: expected a dense tensor of plain numbers, got"),
    (example, "x.pt", saved(torch.zeros(2, dtype=torch.complex64)), "x.pt: expected real numbers, got torch.complex64"),
    (example, "x.npy", npy(np.zeros(2, "M8[s]")), "x.npy: cannot be read as a tensor: "),
    (tuning, "t.json", b"\xff" + TUNING, "t.json:1: not a tuning file: "),
    (tuning, "t.json", b"[" * 100_000, "t.json:1: not a tuning file: "),
    (
        tuning,
        "t.json",
        TUNING.replace(b'["float32 [8, 4]"]', b"[1]"),
        "t.json:7: 'inputs' of an entry is invalid; expected",
    ),
    (tuning, "t.json", TUNING.replace(b'"A": 1', b'"A": [1]'), "t.json:7: 'options' of an entry is invalid; expected"),
    (runtime, "r.tar", b"junk", "the runtime has no runtime.json of version 2; expected"),
    (runtime, "r.tar", packed([]), "the runtime has no runtime.json of version 2; expected"),
    (
        runtime,
        "r.tar",
        packed({**RUNTIME, "kernels": "../x"}),
        "the runtime has no runtime.json of version 2; expected",
    ),
    (runtime, "r.tar", packed(RUNTIME)[:2000], "the runtime has no runtime.json of version 2; expected"),
    (
        runtime,
        "r.tar",
        packed(RUNTIME).replace(b"\x7fELF", b"\0ELF"),
        "bin/modelbuild-run of the runtime is not a program",
    ),
)


@pytest.mark.parametrize("number", range(len(GOOD)))
def test_all_that_is_to_be_damaged_is_good_before(tmp_path: Path, number: int) -> None:
    reads, name, content = GOOD[number]
    (tmp_path / name).write_bytes(content)
    reads(tmp_path / name)


@pytest.mark.parametrize("number", range(len(BAD)))
def test_files_that_are_something_else(tmp_path: Path, number: int) -> None:
    reads, name, content, problem = BAD[number]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(StepError) as caught:
        reads(tmp_path / name)
    assert str(caught.value).startswith(problem)


def _spoiled(case: tuple[Callable[[Path], None], str, bytes]) -> st.SearchStrategy[bytes]:
    reads, _, content = case
    if reads is tuning:
        return damaged(content) | mutated(json.loads(content)).map(lambda d: json.dumps(d, default=repr).encode())
    return damaged(content) | mutated(RUNTIME).map(packed) if reads is runtime else damaged(content)


@cases(250, 10_000)
def test_damaged_files_are_read_or_refused(tmp_path: Path, examples: int) -> None:
    def holds(case: tuple[Callable[[Path], None], str, bytes]) -> None:
        reads, name, content = case
        (tmp_path / name).write_bytes(content)
        with suppress(StepError):
            reads(tmp_path / name)

    files = st.sampled_from(GOOD)
    run_property(examples, files.flatmap(lambda f: _spoiled(f).map(lambda content: (f[0], f[1], content))), holds)


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ({"shape": [2**62]}, "input 'x': no example of shape [4611686018427387904]: "),
        ({"shape": [2**32, 2**32]}, "input 'x': no example of shape [4294967296, 4294967296]: "),
        ({"dtype": "int64", "range": [0, 1e30]}, "input 'x': no example of shape [2]: "),
    ],
)
def test_examples_that_cannot_be_drawn(declared: dict[str, Any], problem: str) -> None:
    with pytest.raises(StepError) as caught:
        example_inputs([{"name": "x", "shape": [2], "dtype": "float32", "range": None, **declared}], {}, 0, {})
    assert str(caught.value).startswith(problem)
