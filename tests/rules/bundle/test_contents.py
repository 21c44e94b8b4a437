"""The libraries in a bundle, as its bill of materials has them."""

from __future__ import annotations

import json
from pathlib import Path

from modelbuild.actions import DerivedArtifact
from modelbuild.analysis.rules import load_rules
from modelbuild_rules.bundle.contents import bundle_contents

BUNDLE = DerivedArtifact("//m:b#bundle", "bundle")
FILES = ("bin/modelbuild-run", "lib/libexecutorch.so", "lib/libexecutorch_backend_xnnpack.so", "lib/libtheirs.so")


def test_parts_of_libraries_have_versions_and_licences(tmp_path: Path) -> None:
    manifest = {
        "files": {path: {"sha256": f"{number:064}"} for number, path in enumerate(FILES)},
        "versions": {"executorch": "1.5.1", "modelbuild": "0.1.0"},
        "libraries": {"lib/libtheirs.so": {"version": "2", "license": "Theirs"}},
    }
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    contents = bundle_contents(BUNDLE, load_rules(tmp_path, ()).extensions["backend"].values())
    found = {each.name: each for each in contents.components({"manifest.json": tmp_path / "manifest.json"})}
    assert {name: (each.version, each.license) for name, each in found.items()} == {
        "modelbuild-runtime": ("0.1.0", "Apache-2.0"),
        "executorch": ("1.5.1", "BSD-3-Clause"),
        "FlatBuffers": ("", "Apache-2.0"),
        "XNNPACK": ("", "BSD-3-Clause"),
        "FP16": ("", "MIT"),
        "FXdiv": ("", "MIT"),
        "libtheirs.so": ("2", "Theirs"),
    }
    assert found["executorch"].purl == "pkg:pypi/executorch@1.5.1"
    assert set(found["executorch"].files) == {"lib/libexecutorch.so", "lib/libexecutorch_backend_xnnpack.so"}
