"""The error message of each kind of broken MODELBUILD.toml or BUILD.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelbuild.errors import LoadingError
from modelbuild.labels import Label
from modelbuild.loading.loader import Loader
from modelbuild.loading.select import resolve_selects, select_labels
from modelbuild.workspace.workspace import load_workspace

WORKSPACES = [
    ("rules = [", "1:10", "not valid TOML: Invalid value"),
    ("[build]\njobs = 4\njobs = 5\n", "3:9", "not valid TOML: Cannot overwrite a value"),
    ("x = " + "[" * 500 + "]" * 500, "1:1", "not valid TOML: nested too deep"),
    ("\n[biuld]\njobs = 4\n", "2:2", "unknown key 'biuld'; did you mean 'build'?"),
    ("build = 3", "1:1", "'build': expected a table, got 3"),
    ("[build]\njobs = 'four'", "2:1", "'jobs': expected a whole number from 1 to 10000, got 'four'"),
    ("[build]\n  jobs = 0", "2:3", "'jobs': expected a whole number from 1 to 10000, got 0"),
    ("build.jobs = true", "1:7", "'jobs': expected a whole number from 1 to 10000, got true"),
    ("[build]\nkeep_going = 1", "2:1", "'keep_going': expected true or false, got 1"),
    ("toolchain = '//:t'", "1:1", "unknown key 'toolchain'; expected it in [build]"),
    ("[build]\nrules = ['r']", "2:1", "unknown key 'rules' of [build]; expected it above all tables"),
    ("[build]\nkeep-going = true", "2:1", "unknown key 'keep-going' of [build]; did you mean 'keep_going'?"),
    ("[build]\ndefault_device = ['//d']", "2:1", "'default_device': expected a label, got an array"),
    (
        "[build]\ndefault_device = '//d::x'",
        "2:1",
        "'default_device': '//d::x' is not a label; expected //package:name, //package or :name",
    ),
    ("rules = 'tools'", "1:1", "'rules': expected an array of strings, got 'tools'"),
    ("rules = [\n  'a',\n  2,\n]", "3:3", "'rules': expected strings, got 2"),
    (
        "rules = ['tools/rules']",
        "1:10",
        "'rules': expected a Python package or a folder such as '//tools/rules', got 'tools/rules'",
    ),
    (
        "rules = ['//../x']",
        "1:10",
        "'rules': expected a Python package or a folder such as '//tools/rules', got '//../x'",
    ),
    ("rules = ['a', 'b', 'a']", "1:20", "'rules': 'a' is listed twice"),
    (
        "[cache]\nmax_size = '20 gigs'",
        "2:1",
        "'max_size': expected a size such as \"20GiB\" or \"500 MB\", or bytes, got '20 gigs'",
    ),
    ("[cache]\nmax_size = -1", "2:1", "'max_size': expected a size from 1 byte to 8 EiB, got -1"),
    ("[cache]\ndir = 7", "2:1", "'dir': expected a path, got 7"),
    ("[cache]\ndri = '/x'", "2:1", "unknown key 'dri' of [cache]; did you mean 'dir'?"),
    ("[profile]\nci = 1", "2:1", "'ci': expected a table, got 1"),
    ("[profile.ci]\nkeep_goin = true", "2:1", "unknown key 'keep_goin' of [profile.ci]; did you mean 'keep_going'?"),
    (
        "[profile.ci]\ndevice = ['//d:a', 'b c']",
        "2:20",
        "'device': 'b c' is not a label; expected //package:name, //package or :name",
    ),
]

MODEL = "[[torch_model]]\nname = 'a'\n"

PACKAGES = [
    ("[[torch_model]\n", "1:14", "not valid TOML: Expected ']]' at the end of an array declaration"),
    (
        "[[torch_model]]\nname = 'a\n",
        "3:1",
        'not valid TOML: Expected "\'"',
    ),
    ("[[torch_modle]]\nname = 'a'\n", "1:3", "no rule 'torch_modle'; did you mean 'torch_model'?"),
    ("[pakage]\n", "1:2", "no rule 'pakage'; did you mean 'package'?"),
    ("'a\\nb' = 1", "1:1", "no rule 'a\\\\nb'"),
    ('"a\\nb" = 1', "1:1", "no rule 'a\\nb'"),
    ("[torch_model]\nname = 'a'", "1:2", "expected [[torch_model]], an array of tables, got [torch_model]"),
    ("torch_model = 'a'", "1:1", "expected targets, [[torch_model]], got 'a'"),
    ("torch_model = [{ name = 'a' }, 3]", "1:32", "expected a table in 'torch_model', got 3"),
    ("[[package]]", "1:3", "'package': expected a table, got an array"),
    (
        "[package]\ndefault_visiblity = []",
        "2:1",
        "unknown key 'default_visiblity' of [package]; did you mean 'default_visibility'?",
    ),
    (
        "[package]\ndefault_visibility = '//visibility:public'",
        "2:1",
        "'default_visibility': expected an array of strings, got '//visibility:public'",
    ),
    (
        "[[torch_model]]\nnmae = 'a'",
        "1:1",
        'torch_model without a name; expected name = "..."',
    ),
    ("[[torch_model]]\nname = 3", "2:1", "'name': expected a string, got 3"),
    (
        "[[torch_model]]\nname = 'a b'",
        "2:1",
        "'a b' is not a name; expected letters, digits and any of _.+@=-",
    ),
    ("[[torch_model]]\nname = ''", "2:1", "'' is not a name; expected letters, digits and any of _.+@=-"),
    ("[[torch_model]]\nname = '..'", "2:1", "'..' is not a name; expected letters, digits and any of _.+@=-"),
    (
        '[[torch_model]]\nname = "a\\nb"',
        "2:1",
        "'a\\nb' is not a name; expected letters, digits and any of _.+@=-",
    ),
    ("[[torch_model]]\nname = 'all'", "2:1", "'all' is reserved in labels; choose another name"),
    (MODEL + "[[filegroup]]\nname = 'a'", "4:1", "name 'a' is taken by the torch_model at m/BUILD.toml:1:1"),
    (MODEL + "tags = 'manual'", "3:1", "'tags': expected an array of strings, got 'manual'"),
    (MODEL + "tags = ['x', true]", "3:14", "'tags': expected strings, got true"),
    (
        MODEL + "visibility = ['public']",
        "3:15",
        "'visibility': expected '//visibility:public', '//visibility:private', "
        "'//package:__pkg__' or '//package:__subpackages__', got 'public'",
    ),
    (
        MODEL + "visibility = [\n'//b',\n'//b:x']",
        "5:1",
        "'visibility': expected '//visibility:public', '//visibility:private', "
        "'//package:__pkg__' or '//package:__subpackages__', got '//b:x'",
    ),
    (
        MODEL + "visibility = ['//b', '//visibility:private']",
        "3:22",
        "'visibility': '//visibility:private' excludes other entries",
    ),
    (
        MODEL + "matrix = ['fp16']",
        "3:1",
        "'matrix': expected a table of axes, or the name of a [[matrix]], got an array",
    ),
    (MODEL + "matrix = 'heads'", "3:1", "no [[matrix]] with the name 'heads'"),
    (
        "[[matrix]]\nname = 'heads'\nn = [1]\n[[torch_model]]\nname = 'a{n}'\nmatrix = 'haeds'",
        "6:1",
        "no [[matrix]] with the name 'haeds'; did you mean 'heads'?",
    ),
    (
        "[[matrix]]\nname = 'heads'\nn = [1]\n[[torch_model]]\nname = 'a{nn}'\nmatrix = 'heads'",
        "5:1",
        "no axis 'nn' in matrix 'heads'; did you mean 'n'?",
    ),
    (
        "[[matrix]]\nname = 'heads'\nn = [1, 2]\n[[torch_model]]\nname = 'a'\nmatrix = 'heads'",
        "5:1",
        "'name': several combinations of matrix 'heads' are called 'a'; it must use {n}",
    ),
    (
        "[[matrix]]\nname = 'heads'\nn = [1]\n[[matrix]]\nname = 'heads'\nn = [2]",
        "5:1",
        "name 'heads' is taken by the matrix at m/BUILD.toml:1:1",
    ),
    ("[[matrix]]\nn = [1]", "1:1", 'matrix without a name; expected name = "..."'),
    ("[[matrix]]\nname = ['a']", "2:1", "'name': expected a string, got an array"),
    ("[[matrix]]\nname = 'heads'", "1:1", "'matrix': expected at least one axis, such as size = [224, 320]"),
    (
        "[[matrix]]\nname = 'heads'\naxes = { n = [1] }",
        "3:1",
        "'axes': expected an array with at least one value, got a table",
    ),
    ("[[matrix]]\nname = 'heads'\nn = [1]\nexclude = [{ m = 1 }]", "4:14", "no axis 'm'"),
    ("[matrix]\nn = [1]", "1:2", "expected [[matrix]], an array of tables, got [matrix]"),
    ("[[matrx]]\nname = 'heads'\nn = [1]", "1:3", "no rule 'matrx'; did you mean 'matrix'?"),
    (MODEL + "matrix = {}", "3:1", "'matrix': expected at least one axis, such as size = [224, 320]"),
    (MODEL + "matrix = { size = 224 }", "3:12", "'size': expected an array with at least one value, got 224"),
    (MODEL + "matrix.size = []", "3:8", "'size': expected an array with at least one value, got an empty array"),
    (MODEL + "matrix.size = [1, [2]]", "3:19", "'size': expected strings, numbers or booleans, got an array"),
    (MODEL + "matrix.size = [1, 2, 1]", "3:22", "'size': 1 is listed twice"),
    (
        MODEL + "matrix = { one = [1], size = [1, 2], on = [true, false] }",
        "2:1",
        "'name': several combinations of the matrix are called 'a'; it must use {size} and {on}",
    ),
    (
        MODEL + "matrix.size = [1, 2]",
        "2:1",
        "'name': several combinations of the matrix are called 'a'; it must use {size}",
    ),
    (
        "[[torch_model]]\nname = 'a-{x}{y}'\nmatrix = { x = [1, 11], y = [1, 11] }",
        "2:1",
        "'name': several combinations of the matrix are called 'a-111'",
    ),
    (
        "[[torch_model]]\nname = '{a}{b}'\nmatrix = { a = [1], b = [1] }\n[[torch_model]]\nname = '11'\n",
        "5:1",
        "name '11' is taken by the torch_model at m/BUILD.toml:1:1",
    ),
    (
        "[[torch_model]]\nname = 'a {x}'\nmatrix.x = [1]",
        "2:1",
        "'a 1' is not a name; expected letters, digits and any of _.+@=-",
    ),
    (
        "[[torch_model]]\nname = 'a{x}'\nshape = [1, '{xs}']\nmatrix.x = [1, 2]",
        "3:13",
        "no axis 'xs' in the matrix; did you mean 'x'?",
    ),
    (
        "[[torch_model]]\nname = 'a{x}'\ntext = 'a } b'\nmatrix.x = [1, 2]",
        "3:1",
        "a '}' alone; expected {axis}, or '}}' for the brace itself",
    ),
    ("[[torch_model]]\nname = 'a{x}'\nmatrix = { x = [1, 2], exclude = [{ y = 1 }] }", "3:37", "no axis 'y'"),
    (
        "[[torch_model]]\nname = 'a{x}'\nmatrix = { x = [1, 2], exclude = [{ x = 3 }] }",
        "3:37",
        "axis 'x' has no value 3",
    ),
    (
        "[[torch_model]]\nname = 'a{x}'\nmatrix = { x = [1], exclude = [{ x = 1 }] }",
        "3:21",
        "'exclude' leaves no combination",
    ),
    (
        "[[torch_model]]\nname = 'a{x}'\nmatrix = { x = [1], exclude = { x = 1 } }",
        "3:21",
        "'exclude': expected an array of tables, got a table",
    ),
    (
        MODEL + "[torch_model.matrix]\n" + "".join(f"{axis} = {list(range(100))}\n" for axis in "xyz"),
        "3:14",
        "'matrix': 1000000 combinations; at most 10000 are possible",
    ),
]

SELECTS = [
    ("size = { select = 3 }", "3:10", "'select': expected a table such as { \"//devices:a\" = 1, default = 2 }, got 3"),
    (
        "size = { select = {} }",
        "3:10",
        "'select': expected a table such as { \"//devices:a\" = 1, default = 2 }, got an empty table",
    ),
    ("size = { select = { default = 1 }, x = 2 }", "3:36", "a select must be the only key; also got 'x'"),
    (
        "x = [{ y = { select = { 'a b' = 1 } } }]",
        "3:25",
        "'a b' is not a label; expected //package:name, //package or :name",
    ),
    ("x.select = { ':d' = 1, '//m:d' = 2 }", "3:24", "'//m:d' is the same device as ':d'"),
]


@pytest.mark.parametrize(("text", "place", "message"), WORKSPACES)
def test_a_broken_workspace_file_gives_one_line(tmp_path: Path, text: str, place: str, message: str) -> None:
    (tmp_path / "MODELBUILD.toml").write_text(text)
    with pytest.raises(LoadingError) as caught:
        load_workspace(tmp_path, {})
    assert str(caught.value) == f"MODELBUILD.toml:{place}: {message}"


def load(root: Path, data: bytes) -> Loader:
    (root / "MODELBUILD.toml").touch()
    (root / "m").mkdir()
    (root / "m/BUILD.toml").write_bytes(data)
    return Loader(load_workspace(root, {}), ("filegroup", "torch_model"))


@pytest.mark.parametrize(("text", "place", "message"), PACKAGES)
def test_a_broken_package_gives_one_line(tmp_path: Path, text: str, place: str, message: str) -> None:
    with pytest.raises(LoadingError) as caught:
        load(tmp_path, text.encode()).package("m")
    assert str(caught.value) == f"m/BUILD.toml:{place}: {message}"


@pytest.mark.parametrize(("text", "place", "message"), SELECTS)
def test_a_malformed_select_gives_one_line(tmp_path: Path, text: str, place: str, message: str) -> None:
    target = load(tmp_path, (MODEL + text).encode()).target(Label("m", "a"))
    with pytest.raises(LoadingError) as caught:
        list(select_labels(target))
    assert str(caught.value) == f"m/BUILD.toml:{place}: {message}"
    with pytest.raises(LoadingError) as caught:
        resolve_selects(target, None)
    assert str(caught.value) == f"m/BUILD.toml:{place}: {message}"


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"# ok\n# \xc3\xa9\xff", "m/BUILD.toml:2:4: not UTF-8: byte 0xff; save the file as UTF-8"),
        (b"\xff\xfe[\x00", "m/BUILD.toml:1:1: not UTF-8: byte 0xff; save the file as UTF-8"),
        (b"# ok\r\n\r\nx x", "m/BUILD.toml:3:3: not valid TOML: Expected '=' after a key in a key/value pair"),
        (b"x = 1\ry = 2", "m/BUILD.toml:1:6: not valid TOML: Expected newline or end of document after a statement"),
        (b"x = " + b"9" * 5000, "m/BUILD.toml:1:1: not valid TOML: a number has too many digits"),
    ],
)  # fmt: skip
def test_broken_bytes_give_one_line(tmp_path: Path, data: bytes, line: str) -> None:
    with pytest.raises(LoadingError) as caught:
        load(tmp_path, data).package("m")
    assert str(caught.value) == line


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    loader = load(tmp_path, b"\xef\xbb\xbf[[filegroup]]\r\nname = 'a'\r\n")
    assert str(loader.target(Label("m", "a")).location(("name",))) == "m/BUILD.toml:2:1"
