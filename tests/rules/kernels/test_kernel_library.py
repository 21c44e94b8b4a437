"""kernel_library: operators that kernels cannot compute, functions of other signatures, and names that collide."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from modelbuild.errors import LoadingError
from modelbuild.rule_runner import RuleRunner
from modelbuild.step import Step, StepError
from modelbuild_rules.kernels.steps import compile, operators
from modelbuild_rules.kernels.steps.registration import _cpp_string, declarations, registration, signature
from modelbuild_rules.operators.steps import custom

PYTHON = """
import torch

library = torch.library.Library("{name}", "DEF")
for schema in {schemas!r}:
    library.define(schema)
"""


@pytest.fixture(autouse=True)
def nothing_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the operators of these tests from others in this process."""
    monkeypatch.setattr(custom, "_DECLARED", set())
    monkeypatch.setattr(custom, "_KERNELS", {})


@pytest.fixture
def describe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[dict[str, Any]]]]:
    """Return a function that describes the operators of a namespace of the given name."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    loaded = set(sys.modules)

    def described(namespace: str, *schemas: str, named: str = "") -> list[dict[str, Any]]:
        file = tmp_path / f"{namespace}_ops.py"
        file.write_text(PYTHON.format(name=namespace, schemas=schemas))
        names = [named] if named else [f"{namespace}::{each.partition('(')[0]}" for each in schemas]
        library = {"library": "mine", "operators": names, "eager": [file.name]}
        step = Step({"library": library}, {"eager": (file,)}, {"operators": tmp_path / "operators.json"}, tmp_path)
        operators.run(step)
        found: list[dict[str, Any]] = json.loads((tmp_path / "operators.json").read_text())
        return found

    yield described
    for name in set(sys.modules) - loaded:
        if name.endswith("_ops"):
            del sys.modules[name]


def test_the_out_variant_follows_from_the_schema(describe: Any) -> None:
    (plain, wide) = describe(
        "kernels_one", "scale(Tensor x, float by, *, int[2] size) -> Tensor", "split.wide(Tensor x) -> (Tensor, Tensor)"
    )
    assert plain["schema"] == (
        "kernels_one::scale.out(Tensor x, float by, *, int[2] size, Tensor(a!) out) -> Tensor(a!)"
    )
    assert wide["name"] == "kernels_one::split.wide_out"
    assert signature(plain) == (
        "Tensor& kernels_one::scale_out(KernelRuntimeContext& context, const Tensor& x, double by, ArrayRef<int64_t>"
        " size, Tensor& out)"
    )
    assert signature(wide).startswith("std::tuple<Tensor&, Tensor&> kernels_one::split_wide_out(")
    assert hasattr(torch.ops.kernels_one.scale, "out")


def test_an_out_variant_of_the_file_is_used(describe: Any) -> None:
    both = ("f(Tensor x) -> Tensor", "f.mine(Tensor x, *, Tensor(a!) result) -> Tensor(a!)")
    (found,) = describe("kernels_two", *both, named="kernels_two::f")
    assert found["name"] == "kernels_two::f.mine"


@pytest.mark.parametrize(
    ("schema", "named", "message"),
    [
        ("f(Tensor x) -> Tensor", "{}::g", "{}_ops.py registers no operator '{}::g'; did you mean '{}::f'?"),
        ("f(Tensor(a!) x) -> Tensor(a!)", "", "changes or returns an argument; expected new tensors as results"),
        ("f(Tensor(a) x) -> Tensor(a)", "", "changes or returns an argument; expected new tensors as results"),
        ("f(Tensor x) -> int", "", "does not return tensors; expected one or more"),
        ("f(Tensor x) -> Tensor[]", "", "does not return tensors; expected one or more"),
        ("", "aten::add.Tensor", "ExecuTorch has a kernel aten::add.out; expected operators that have none"),
        (
            "",
            "torchvision::nms",
            "modelbuild_kernels has a kernel torchvision::nms.out; expected operators that have none",
        ),
    ],
)
def test_an_operator_that_no_kernel_of_a_library_can_compute_is_refused_in_one_line(
    describe: Any, request: pytest.FixtureRequest, schema: str, named: str, message: str
) -> None:
    from modelbuild_rules.operators.steps import torchvision_operators

    torchvision_operators.register()
    name = f"kernels_{abs(hash(request.node.name))}"
    with pytest.raises(StepError) as raised:
        describe(name, *[schema] * bool(schema), named=named.format(name))
    assert message.replace("{}", name) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_programs_may_contain_declared_operators_only() -> None:
    assert not custom.is_declared("kernels_three.f.default")
    custom.declare([{"library": "mine", "operators": ["kernels_three::f", "kernels_three::f.wide"], "eager": []}])
    assert custom.is_declared("kernels_three.f.default")
    assert custom.is_declared("kernels_three.f.wide")
    assert not custom.is_declared("kernels_three.g.default")


def operator(*types: str, name: str = "my_ops::scale.out") -> Any:
    arguments = [{"name": f"x{number}", "type": kind, "out": False} for number, kind in enumerate(types)]
    return {
        "name": name,
        "schema": "a schema",
        "arguments": [*arguments, {"name": "out", "type": "Tensor", "out": True}],
    }


def test_a_type_that_kernels_cannot_have_is_refused() -> None:
    with pytest.raises(
        StepError, match=r"^a schema: kernels cannot have arguments of the type Device; expected Tensor"
    ):
        registration([operator("Tensor", "Device")])
    assert "std::optional<double>" in declarations([operator("float?")])


SOURCE = """
namespace my_ops {{
using namespace modelbuild_kernel_types;
{result} scale_out(KernelRuntimeContext& context, const Tensor& x, {factor} factor, Tensor& out) {{ return {value}; }}
}}
"""


@pytest.fixture
def compiled(cpp_runtime: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that compiles a source as the kernel of my_ops::scale.out."""

    def run(source: str) -> Path:
        (tmp_path / "ops").mkdir(exist_ok=True)
        (tmp_path / "ops/scale.cpp").write_text(source)
        (tmp_path / "operators.json").write_text(json.dumps([operator("Tensor", "float")]))
        step = Step(
            {"name": "mine", "target": "x86_64-linux-gnu.2.28"},
            {
                "operators": (tmp_path / "operators.json",),
                "srcs": (tmp_path / "ops/scale.cpp",),
                "runtime": (cpp_runtime,),
            },
            {"library": tmp_path / "libmine.so", "description": tmp_path / "mine.kernels.json"},
            tmp_path,
        )
        compile.run(step)
        return tmp_path / "libmine.so"

    return run


