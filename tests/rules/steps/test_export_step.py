"""The export step: what its bytes depend on, where weights and examples come from, and what it refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from modelbuild.step import StepError

LINEAR = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU())
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        features = self.body(x)
        return {"logits": self.head(features), "norm": features.norm(dim=1)}
"""
COMMENTED = LINEAR.replace("        features =", "\n        # What the head sees.\n        features  = ").replace(
    "class Net", "\n\n# A network.\nclass Net"
)


def state() -> dict[str, torch.Tensor]:
    """Weights that fit LINEAR."""
    body = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    generator = torch.Generator().manual_seed(5)
    found = {f"body.{key}": value for key, value in body.state_dict().items()}
    found |= {f"head.{key}": value for key, value in torch.nn.Linear(4, 2).state_dict().items()}
    return {
        key: torch.rand(value.shape, generator=generator) + 0.5 if value.is_floating_point() else value
        for key, value in found.items()
    }


def made(name: str, *shape: int | str, dtype: str = "float32", span: Any = None) -> dict[str, Any]:
    return {"name": name, "shape": list(shape), "dtype": dtype, "range": span}


def bounds(low: int, high: int, example: int | None = None) -> dict[str, int | None]:
    return {"min": low, "max": high, "example": example}


def problem(export: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    with pytest.raises(StepError) as error:
        export(*args, **kwargs)
    assert "\n" not in str(error.value)
    return str(error.value)


class TestBytes:
    """The same model is the same bytes, and another one is not."""

    def test_a_comment_changes_debug_and_nothing_else(self, export: Callable[..., Any], tmp_path: Path) -> None:
        one, other = export(LINEAR), export(COMMENTED, root=tmp_path / "elsewhere" / "other")
        assert one.bytes("debug") == other.bytes("debug")
        assert one.json("debug") != other.json("debug")

    @pytest.mark.parametrize("seed", ["1", "77"])
    def test_another_process_and_hash_seed(self, export: Callable[..., Any], tmp_path: Path, seed: str) -> None:
        code = (
            "import sys, importlib.util, pathlib\n"
            "spec = importlib.util.spec_from_file_location('helper', sys.argv[1])\n"
            "helper = importlib.util.module_from_spec(spec); sys.modules['helper'] = helper\n"
            "spec.loader.exec_module(helper)\n"
            "helper.run_export(pathlib.Path(sys.argv[2]), sys.argv[3])\n"
        )
        conftest, root = Path(__file__).with_name("conftest.py"), tmp_path / "there"
        environ = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        subprocess.run([sys.executable, "-c", code, conftest, root, LINEAR], env=environ, check=True)
        here = export(LINEAR)
        assert type(here)(root / "out0").bytes() == here.bytes()

    def test_nothing_of_the_machine_is_in_it(self, export: Callable[..., Any], tmp_path: Path) -> None:
        for path, content in export(LINEAR).bytes().items():
            assert str(tmp_path).encode() not in content, path
            assert b"site-packages" not in content, path

    def test_debug_tells_where_nodes_come_from(self, export: Callable[..., Any]) -> None:
        found = export(LINEAR)
        lines = (found.folder.parent / "m/net.py").read_text().splitlines()
        facts = found.json("debug")
        assert facts["linear"] == {
            "module": "body.0",
            "source": f"m/net.py:{lines.index('        features = self.body(x)') + 1}",
        }
        assert facts["linear_1"]["module"] == "head"
        assert "return {" in lines[int(facts["linear_1"]["source"].partition(":")[2]) - 1]

    def test_one_weight_is_one_file(self, export: Callable[..., Any], tmp_path: Path) -> None:
        found = []
        for value in (0.0, 1.0):
            weights = state()
            weights["head.weight"][0, 0] = value
            save_file(weights, tmp_path / "w.safetensors")
            found.append(export(LINEAR, files={"weights.": (tmp_path / "w.safetensors",)}).bytes())
        assert [path for path in found[0] if found[0][path] != found[1][path]] == ["weights/4"]

    def test_the_seed_decides_initial_values_and_examples(self, export: Callable[..., Any]) -> None:
        one, same, other = (export(LINEAR, seed=seed) for seed in (3, 3, 4))
        assert one.bytes() == same.bytes()
        assert {path for path, data in one.bytes().items() if other.bytes()[path] != data} == {
            "examples.safetensors",
            *(f"weights/{n}" for n in (0, 1, 4, 5)),
        }

    def test_the_model_is_in_evaluation_mode(self, export: Callable[..., Any]) -> None:
        found = export(
            "class Net(nn.Module):\n    def forward(self, x):\n        return F.dropout(x, 0.9, self.training)"
        )
        (x,) = found.examples()
        assert torch.equal(found.program().module()(x), x)


class TestWeights:
    @pytest.mark.parametrize("kind", ["safetensors", "pt", "old.pt", "state_dict.pt", "pth", "table"])
    def test_are_read(self, export: Callable[..., Any], tmp_path: Path, kind: str) -> None:
        weights, path = state(), tmp_path / f"w.{kind}"
        files = {"weights.": (path,)}
        if kind == "table":
            files = {f"weights.{part}": (tmp_path / f"{part}.safetensors",) for part in ("body", "head")}
            for part in ("body", "head"):
                own = {k.removeprefix(f"{part}."): v for k, v in weights.items() if k.startswith(part)}
                save_file(own, files[f"weights.{part}"][0])
        elif kind == "safetensors":
            save_file(weights, path)
        else:
            torch.save(
                {"state_dict": weights, "epoch": 3} if kind == "state_dict.pt" else weights,
                path,
                _use_new_zipfile_serialization=kind != "old.pt",
            )
        program = export(LINEAR, files=files).program()
        assert program.state_dict.keys() | {"body.1.num_batches_tracked"} == weights.keys()
        for key, value in program.state_dict.items():
            assert torch.equal(value, weights[key]), key

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (
                {"head.weigth": torch.ones(2, 4)},
                "the weights' 'head.weigth' is nothing of the module; did you mean 'head.weight'?",
            ),
            (
                {"head.weight": torch.ones(2, 5)},
                "'head.weight' has another shape: [2, 5] in the file, [2, 4] in the module",
            ),
            ({"head.weight": None}, "no weights for 'head.weight'; allow_missing = true keeps initial values"),
            (
                {"head.weight": None, "head.bias": None},
                "no weights for 'head.weight' and 1 more; allow_missing = true keeps initial values",
            ),
        ],
    )
    def test_that_do_not_fit(
        self, export: Callable[..., Any], tmp_path: Path, change: dict[str, Any], message: str
    ) -> None:
        weights = {key: value for key, value in (state() | change).items() if value is not None}
        save_file(weights, tmp_path / "w.safetensors")
        assert problem(export, LINEAR, files={"weights.": (tmp_path / "w.safetensors",)}) == message

    def test_missing_ones_may_keep_their_initial_values(self, export: Callable[..., Any], tmp_path: Path) -> None:
        weights = {key: value for key, value in state().items() if not key.startswith("head")}
        save_file(weights, tmp_path / "w.safetensors")
        found = export(LINEAR, files={"weights.": (tmp_path / "w.safetensors",)}, allow_missing=True).program()
        initial = export(LINEAR).program()
        assert torch.equal(found.state_dict["head.weight"], initial.state_dict["head.weight"])
        assert torch.equal(found.state_dict["body.0.weight"], weights["body.0.weight"])

    @pytest.mark.parametrize("zipped", [True, False])
    def test_code_in_a_pickle_is_refused_and_not_run(
        self, export: Callable[..., Any], tmp_path: Path, zipped: bool
    ) -> None:
        class Code:
            def __reduce__(self) -> Any:
                return Path.touch, (tmp_path / "run",)

        path = tmp_path / "w.pt"
        torch.save({"head.weight": Code()}, path, _use_new_zipfile_serialization=zipped)
        text = problem(export, LINEAR, files={"weights.": (path,)})
        assert text == "w.pt: cannot be read as weights alone: it holds getattr, which is code"
        assert not (tmp_path / "run").exists()

    def test_a_pickled_module_is_refused(self, export: Callable[..., Any], tmp_path: Path) -> None:
        torch.save(torch.nn.Linear(2, 2), tmp_path / "w.pt")
        assert problem(export, LINEAR, files={"weights.": (tmp_path / "w.pt",)}) == (
            "w.pt: cannot be read as weights alone: it holds torch.nn.modules.linear.Linear, which is code"
        )

    @pytest.mark.parametrize("name", ["w.pt", "w.safetensors"])
    def test_what_is_no_weights_file(self, export: Callable[..., Any], tmp_path: Path, name: str) -> None:
        (tmp_path / name).write_bytes(b"<html>not found</html>")
        text = problem(export, LINEAR, files={"weights.": (tmp_path / name,)})
        assert text.startswith(f"{name}: cannot be read as weights alone: ")

    def test_something_else_than_a_table_of_tensors(self, export: Callable[..., Any], tmp_path: Path) -> None:
        torch.save([torch.ones(1)], tmp_path / "w.pt")
        assert problem(export, LINEAR, files={"weights.": (tmp_path / "w.pt",)}) == (
            "w.pt: expected a state dict, a table of tensors by name"
        )

    def test_two_files_for_one_weight(self, export: Callable[..., Any], tmp_path: Path) -> None:
        save_file({"weight": torch.ones(2, 4)}, tmp_path / "a.safetensors")
        save_file(state(), tmp_path / "b.safetensors")
        files = {"weights.": (tmp_path / "b.safetensors",), "weights.head": (tmp_path / "a.safetensors",)}
        assert problem(export, LINEAR, files=files) == (
            "two files have weights for 'head.weight'; a.safetensors is the second"
        )


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

    def test_sizes_that_the_code_does_not_take(self, export: Callable[..., Any]) -> None:
        source = "class Net(nn.Module):\n    def forward(self, x):\n        return x.reshape(2, 3)"
        assert problem(export, source, [made("x", "n", 3)], dynamic={"n": bounds(1, 9)}) == (
            "m/net.py:Net does not take every size that 'dynamic' allows; torch.export suggests n = 2"
        )

    def test_only_even_sizes(self, export: Callable[..., Any]) -> None:
        even = "x.shape[0] % 2 == 0"
        source = f"class Net(nn.Module):\n    def forward(self, x):\n        return x.view(2, -1) if {even} else x"
        assert problem(export, source, [made("x", "n")], dynamic={"n": bounds(1, 9)}) == (
            "m/net.py:Net does not take every size that 'dynamic' allows; torch.export suggests"
            " _n = Dim('_n', min=1, max=4), n = 2*_n"
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

    def test_a_file_gives_the_size_of_a_name(self, export: Callable[..., Any], tmp_path: Path) -> None:
        torch.save(torch.ones(6, 3), tmp_path / "b.pt")
        inputs = [made("a", "n", 3), {**made("b", "n", 3), "dtype": None}]
        files = {"example.1": (tmp_path / "b.pt",)}
        assert export(TestShapes.TWO, inputs, files, dynamic={"n": bounds(1, 8)}).examples()[0].shape == (6, 3)
        assert problem(export, TestShapes.TWO, inputs, files, dynamic={"n": bounds(1, 5)}) == (
            "input 'b': 'n' is 6 in its file; expected 1 to 5"
        )
        assert problem(export, TestShapes.TWO, inputs, files, dynamic={"n": bounds(1, 8, 4)}) == (
            "input 'b': 'n' is 6 in its file, 4 elsewhere"
        )

    def test_files_that_do_not_fit(self, export: Callable[..., Any], tmp_path: Path) -> None:
        np.save(tmp_path / "a.npy", np.zeros((2, 4)))
        np.save(tmp_path / "object.npy", np.array([{}]), allow_pickle=True)
        torch.save({"x": 1}, tmp_path / "table.pt")

        def refused(name: str) -> str:
            return problem(export, self.SAME, [made("x", 2, 3)], {"example.0": (tmp_path / name,)})

        assert refused("a.npy") == "input 'x': a.npy has the shape [2, 4]; expected [2, 3]"
        assert refused("object.npy").startswith(
            "object.npy: cannot be read as a tensor: Object arrays cannot be loaded"
        )
        assert refused("table.pt") == "table.pt: expected a tensor, got a dict"


class TestOutputs:
    def test_names_of_a_dictionary(self, export: Callable[..., Any]) -> None:
        assert [each["name"] for each in export(LINEAR).json("signature")["outputs"]] == ["logits", "norm"]

    def test_names_given(self, export: Callable[..., Any]) -> None:
        found = export(LINEAR, outputs=["a", "b"]).json("signature")["outputs"]
        assert [each["name"] for each in found] == ["a", "b"]
        assert problem(export, LINEAR, outputs=["a"]) == "the module gives 2 outputs; the attribute 'outputs' names 1"

    def test_numbers_and_the_input_itself(self, export: Callable[..., Any]) -> None:
        source = "class Net(nn.Module):\n    def forward(self, x):\n        return x, x.shape[0], 3, 'x', None"
        found = export(source, [made("x", "n", 3)], dynamic={"n": bounds(1, 9)}).json("signature")["outputs"]
        assert [each["dtype"] for each in found] == ["float32", "int", "int", "str", "NoneType"]
        assert found[0]["shape"] == ["n", 3]

    def test_sizes_that_depend_on_data(self, export: Callable[..., Any]) -> None:
        source = "class Net(nn.Module):\n    def forward(self, x):\n        return torch.nonzero(x)"
        (found,) = export(source).json("signature")["outputs"]
        assert (found["dtype"], found["shape"][1]) == ("int64", 2)
        assert isinstance(found["shape"][0], str)


class TestEntry:
    def test_a_function_and_its_arguments(self, export: Callable[..., Any]) -> None:
        source = "def build(width, *, act):\n    return nn.Sequential(nn.Linear(3, width), getattr(nn, act)())"
        found = export(source, entry="m/net.py:build", kwargs={"width": 5, "act": "Tanh"})
        assert found.json("signature")["outputs"][0]["shape"] == [2, 5]
        assert "tanh" in found.json("debug")

    def test_neighbours_by_name_and_by_path(self, export: Callable[..., Any], tmp_path: Path) -> None:
        root = tmp_path / "workspace"
        (root / "m").mkdir(parents=True)
        (root / "m" / "scale.py").write_text("SCALE = 3\n")
        source = (
            "import scale\nfrom m.scale import SCALE\n"
            "class Net(nn.Module):\n    def forward(self, x):\n        return x * (scale.SCALE + SCALE)"
        )
        found = export(source)
        (x,) = found.examples()
        assert torch.equal(found.program().module()(x), x * 6)

    def test_that_is_not_there(self, export: Callable[..., Any]) -> None:
        assert problem(export, LINEAR, entry="m/net.py:Nett") == "m/net.py has no 'Nett'; did you mean 'Net'?"

    def test_that_gives_no_module(self, export: Callable[..., Any]) -> None:
        source = "def Net():\n    return 7"
        assert problem(export, source) == "m/net.py:Net gives a int; expected a torch.nn.Module"

    def test_a_folder_called_as_an_installed_package(self, export: Callable[..., Any], tmp_path: Path) -> None:
        (tmp_path / "workspace" / "torch").mkdir(parents=True)
        (tmp_path / "workspace" / "torch" / "functional.py").write_text("")
        assert problem(export, LINEAR, entry="torch/functional.py:Net") == (
            "'torch/functional.py' cannot be imported: an installed package is called 'torch' too"
        )

    def test_other_inputs_than_declared(self, export: Callable[..., Any]) -> None:
        assert problem(export, LINEAR, [made("x", 2, 3), made("y", 1)]) == (
            "forward of m/net.py:Net, called with the inputs x, y: too many positional arguments"
        )


class TestRefused:
    """Code that can't be exported: one line that tells which."""

    @pytest.mark.parametrize(
        ("body", "line"),
        [
            ("if x.sum() > 0:\n            return x\n        return -x", "if x.sum() > 0:"),
            ("n = x.sum().int().item()\n        if n > 3:\n            x = x + 1\n        return x", "if n > 3:"),
            (
                "return x if torch.nonzero(x).shape[0] == 0 else -x",
                "return x if torch.nonzero(x).shape[0] == 0 else -x",
            ),
        ],
    )
    def test_control_flow_that_depends_on_data(self, export: Callable[..., Any], body: str, line: str) -> None:
        source = f"class Net(nn.Module):\n    def forward(self, x):\n        {body}"
        text = problem(export, source)
        number = 4 + source.splitlines().index(f"        {line}")
        assert text.startswith(
            f"m/net.py:{number}: '{line}' depends on values that are known only when the program runs ("
        )
        assert text.endswith("); expected torch.where, torch.cond, or sizes from shapes")

    def test_an_exception_of_the_models_own_goes_through(self, export: Callable[..., Any]) -> None:
        source = "class Net(nn.Module):\n    def forward(self, x):\n        raise LookupError('mine')"
        with pytest.raises(LookupError, match=r"^mine$"):
            export(source)

    def test_a_custom_operator(self, export: Callable[..., Any]) -> None:
        source = """
        @torch.library.custom_op("ours_export::copy", mutates_args=())
        def copy(x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        copy.register_fake(torch.clone)

        class Net(nn.Module):
            def forward(self, x):
                return copy(x)
        """
        assert problem(export, source) == (
            "m/net.py:Net: the operator ours_export.copy.default is a custom one; a program may hold PyTorch's own"
            " operators only"
        )

    def test_results_that_are_no_tensors(self, export: Callable[..., Any]) -> None:
        source = "class Net(nn.Module):\n    def forward(self, x):\n        return object()"
        assert problem(export, source).startswith("torch.export cannot export m/net.py:Net: ")

    def test_sparse_weights(self, export: Callable[..., Any]) -> None:
        source = """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("w", torch.eye(2).to_sparse())

            def forward(self, x):
                return torch.sparse.mm(self.w, x)
        """
        assert problem(export, source) == (
            "m/net.py:Net: the tensor 'w' (Tensor, torch.float32, torch.sparse_coo) is not plain"
        )
