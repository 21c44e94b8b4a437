"""pte_test through the command line, on a model of two layers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.workspace_builder import Workspace

PORTABLE = """
[[backend_stack]]
name = "portable"
backends = ["portable"]
[[device_target]]
name = "here"
arch = "x86_64"
[[device_target]]
name = "elsewhere"
arch = "aarch64"
[[torch_model]]
name = "model"
entry = "net.py:Net"
inputs = [{ name = "x", shape = [2, 4], dtype = "float32", range = [-1, 1] }]
outputs = ["y", "z"]
[[pte_program]]
name = "program"
model = ":model"
stack = ":portable"
"""
NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 3)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls.add_(1.0)  # each case is to begin with none
        y = self.first(x) + self.calls
        return y, torch.relu(y)
"""
COMMON = 'program = ":program"\nmodel = ":model"\n'
GOOD = f"""
[[pte_test]]
name = "good"
{COMMON}
cases = [
    {{ name = "file", files = {{ x = "x.npy" }} }},
    {{ name = "drawn", generator = {{ seed = 3, count = 2 }} }},
]
tolerance = {{ outputs = {{ z = {{ cosine = 0.9999 }} }} }}
metrics = [{{ entry = "metric.py:same_sign", min = 1 }}]
limits = {{ bytes = 100000, partitions = 0 }}
latency = {{ ratio = 100 }}
expect_backends = {{ first = "portable" }}
"""
BAD = f"""
[[pte_test]]
name = "bad"
{COMMON}
cases = [{{ name = "drawn", generator = {{ seed = 3 }} }}]
metrics = [{{ entry = "metric.py:same_sign", max = 0.5 }}]
limits = {{ bytes = 10, delegated = 0.9 }}
"""
ELSEWHERE = f"""
[[pte_test]]
name = "elsewhere_test"
{COMMON}
device = "//:elsewhere"
cases = [{{ name = "drawn", generator = {{ seed = 3 }} }}]
"""
METRIC = """
import numpy as np

def same_sign(found, expected):
    return float((np.sign(found["y"]) == np.sign(expected["y"])).mean())
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path, {"MODELBUILD.toml": "", "net.py": NET, "metric.py": METRIC})
    np.save(made.root / "x.npy", np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4))
    return made


@pytest.mark.slow
def test_parity_budgets_and_what_cannot_run_here(workspace: Workspace) -> None:
    workspace.write({"BUILD.toml": PORTABLE + GOOD + BAD + ELSEWHERE})
    tests = workspace.test("//...", code=4)
    good = tests["//:good"]
    assert (good["status"], good["reason"]) == ("passed", "")
    assert [case["name"] for case in good["cases"]] == [
        "file",
        "drawn[0]",
        "drawn[1]",
        "limits.bytes",
        "limits.partitions",
        "latency.ratio",
        "backend of first",
    ]
    assert good["measures"]["delegated_fraction"] == 0
    assert good["measures"]["latency_ms"] > 0
    assert good["measures"]["eager_ms"] == pytest.approx(good["measures"]["baseline_ms"], rel=20)
    bad = {case["name"]: case for case in tests["//:bad"]["cases"]}
    assert {name for name, case in bad.items() if case["status"] == "failed"} == {
        "drawn",
        "limits.bytes",
        "limits.delegated",
    }
    assert bad["drawn"]["message"] == "metric same_sign is 1, expected at most 0.5"
    elsewhere = tests["//:elsewhere_test"]
    assert elsewhere["status"] == "not_run"
    assert elsewhere["reason"].startswith("needs ")
    assert "aarch64" in elsewhere["reason"]
    part = workspace.test("//:good", "--test-filter", "drawn[1]")["//:good"]
    assert [case["name"] for case in part["cases"]] == ["drawn[1]"]
    assert workspace.test("//:good")["//:good"]["cases"] == good["cases"]
    # Another model than the program's: parity must fail, with the place.
    workspace.write({"other.py": NET.replace("torch.relu(y)", "torch.relu(y) + 1")})
    other = (
        PORTABLE
        + GOOD.replace('model = ":model"', 'model = ":other"')
        + """
