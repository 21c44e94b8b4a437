"""`modelbuild verify` with a policy: provenance, tests, licences, and a second build."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from modelbuild.cli import invoke
from tests.script_rule import OUTPUT
from tests.trust.conftest import BUILDER, TARGET, TEST, Documents, Make
from tests.trust.keys import write_key

POLICY = f"""[signature]
keys = ["release.pub"]

[provenance]
builders = ["{BUILDER}"]
targets = ["{TARGET}"]
clean = true

[tests]
required = ["{TEST}"]

[licenses]
allowed = ["Apache-2.0", "MIT"]
"""


class Release:
    """A released file with its documents, in a folder without a workspace."""

    def __init__(self, folder: Path, documents: Documents) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "out.txt").write_bytes(documents.output)
        (folder / "out.intoto.json").write_bytes(documents.statement)
        (folder / "out.cdx.json").write_bytes(documents.bill)
        (folder / "policy.toml").write_text(POLICY)
        write_key(folder, "release")
        self.sign()

    def sign(self) -> None:
        names = ("out.txt", "out.intoto.json", "out.cdx.json")
        assert invoke(["-C", str(self.folder), "sign", *names, "--key", "release.pem"]) == 0

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.folder / name).read_text()
        assert old in text
        (self.folder / name).write_text(text.replace(old, new))

    def change(self, change: Callable[[Any], object]) -> None:
        """Change the provenance, and sign everything again."""
        path = self.folder / "out.intoto.json"
        statement = json.loads(path.read_text())
        change(statement)
        path.write_text(json.dumps(statement))
        self.sign()


@pytest.fixture
def release(documents: Documents, tmp_path: Path) -> Release:
    return Release(tmp_path / "released", documents)


@pytest.fixture
def verified(release: Release, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, list[str]]]:
    """verified() returns the exit code, and the lines that are printed on stderr."""

    def run(*more: str, statement: bool = True, bill: bool = True) -> tuple[int, list[str]]:
        capfd.readouterr()
        arguments = ["-C", str(release.folder), "verify", "out.txt", "--policy=policy.toml", *more]
        arguments += ["--attestation=out.intoto.json"] if statement else []
        arguments += ["--sbom=out.cdx.json"] if bill else []
        code = invoke(arguments)
        return code, capfd.readouterr().err.splitlines()

    return run


Verified = Callable[..., tuple[int, list[str]]]


def test_a_release_that_meets_its_policy_is_verified(verified: Verified) -> None:
    assert verified() == (0, [])


def _details(statement: Any) -> Any:
    return statement["predicate"]["runDetails"]


def _revision(statement: Any) -> Any:
    inputs = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    return next(each for each in inputs if each["name"] == "workspace")


CHANGES: Mapping[str, tuple[Callable[[Release], object], str]] = {
    "unsigned": (lambda r: (r.folder / "out.txt.sig").unlink(), "policy.toml:1:2: {0}/out.txt is not signed"),
    "an unsigned provenance": (
        lambda r: (r.folder / "out.intoto.json.sig").unlink(),
        "policy.toml:1:2: {0}/out.intoto.json is not signed",
    ),
    "a changed bill": (lambda r: r.edit("out.cdx.json", "Apache-2.0", "MIT"), "was changed after it was signed"),
    "another builder": (
        lambda r: r.change(lambda s: _details(s)["builder"].update(id="https://laptop.example")),
        f"policy.toml:5:1: built by https://laptop.example; expected one of: {BUILDER}",
    ),
    "a target with control characters": (
        lambda r: r.change(
            lambda s: s["predicate"]["buildDefinition"]["externalParameters"].update(target="\x1b]0;x\x07\rfine")
        ),
        f"policy.toml:6:1: built as \\x1b]0;x\\x07\\rfine; expected one of: {TARGET}",
    ),
    "another target": (
        lambda r: r.edit("policy.toml", f'targets = ["{TARGET}"]', 'targets = ["//b:t"]'),
        f"policy.toml:6:1: built as {TARGET}; expected one of: //b:t",
    ),
    "uncommitted changes": (
        lambda r: r.change(lambda s: _revision(s)["annotations"].update(dirty=True)),
        "with uncommitted changes",
    ),
    "a test that did not run": (
        lambda r: r.edit("policy.toml", TEST, "//a:s_tests"),
        f"policy.toml:10:13: //a:s_tests has not passed on this; did you mean '{TEST}'?",
    ),
    "a test of other bytes": (
        lambda r: r.change(lambda s: _details(s)["byproducts"][-1]["annotations"].update(tested=["0" * 64])),
        f"policy.toml:10:13: {TEST} has passed on other bytes than",
    ),
    "a licence": (
        lambda r: r.edit("policy.toml", '"Apache-2.0", ', ""),
        "policy.toml:13:1: weights.txt has the licence Apache-2.0",
    ),
    "a misspelt key": (
        lambda r: r.edit("policy.toml", "builders", "bilders"),
        "policy.toml:5:1: unknown key 'bilders' of [provenance]; did you mean 'builders'?",
    ),
    "a misspelt table": (
        lambda r: r.edit("policy.toml", "[licenses]", "[licences]"),
        "unknown key 'licences'; did you mean 'licenses'?",
    ),
    "an unknown licence": (
        lambda r: r.edit("policy.toml", '"MIT"', '"MITT"'),
        "policy.toml:13:26: 'MITT' is not an SPDX identifier",
    ),
    "a policy that is not TOML": (lambda r: r.edit("policy.toml", "[tests]", "[tests"), "not valid TOML"),
    "a provenance of another file": (
        lambda r: r.change(lambda s: s["subject"][0]["digest"].update(sha256="0" * 64)),
        "is of other bytes than",
    ),
    "a provenance of another kind": (
        lambda r: r.change(lambda s: s.update(predicateType="https://slsa.dev/provenance/v0.2")),
        "expected a provenance of `modelbuild attest`",
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_violations_of_a_policy_are_one_line(release: Release, verified: Verified, case: str) -> None:
    change, expected = CHANGES[case]
    change(release)
    code, lines = verified()
    assert code == (3 if "policy that is not" in case or "misspelt" in case or "unknown" in case else 1)
    assert len(lines) == 1, lines
    assert expected.format(release.folder) in lines[0]


def _name(subjects: Any, *names: str) -> None:
    """Give the first recorded file the first name, and add files with other digests by the other names."""
    subjects[0]["name"] = names[0]
    for index, name in enumerate(names[1:]):
        subjects.append({"name": name, "digest": {"sha256": f"{index}" * 64}})


def _name_in_bill(release: Release, *names: str) -> None:
    path = release.folder / "out.cdx.json"
    bill = json.loads(path.read_text())
    files = bill["metadata"]["component"]["components"]
    files[0]["name"] = names[0]
    files += [{**files[0], "name": name, "hashes": [{"alg": "SHA-256", "content": "0" * 64}]} for name in names[1:]]
    path.write_text(json.dumps(bill))
    release.sign()


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (("out.txt", "other.txt"), 0),
        (("a/out.txt", "other.txt"), 0),
        (("released/out.txt", "a/out.txt"), 0),  # the folder of the file is released/
        (("other.txt", "out.txt"), 1),  # the two files are exchanged
        (("a/out.txt", "released/out.txt"), 1),
        (("a/other.txt", "a/out.txt"), 1),
        (("a/out.txt", "b/out.txt"), 1),  # either may be meant
        (("renamed.txt",), 0),
        (("renamed.txt", "other.bin"), 0),
        (("renamed.txt", "other.txt"), 1),
        (("renamed.bin",), 1),
        (("a\nb", "c"), 1),
    ],
)
def test_a_file_is_compared_with_the_digest_of_its_name(
    release: Release, verified: Verified, names: tuple[str, ...], code: int
) -> None:
    release.change(lambda statement: _name(statement["subject"], *names))
    ended, lines = verified()
    assert (ended, len(lines)) == (code, code)
    assert all("out.intoto.json is of other bytes than" in line for line in lines)


@pytest.mark.parametrize(
    ("names", "code"), [(("out.txt", "other.txt"), 0), (("other.txt", "out.txt"), 1), (("a", "b"), 1)]
)
def test_a_file_is_compared_with_the_digest_of_its_name_in_the_bill(
    release: Release, verified: Verified, names: tuple[str, ...], code: int
) -> None:
    _name_in_bill(release, *names)
    ended, lines = verified()
    assert (ended, len(lines)) == (code, code)
    assert all("out.cdx.json is of other bytes than" in line for line in lines)


def test_two_digests_of_one_name_are_refused(release: Release, verified: Verified) -> None:
    release.change(lambda statement: _name(statement["subject"], "out.txt", "out.txt"))
    code, lines = verified()
    assert (code, len(lines)) == (1, 1)
    assert "two digests of 'out.txt'" in lines[0]


FOLDERS = [
    (("bundle/net.pte", "bundle/run.sh"), ""),
    (("renamed/net.pte", "renamed/run.sh"), ""),
    (("bundle/run.sh", "bundle/net.pte"), "net.pte differs"),
    (("bundle/net.pte", "other/run.sh"), "run.sh is not in it"),
    (("bundle/net.pte",), "run.sh is not in it"),
    (("bundle/net.pte", "bundle/run.sh", "other.txt"), ""),
    (("bundle/net.pte", "bundle/run.sh", "bundle/more"), "more is missing"),
]


@pytest.mark.parametrize(("names", "problem"), FOLDERS)
def test_each_file_of_a_folder_is_compared_with_the_digest_of_its_name(
    release: Release, capfd: pytest.CaptureFixture[str], names: tuple[str, ...], problem: str
) -> None:
    bundle = release.folder / "bundle"
    bundle.mkdir()
    for name in ("net.pte", "run.sh"):
        (bundle / name).write_text(name)
    contents = ("net.pte", "run.sh", "more")
    digests = [{"sha256": hashlib.sha256(text.encode()).hexdigest()} for text in contents]
    subjects = [{"name": name, "digest": digest} for name, digest in zip(names, digests, strict=False)]
    release.change(lambda statement: statement.update(subject=subjects))
    capfd.readouterr()
    code = invoke(["-C", str(release.folder), "verify", "bundle", "--attestation=out.intoto.json"])
    lines = capfd.readouterr().err.splitlines()
    assert (code, len(lines)) == ((1, 1) if problem else (0, 0)), lines
    assert not problem or lines[0].endswith(problem)


@pytest.mark.parametrize(
    "document", ["out.txt", "out.txt.sig", "out.intoto.json", "out.cdx.json", "release.pub", "policy.toml"]
)
def test_a_pipe_is_not_waited_for(release: Release, verified: Verified, document: str) -> None:
    (release.folder / document).unlink()
    os.mkfifo(release.folder / document)
    code, lines = verified()
    assert code in (1, 2)
    assert lines
    assert all(line.startswith("error: ") for line in lines)


def test_a_truncated_provenance_is_one_line(release: Release, verified: Verified) -> None:
    path = release.folder / "out.intoto.json"
    path.write_text(path.read_text()[:500])
    release.sign()
    code, lines = verified()
    assert (code, len(lines)) == (1, 1)
    assert "not JSON" in lines[0]


def test_a_policy_names_the_documents_that_it_needs(verified: Verified) -> None:
    code, lines = verified(statement=False, bill=False)
    assert code == 1
    assert [line.partition(": needs ")[2] for line in lines] == [
        "a provenance; expected --attestation FILE",
        "a bill of materials; expected --sbom FILE",
    ]


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("MIT OR GPL-3.0-only", True),
        ("MIT AND GPL-3.0-only", False),
        ("(MIT OR GPL-3.0-only) AND Apache-2.0", True),
        ("GPL-3.0-only OR MIT AND ISC", False),
        ("GPL-3.0-or-later WITH GCC-exception-3.1", True),
        ("LGPL-2.1-only WITH GCC-exception-3.1", False),
        ("LicenseRef-Own", False),
        ("NVIDIA (proprietary)", False),
    ],
)
def test_licence_expressions(expression: str, allowed: bool) -> None:
    from modelbuild.trust.licenses import is_allowed

    names = ("MIT", "Apache-2.0", "GPL-3.0-or-later WITH GCC-exception-3.1")
    assert is_allowed(expression, names) is allowed


@pytest.mark.exhaustive
def test_a_rebuild_compares_the_bytes(make_workspace: Make) -> None:
    workspace = make_workspace("one")
    assert workspace.run("attest", TARGET, "-o", "../made.json").code == 0
    arguments = ("verify", OUTPUT, "--attestation=../made.json", "--rebuild")
    ended = workspace.run(*arguments)
    assert ended.code == 0, ended.err
    assert "built again with the same bytes" in ended.out
    workspace.write({"a/s.py": "import os\nresult = os.urandom(4).hex()\n"})
    workspace.commit()
    assert workspace.run("attest", TARGET, "-o", "../made.json").code == 0
    ended = workspace.run(*arguments)
    assert ended.code == 1
    (differs, action) = ended.errors
    assert "out.txt differs: SHA-256" in differs
    assert action == "error: the action //a:s#script is not reproducible: its output 'out' differs"
    before = (workspace.root / OUTPUT).read_bytes()
    workspace.write({"a/s.py": "result = 5\n"})
    workspace.commit()
    ended = workspace.run(*arguments)
    assert "error: the workspace is at" in ended.errors[0]
    assert any("the action //a:s#script has another key" in line for line in ended.errors)
    assert (workspace.root / OUTPUT).read_bytes() == before
