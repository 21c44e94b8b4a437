"""Make a release: `python tools/release.py`, or `make release`. CONTRIBUTING.md describes the steps around it.

check     HEAD has the tag v<version>, no file differs from it, and CHANGELOG.md has a section for the version
build     the source archives, and the wheels for all architectures, into the folder `--out`
document  beside them: NAME.cdx.json, the bill of materials of each; provenance.intoto.json; RELEASE_NOTES.md;
          SHA256SUMS

By default, all three. `--rehearse` releases an untagged commit with the section "Unreleased". Two builds of a commit
have the same bytes: times in archives are that of the commit.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from release_documents import bills, checksums, provenance, release_notes

from modelbuild.errors import ModelbuildError
from modelbuild.trust.provenance import this_builder
from modelbuild.trust.revision import Revision, find_revision

ROOT = Path(__file__).resolve().parents[1]
STEPS = ("check", "build", "document")
ARCHITECTURES = ("x86_64", "aarch64")

# Places that state the version, besides modelbuild/__init__.py.
VERSIONS = {
    "runtime/python/modelbuild_runtime/__init__.py": re.compile(r'^__version__ = "(.+)"$', re.MULTILINE),
    "pyproject.toml": re.compile(r'"modelbuild-runtime[a-z0-9-]*==([^;"]+)'),
}


class ReleaseError(ModelbuildError):
    """The commit cannot be released: one line with the place and the expected state."""


def version_of(root: Path) -> str:
    """Return the version of a checkout. Raises ReleaseError if its files state several."""
    text = (root / "modelbuild/__init__.py").read_text()
    version = re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)[0]
    for name, pattern in VERSIONS.items():
        text = (root / name).read_text()
        for found in pattern.finditer(text):
            if found[1] != version:
                line = text.count("\n", 0, found.start()) + 1
                message = f"version {found[1]}; expected {version}, as in modelbuild/__init__.py"
                raise ReleaseError(f"{name}:{line}: {message}")
    return version


def changes(root: Path, version: str) -> str:
    """Return the text of a version's section of CHANGELOG.md, or of "Unreleased" for ''. Raises ReleaseError if it is
    missing or empty."""
    heading = rf"{re.escape(version)} - \d{{4}}-\d\d-\d\d" if version else "Unreleased"
    text = (root / "CHANGELOG.md").read_text()
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None or not found[1].strip():
        expected = f"## {version} - YYYY-MM-DD" if version else "## Unreleased"
        raise ReleaseError(f"CHANGELOG.md: expected a section '{expected}' with the changes")
    return found[1].strip()


def check(root: Path, version: str, revision: Revision) -> None:
    """Raise ReleaseError unless the checkout is the commit of the version's tag."""
    if revision.dirty:
        raise ReleaseError(f"{root}: files differ from the commit; expected a clean checkout")
    tags = _run("git", "tag", "--points-at", "HEAD", "v*", cwd=root).split()
    if f"v{version}" not in tags:
        found = f"has the tag {', '.join(tags)}" if tags else "has no tag"
        raise ReleaseError(f"{root}: the commit {found}; expected v{version}, the version in modelbuild/__init__.py")


def build(root: Path, architectures: Sequence[str], out: Path, epoch: int) -> None:
    """Write the source archives and wheels into a folder that is empty or missing. Raises ReleaseError."""
    if out.exists() and any(out.iterdir()):
        raise ReleaseError(f"{out}: expected an empty folder")
    python, environment = sys.executable, {"SOURCE_DATE_EPOCH": str(epoch)}
    packages = (python, "-m", "build", "--no-isolation", "--outdir", str(out))
    _run(*packages, str(root), cwd=root, **environment)
    _run(*packages, "--sdist", str(root / "runtime"), cwd=root, **environment)
    for arch in architectures:
        _run(python, "runtime/build.py", "--arch", arch, cwd=root, **environment)
    flags = [flag for arch in architectures for flag in ("--arch", arch)]
    _run(python, "runtime/wheels.py", *flags, "--out", str(out), cwd=root, **environment)


def document(root: Path, out: Path, text: str, tag: str, revision: Revision, builder: str) -> None:
    """Write the documents of the distributions in a folder. Raises ReleaseError for those that PyPI would refuse."""
    made = sorted((*out.glob("*.whl"), *out.glob("*.tar.gz")))
    if not made:
        raise ReleaseError(f"{out}: expected distributions; run the step 'build'")
    _run(sys.executable, "-m", "twine", "check", "--strict", *map(str, made), cwd=root)
    written = bills(made, revision.at)
    written["provenance.intoto.json"] = provenance(root, made, tag, revision, builder)
    written["RELEASE_NOTES.md"] = release_notes(text, made, tag)
    for name, data in written.items():
        (out / name).write_bytes(data)
    (out / "SHA256SUMS").write_bytes(checksums([*made, *(out / name for name in written)]))


def _run(*command: str, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ReleaseError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}".rstrip())
    return done.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"{', '.join(STEPS)}; by default all")
    parser.add_argument("--arch", action="append", choices=ARCHITECTURES, help="by default all; may be repeated")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--rehearse", action="store_true", help="release a commit without a tag")
    parser.add_argument("--builder", default=this_builder(), help="the builder's URI in the provenance")
    options = parser.parse_args(arguments)
    if unknown := set(options.steps) - set(STEPS):
        parser.error(f"unknown step {', '.join(sorted(unknown))}; expected {', '.join(STEPS)}")
    steps = options.steps or STEPS
    try:
        revision = find_revision(ROOT)
        if revision is None:
            raise ReleaseError(f"{ROOT}: expected a git repository with a commit")
        version = version_of(ROOT)
        text = changes(ROOT, "" if options.rehearse else version)
        if "check" in steps and not options.rehearse:
            check(ROOT, version, revision)
        if "build" in steps:
            build(ROOT, options.arch or ARCHITECTURES, options.out.resolve(), revision.at)
        if "document" in steps:
            tag = "" if options.rehearse else f"v{version}"
            document(ROOT, options.out.resolve(), text, tag, revision, options.builder)
            print(*sorted(options.out.iterdir()), sep="\n")
    except ModelbuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
