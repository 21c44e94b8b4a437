"""`modelbuild sbom`: bills of materials, by the validator of their format's library."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.trust.conftest import TARGET, Documents, Make
from tests.workspace_builder import Workspace


def bill(workspace: Workspace, *arguments: str, target: str = TARGET, **environment: str) -> str:
    ended = workspace.run("sbom", target, *arguments, **environment)
    assert ended.code == 0, ended.err
    return ended.out


def components(text: str) -> dict[str, Any]:
    return {each["bom-ref"]: each for each in json.loads(text)["components"]}


def check_cyclonedx(text: str) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator  # takes seconds to import

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None


def test_a_bill_lists_files_packages_and_their_licences(documents: Documents) -> None:
    text = documents.bill.decode()
    check_cyclonedx(text)
    weights = components(text)["file:weights.txt"]
    assert "Apache-2.0" in json.dumps(weights["licenses"])
    addresses = [each["url"] for each in weights["externalReferences"]]
    assert "https://host.example/weights" in addresses


@pytest.mark.exhaustive
def test_a_bill_follows_a_changed_licence(trusted: Workspace) -> None:
    before = bill(trusted)
    trusted.edit("a/BUILD.toml", 'license = "Apache-2.0"', 'license = "LicenseRef-Own"')
    after = bill(trusted)
    assert "LicenseRef-Own" in json.dumps(components(after)["file:weights.txt"]["licenses"])
    assert json.loads(before)["serialNumber"] != json.loads(after)["serialNumber"]


@pytest.mark.exhaustive
def test_equal_workspaces_have_equal_bills(make_workspace: Make) -> None:
    one, two = make_workspace("one"), make_workspace("elsewhere/two")
    date = {"SOURCE_DATE_EPOCH": "1700000000"}
    made = bill(one, **date)
    assert made == bill(two, TZ="Asia/Tokyo", **date)
    assert "2023-11-14T22:13:20Z" in made


@pytest.mark.exhaustive
def test_a_malformed_date_is_one_line(trusted: Workspace) -> None:
    ended = trusted.run("sbom", TARGET, SOURCE_DATE_EPOCH="yesterday")
    assert (ended.code, ended.errors) == (
        2,
        ["error: SOURCE_DATE_EPOCH='yesterday': expected seconds since 1970"],
    )


@pytest.mark.parametrize("value", ["Apache 2", "MIT AND", "", "GPL-9.0"])
def test_a_licence_must_be_an_spdx_expression(trusted: Workspace, value: str) -> None:
    trusted.edit("a/BUILD.toml", 'license = "Apache-2.0"', f'license = "{value}"')
    ended = trusted.run("build", TARGET)
    assert (ended.code, len(ended.errors)) == (3, 1)
    assert "expected an SPDX expression" in ended.err


MODEL = """
[[torch_model]]
name = "net"
entry = "net.py:Net"
weights = "net.safetensors"
data = ["calibration.txt"]
inputs = [{ name = "x", shape = ["n", 4], dtype = "float32" }]
dynamic = { n = { min = 1, max = 8 } }
license = "MIT"
source = "https://hub.example/net"

[[backend_stack]]
name = "stack"
backends = ["xnnpack", "portable"]

[[pte_program]]
name = "program"
model = ":net"
stack = ":stack"
"""
NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.a(x)
"""


@pytest.mark.exhaustive
def test_a_model_has_a_card_with_its_parameters_data_and_licence(workspace: Workspace) -> None:
    import numpy as np
    from safetensors.numpy import save_file

    workspace.write({"MODELBUILD.toml": "", "BUILD.toml": MODEL, "net.py": NET, "calibration.txt": "1"})
    weights = {"a.weight": np.ones((3, 4), np.float32), "a.bias": np.zeros(3, np.float32)}
    save_file(weights, workspace.root / "net.safetensors")
    text = bill(workspace, target="//:program")
    check_cyclonedx(text)
    found = components(text)
    model = found["model:net"]
    assert model["type"] == "machine-learning-model"
    assert "MIT" in json.dumps(model["licenses"])
    card = model["modelCard"]
    assert card["modelParameters"]["inputs"] == [{"format": "x: float32[n, 4]"}]
    assert card["modelParameters"]["datasets"] == [{"type": "dataset", "name": "calibration.txt"}]
    properties = {each["name"]: each["value"] for each in card["properties"]}
    assert properties == {"modelbuild:parameters": "15", "modelbuild:weight types": "float32"}
    assert found["file:net.safetensors"]["externalReferences"][0]["url"] == "https://hub.example/net"
    assert any(ref.startswith("package:torch@") for ref in found)
