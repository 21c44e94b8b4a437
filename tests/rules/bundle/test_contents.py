"""The libraries in a bundle, as its bill of materials has them."""

from __future__ import annotations

import json
from pathlib import Path

from modelbuild.api import Contents
from modelbuild.rule_runner import RuleRunner

WORKSPACE = {
    "MODELBUILD.toml": 'rules = ["//own"]\n',
    "own/__init__.py": "",
    "own/npu.py": """
from typing import Literal
from modelbuild.api import Attrs
from modelbuild_rules.backend_api.backend import Backend, Library

class Npu(Attrs):
    type: Literal["npu"]

SDK = Library("NPU SDK", "MIT", ("lib/libnpu_*.so",), "npu", "pkg:pypi/npu")
NPU = Backend("backend", "npu", Npu, libraries=(SDK,))
""",
    "BUILD.toml": """
[[torch_model]]
name = "net"
entry = "net.py:Net"
inputs = [{ name = "x", shape = [2], dtype = "float32" }]
[[backend_stack]]
name = "cpu"
backends = ["portable"]
[[pte_program]]
name = "program"
model = ":net"
stack = ":cpu"
[[runtime_bundle]]
name = "bundle"
program = ":program"
runtime = { archive = "runtime.tar" }
""",
    "net.py": "",
    "runtime.tar": "",
}
FILES = (
    "bin/modelbuild-run",
    "lib/libexecutorch.so",
    "lib/libexecutorch_backend_xnnpack.so",
    "lib/libnpu_1.so",
    "lib/libtheirs.so",
)


def test_projects_in_a_bundle_have_versions_and_licences(tmp_path: Path) -> None:
    manifest = {
        "files": {path: {"sha256": f"{number:064}"} for number, path in enumerate(FILES)},
        "versions": {"executorch": "1.5.1", "modelbuild": "0.1.0", "npu": "3"},
        "libraries": {"lib/libtheirs.so": {"version": "2", "license": "Theirs"}},
    }
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    contents = RuleRunner(tmp_path, WORKSPACE).target("//:bundle").provider(Contents)
    found = {each.name: each for each in contents.components({"manifest.json": tmp_path / "manifest.json"})}
    assert {name: (each.version, each.license) for name, each in found.items()} == {
        "modelbuild-runtime": ("0.1.0", "Apache-2.0"),
        "executorch": ("1.5.1", "BSD-3-Clause"),
        "FlatBuffers": ("", "Apache-2.0"),
        "XNNPACK": ("", "BSD-3-Clause"),
        "FP16": ("", "MIT"),
        "FXdiv": ("", "MIT"),
        "NPU SDK": ("3", "MIT"),
        "libtheirs.so": ("2", "Theirs"),
    }
    assert found["executorch"].purl == "pkg:pypi/executorch@1.5.1"
    assert set(found["executorch"].files) == {"lib/libexecutorch.so", "lib/libexecutorch_backend_xnnpack.so"}
