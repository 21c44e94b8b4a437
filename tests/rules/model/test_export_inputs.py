"""The export step: declared shapes and bounds, and the sources of example inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image


def made(name: str, *shape: int | str, dtype: str = "float32", span: Any = None) -> dict[str, Any]:
    return {"name": name, "shape": list(shape), "dtype": dtype, "range": span}


def bounds(low: int, high: int, example: int | None = None) -> dict[str, int | None]:
    return {"min": low, "max": high, "example": example}


class TestShapes:
    TWO = "class Net(nn.Module):\n    def forward(self, a, b):\n        return torch.cat([a, b], 1), a * 2"

    def test_dynamic_dimensions_by_name(self, export: Callable[..., Any]) -> None:
        inputs = [made("a", "n", 3), made("b", "n", "wide", span=[-1, 1])]
        found = export(self.TWO, inputs, dynamic={"n": bounds(1, 9), "wide": bounds(2, 5, 4)})
        assert [list(each.shape) for each in found.examples()] == [[2, 3], [2, 4]]
        signature = found.json("signature")
        assert signature["inputs"][1] == {
            "name": "b",
            "dtype": "float32",
            "shape": ["n", "wide"],
            "dynamic": {"n": {"min": 1, "max": 9}, "wide": {"min": 2, "max": 5}},
            "range": [-1, 1],
        }
        assert signature["outputs"] == [
            {"name": "output0", "dtype": "float32", "shape": ["n", "wide + 3"]},
            {"name": "output1", "dtype": "float32", "shape": ["n", 3]},
        ]
        module = found.program().module()
        for n, wide in ((1, 2), (7, 5)):
            a, b = torch.randn(n, 3), torch.randn(n, wide)
            torch.testing.assert_close(module(a, b), (torch.cat([a, b], 1), a * 2))

    def test_bounds_decide_the_program(self, export: Callable[..., Any]) -> None:
        inputs = [made("a", "n", 3), made("b", "n", 3)]
        one, other = (export(self.TWO, inputs, dynamic={"n": bounds(1, high)}) for high in (9, 10))
        assert one.bytes()["program/program.json"] != other.bytes()["program/program.json"]

    def test_sizes_that_the_code_does_not_take(self, refusal: Callable[..., str]) -> None:
        source = "class Net(nn.Module):\n    def forward(self, x):\n        return x.reshape(2, 3)"
        assert refusal(source, [made("x", "n", 3)], dynamic={"n": bounds(1, 9)}) == (
            "m/net.py:Net does not accept every size that 'dynamic' allows; torch.export suggests n = 2"
        )

    def test_only_even_sizes(self, refusal: Callable[..., str]) -> None:
        even = "x.shape[0] % 2 == 0"
        source = f"class Net(nn.Module):\n    def forward(self, x):\n        return x.view(2, -1) if {even} else x"
        assert refusal(source, [made("x", "n")], dynamic={"n": bounds(1, 9)}) == (
            "m/net.py:Net does not accept every size that 'dynamic' allows; torch.export suggests"
            ' _n = { min = 1, max = 4 }, n = "2*_n"'
        )

    def test_sizes_that_have_no_suggestion(self, refusal: Callable[..., str]) -> None:
        square = "x.shape[0] ** 2 > 10"
        source = f"class Net(nn.Module):\n    def forward(self, x):\n        return x + 1 if {square} else x"
        assert refusal(source, [made("x", "n")], dynamic={"n": bounds(1, 9, 4)}) == (
            f"m/net.py:Net does not accept every size that 'dynamic' allows; torch {torch.__version__}: Not all values"
            " of n in the specified range n <= 9 satisfy the generated guard n*n > 10"
        )

    def test_sums_that_have_no_suggestion(self, refusal: Callable[..., str]) -> None:
        source = "class Net(nn.Module):\n    def forward(self, a, b, c):\n        return c.view(5), a, b"
        inputs = [made("a", "n"), made("b", "m"), made("c", "s")]
        sizes = {"n": bounds(1, 9, 2), "m": bounds(1, 9, 3), "s": dependent(2, 18, n=1, m=1) | {"example": 5}}
        assert refusal(source, inputs, dynamic=sizes).startswith(
            f"m/net.py:Net does not accept every size that 'dynamic' allows; torch {torch.__version__}: You marked"
            " dimension 0 of 'c' as dynamic but your code specialized it to be a constant (5)"
        )


def dependent(low: int, high: int, plus: int = 0, **terms: int) -> dict[str, Any]:
    return {"min": low, "max": high, "example": None, "terms": terms, "plus": plus}


class TestDependentSizes:
    """Dimensions that are multiples or sums of others, and those that torch.export decides on."""

    EVEN = "class Net(nn.Module):\n    def forward(self, x):\n        return x.view(x.shape[0] // 2, 2).sum(1)"
    JOINED = "class Net(nn.Module):\n    def forward(self, a, b, m):\n        return torch.cat([a, b]) + m"

    def test_a_multiple(self, export: Callable[..., Any]) -> None:
        sizes = {"half": bounds(1, 4), "n": dependent(2, 8, half=2)}
        found = export(self.EVEN, [made("x", "n")], dynamic=sizes)
        signature = found.json("signature")
        assert [list(each.shape) for each in found.examples()] == [[4]]
        assert signature["inputs"][0]["shape"] == ["n"]
        assert signature["inputs"][0]["dynamic"] == {
            "n": {"min": 2, "max": 8, "terms": {"half": 2}, "plus": 0},
            "half": {"min": 1, "max": 4},
        }
        assert signature["outputs"][0]["shape"] == ["half"]
        for size in (2, 8):
            x = torch.randn(size)
            assert torch.equal(found.program().module()(x), x.view(-1, 2).sum(1))

    def test_a_multiple_and_more_of_a_dimension_of_an_input(self, export: Callable[..., Any]) -> None:
        source = "class Net(nn.Module):\n    def forward(self, a, b):\n        return torch.cat([a, a, a[:1]]) + b"
        sizes = {"n": bounds(2, 5), "m": dependent(5, 11, 1, n=2)}
        found = export(source, [made("a", "n"), made("b", "m")], dynamic=sizes)
        assert found.json("signature")["outputs"][0]["shape"] == ["2*n + 1"]
        a, b = torch.randn(4), torch.randn(9)
        assert torch.equal(found.program().module()(a, b), torch.cat([a, a, a[:1]]) + b)

    def test_a_sum(self, export: Callable[..., Any]) -> None:
        sizes = {"past": bounds(1, 5), "new": bounds(1, 4), "all": dependent(2, 9, past=1, new=1)}
        found = export(self.JOINED, [made("a", "past"), made("b", "new"), made("m", "all")], dynamic=sizes)
        assert [list(each.shape) for each in found.examples()] == [[2], [2], [4]]
        assert found.json("signature")["outputs"][0]["shape"] in (["past + new"], ["new + past"], ["all"])
        a, b, m = torch.randn(5), torch.randn(3), torch.randn(8)
        assert torch.equal(found.program().module()(a, b, m), torch.cat([a, b]) + m)

    def test_errors_of_torch_export(self, export: Callable[..., Any]) -> None:
        auto = {**bounds(2, 8, 4), "auto": True}
        found = export(self.EVEN, [made("x", "n")], dynamic={"n": auto})
        assert found.json("signature")["inputs"][0]["shape"] == ["n"]
        assert found.json("signature")["outputs"][0]["shape"] == ["(n//2)"]
        constant = "class Net(nn.Module):\n    def forward(self, x):\n        return x + torch.ones(4)"
        assert export(constant, [made("x", "n")], dynamic={"n": auto}).json("signature")["inputs"][0]["shape"] == [4]

    def test_the_suggestion_of_a_refused_size_is_accepted(
        self, export: Callable[..., Any], refusal: Callable[..., str]
    ) -> None:
        folded = "x.view(2, -1) if x.shape[0] % 2 == 0 else x"
        source = f"class Net(nn.Module):\n    def forward(self, x):\n        return {folded}"
        text = refusal(source, [made("x", "n")], dynamic={"n": bounds(1, 9)})
        assert text.endswith(' torch.export suggests _n = { min = 1, max = 4 }, n = "2*_n"')
        export(source, [made("x", "n")], dynamic={"_n": bounds(1, 4), "n": dependent(2, 8, _n=2)})

    def test_a_file_gives_the_size_of_what_it_depends_on(
        self, export: Callable[..., Any], refusal: Callable[..., str], tmp_path: Path
    ) -> None:
        inputs = [{**made("x", "n"), "dtype": None}]
        sizes = {"half": bounds(1, 4), "n": dependent(2, 8, half=2)}
        torch.save(torch.ones(6), tmp_path / "even.pt")
        torch.save(torch.ones(5), tmp_path / "odd.pt")
        export(self.EVEN, inputs, {"example.0": (tmp_path / "even.pt",)}, dynamic=sizes)
        assert refusal(self.EVEN, inputs, {"example.0": (tmp_path / "odd.pt",)}, dynamic=sizes) == (
            "input 'x': 'n' is 5 in its file; expected 2*half"
        )


class TestExamples:
    SAME = "class Net(nn.Module):\n    def forward(self, x):\n        return x"

    @pytest.mark.parametrize(
        ("dtype", "span", "lowest", "highest"),
        [
            ("float32", None, 0, 1),
            ("float64", [5, 6], 5, 6),
            ("bfloat16", [-2, -1], -2, -1),
            ("int8", [-3, 3], -3, 3),
            ("uint8", [0, 255], 0, 255),
            ("int64", None, 0, 1),
            ("bool", None, 0, 1),
        ],
    )
    def test_are_drawn_from_the_range(
        self, export: Callable[..., Any], dtype: str, span: Any, lowest: float, highest: float
    ) -> None:
        (drawn,) = export(self.SAME, [made("x", 4000, dtype=dtype, span=span)]).examples()
        assert drawn.dtype == getattr(torch, dtype)
        room = (highest - lowest) / 50
        assert lowest <= drawn.double().min() <= lowest + room
        assert highest - room <= drawn.double().max() <= highest

    def test_come_from_files(self, export: Callable[..., Any], tmp_path: Path) -> None:
        picture = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
        np.save(tmp_path / "a.npy", np.arange(6, dtype=np.int32).reshape(2, 3))
        Image.fromarray(picture).save(tmp_path / "b.png")
        torch.save(torch.ones(2, 1, dtype=torch.bfloat16), tmp_path / "c.pt")
        declared = [{"name": n, "shape": None, "dtype": None, "range": None} for n in "abc"]
        declared[2]["shape"] = ["n", 1]
        source = "class Net(nn.Module):\n    def forward(self, a, b, c):\n        return a + 1, b + 1, c + 1"
        files = {f"example.{i}": (tmp_path / name,) for i, name in enumerate(("a.npy", "b.png", "c.pt"))}
        found = export(source, declared, files, dynamic={"n": bounds(1, 8)})
        a, b, c = found.examples()
        assert torch.equal(a, torch.arange(6, dtype=torch.int32).reshape(2, 3))
        assert torch.equal(b, torch.from_numpy(picture))
        assert torch.equal(c, torch.ones(2, 1, dtype=torch.bfloat16))
        assert [(each["dtype"], each["shape"]) for each in found.json("signature")["inputs"]] == [
            ("int32", [2, 3]),
            ("uint8", [2, 4, 3]),
            ("bfloat16", ["n", 1]),
        ]

    def test_a_file_gives_the_size_of_a_name(
        self, export: Callable[..., Any], refusal: Callable[..., str], tmp_path: Path
    ) -> None:
        torch.save(torch.ones(6, 3), tmp_path / "b.pt")
        inputs = [made("a", "n", 3), {**made("b", "n", 3), "dtype": None}]
        files = {"example.1": (tmp_path / "b.pt",)}
        assert export(TestShapes.TWO, inputs, files, dynamic={"n": bounds(1, 8)}).examples()[0].shape == (6, 3)
        assert refusal(TestShapes.TWO, inputs, files, dynamic={"n": bounds(1, 5)}) == (
            "input 'b': 'n' is 6 in its file; expected 1 to 5"
        )
        assert refusal(TestShapes.TWO, inputs, files, dynamic={"n": bounds(1, 8, 4)}) == (
            "input 'b': 'n' is 6 in its file, 4 elsewhere"
        )

    def test_files_that_do_not_fit(self, refusal: Callable[..., str], tmp_path: Path) -> None:
        np.save(tmp_path / "a.npy", np.zeros((2, 4)))
        np.save(tmp_path / "object.npy", np.array([{}]), allow_pickle=True)
        torch.save({"x": 1}, tmp_path / "table.pt")

        def refused(name: str) -> str:
            return refusal(self.SAME, [made("x", 2, 3)], {"example.0": (tmp_path / name,)})

        assert refused("a.npy") == "input 'x': a.npy has the shape [2, 4]; expected [2, 3]"
        assert refused("object.npy").startswith("object.npy: cannot be read as a tensor: ")
        assert refused("object.npy").endswith("Python objects in dtype.")
        assert refused("table.pt") == "table.pt: expected a tensor, got a dict"
