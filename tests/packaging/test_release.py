"""tools/release.py: distributions of a tagged commit, documents about them, and reasons to refuse a commit."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from in_toto_attestation.predicates.provenance.v1.provenance_pb2 import Provenance
from in_toto_attestation.v1.statement import Statement

import modelbuild
from tests.packaging.installation import checkout, run

pytestmark = pytest.mark.xdist_group("distribution")

VERSION = modelbuild.__version__
SECTION = f"## {VERSION} - 2026-11-30\n\n- A first release.\n"
BUILDER = "--builder=https://ci.example/release"


class Checkout:
    """A committed checkout with a changelog of one version."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=t", "-c", "user.email=t@t.example", "-c", "commit.gpgsign=false")
        return run("git", *identity, *arguments, cwd=self.root)

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", "x")

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.root / name).read_text()
        assert old in text
        (self.root / name).write_text(text.replace(old, new, 1))

    def release(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "tools/release.py", *map(str, arguments)],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": f"{self.root}:{self.root / 'rules'}"},
            capture_output=True,
            text=True,
            check=False,
        )


def new_checkout(repository: Path, root: Path, *more: str) -> Checkout:
    """Return a checkout of the files that distributions are built from, and of `more`."""
    root.mkdir(parents=True)
    checkout(repository, root)
    for name in ("tools/release.py", "tools/release_documents.py", "requirements.lock", "runtime/sdk.lock", *more):
        source = repository / name
        (root / name).parent.mkdir(exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
        else:
            shutil.copy(source, root / name)
    later, old = "## Unreleased\n\n- Later.\n", "## 0.0.1 - 2026-01-01\n\n- Old.\n"
    (root / "CHANGELOG.md").write_text(f"# Changelog\n\n{later}\n{SECTION}\n{old}")
    made = Checkout(root)
    made.git("init", "--quiet")
    made.commit()
    return made


@pytest.fixture(scope="module")
def shared(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return new_checkout(repository, tmp_path_factory.mktemp("release") / "checkout")


@pytest.fixture
def tagged(shared: Checkout) -> Iterator[Checkout]:
    """A tagged checkout; a test may change it."""
    first = shared.git("rev-parse", "HEAD").strip()
    shared.git("tag", f"v{VERSION}")
    yield shared
    shared.git("reset", "--quiet", "--hard", first)
    shared.git("clean", "--quiet", "-fd")
    shared.git("tag", "--delete", *shared.git("tag").split())


def test_a_tagged_commit_with_a_section_in_the_changelog_is_released(tagged: Checkout) -> None:
    done = tagged.release("check")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("problem", ["file", "tag", "other tag", "section", "empty section", "version", "pin"])
def test_other_commits_are_refused(tagged: Checkout, problem: str) -> None:
    if problem == "file":
        (tagged.root / "notes.txt").write_text("1")
        expected = "files differ from the commit; expected a clean checkout"
    elif problem == "tag":
        tagged.commit()
        expected = f"the commit has no tag; expected v{VERSION}, the version in modelbuild/__init__.py"
    elif problem == "other tag":
        tagged.commit()
        tagged.git("tag", "v9.9.9")
        expected = f"the commit has the tag v9.9.9; expected v{VERSION}, the version in modelbuild/__init__.py"
    elif problem == "section":
        tagged.edit("CHANGELOG.md", f"## {VERSION} - 2026-11-30\n", f"## {VERSION}\n")
        expected = f"CHANGELOG.md: expected a section '## {VERSION} - YYYY-MM-DD' with the changes"
    elif problem == "empty section":
        tagged.edit("CHANGELOG.md", "- A first release.\n", "")
        expected = f"CHANGELOG.md: expected a section '## {VERSION} - YYYY-MM-DD' with the changes"
    elif problem == "version":
        tagged.edit("runtime/python/modelbuild_runtime/__init__.py", f'"{VERSION}"', '"9.9.9"')
        expected = f"version 9.9.9; expected {VERSION}, as in modelbuild/__init__.py"
    else:
        tagged.edit("pyproject.toml", f"modelbuild-runtime-aarch64=={VERSION}", "modelbuild-runtime-aarch64==9.9.9")
        expected = f"version 9.9.9; expected {VERSION}, as in modelbuild/__init__.py"
    done = tagged.release("check")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert line.endswith(expected)


def check_documents(dist: Path, made: list[str]) -> Any:
    """Check the documents of a folder's distributions by the libraries of their formats; return the provenance."""
    # Imported here since its grammars take seconds, in each process that collects tests.
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    digests = {name: hashlib.sha256((dist / name).read_bytes()).hexdigest() for name in made}
    run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=dist)
    listed = {line.split("  ")[1] for line in (dist / "SHA256SUMS").read_text().splitlines()}
    assert listed == {path.name for path in dist.iterdir()} - {"SHA256SUMS"}
    notes = (dist / "RELEASE_NOTES.md").read_text()
    assert notes.startswith(f"# modelbuild {VERSION}\n\n- A first release.\n")
    assert "Later" not in notes
    assert "Old" not in notes
    for name, digest in digests.items():
        assert f"| `{name}` | `{digest}` |" in notes
        bill = (dist / f"{name}.cdx.json").read_text()
        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill) is None
        assert json.loads(bill)["metadata"]["component"]["components"][0]["hashes"][0]["content"] == digest
    statement = json.loads((dist / "provenance.intoto.json").read_text())
    parsed = json_format.ParseDict(statement, Statement([], "", {}).pb)
    Statement.copy_from_pb(parsed).validate()
    json_format.ParseDict(statement["predicate"], Provenance())
    assert {each["name"]: each["digest"]["sha256"] for each in statement["subject"]} == digests
    return statement["predicate"]


