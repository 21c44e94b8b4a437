"""Bills of materials and provenance name the packages of the toolchain, and its lock."""

from __future__ import annotations

import hashlib
import json

from tests.script_rule import SCRIPT
from tests.toolchain.conftest import ALPHA
from tests.wheels import ToolchainWorkspace


def test_packages_have_the_licences_of_the_toolchain(tools: ToolchainWorkspace) -> None:
    tools.index.add("alpha", "1.0", ALPHA, ["beta"], license="MIT")
    tools.write({"tools.lock": tools.index.lock})
    ended = tools.run("sbom", SCRIPT)
    assert ended.code == 0, ended.err
    found = {each["name"]: each for each in json.loads(ended.out)["components"]}
    assert "MIT" in json.dumps(found["alpha"]["licenses"])
    assert "gamma" not in found
    lock = hashlib.sha256(tools.index.lock.encode()).hexdigest()
    assert lock in json.dumps(found["tools.lock"])


def test_the_lock_is_in_the_provenance(tools: ToolchainWorkspace) -> None:
    ended = tools.run("attest", SCRIPT)
    assert ended.code == 0, ended.err
    dependencies = json.loads(ended.out)["predicate"]["buildDefinition"]["resolvedDependencies"]
    (lock,) = [each for each in dependencies if "tools.lock" in json.dumps(each)]
    assert lock["digest"]["sha256"] == hashlib.sha256(tools.index.lock.encode()).hexdigest()
    assert [each for each in dependencies if "pkg:pypi/alpha@1.0" in json.dumps(each)]