[[torch_model]]
name = "other"
entry = "other.py:Net"
inputs = [{ name = "x", shape = [2, 4], dtype = "float32" }]
outputs = ["y", "z"]
"""
    )
    workspace.write({"BUILD.toml": other})
    (test,) = workspace.test("//:good", code=4).values()
    failed = [case for case in test["cases"] if case["status"] == "failed"]
    assert {case["name"] for case in failed} == {"file", "drawn[0]", "drawn[1]"}
    assert all(case["message"].startswith("output 'z': cosine ") for case in failed)


STREAM = """
import torch

class Net(torch.nn.Module):
    \"\"\"Keeps the last inputs, as a cache of keys and values does.\"\"\"

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 3)
        self.register_buffer("kept", torch.zeros(3, 2, 4))
        self.register_buffer("place", torch.zeros(1, dtype=torch.int64))

    def forward(self, x):
        self.kept.index_copy_(0, self.place % 3, x[None])
        self.place.add_(1)
        y = self.first(self.kept.sum(0))
        return y, torch.relu(y)
"""
CALLS = f"""
[[pte_test]]
name = "stream_test"
{COMMON}
cases = [
    {{ name = "drawn", generator = {{ seed = 3, count = 2, calls = 5 }} }},
    {{ name = "files", calls = [{{ x = "x.npy" }}, {{ x = "y.npy" }}, {{ x = "x.npy" }}] }},
]
metrics = [{{ output = "y", top = 1, min = 1 }}]
"""


@pytest.mark.slow
def test_a_model_with_state_is_called_several_times_in_each_case(workspace: Workspace) -> None:
    np.save(workspace.root / "y.npy", np.full((2, 4), 0.5, np.float32))
    workspace.write({"net.py": STREAM, "BUILD.toml": PORTABLE + CALLS})
    (test,) = workspace.test("//:stream_test").values()
    assert [(case["name"], case["status"]) for case in test["cases"]] == [
        ("drawn[0]", "passed"),
        ("drawn[1]", "passed"),
        ("files", "passed"),
    ]
    # A model whose state differs from the third call on: the fourth input replaces another one.
    other = STREAM.replace("self.place % 3", "self.place % 2")
    model = PORTABLE[PORTABLE.index("[[torch_model]]") : PORTABLE.index("[[pte_program]]")]
    wrong = model.replace('name = "model"', 'name = "other"').replace("net.py", "other.py")
    test = CALLS.replace('model = ":model"', 'model = ":other"')
    workspace.write({"other.py": other, "BUILD.toml": PORTABLE + wrong + test})
    (failed,) = workspace.test("//:stream_test", "--bisect", code=4).values()
    *cases, bisect = failed["cases"]
    messages = {case["name"]: case["message"] for case in cases}
    assert messages.keys() == {"drawn[0]", "drawn[1]", "files"}
    assert messages["drawn[0]"].startswith("call 3 of 5: output 'y': ")
    assert messages["files"].startswith("call 3 of 3: output 'y': ")
    assert bisect["name"] == "bisect"
    assert bisect["message"].startswith("case drawn[0], call 3 of 5: first wrong node: "), bisect
    assert bisect["place"].startswith("other.py:")


@pytest.mark.parametrize(
    ("written", "line"),
    [
        (
            GOOD.replace(', files = { x = "x.npy" }', ""),
            "case 'file': expected one of 'files', 'calls', 'generator' and 'steps'",
        ),
        (
            GOOD.replace("metric.py:same_sign", "metrics.py:same_sign"),
            "no file 'metrics.py' in //; did you mean 'metric.py'?",
        ),
        (GOOD.replace(", min = 1", ""), "attribute 'metrics[0]': expected 'min' or 'max'"),
        (GOOD.replace("{ z = {", "{ yy = {"), "the model has no output 'yy'; did you mean 'y'?"),
        (GOOD.replace("{ x = ", "{ image = "), "the model has no input 'image'; expected x"),
        (GOOD.replace('model = ":model"', 'model = ":program"'), None),
    ],
)
def test_a_test_without_declared_inputs_is_an_error(workspace: Workspace, written: str, line: str | None) -> None:
    workspace.write({"BUILD.toml": PORTABLE + written})
    ended = workspace.run("test", "//:good")
    assert ended.code == 3
    if line is not None:
        place, _, said = ended.err.partition(": ")[2].partition(": ")
        assert (place.partition(":")[0], said) == ("BUILD.toml", f"{line}\n")
    else:
        assert "':program' is a pte_program; expected a target of torch_model" in ended.err