EXPECTED = (
    "expected `Tensor& my_ops::scale_out(KernelRuntimeContext& context, const Tensor& x0, double x1, Tensor& out)`"
)


def test_a_function_that_does_not_match_the_schema_is_refused_in_one_line(compiled: Callable[[str], Path]) -> None:
    with pytest.raises(StepError) as raised:
        compiled(SOURCE.format(result="Tensor&", factor="float", value="out"))
    assert str(raised.value) == f"ops/scale.cpp: no function for the operator a schema; {EXPECTED}"


@pytest.mark.exhaustive
def test_a_function_with_another_result_is_refused_in_one_line(compiled: Callable[[str], Path]) -> None:
    with pytest.raises(StepError) as raised:
        compiled(SOURCE.format(result="Tensor", factor="double", value="out"))
    line = f"ops/scale.cpp:4:8: the function's result is not that of its operator; {EXPECTED}"
    assert str(raised.value) == line


@pytest.mark.exhaustive
def test_a_missing_function_is_refused_in_one_line(compiled: Callable[[str], Path]) -> None:
    source = SOURCE.format(result="Tensor&", factor="double", value="helper(out)")
    with pytest.raises(StepError, match=r"^ops/scale.cpp: _Z\w*helper\w* is not defined; expected it in 'srcs'$"):
        compiled(source.replace("{\nusing", "{\nexecutorch::aten::Tensor& helper(executorch::aten::Tensor& x);\nusing"))


@pytest.mark.exhaustive
def test_a_library_has_the_same_bytes_in_any_folder_and_no_path_of_the_machine(
    compiled: Callable[[str], Path], tmp_path: Path
) -> None:
    source = SOURCE.format(result="Tensor&", factor="double", value="out")
    one = compiled(source).read_bytes()
    assert one == compiled(source).read_bytes()
    assert str(tmp_path).encode() not in one
    assert b"site-packages" not in one
    described = json.loads((tmp_path / "mine.kernels.json").read_text())
    assert described["operators"] == ["my_ops::scale.out"]
    assert tuple(map(int, described["glibc"].split("."))) <= (2, 28)


LIBRARY = """
[[kernel_library]]
name = "{name}"
operators = ["{operator}"]
eager = ["{eager}"]
srcs = ["{source}"]
"""
MODEL = """
[[torch_model]]
name = "model"
entry = "net.py:Net"
kernels = [{kernels}]
inputs = [{{ name = "x", shape = [2], dtype = "float32" }}]
"""


def library(name: str = "mine", operator: str = "my_ops::f", eager: str = "net.py", source: str = "f.cpp") -> str:
    return LIBRARY.format(name=name, operator=operator, eager=eager, source=source)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (library(operator="f"), "'f' is not an operator; expected namespace::name, as in my_ops::scale"),
        (library("modelbuild_x"), "'modelbuild_x' cannot be a kernel library's name; expected"),
        (library("a=b"), "'a=b' cannot be a kernel library's name; expected letters"),
        (library(eager="f.cpp"), "'f.cpp' is not a Python file of the workspace; expected only Python files"),
        (library(source="net.py"), "'net.py' is not a C++ source; expected .cc, .cpp, .cxx"),
        (
            library() + library("other") + MODEL.format(kernels='":mine", ":other"'),
            "':other' and the library mine both have kernels of my_ops::f; expected one for each operator",
        ),
    ],
)
def test_a_library_that_cannot_be_built_is_an_error_of_the_build_file(tmp_path: Path, text: str, message: str) -> None:
    runner = RuleRunner(tmp_path, {"BUILD.toml": text, "net.py": "", "f.cpp": ""})
    (name,) = ["model"] if "torch_model" in text else [text.partition('name = "')[2].partition('"')[0]]
    with pytest.raises(LoadingError) as raised:
        runner.target(f"//:{name}")
    assert message in raised.value.message
    assert raised.value.location is not None


def test_any_text_of_a_schema_is_a_string_of_cpp(tmp_path: Path) -> None:
    texts = ['a"; abort(); "', "\\", "??/", "%n", "\n", "\x001", "\x7f8", "é\U0001f600", "\r\\\n", "*/", 'R"(x)"']
    strings = ",\n".join(f"std::string({_cpp_string(text)}, {len(text.encode())})" for text in texts)
    (tmp_path / "main.cpp").write_text(
        f"#include <cstdio>\n#include <string>\nint main() {{\n  std::string all[] = {{{strings}}};\n"
        "  for (auto& each : all) { fwrite(each.data(), 1, each.size(), stdout); putchar(0); putchar(0); }\n}\n"
    )
    subprocess.run(["g++", "-trigraphs", "-o", tmp_path / "main", tmp_path / "main.cpp"], check=True)
    printed = subprocess.run([tmp_path / "main"], check=True, capture_output=True).stdout
    assert printed == b"".join(text.encode() + b"\0\0" for text in texts)
