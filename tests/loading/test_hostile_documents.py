"""Arbitrary contents of MODELBUILD.toml and BUILD.toml: loading, and the analysis of every built-in rule, return
targets or one error with a place in the file."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelbuild.analysis.analyze import Analyzer
from modelbuild.analysis.rules import Rules, load_rules
from modelbuild.errors import EnvironmentProblem, LoadingError, UsageError
from modelbuild.labels import Label
from modelbuild.loading.glob import expand_glob, parse_glob
from modelbuild.loading.loader import Loader
from modelbuild.loading.patterns import expand_patterns, parse_pattern
from modelbuild.loading.tree import SourceTree
from modelbuild.query.output import describe_declared
from modelbuild.query.target_world import TargetWorld
from modelbuild.session.request import Flags, make_request
from modelbuild.workspace.workspace import load_workspace
from tests.every_rule import PACKAGE, WORKSPACE, write_files
from tests.hostile import NASTY, cases, damaged, document, mutated, replaced, run_property


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workspace")
    write_files(folder)
    return folder


@pytest.fixture(scope="module")
def rules(root: Path) -> Rules:
    return load_rules(root, ())


def analyzed(root: Path, rules: Rules, content: bytes) -> set[str]:
    """Return the names of the valid targets of a BUILD.toml; each other target has one error, in that file."""
    (root / "BUILD.toml").write_bytes(content)
    workspace = load_workspace(root, {})
    analyzer = Analyzer(Loader(workspace, rules.by_name), rules, Label("", "cpu"))
    found = set()
    with located("BUILD.toml", content):
        targets = expand_patterns(analyzer.loader, ["//:all"], manual=True)
        world = TargetWorld(analyzer.loader, rules, "")
        for target in targets:
            with located("BUILD.toml", content):
                describe_declared(world, str(target.label))
            with located("BUILD.toml", content):
                Analyzer(analyzer.loader, rules, Label("", "cpu")).analyze(target.label)
                found.add(target.label.name)
    return found


class located:
    """Expects a block to succeed or to raise a LoadingError with a place in this file; other exceptions fail."""

    def __init__(self, file: str, content: bytes) -> None:
        self._file = file
        self._lines = content.count(b"\n") + 1

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, LoadingError):
            return False
        assert error.location is not None
        assert error.location.path == self._file
        assert 1 <= error.location.line <= self._lines
        return True


def test_every_rule_and_target_of_the_workspace_is_right(root: Path, rules: Rules) -> None:
    assert set(rules.by_name) == PACKAGE.keys() - {"package"}
    for name, rule in rules.by_name.items():
        assert rule.attrs.model_fields.keys() <= {attribute for table in PACKAGE[name] for attribute in table}
    names = {"program_stack", "program_small"} | {
        table["name"] for name, tables in PACKAGE.items() if name != "package" for table in tables
    }
    assert analyzed(root, rules, document(PACKAGE).encode()) == names - {"program_{stack}"}


@cases(150, 10_000)
def test_changed_and_damaged_build_files_are_analysed_or_refused(root: Path, rules: Rules, examples: int) -> None:
    texts = mutated(PACKAGE).map(lambda tables: document(tables).encode()) | damaged(document(PACKAGE).encode())
    run_property(examples, texts, lambda content: analyzed(root, rules, content))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", PACKAGE)
def test_every_attribute_with_every_hostile_value_is_analysed_or_refused(root: Path, rules: Rules, name: str) -> None:
    for tables in replaced(PACKAGE, name):
        analyzed(root, rules, document(tables).encode())


DEEP = {
    "arrays": "srcs = " + "[" * 300 + "]" * 300,
    "tables": "srcs = " + "{ a = " * 300 + "1" + " }" * 300,
    "dotted keys": "srcs" + ".a" * 900 + " = 1",
    "dotted keys in arrays": "srcs" + ".a" * 900 + " = " + "[" * 390 + "]" * 390,
    "selects": "srcs" + ".select.default" * 300 + " = 1",
    "beyond what tomli reads": "srcs = " + "[" * 100_000,
    "keys beyond what tomli reads": "srcs" + ".a" * 100_000 + " = 1",
}


@pytest.mark.parametrize("name", DEEP)
def test_a_document_that_is_nested_too_deep_is_refused(root: Path, rules: Rules, name: str) -> None:
    (root / "BUILD.toml").write_text(f"[[filegroup]]\nname = 'a'\n{DEEP[name]}\n")
    with pytest.raises(LoadingError, match=r"BUILD\.toml:\d+:\d+: .*nested too deep"):
        Loader(load_workspace(root, {}), rules.by_name).package("")


@pytest.mark.parametrize("levels", [98, 99, 100])
@pytest.mark.parametrize("value", ["[{}]", "{{ a = {} }}"])
def test_one_level_too_many_is_refused(root: Path, rules: Rules, levels: int, value: str) -> None:
    before, after = value.format("|").split("|")
    (root / "BUILD.toml").write_text(f"[[filegroup]]\nname = 'a'\nsrcs = {before * levels}1{after * levels}\n")
    with pytest.raises(LoadingError, match=r"BUILD\.toml:3:\d+: nested too deep; expected at most 100 levels"):
        Loader(load_workspace(root, {}), rules.by_name).package("")


def test_a_hundred_levels_are_not_too_deep(root: Path, rules: Rules) -> None:
    (root / "BUILD.toml").write_text("[[filegroup]]\nname = 'a'\nsrcs = " + "[" * 97 + "]" * 97)
    target = Loader(load_workspace(root, {}), rules.by_name).target(Label("", "a"))
    assert target.attributes["srcs"] != []


@pytest.mark.parametrize(
    ("number", "message"),
    [
        ("9223372036854775808", "BUILD.toml:3:9: a number of 64 bits; expected a whole number of at most 64 bits"),
        ("-9223372036854775809", "BUILD.toml:3:9: a number of 64 bits; expected a whole number of at most 64 bits"),
        ("0x" + "f" * 5000, "BUILD.toml:3:9: a number of 20000 bits; expected a whole number of at most 64 bits"),
    ],
)
def test_whole_numbers_have_64_bits(root: Path, rules: Rules, number: str, message: str) -> None:
    (root / "BUILD.toml").write_text(f"[[filegroup]]\nname = 'a'\nsrcs = [{number}]\n")
    with pytest.raises(LoadingError) as caught:
        Loader(load_workspace(root, {}), rules.by_name).package("")
    assert str(caught.value) == message


@cases(150, 10_000)
def test_changed_and_damaged_workspace_files_are_read_or_refused(root: Path, examples: int) -> None:
    def holds(content: bytes) -> None:
        (root / "MODELBUILD.toml").write_bytes(content)
        with located("MODELBUILD.toml", content), suppress(EnvironmentProblem):  # a user without a home folder
            workspace = load_workspace(root, {"HOME": str(root), "XDG_CACHE_HOME": str(root)})
            for profile in ({}, *workspace.config.profiles.values()):
                given = {name: each for name, each in profile.items() if name in Flags.__dataclass_fields__}
                make_request(workspace, root, ("//...",), Flags(**given))
            assert "\0" not in str(workspace.config.cache_dir)

    try:
        good = document(WORKSPACE).encode()
        run_property(examples, mutated(WORKSPACE).map(lambda t: document(t).encode()) | damaged(good), holds)
    finally:
        (root / "MODELBUILD.toml").write_text("")


@cases(200, 5_000)
def test_any_text_is_a_label_and_a_pattern_or_a_usage_error(examples: int) -> None:
    def holds(text: str) -> None:
        for read in (Label.parse, parse_pattern):
            with suppress(UsageError):
                assert read(text, "pkg")

    run_property(examples, st.sampled_from(NASTY) | st.text(alphabet="ab/:.-*@=é\n\0 \udcff", max_size=12), holds)


NAME = "a" * 200
SLOW = {
    **{"*a" * 40 + "b": (), "*?" * 100 + "b": (), "?*" * 60: (NAME,), "*a?" * 30 + "*": (NAME,)},
    **{"**/" * 400 + "x": (), "**/a/" * 60 + "x": (), "**/a/" * 8 + NAME: ("a/a/a/a/a/a/a/a/" + NAME,)},
}


@pytest.mark.timeout(60)  # to try every split takes longer than there is time
@pytest.mark.parametrize("pattern", SLOW)
def test_no_glob_takes_time_that_grows_with_the_number_of_splits(tmp_path: Path, pattern: str) -> None:
    folder = tmp_path / "a/a/a/a/a/a/a/a"
    folder.mkdir(parents=True)
    for below in (tmp_path, folder):
        (below / NAME).touch()
    assert expand_glob(SourceTree(tmp_path), "", [parse_glob(pattern)], [("b", pattern)]) == SLOW[pattern]


@given(pattern=st.text(alphabet="ab*?.", min_size=1, max_size=8), name=st.text(alphabet="ab.", min_size=1, max_size=8))
def test_stars_match_what_trying_every_split_matches(
    tmp_path_factory: pytest.TempPathFactory, pattern: str, name: str
) -> None:
    if name in (".", "..") or pattern in (".", "..") or "**" in pattern:
        return
    folder = tmp_path_factory.mktemp("glob")
    (folder / name).touch()
    visible = not (pattern[0] in "*?" and name[0] == ".")
    expected = (name,) if visible and _splits(pattern, name) else ()
    assert expand_glob(SourceTree(folder), "", [parse_glob(pattern)], []) == expected


def _splits(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(_splits(pattern[1:], name[cut:]) for cut in range(len(name) + 1))
    return bool(name) and pattern[0] in ("?", name[0]) and _splits(pattern[1:], name[1:])


def test_axes_that_make_a_text_huge_are_refused(root: Path, rules: Rules) -> None:
    text = f"[[filegroup]]\nname = 'a'\nsrcs = ['{'{x}' * 2000}']\nmatrix.x = ['{'a' * 1000}']\n"
    (root / "BUILD.toml").write_text(text)
    with pytest.raises(LoadingError, match=r"BUILD\.toml:3:9: the axes make this text longer than 100000 characters"):
        Loader(load_workspace(root, {}), rules.by_name).package("")
