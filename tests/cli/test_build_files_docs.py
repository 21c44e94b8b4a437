"""docs/reference/build-files.md against the loaded rules, their attributes, and keys of MODELBUILD.toml."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from modelbuild.cli.group import cli
from modelbuild.loading.package import ENGINE_ATTRIBUTES
from modelbuild.workspace.workspace import load_workspace

# Tables inside attributes: the heading that describes each.
TABLES = {
    "Dynamic": "dynamic",
    "Method": "methods",
    "ModelInput": "inputs",
    "Xnnpack": "xnnpack",
    "XnnpackQuantizer": "quantizer for XNNPACK",
    "CudaQuantizer": "quantizer for CUDA",
    "TensorrtQuantizer": "quantizer for TensorRT",
    "HalfPrecision": "half precision",
    "Portable": "portable",
    "TestInputs": "cases",
    "CaseStep": "step",
    "Fed": "feed",
    "Generator": "generator",
    "Tolerance": "tolerance",
    "Metric": "metric",
    "Accuracy": "accuracy",
}
ELSEWHERE = {"Tensorrt", "Profile", "Cuda", "EngineInput", "EngineTensor", "Sizes", "VendorLibrary", "Draw"}
"""Tables that are described elsewhere, or with another one: `Draw` is a generator without `count` and `calls`."""


@pytest.fixture(scope="module")
def text(repository: Path) -> str:
    return (repository / "docs/reference/build-files.md").read_text()


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = tmp_path_factory.mktemp("workspace")
    (root / "MODELBUILD.toml").write_text("")
    result = CliRunner().invoke(cli, ["-C", str(root), "schema"], catch_exceptions=False)
    assert result.exit_code == 0
    return json.loads(result.stdout)


def rows(text: str, heading: str) -> list[tuple[list[str], list[str]]]:
    """Return the attributes in the first table below a heading, row by row, with the row's other cells."""
    match = re.search(rf"^#+ {heading}\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    assert match, heading
    found = []
    for line in re.findall(r"^\| (`.*) \|$", match[1], re.MULTILINE):
        first, *rest = re.split(r"\s*\|\s*", line)
        found.append((re.findall(r"`(\w+)`", first), rest))
    return found


def documented(text: str, heading: str) -> list[str]:
    return [name for names, _ in rows(text, heading) for name in names]


def rules(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {name: table["items"] for name, table in schema["properties"].items() if name != "package"}


def test_every_rule_is_there_and_no_other(text: str, schema: dict[str, Any]) -> None:
    headings = re.findall(r"^### (\w+)$", text.partition("\n## Rules\n")[2], re.MULTILINE)
    assert sorted(headings) == sorted(rules(schema))


def test_every_attribute_is_there_and_no_other(text: str, schema: dict[str, Any]) -> None:
    for rule, table in rules(schema).items():
        own = set(table["properties"]) - set(ENGINE_ATTRIBUTES)
        names = documented(text, rule)
        assert len(names) == len(set(names)), rule
        assert set(names) == own, rule


def test_every_table_inside_attributes(text: str, schema: dict[str, Any]) -> None:
    known = {name: table for name, table in schema["definitions"].items() if table.get("properties")}
    assert set(known) - {"Glob", "select"} <= set(TABLES) | ELSEWHERE
    for name, heading in TABLES.items():
        assert set(documented(text, heading)) == set(known[name]["properties"]), name
    glob = text.partition("### Labels")[2].partition("\n### ")[0]
    assert all(re.search(rf"\b{name} = ", glob) for name in known["Glob"]["properties"])


def test_what_must_be_given_has_no_default(text: str, schema: dict[str, Any]) -> None:
    tables = rules(schema) | {heading: schema["definitions"][name] for name, heading in TABLES.items()}
    for heading, table in tables.items():
        for names, (default, _) in rows(text, heading):
            for name in names:
                assert (default == "") == (name in table.get("required", ())), f"{heading} {name}"


def test_defaults_that_are_spelled_out(text: str, schema: dict[str, Any]) -> None:
    checked = 0
    for rule, table in rules(schema).items():
        for names, (default, _) in rows(text, rule):
            given = table["properties"][names[0]].get("default")
            if re.fullmatch(r"`.+`", default) and given is not None:
                assert default.strip("`") == (given if isinstance(given, str) else json.dumps(given)), names
                checked += 1
    assert checked >= 8


def test_attributes_of_every_target(text: str) -> None:
    assert sorted(documented(text, "Attributes of every target")) == sorted(ENGINE_ATTRIBUTES)


def blocks(text: str) -> list[str]:
    return re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_workspace_file_is_one(text: str, tmp_path: Path) -> None:
    (tmp_path / "MODELBUILD.toml").write_text(blocks(text)[0])
    config = load_workspace(tmp_path, {}).config
    assert str(config.default_device) == "//devices:orin"
    assert config.cache_size == 20 << 30


def test_examples_have_the_attributes_that_they_need(text: str, schema: dict[str, Any]) -> None:
    known = rules(schema)
    for block in blocks(text)[1:]:
        for rule, targets in tomllib.loads(block).items():
            for target in targets if rule != "package" else ():
                assert set(known[rule]["required"]) <= set(target) <= set(known[rule]["properties"]), block
