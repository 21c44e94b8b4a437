"""`modelbuild attest`: the provenance of a target as an in-toto statement."""

from __future__ import annotations

import hashlib
import json
import shutil

import pytest
from google.protobuf import json_format
from in_toto_attestation.predicates.provenance.v1.provenance_pb2 import Provenance
from in_toto_attestation.v1.statement import Statement

from tests.trust.conftest import BUILDER, TARGET, TEST, WEIGHTS, Documents, Make, attested, named
from tests.workspace_builder import Workspace

OUTPUT = "modelbuild-out/default/a/s/out.txt"


def test_a_statement_has_the_published_form(documents: Documents) -> None:
    made = json.loads(documents.statement)
    # Both fail for members that the formats lack.
    parsed = json_format.ParseDict(made, Statement([], "", {}).pb)
    Statement.copy_from_pb(parsed).validate()
    predicate = json_format.ParseDict(made["predicate"], Provenance())
    assert predicate.build_definition.build_type == "urn:modelbuild:build:v1"
    assert made["predicateType"] == "https://slsa.dev/provenance/v1"


def test_a_statement_names_bytes_sources_downloads_actions_and_packages(documents: Documents) -> None:
    made = json.loads(documents.statement)
    output = hashlib.sha256(documents.output).hexdigest()
    assert made["subject"] == [{"name": "out.txt", "digest": {"sha256": output}}]
    definition, details = made["predicate"]["buildDefinition"], made["predicate"]["runDetails"]
    assert definition["externalParameters"]["target"] == TARGET
    inputs = named(definition["resolvedDependencies"])
    assert inputs["a/s.py"] == {
        "name": "a/s.py",
        "digest": {"sha256": hashlib.sha256(b"result = 1\n").hexdigest()},
        "annotations": {"license": "MIT"},
    }
    weights = inputs["weights.txt"]
    assert weights["digest"] == {"sha256": hashlib.sha256(WEIGHTS.encode()).hexdigest()}
    assert weights["uri"] == "https://host.example/weights"
    assert weights["annotations"]["license"] == "Apache-2.0"
    assert inputs["workspace"]["uri"] == f"git+https://git.example/team/nets@{documents.commit}"
    assert inputs["workspace"]["annotations"] == {"dirty": False, "path": "."}
    actions = {each["id"]: each for each in definition["internalParameters"]["actions"]}
    assert {name: each["key"] for name, each in actions.items()} == documents.keys
    assert actions["//a:s#script"]["step"] == "tools_rules.steps.script"
    assert details["builder"]["id"] == BUILDER
    ran = {each["name"]: each["annotations"].get("ran") for each in details["byproducts"]}
    assert ran == {**dict.fromkeys(documents.keys, "local"), TEST: None}
    (passed,) = (each["annotations"] for each in details["byproducts"] if each["name"] == TEST)
    assert (passed["passed"], passed["tested"]) == (True, [output])


@pytest.mark.exhaustive
def test_statements_of_two_machines_differ_only_in_who_and_when(make_workspace: Make) -> None:
    one, two = make_workspace("one"), make_workspace("elsewhere/two")
    shutil.rmtree(two.root / ".git")
    shutil.copytree(one.root / ".git", two.root / ".git")
    first, second = attested(one), attested(two, "--builder=https://other.example", TZ="Asia/Tokyo")
    ran = first["predicate"].pop("runDetails"), second["predicate"].pop("runDetails")
    assert first == second
    assert ran[0] != ran[1]


@pytest.mark.exhaustive
def test_an_uncommitted_change_is_stated(trusted: Workspace) -> None:
    trusted.write({"a/more.py": ""})
    workspace = named(attested(trusted)["predicate"]["buildDefinition"]["resolvedDependencies"])["workspace"]
    assert workspace["annotations"]["dirty"] is True


@pytest.mark.exhaustive
def test_outside_of_git_no_commit_is_stated(trusted: Workspace) -> None:
    shutil.rmtree(trusted.root / ".git")
    assert "workspace" not in named(attested(trusted)["predicate"]["buildDefinition"]["resolvedDependencies"])


@pytest.mark.exhaustive
def test_a_test_counts_once_it_has_passed_on_these_bytes(trusted: Workspace) -> None:
    def tests() -> list[str]:
        found = attested(trusted)["predicate"]["runDetails"]["byproducts"]
        return [each["name"] for each in found if each["uri"].startswith("urn:modelbuild:test:")]

    assert tests() == []
    passed = trusted.test(TEST)
    assert passed[TEST]["status"] == "passed"
    (found,) = [each for each in attested(trusted)["predicate"]["runDetails"]["byproducts"] if each["name"] == TEST]
    output = hashlib.sha256((trusted.root / OUTPUT).read_bytes()).hexdigest()
    assert found["annotations"]["tested"] == [output]
    assert len(found["annotations"]["keys"]) == 1
    trusted.write({"a/s.py": "result = 2\n"})
    assert tests() == []
    trusted.test(TEST, code=4)
    assert tests() == []


@pytest.mark.exhaustive
def test_results_of_another_workspace_are_stated_as_cached(make_workspace: Make) -> None:
    one, two = make_workspace("one"), make_workspace("two")
    one.build(TARGET)
    shared = {"MODELBUILD_CACHE_DIR": str(one.cache)}
    # Without a remote address, workspaces in two folders are two.
    two.git("remote", "remove", "origin")
    made = attested(two, **shared)
    ran = {each["name"]: each["annotations"]["ran"] for each in made["predicate"]["runDetails"]["byproducts"]}
    assert set(ran.values()) == {"cached"}


def test_a_licence_changes_no_key_and_reruns_nothing(trusted: Workspace) -> None:
    trusted.build(TARGET)
    trusted.edit("a/BUILD.toml", 'license = "Apache-2.0"', 'license = "MIT OR BSD-3-Clause"')
    trusted.edit("a/BUILD.toml", "https://host.example/weights", "https://other.example/weights")
    assert trusted.ran(TARGET) == set()
    weights = named(attested(trusted)["predicate"]["buildDefinition"]["resolvedDependencies"])["weights.txt"]
    assert weights["annotations"]["license"] == "MIT OR BSD-3-Clause"
    assert weights["uri"] == "https://other.example/weights"


def test_several_targets_are_an_error(trusted: Workspace) -> None:
    ended = trusted.run("attest", "//...")
    assert (ended.code, len(ended.errors)) == (2, 1)
    assert "expected the label of one" in ended.err


@pytest.mark.exhaustive
def test_a_failed_build_has_no_statement(trusted: Workspace) -> None:
    trusted.write({"a/s.py": "raise ValueError\n"})
    ended = trusted.run("attest", TARGET, "-o", "made.json")
    assert (ended.code, ended.errors[-1]) == (1, "error: //a:s was not built")
    assert not (trusted.root / "made.json").exists()


@pytest.mark.exhaustive
def test_git_is_not_needed(trusted: Workspace) -> None:
    made = attested(trusted, PATH="/nonexistent")
    assert "workspace" not in named(made["predicate"]["buildDefinition"]["resolvedDependencies"])
