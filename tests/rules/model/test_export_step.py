"""The export step: the dependencies of its bytes, sources of weights and examples, and errors."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

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


def test_it_shows_what_it_does(export: Callable[..., Any]) -> None:
    parts: list[str] = []
    export("class Net(nn.Module):\n    def forward(self, x):\n        return x + 1", show=parts.append)
    assert parts == [
        "loading the model",
        "running the module",
        "exporting",
        "comparing with the module",
        "writing the program",
    ]


class TestBytes:
    """Equal models have equal bytes, different ones do not."""

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

    def test_debug_has_the_lines_of_a_method_with_any_name(self, export: Callable[..., Any]) -> None:
        source = """
        class Net(nn.Module):
            def decode(self, x, *, scale=2.0):
                y = x + 1

                return self.helper(y) * scale

            def helper(self, x):
                return x.tanh()
        """
        found = export(source, method="decode").json("debug")
        lines = [int(found[name]["source"].partition(":")[2]) for name in ("add", "tanh", "mul")]
        assert lines == [lines[0], lines[0] + 2, lines[0] + 2]

    def test_debug_names_no_module_that_torch_makes_up(self, export: Callable[..., Any]) -> None:
        inputs = [{"name": "x", "shape": ["n", 3], "dtype": "float32", "range": None}]
        source = "class Net(nn.Module):\n    def forward(self, x):\n        return x.new_ones(x.shape[0]) + 1"
        found = export(source, inputs, dynamic={"n": {"min": 1, "max": 9, "example": None}}).json("debug")
        assert found["add"]["source"] == "m/net.py:6"
        assert not any(fact.get("module", "").startswith("_") for fact in found.values())

    def test_one_weight_is_one_file(self, export: Callable[..., Any], tmp_path: Path) -> None:
        found = []
        for value in (0.0, 1.0):
            weights = state()
            weights["head.weight"][0, 0] = value
            save_file(weights, tmp_path / "w.safetensors")
            found.append(export(LINEAR, files={"weights.": (tmp_path / "w.safetensors",)}).bytes())
        assert [path for path in found[0] if found[0][path] != found[1][path]] == [
            "calls/tensors.safetensors",
            "weights/4",
        ]

    def test_the_seed_decides_initial_values_and_examples(self, export: Callable[..., Any]) -> None:
        one, same, other = (export(LINEAR, seed=seed) for seed in (3, 3, 4))
        assert one.bytes() == same.bytes()
        assert {path for path, data in one.bytes().items() if other.bytes()[path] != data} == {
            "calls/tensors.safetensors",
            "examples.safetensors",
            *(f"weights/{n}" for n in (0, 1, 4, 5)),
        }

    @pytest.mark.parametrize(
        "drawn",
        [
            "torch.rand(3)",
            "torch.from_numpy(numpy.random.rand(3))",
            "torch.tensor([random.random() for _ in range(3)])",
        ],
    )
    def test_the_seed_decides_what_any_global_generator_draws(self, export: Callable[..., Any], drawn: str) -> None:
        source = f"""
import random
import numpy
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("drawn", {drawn}.float())
    def forward(self, x):
        return x + self.drawn
"""
        one, same, other, negative = (export(source, seed=seed) for seed in (3, 3, 4, -1))
        assert one.bytes() == same.bytes()
        assert len({each.bytes("calls", "examples")["weights/0"] for each in (one, other, negative)}) == 3

    def test_the_model_is_in_evaluation_mode(self, export: Callable[..., Any]) -> None:
        found = export(
            "class Net(nn.Module):\n    def forward(self, x):\n        return F.dropout(x, 0.9, self.training)"
        )
        (x,) = found.examples()
        assert torch.equal(found.program().module()(x), x)

    def test_an_exported_module_keeps_the_mode_that_it_has(self, export: Callable[..., Any]) -> None:
        inputs = [{"name": "x", "shape": [2, 3], "dtype": "float32", "range": None}]
        found = export(
            """
