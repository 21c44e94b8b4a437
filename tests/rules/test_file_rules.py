"""filegroup, http_file, pypi_file and test_suite: what they declare, and what they refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modelbuild.actions import Action, DerivedArtifact, SourceArtifact
from modelbuild.analysis.graph import ActionGraph
from modelbuild.analysis.validate import validate
from modelbuild.api import Context, Dep, Files, Provider, Rule, Source
from modelbuild.api.context import Resolved
from modelbuild.errors import LoadingError, Location
from modelbuild.labels import Label
from modelbuild_rules import test_suite as suites
from modelbuild_rules.filegroup import filegroup
from modelbuild_rules.http_file import http_file
from modelbuild_rules.pypi_file import pypi_file

DIGEST = "0123456789abcdef" * 4
WEB: dict[str, Any] = {"urls": ["https://a.example/dir/photo.png"], "sha256": DIGEST}
PYPI: dict[str, Any] = {"package": "nets", "version": "1.2.0", "path": "nets/data/weights.pt", "sha256": DIGEST}


def locate(path: tuple[str | int, ...]) -> Location:
    """Every attribute on a line of its own, by the first part of its path; an item of a list at its column."""
    line = sum(map(ord, str(path[0]))) if path else 1
    return Location("BUILD.toml", line, 1 + sum(p for p in path if isinstance(p, int)))


def analyze(rule: Rule, raw: dict[str, Any], resolved: Resolved | None = None) -> tuple[list[Provider], list[Action]]:
    graph = ActionGraph()
    attrs = validate(rule.name, "it", rule.attrs, raw, locate)
    label = Label("pkg", "it")
    context = Context(graph, str(label), rule.package, label, attrs, resolved or Resolved(), None, locate)
    return list(rule.implementation(context)), [n for n in graph.nodes.values() if isinstance(n, Action)]


def refused(rule: Rule, raw: dict[str, Any]) -> str:
    with pytest.raises(LoadingError) as error:
        analyze(rule, raw)
    return error.value.message


def test_filegroup_gives_its_files_once_and_in_order() -> None:
    b, a = SourceArtifact("pkg/b"), SourceArtifact("pkg/a")
    resolved = Resolved(files={Source("b"): (b,), Source(":set"): (a, b)})
    providers, actions = analyze(filegroup, {"srcs": ["b", ":set"]}, resolved)
    assert providers == [Files((b, a))]
    assert actions == []


def test_http_file_is_one_action_whose_addresses_are_not_in_its_key() -> None:
    providers, (action,) = analyze(http_file, WEB)
    assert providers == [Files((DerivedArtifact("//pkg:it#download", "file"),))]
    assert action.step == "modelbuild_rules.steps.http_file"
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
def test_http_file_names_its_output(changed: dict[str, Any], filename: str) -> None:
    _, (action,) = analyze(http_file, {**WEB, **changed})
    assert [o.path for o in action.outputs] == [filename]


def test_digests_may_be_in_capitals() -> None:
    _, (action,) = analyze(http_file, {**WEB, "sha256": DIGEST.upper()})
    assert action.params["sha256"] == DIGEST


def test_pypi_file_is_one_action() -> None:
    providers, (action,) = analyze(pypi_file, PYPI)
    assert providers == [Files((DerivedArtifact("//pkg:it#download", "file"),))]
    assert action.step == "modelbuild_rules.steps.pypi_file"
    assert action.network
    assert [o.path for o in action.outputs] == ["weights.pt"]
    assert action.params == {**PYPI, "wheel": None, "wheel_sha256": None}
    assert json.loads(json.dumps(action.params)) == action.params


def test_pypi_file_renames() -> None:
    _, (action,) = analyze(pypi_file, {**PYPI, "filename": "w.pt"})
    assert [o.path for o in action.outputs] == ["w.pt"]


HEX = "expected 64 hexadecimal digits, as `sha256sum FILE` prints them"
ADDRESS = "is not a file's address; expected http://HOST/PATH, https://HOST/PATH or file:///PATH"


@pytest.mark.parametrize(
    ("rule", "changed", "message"),
    [
        (http_file, {"sha256": "abc"}, f"attribute 'sha256': 'abc' is not a SHA-256; {HEX}"),
        (http_file, {"sha256": "g" * 64}, f"attribute 'sha256': '{'g' * 64}' is not a SHA-256; {HEX}"),
        (
            http_file,
            {"filename": "a/b"},
            "attribute 'filename': 'a/b' is not a file name; expected one without folders",
        ),
        (http_file, {"filename": ".."}, "attribute 'filename': '..' is not a file name; expected one without folders"),
        (http_file, {"urls": ["https://a.example/x", "ftp://b.example/x"]}, f"'ftp://b.example/x' {ADDRESS}"),
        (http_file, {"urls": ["/srv/x"]}, f"'/srv/x' {ADDRESS}"),
        (http_file, {"urls": ["https://a.example"]}, f"'https://a.example' {ADDRESS}"),
        (
            http_file,
            {"urls": ["https://a.example/"]},
            "'https://a.example/' does not end in a file name; expected the attribute 'filename'",
        ),
        (http_file, {"url": "https://a.example/x"}, "unknown attribute 'url' of http_file 'it'; did you mean 'urls'?"),
        (pypi_file, {"package": "-r x"}, "'-r x' cannot be the package; expected a distribution's name"),
        (pypi_file, {"version": ">=1"}, "'>=1' cannot be the version; expected one exact version, such as 1.2.0"),
        (pypi_file, {"version": "1.*"}, "'1.*' cannot be the version; expected one exact version, such as 1.2.0"),
        (
            pypi_file,
            {"wheel": "nets.whl"},
            "'nets.whl' cannot be the wheel; expected NAME-VERSION-PYTHON-ABI-PLATFORM.whl",
        ),
        (
            pypi_file,
            {"path": "nets/data/"},
            "'nets/data/' cannot be the path; expected a file's path inside the wheel, such as package/data/weights.pt",
        ),
        (
            pypi_file,
            {"path": "nets/.."},
            "'nets/..' cannot be the path; expected a file's path inside the wheel, such as package/data/weights.pt",
        ),
        (pypi_file, {"wheel_sha256": "1"}, f"attribute 'wheel_sha256': '1' is not a SHA-256; {HEX}"),
    ],
)
def test_refuses(rule: Rule, changed: dict[str, Any], message: str) -> None:
    assert refused(rule, {**(WEB if rule is http_file else PYPI), **changed}) == message


def test_errors_stand_at_the_item_that_is_wrong() -> None:
    with pytest.raises(LoadingError) as error:
        analyze(http_file, {**WEB, "urls": ["https://a.example/x", "b"]})
    assert error.value.location == locate(("urls", 1))


def test_a_suite_has_the_tests_of_the_suites_in_it_and_their_files() -> None:
    one, two = DerivedArtifact("one", "pte"), DerivedArtifact("two", "pte")
    resolved = Resolved(
        providers={
            Dep(":one"): (Files((one,)),),
            Dep("//other:all_of_it"): (suites.Suite(("//other:two", "//pkg:one")), Files((two, one))),
        }
    )
    providers, actions = analyze(suites.test_suite, {"tests": [":one", "//other:all_of_it"]}, resolved)
    assert providers == [suites.Suite(("//pkg:one", "//other:two")), Files((one, two))]
    assert actions == []


def test_an_empty_suite_is_an_error() -> None:
    assert "at least 1 item" in refused(suites.test_suite, {"tests": []})