def test_the_documents_state_the_commit_the_tools_and_the_contents(
    tagged: Checkout, dist: Path, tmp_path: Path
) -> None:
    out = tmp_path / "dist"
    shutil.copytree(dist, out)
    made = sorted(path.name for path in out.iterdir())
    assert len(made) == 4
    done = tagged.release("document", "--out", out, BUILDER)
    assert (done.returncode, done.stderr) == (0, "")
    predicate = check_documents(out, made)
    definition = predicate["buildDefinition"]
    assert predicate["runDetails"]["builder"]["id"] == "https://ci.example/release"
    assert definition["externalParameters"]["tag"] == f"v{VERSION}"
    found = {each["name"]: each for each in definition["resolvedDependencies"]}
    assert found["workspace"]["digest"] == {"gitCommit": tagged.git("rev-parse", "HEAD").strip()}
    lock = hashlib.sha256((tagged.root / "requirements.lock").read_bytes()).hexdigest()
    assert found["requirements.lock"]["digest"] == {"sha256": lock}
    assert {"hatchling", "grpcio-tools", "cmake", "ninja"} <= found.keys()

    wheel = f"modelbuild-{VERSION}-py3-none-any.whl"
    bill = {each["name"]: each for each in json.loads((out / f"{wheel}.cdx.json").read_text())["components"]}
    assert bill["modelbuild"]["purl"] == f"pkg:pypi/modelbuild@{VERSION}"
    assert bill["modelbuild"]["licenses"] == [{"expression": "Apache-2.0"}]
    assert bill["hatchling"]["scope"] == "excluded"
    program = Path(sys.executable).with_name("modelbuild")
    (tmp_path / "policy.toml").write_text('[provenance]\nbuilders = ["https://ci.example/release"]\nclean = true\n')
    given = ("--attestation", out / "provenance.intoto.json", "--policy", tmp_path / "policy.toml")
    assert "is verified" in run(program, "verify", out / wheel, *given, cwd=tmp_path)

    again = tmp_path / "again"
    shutil.copytree(dist, again)
    assert tagged.release("document", "--out", again, BUILDER).returncode == 0
    assert [path.read_bytes() for path in sorted(again.iterdir())] == [
        path.read_bytes() for path in sorted(out.iterdir())
    ]


def test_distributions_that_an_index_would_refuse_are_refused(tagged: Checkout, dist: Path, tmp_path: Path) -> None:
    name = f"modelbuild_runtime-{VERSION}.tar.gz"
    shutil.copy(dist / name, tmp_path)
    (tmp_path / name).write_bytes((dist / name).read_bytes()[:2000])
    done = tagged.release("document", "--out", tmp_path)
    assert done.returncode == 1
    assert "twine check --strict" in done.stderr
    assert not (tmp_path / "SHA256SUMS").exists()


@pytest.mark.exhaustive
def test_two_checkouts_have_the_same_distributions(repository: Path, tmp_path: Path) -> None:
    """In folders of other names, with another mask of permissions, and other times of files."""
    one = new_checkout(repository, tmp_path / "one", "runtime")
    one.git("tag", f"v{VERSION}")
    run("git", "clone", "--quiet", one.root, tmp_path / "a second", cwd=tmp_path)
    two = Checkout(tmp_path / "a second")
    two.git("remote", "remove", "origin")  # which the provenance names
    made = []
    for each, mask in ((one, 0o022), (two, 0o077)):
        if (repository / "build/sdk").is_dir():
            shutil.copytree(repository / "build/sdk", each.root / "build/sdk", copy_function=os.link)
        before = os.umask(mask)
        try:
            done = each.release(BUILDER)
        finally:
            os.umask(before)
        assert (done.returncode, done.stderr) == (0, "")
        made.append({path.name: path.read_bytes() for path in (each.root / "dist").iterdir()})
    assert made[0].keys() == made[1].keys()
    assert [name for name in made[0] if made[0][name] != made[1][name]] == []
    names = sorted(name for name in made[0] if name.endswith((".whl", ".tar.gz")))
    assert len(names) == 8
    check_documents(one.root / "dist", names)
    (native,) = (name for name in names if name.endswith("_x86_64.whl") and "manylinux" in name)
    bill = {each["name"]: each for each in json.loads(made[0][f"{native}.cdx.json"])["components"]}
    assert bill["executorch"]["version"]
    assert bill["GCC runtime libraries"]["licenses"] == [{"expression": "GPL-3.0-or-later WITH GCC-exception-3.1"}]
