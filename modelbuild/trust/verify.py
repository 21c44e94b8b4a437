"""Compare an artifact with its signature, its provenance, its bill of materials and a policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from modelbuild.errors import did_you_mean
from modelbuild.lines import one_line
from modelbuild.trust.documents import Statement, artifact_digests, read_bill, read_statement
from modelbuild.trust.licenses import is_allowed
from modelbuild.trust.policy import Policy
from modelbuild.trust.signatures import NotVerified, Trusted, check_any, signature_path, trusted_keys

# Types of parts that need no licence: `data` is the entry for the artifact itself.
_UNLICENSED = ("data",)


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file or a folder, and the documents that belong to it; None if not given. `signature` is its signature, by
    default the file next to it."""

    path: Path
    statement: Path | None = None
    bill: Path | None = None
    signature: Path | None = None


def verify(artifact: Artifact, policy: Policy | None, trusted: Sequence[Trusted]) -> tuple[list[str], list[str]]:
    """Return the problems, and the verified facts, one line each. `trusted` are keys in addition to the policy's keys.
    Raises UsageError for a missing file, or a key that cannot be read."""
    problems: list[str] = []
    facts: list[str] = []
    try:
        digests = artifact_digests(artifact.path)
    except NotVerified as error:
        return [str(error)], []
    try:
        _check_signatures(artifact, policy, trusted, facts)
    except NotVerified as error:
        problems.append(_located(policy, "signature", str(error)))
    statement = None
    try:
        if artifact.statement is not None:
            statement = read_statement(artifact.statement)
            _check_digests(artifact.path, artifact.statement, digests, statement.subjects)
            facts.append(f"built as {statement.target} by {statement.builder}")
    except NotVerified as error:
        problems.append(str(error))
        statement = None
    else:
        if policy is not None:
            problems += _check_statement(policy, statement, digests, artifact.path)
    if policy is not None and policy.licenses is not None:
        problems += _check_licenses(policy, artifact, digests, facts)
    return problems, facts


def _located(policy: Policy | None, key: str, message: str) -> str:
    return f"{policy.at(key)}: {message}" if policy is not None and policy.tables.get(key) else message


def _check_signatures(artifact: Artifact, policy: Policy | None, trusted: Sequence[Trusted], facts: list[str]) -> None:
    """Check the signatures of the artifact and of its documents, because the result also depends on the documents.
    Raises NotVerified."""
    required = [*trusted, *(trusted_keys(policy.keys, policy.chain, policy.subjects) if policy is not None else ())]
    if not required:
        return
    for path in (artifact.path, artifact.statement, artifact.bill):
        if path is not None:
            given = artifact.signature if path == artifact.path else None
            found = check_any(path, given or signature_path(path), required)
            facts.append(f"{path.name} signed by {found.key or ', '.join(map(str, found.chain))}")


def _check_digests(path: Path, document: Path, digests: Mapping[str, str], recorded: Mapping[str, str]) -> None:
    """Raise NotVerified unless a document records exactly these bytes, each file's under its own name."""
    stated = _below(path, recorded) if path.is_dir() else _of_file(path, recorded)
    for name in sorted(stated.keys() | digests.keys()):
        if stated.get(name) != digests.get(name):
            problem = "is not in it" if name not in stated else "is missing" if name not in digests else "differs"
            raise NotVerified(f"{document} is of other bytes than {path}: {one_line(name)} {problem}")


def _below(path: Path, recorded: Mapping[str, str]) -> Mapping[str, str]:
    """Return the digests of the files of a folder, by their paths in it. Their names begin with the name of a folder,
    which may have been renamed."""
    tops = {name.partition("/")[0] for name in recorded}
    top = path.name if path.name in tops else tops.pop() if len(tops) == 1 else ""
    inside = {name.removeprefix(f"{top}/"): sha for name, sha in recorded.items() if name.startswith(f"{top}/")}
    return inside or recorded


def _of_file(path: Path, recorded: Mapping[str, str]) -> Mapping[str, str]:
    """Return the digest of a file, by its name. A file that was renamed is the only one of its suffix."""
    # The longest ending of its path that is recorded: two folders may contain files of one name.
    endings = ("/".join(path.parts[-count:]) for count in range(len(path.parts) - 1, 0, -1))
    exact = [recorded[each] for each in endings if each in recorded][:1]
    same = [sha for name, sha in recorded.items() if PurePosixPath(name).name == path.name]
    alike = [sha for name, sha in recorded.items() if PurePosixPath(name).suffix == path.suffix]
    found = set(exact or same or alike)
    return {path.name: found.pop()} if len(found) == 1 else {}


def _check_statement(policy: Policy, statement: Statement | None, digests: dict[str, str], path: Path) -> Iterator[str]:
    """Yield the requirements of a policy that a statement does not meet."""
    if statement is None:
        if policy.needs_statement:
            yield f"{policy.at(policy.needs_statement)}: needs a provenance; expected --attestation FILE"
        return
    if policy.builders is not None and statement.builder not in policy.builders:
        expected = ", ".join(policy.builders) or "none"
        yield f"{policy.at('provenance', 'builders')}: built by {statement.builder}; expected one of: {expected}"
    if policy.targets is not None and statement.target not in policy.targets:
        expected = ", ".join(policy.targets) or "none"
        yield f"{policy.at('provenance', 'targets')}: built as {statement.target}; expected one of: {expected}"
    if policy.clean and not statement.commit:
        yield f"{policy.at('provenance', 'clean')}: the provenance names no commit"
    elif policy.clean and statement.dirty:
        yield f"{policy.at('provenance', 'clean')}: built from {statement.commit[:12]} with uncommitted changes"
    programs = {sha for name, sha in digests.items() if name.endswith(".pte")} or set(digests.values())
    for index, test in enumerate(policy.tests):
        where = policy.at("tests", "required", index)
        if test not in statement.tests:
            yield f"{where}: {test} has not passed on this{did_you_mean(test, statement.tests)}"
        elif not programs <= statement.tests[test]:
            yield f"{where}: {test} has passed on other bytes than {path}"


def _check_licenses(policy: Policy, artifact: Artifact, digests: dict[str, str], facts: list[str]) -> Iterator[str]:
    """Yield the parts of the artifact whose licence is not allowed."""
    assert policy.licenses is not None
    where = policy.at("licenses", "allowed")
    if artifact.bill is None:
        yield f"{where}: needs a bill of materials; expected --sbom FILE"
        return
    try:
        outputs, parts = read_bill(artifact.bill)
        _check_digests(artifact.path, artifact.bill, digests, outputs)
    except NotVerified as error:
        yield str(error)
        return
    for part in parts:
        if not part.licenses and part.kind not in _UNLICENSED and not policy.unlicensed:
            yield f"{where}: {part.name} has no licence; expected its attribute 'license'"
        for license_ in part.licenses:
            if not is_allowed(license_, policy.licenses):
                yield f"{where}: {part.name} has the licence {license_}"
    facts.append(f"licences of {len(parts)} parts are allowed")