class Inner(nn.Module):
    def forward(self, x):
        return F.dropout(x, 0.9, self.training) * 3

def Net():
    return torch.export.export(Inner().eval(), (torch.ones(2, 3),)).module()
""",
            inputs,
        )
        (x,) = found.examples()
        assert torch.equal(found.program().module()(x), x * 3)


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
                "w.safetensors: the module has no parameter or buffer 'head.weigth'; did you mean 'head.weight'?",
            ),
            (
                {"head.weight": torch.ones(2, 5)},
                "w.safetensors: 'head.weight' has the wrong shape: [2, 5] in the file, [2, 4] in the module",
            ),
            ({"head.weight": None}, "no weights for 'head.weight'; allow_missing = true keeps initial values"),
            (
                {"head.weight": None, "head.bias": None},
                "no weights for 'head.weight' and 1 more; allow_missing = true keeps initial values",
            ),
        ],
    )
    def test_that_do_not_fit(
        self, refusal: Callable[..., str], tmp_path: Path, change: dict[str, Any], message: str
    ) -> None:
        weights = {key: value for key, value in (state() | change).items() if value is not None}
        save_file(weights, tmp_path / "w.safetensors")
        assert refusal(LINEAR, files={"weights.": (tmp_path / "w.safetensors",)}) == message

    def test_one_name_of_a_tied_weight_is_enough(self, export: Callable[..., Any], tmp_path: Path) -> None:
        """Files of transformers have tied weights once."""
        tied = LINEAR.replace("nn.Linear(4, 2)\n", "nn.Linear(4, 2)\n        self.second = self.head\n")
        save_file(state(), tmp_path / "w.safetensors")
        program = export(tied, files={"weights.": (tmp_path / "w.safetensors",)}).program()
        assert torch.equal(program.state_dict["head.weight"], state()["head.weight"])

    def test_missing_ones_may_keep_their_initial_values(self, export: Callable[..., Any], tmp_path: Path) -> None:
        weights = {key: value for key, value in state().items() if not key.startswith("head")}
        save_file(weights, tmp_path / "w.safetensors")
        found = export(LINEAR, files={"weights.": (tmp_path / "w.safetensors",)}, allow_missing=True).program()
        initial = export(LINEAR).program()
        assert torch.equal(found.state_dict["head.weight"], initial.state_dict["head.weight"])
        assert torch.equal(found.state_dict["body.0.weight"], weights["body.0.weight"])

    @pytest.mark.parametrize("zipped", [True, False])
    def test_code_in_a_pickle_is_refused_and_not_run(
        self, refusal: Callable[..., str], tmp_path: Path, zipped: bool
    ) -> None:
        class Code:
            def __reduce__(self) -> Any:
                return Path.touch, (tmp_path / "run",)

        path = tmp_path / "w.pt"
        torch.save({"head.weight": Code()}, path, _use_new_zipfile_serialization=zipped)
        text = refusal(LINEAR, files={"weights.": (path,)})
        expected = "expected a state dict, as model.state_dict() returns it"
        assert text == f"w.pt: cannot be read as weights only: it contains code (getattr); {expected}"
        assert not (tmp_path / "run").exists()

    def test_a_pickled_module_is_refused(self, refusal: Callable[..., str], tmp_path: Path) -> None:
        torch.save(torch.nn.Linear(2, 2), tmp_path / "w.pt")
        assert refusal(LINEAR, files={"weights.": (tmp_path / "w.pt",)}) == (
            "w.pt: cannot be read as weights only: it contains code (torch.nn.modules.linear.Linear);"
            " expected a state dict, as model.state_dict() returns it"
        )

    @pytest.mark.parametrize("name", ["w.pt", "w.safetensors"])
    def test_invalid_weights_files(self, refusal: Callable[..., str], tmp_path: Path, name: str) -> None:
        (tmp_path / name).write_bytes(b"<html>not found</html>")
        text = refusal(LINEAR, files={"weights.": (tmp_path / name,)})
        assert text.startswith(f"{name}: cannot be read as weights only: ")

    def test_something_else_than_a_table_of_tensors(self, refusal: Callable[..., str], tmp_path: Path) -> None:
        torch.save([torch.ones(1)], tmp_path / "w.pt")
        assert refusal(LINEAR, files={"weights.": (tmp_path / "w.pt",)}) == (
            "w.pt: expected a state dict, a table of tensors by name"
        )

    def test_two_files_for_one_weight(self, refusal: Callable[..., str], tmp_path: Path) -> None:
        save_file({"weight": torch.ones(2, 4)}, tmp_path / "a.safetensors")
        save_file(state(), tmp_path / "b.safetensors")
        files = {"weights.": (tmp_path / "b.safetensors",), "weights.head": (tmp_path / "a.safetensors",)}
        assert refusal(LINEAR, files=files) == ("two files have weights for 'head.weight'; a.safetensors is the second")


class TestOutputs:
    def test_names_of_a_dictionary(self, export: Callable[..., Any]) -> None:
        assert [each["name"] for each in export(LINEAR).json("signature")["outputs"]] == ["logits", "norm"]

    def test_names_given(self, export: Callable[..., Any], refusal: Callable[..., str]) -> None:
        found = export(LINEAR, outputs=["a", "b"]).json("signature")["outputs"]
        assert [each["name"] for each in found] == ["a", "b"]
        assert refusal(LINEAR, outputs=["a"]) == "the module returns 2 outputs; the attribute 'outputs' names 1"

    def test_one_output_is_not_called_outputs(self, refusal: Callable[..., str]) -> None:
        source = "class Net(nn.Module):\n    def forward(self, x):\n        return x + 1"
        assert refusal(source, outputs=["a", "b"]) == "the module returns 1 output; the attribute 'outputs' names 2"

    @pytest.mark.parametrize("returned", ["", " None", " ()", " (None, None)"])
    def test_that_there_are_none(self, refusal: Callable[..., str], returned: str) -> None:
        source = f"class Net(nn.Module):\n    def forward(self, x):\n        x + 1\n        return{returned}"
        assert refusal(source) == "forward of m/net.py:Net returns nothing; expected one or more tensors"

    def test_numbers_and_the_input_itself(self, export: Callable[..., Any]) -> None:
        source = "class Net(nn.Module):\n    def forward(self, x):\n        return x, x.shape[0], 3, None"
        inputs = [{"name": "x", "shape": ["n", 3], "dtype": "float32", "range": None}]
        found = export(source, inputs, dynamic={"n": {"min": 1, "max": 9, "example": None}})
        found = found.json("signature")["outputs"]
        assert [each["dtype"] for each in found] == ["float32", "int", "int", "NoneType"]
        assert found[0]["shape"] == ["n", 3]

    def test_sizes_that_depend_on_data(self, export: Callable[..., Any]) -> None:
        source = "class Net(nn.Module):\n    def forward(self, x):\n        return torch.nonzero(x)"
        (found,) = export(source).json("signature")["outputs"]
        assert (found["dtype"], found["shape"][1]) == ("int64", 2)
        assert isinstance(found["shape"][0], str)


class TestEntry:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (
                {"kwargs": {"sizes": 3}},
                "m/net.py:Net, called with the kwargs sizes: got an unexpected keyword argument 'sizes'",
            ),
            ({"entry": "m/net.py:torch"}, "m/net.py:torch is a module; expected a class or a function"),
        ],
    )
    def test_calls_that_do_not_fit(self, refusal: Callable[..., str], change: dict[str, Any], message: str) -> None:
        assert refusal(LINEAR, **change) == message

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

    def test_that_is_not_there(self, refusal: Callable[..., str]) -> None:
        assert refusal(LINEAR, entry="m/net.py:Nett") == "m/net.py has no 'Nett'; did you mean 'Net'?"

    def test_that_gives_no_module(self, refusal: Callable[..., str]) -> None:
        source = "def Net():\n    return 7"
        assert refusal(source) == "m/net.py:Net returns a int; expected a torch.nn.Module"

    @pytest.mark.parametrize("file", ["torch/functional.py", "torch/unknown.py"])
    def test_a_folder_called_as_an_installed_package(
        self, refusal: Callable[..., str], tmp_path: Path, file: str
    ) -> None:
        (tmp_path / "workspace" / "torch").mkdir(parents=True)
        (tmp_path / "workspace" / file).write_text("")
        assert refusal(LINEAR, entry=f"{file}:Net") == (
            f"'{file}' cannot be imported: an installed package is also called 'torch'"
        )

    def test_other_inputs_than_declared(self, refusal: Callable[..., str]) -> None:
        assert refusal(
            LINEAR, [{"name": name, "shape": [2, 3], "dtype": "float32", "range": None} for name in "xy"]
        ) == ("forward of m/net.py:Net, called with the inputs x, y: too many positional arguments")


class TestRefused:
    """Code that cannot be exported: one line that names it."""

    @pytest.mark.parametrize(
        ("body", "line", "check"),
        [
            ("if x.sum() > 0:\n            return x\n        return -x", "if x.sum() > 0:", ""),
            (
                "n = x.sum().int().item()\n        if n > 3:\n            x = x + 1\n        return x",
                "if n > 3:",
                "n > 3",
            ),
            (
                "return x if torch.nonzero(x).shape[0] == 0 else -x",
                "return x if torch.nonzero(x).shape[0] == 0 else -x",
                "torch.nonzero(x).shape[0] == 0",
            ),
        ],
    )
    def test_control_flow_that_depends_on_data(
        self, refusal: Callable[..., str], body: str, line: str, check: str
    ) -> None:
        source = f"class Net(nn.Module):\n    def forward(self, x):\n        {body}"
        text = refusal(source)
        number = 4 + source.splitlines().index(f"        {line}")
        assert text.startswith(
            f"m/net.py:{number}: '{line}' depends on values that are known only when the program runs;"
            " expected torch.where, torch.cond, or sizes from shapes"
        )
        advice = f"; or torch._check({check}) before this line, if that always holds" if check else ""
        assert text.endswith(f"sizes from shapes{advice}")

    def test_an_exception_of_the_models_own_goes_through(self, export: Callable[..., Any]) -> None:
        source = "class Net(nn.Module):\n    def forward(self, x):\n        raise LookupError('mine')"
        with pytest.raises(LookupError, match=r"^mine$"):
            export(source)

    def test_a_custom_operator(self, refusal: Callable[..., str]) -> None:
        source = """
        @torch.library.custom_op("ours_export::copy", mutates_args=())
        def copy(x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        copy.register_fake(torch.clone)

        class Net(nn.Module):
            def forward(self, x):
                return copy(x)
        """
        assert refusal(source) == (
            "m/net.py:13: the operator ours_export.copy.default is not PyTorch's; expected operators of PyTorch, or"
            " of a kernel_library that the model's attribute 'kernels' names"
        )

    def test_results_that_are_no_tensors(self, refusal: Callable[..., str]) -> None:
        source = "class Net(nn.Module):\n    def forward(self, x):\n        return object()"
        assert refusal(source).startswith("forward of m/net.py:Net returns a object in 'output'; expected tensors,")

    def test_sparse_weights(self, refusal: Callable[..., str]) -> None:
        source = """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("w", torch.eye(2).to_sparse())

            def forward(self, x):
                return torch.sparse.mm(self.w, x)
        """
        assert refusal(source) == (
            "m/net.py:Net: the tensor 'w' (Tensor, torch.float32, torch.sparse_coo) is not plain"
        )
