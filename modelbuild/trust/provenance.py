"""The provenance of a built target: an in-toto Statement v1 with SLSA's provenance v1 as its predicate.

`subject` and `buildDefinition` depend on the workspace and the tools alone, so every machine writes the same values.
`runDetails` contains the builder, the place and time of each action's run, and the tests that passed.
"""

from __future__ import annotations

import json
import platform
import socket
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import modelbuild
from modelbuild.history.action_facts import ActionFacts
from modelbuild.testing.passed import PassedTest
from modelbuild.trust.evidence import ActionRun, Evidence, File
from modelbuild.trust.packages import PythonPackage
from modelbuild.trust.revision import Revision

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:modelbuild:build:v1"
# Distributions of modelbuild itself, by tools/release.py.
RELEASE_TYPE = "urn:modelbuild:distributions:v1"
_ACTION = "urn:modelbuild:action:"
TEST = "urn:modelbuild:test:"


def this_builder() -> str:
    """Return the builder's id unless the command line names another: this machine's host name."""
    return f"urn:modelbuild:host:{quote(socket.gethostname(), safe='')}"


def statement_bytes(evidence: Evidence, builder: str) -> bytes:
    """Return the statement about a target as JSON text. `builder` is the URI of the builder."""
    definition = {
        "buildType": BUILD_TYPE,
        "externalParameters": {
            "target": evidence.label,
            "device": evidence.device,
            "attributes": dict(evidence.attributes),
        },
        "internalParameters": {"actions": [_action(each) for each in evidence.actions.values()]},
        "resolvedDependencies": list(_dependencies(evidence)),
    }
    return predicate_bytes(evidence.outputs, definition, _details(evidence, builder))


def predicate_bytes(outputs: Mapping[str, str], definition: Mapping[str, Any], details: Mapping[str, Any]) -> bytes:
    """Return a statement about files, whose SHA-256 are `outputs`, as JSON text with sorted names."""
    made = {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": sha}} for name, sha in sorted(outputs.items())],
        "predicateType": PREDICATE,
        "predicate": {"buildDefinition": definition, "runDetails": details},
    }
    return (json.dumps(made, indent=1, sort_keys=True) + "\n").encode()


def _action(facts: ActionFacts) -> dict[str, Any]:
    material = facts.material
    return {
        "id": facts.id,
        "key": facts.key,
        "step": facts.material["step"],
        "code": material["code"],
        "params": material["params"],
        "env": material["env"],
        "tools": {name: state.partition(" ")[0] for name, state in material["tools"].items()},
        "python": material["python"],
        "machine": material["machine"],
        **({"gpu": material["gpu"]} if "gpu" in material else {}),
        **({"device": material["device"]} if "device" in material else {}),
        "inputs": [
            {"name": name, "path": path, "digest": digest, **({"from": maker} if maker else {})}
            for (name, path, digest), maker in zip(material["inputs"], facts.makers, strict=True)
        ],
        "outputs": dict(facts.outputs),
    }


def _dependencies(evidence: Evidence) -> Iterator[dict[str, Any]]:
    if evidence.revision is not None:
        yield commit_entry(evidence.revision)
    yield from (file_entry(each, {}) for each in evidence.sources)
    yield from (file_entry(each, {"download": True}) for each in evidence.downloads)
    yield from map(package_entry, evidence.packages)
    local: dict[tuple[str, str], str] = {}
    for facts in evidence.actions.values():
        for module, files in facts.material.get("local", {}).items():
            local.update({(module, path): digest for path, digest in files.items()})
    for (module, path), digest in sorted(local.items()):
        # The engine's digest also covers the executable bit.
        yield {"name": path, "digest": {"modelbuild": digest}, "annotations": {"localModule": module}}


def commit_entry(revision: Revision) -> dict[str, Any]:
    return {
        "name": "workspace",
        **({"uri": f"git+https://{revision.address}@{revision.commit}"} if revision.address else {}),
        "digest": {"gitCommit": revision.commit},
        "annotations": {
            "dirty": revision.dirty,
            "path": revision.path,
            **({"changed": list(revision.changed)} if revision.changed else {}),
        },
    }


def file_entry(file: File, annotations: dict[str, Any]) -> dict[str, Any]:
    if file.license:
        annotations["license"] = file.license
    if len(file.uris) > 1:
        annotations["addresses"] = list(file.uris)
    return {
        "name": file.name,
        **({"uri": file.uris[0]} if file.uris else {}),
        "digest": {"sha256": file.sha256},
        **({"annotations": annotations} if annotations else {}),
    }


def package_entry(package: PythonPackage) -> dict[str, Any]:
    # The state of an installed distribution: a digest of its RECORD and of code that differs from it.
    digest = {"digest": {"modelbuild": package.state}} if package.state else {}
    license_ = {"annotations": {"license": package.license}} if package.license else {}
    return {"name": package.name, "uri": package.purl, **digest, **license_}


def builder_entry(builder: str) -> dict[str, Any]:
    return {"id": builder, "version": {"modelbuild": modelbuild.__version__, "python": platform.python_version()}}


def _details(evidence: Evidence, builder: str) -> dict[str, Any]:
    times = [run.at for run in evidence.runs.values() if run.at is not None]
    return {
        "builder": builder_entry(builder),
        "metadata": {"finishedOn": _time(max(times))} if times else {},
        "byproducts": [
            *(_ran(evidence.actions[name], run) for name, run in evidence.runs.items()),
            *map(_test, evidence.tests),
        ],
    }


def _ran(facts: ActionFacts, run: ActionRun) -> dict[str, Any]:
    annotations: dict[str, Any] = {"ran": run.where}
    if run.worker:
        annotations["worker"] = run.worker
    if run.at is not None:
        annotations["at"] = _time(run.at)
    return {"name": facts.id, "uri": f"{_ACTION}{facts.key}", "annotations": annotations}


def _test(test: PassedTest) -> dict[str, Any]:
    return {
        "name": test.label,
        "uri": f"{TEST}{test.keys[0]}",
        "digest": {"sha256": test.report},
        "annotations": {"passed": True, "keys": list(test.keys), "tested": list(test.tested)},
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_results(predicate: Mapping[str, Any]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the label of each passed test in a predicate, and the SHA-256 of the files that it tested."""
    for each in predicate["runDetails"].get("byproducts", ()):
        if str(each.get("uri", "")).startswith(TEST) and each["annotations"].get("passed") is True:
            yield each["name"], frozenset(each["annotations"]["tested"])
