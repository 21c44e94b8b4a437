"""The export step: failed exports end with one line that has the cause, the operator, the places and a hint."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

LIBRARY = """
import torch

def pick(x):
    if x.sum() > 0:
        return x
    return -x

def shapes(x):
    return x.view(7)

def refuse(x):
    raise ValueError("no " + "a" * 1000)
"""


@pytest.fixture
def failed(refusal: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    """Return the reason why a forward with this result cannot be exported; `otherlib` is an installed library."""
    library = tmp_path / "site-packages/otherlib"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(library.parent))
    monkeypatch.delitem(__import__("sys").modules, "otherlib", raising=False)

    def run(result: str, more: str = "") -> str:
        return refusal(
            f"import otherlib\n{more}\nclass Net(nn.Module):\n    def forward(self, x):\n        return {result}"
        )

    return run


def test_the_users_line_and_the_librarys(failed: Callable[..., str]) -> None:
    text = failed("otherlib.pick(x)")
    assert text.startswith(
        "m/net.py:8: 'return otherlib.pick(x)' (in otherlib/__init__.py:5: 'if x.sum() > 0:') depends on values that"
        " are known only when the program runs;"
    )
    assert text.endswith(
        "; expected torch.where, torch.cond, or sizes from shapes, in a function of yours that 'prepare' puts in the"
        " place of the library's"
    )


def test_an_exception_of_a_library(failed: Callable[..., str]) -> None:
    text = failed("otherlib.refuse(x)")
    where = "m/net.py:8: 'return otherlib.refuse(x)' (in otherlib/__init__.py:13: "
    assert text.startswith(where)
    assert f": ValueError: no {'a' * 50}" in text
    assert len(text) < 500


def test_an_upstream_limit_has_upstreams_words(failed: Callable[..., str]) -> None:
    text = failed("otherlib.shapes(x)")
    assert text.startswith("m/net.py:8: 'return otherlib.shapes(x)' (in otherlib/__init__.py:10: 'return x.view(7)'): ")
    assert f"torch {torch.__version__} refuses this, in its own words: RuntimeError: " in text


def test_an_operator_without_a_fake_kernel(failed: Callable[..., str]) -> None:
    define = (
        '@torch.library.custom_op("ours_failures::op", mutates_args=())\ndef op(x: torch.Tensor) -> torch.Tensor:\n'
    )
    text = failed("op(x)", f"{define}    return x.clone()")
    assert text.startswith("m/net.py:10: 'return op(x)': torch ")
    assert "There was no fake impl registered for <CustomOpDef(ours_failures::op)>" in text


def test_torchs_message_is_printed_for_the_file(failed: Callable[..., str], capfd: pytest.CaptureFixture[str]) -> None:
    failed("otherlib.pick(x)")
    assert "Traceback (most recent call last):" in capfd.readouterr().err


def test_a_long_condition_is_cut(refusal: Callable[..., str]) -> None:
    body = "\n        ".join(f"n{i} = torch.nonzero(x[{i % 2}]).shape[0]" for i in range(40))
    total = " + ".join(f"n{i}" for i in range(40))
    text = refusal(
        f"class Net(nn.Module):\n    def forward(self, x):\n        {body}\n        return x if {total} > 9 else -x"
    )
    assert len(text) < 1500
    assert "..." in text
    assert json.dumps(text)


CACHES = """
class Layer:
    def __init__(self, **states):
        self.__dict__.update(states)

class DynamicCache:
    def __init__(self, *layers):
        self.layers = list(layers)

class Net(nn.Module):
    def forward(self, x):
        a, b, c, d = x + 1, x + 2, x + 3, x + 4
        return {"logits": x, "past": RETURNED}
"""


@pytest.mark.parametrize(
    ("returned", "names"),
    [
        (
            "DynamicCache(Layer(keys=a, values=b), Layer(keys=c, values=d))",
            ["key_cache.0", "key_cache.1", "value_cache.0", "value_cache.1"],
        ),
        (
            "DynamicCache(Layer(conv_states={0: a}, recurrent_states={0: b, 1: None}), Layer(),"
            " Layer(keys=c, values=d))",
            ["layers.0.conv_states.0", "layers.0.recurrent_states.0", "layers.2.keys", "layers.2.values"],
        ),
        (
            "Layer(self_attention_cache=DynamicCache(Layer(keys=a, values=b)),"
            " cross_attention_cache=DynamicCache(Layer(keys=c, values=d)))",
            [f"{half}_attention_cache.{part}_cache.0" for half in ("self", "cross") for part in ("key", "value")],
        ),
    ],
    ids=["attention", "recurrence", "two halves"],
)
def test_a_cache_of_transformers_needs_no_registration(
    export: Callable[..., Any], returned: str, names: list[str]
) -> None:
    found = [each["name"] for each in export(CACHES.replace("RETURNED", returned)).json("signature")["outputs"]]
    assert found == ["logits", *(f"past.{name}" for name in names)]


def test_the_users_line_below_a_folder_with_the_name_of_a_package(refusal: Callable[..., str], tmp_path: Path) -> None:
    source = "class Net(nn.Module):\n    def forward(self, x):\n        return x if x.sum() > 0 else -x"
    text = refusal(source, root=tmp_path / "modelbuild/torch/workspace")
    assert text.startswith("m/net.py:6: 'return x if x.sum() > 0 else -x' depends on values ")


def test_a_call_that_is_there_already_is_not_advised(refusal: Callable[..., str]) -> None:
    source = "class Net(nn.Module):\n    def forward(self, x, mask):\n        return x"
    told = "called with the inputs x: missing a required argument: 'mask'"
    assert refusal(source).endswith(told)
    assert refusal(source, call={"args": [], "kwargs": {"x": {"input": "x"}}}).endswith(f'{told}; expected call = "x"')
