"""The export step: models from files of torch.export.save and torch.jit.save."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

BOUNDS = {"n": {"min": 1, "max": 9, "example": None}}


class Small(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 4)
        self.register_buffer("scale", torch.full((4,), 2.0))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = torch.relu(self.linear(x)) * self.scale
        return {"y": y, "sum": y.sum(1)}


def made(*shape: int | str) -> list[dict[str, Any]]:
    return [{"name": "x", "shape": list(shape), "dtype": "float32", "range": None}]


def saved(path: Path, kind: str, module: torch.nn.Module) -> Path:
    x = torch.rand(2, 3)
    if kind == "pt2":
        shapes = ({0: torch.export.Dim("n", min=1, max=9)},)
        torch.export.save(torch.export.export(module, (x,), dynamic_shapes=shapes), path)
    elif kind == "scripted":
        torch.jit.script(module).save(path)
    else:
        torch.jit.trace(module, (x,), strict=False).save(path)
    return path


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["pt2", "scripted", "traced"])
def test_the_program_computes_what_the_file_does(export: Callable[..., Any], tmp_path: Path, kind: str) -> None:
    module = Small().eval()
    files = {"archive": (saved(tmp_path / "net.bin", kind, module),)}
    found = export("", made("n", 3), files, entry=None, dynamic=BOUNDS)
    assert [each["name"] for each in found.json("signature")["outputs"]] == ["y", "sum"]
    x = torch.rand(7, 3)
    values = torch.utils._pytree.tree_leaves(found.program().module()(x))
    for value, expected in zip(values, module(x).values(), strict=True):
        torch.testing.assert_close(value, expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["pt2", "scripted"])
def test_an_entry_may_read_the_file(export: Callable[..., Any], tmp_path: Path, kind: str) -> None:
    module = Small().eval()
    path = saved(tmp_path / "net.bin", kind, module)
    load = "torch.export.load({!r}).module()" if kind == "pt2" else "torch.jit.load({!r})"
    found = export(f"def Net():\n    return {load.format(str(path))}", made(2, 3))
    (x,) = found.examples()
    torch.testing.assert_close(torch.utils._pytree.tree_leaves(found.program().module()(x))[0], module(x)["y"])


class Code:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.filterwarnings("ignore")
def test_no_pickle_in_a_file_runs(refusal: Callable[..., str], tmp_path: Path) -> None:
    """A file whose pickled parts (constants, example inputs, weights) would create a file."""
    path, marker = saved(tmp_path / "net.pt2", "pt2", Small().eval()), tmp_path / "run"
    torch.save(Code(marker), tmp_path / "code.pt")
    code = (tmp_path / "code.pt").read_bytes()
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(tmp_path / "evil.pt2", "w") as target:
        for entry in source.infolist():
            content = source.read(entry)
            target.writestr(entry, code if entry.filename.endswith(".pt") else content)
    text = refusal("", made(2, 3), {"archive": (tmp_path / "evil.pt2",)}, entry=None)
    assert text.startswith(f"evil.pt2: torch {torch.__version__} cannot load it: ")
    assert not marker.exists()


def test_other_files(refusal: Callable[..., str], tmp_path: Path) -> None:
    torch.save(torch.ones(2), tmp_path / "tensor.pt")
    (tmp_path / "page.pt2").write_bytes(b"<html>not found</html>")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("readme", "")

    def refused(name: str) -> str:
        return refusal("", made(2, 3), {"archive": (tmp_path / name,)}, entry=None)

    expected = "expected a file of torch.export.save (.pt2) or torch.jit.save"
    assert refused("page.pt2") == f"page.pt2: not an archive of torch; {expected}"
    assert refused("other.zip") == f"other.zip: contains neither TorchScript nor an exported program; {expected}"
    assert refused("tensor.pt") == f"tensor.pt: contains neither TorchScript nor an exported program; {expected}"


@pytest.mark.filterwarnings("ignore")
def test_torchscript_that_torch_cannot_convert(refusal: Callable[..., str], tmp_path: Path) -> None:
    class Forked(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.jit.wait(torch.jit.fork(torch.relu, x))

    torch.jit.script(Forked()).save(tmp_path / "net.pt")
    text = refusal("", made(2, 3), {"archive": (tmp_path / "net.pt",)}, entry=None)
    assert text.startswith(
        f"torch {torch.__version__} cannot convert the TorchScript of net.pt to an exported program: "
    )
