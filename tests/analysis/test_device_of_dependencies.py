"""The device of a target: --device, then the depending target's, then its own attribute, then the default."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from modelbuild.analysis.analyze import Analyzer
from modelbuild.analysis.rules import load_rules
from modelbuild.errors import LoadingError
from modelbuild.labels import Label
from modelbuild.loading.loader import Loader
from modelbuild.workspace.workspace import load_workspace

BUILD = """
[[device_target]]
name = "{device}"
matrix = {{ device = ["desk", "board", "server"] }}
arch = "x86_64"

[[backend_stack]]
name = "stack"
backends = ["portable"]

[[torch_model]]
name = "net"
entry = "net.py:Net"
inputs = [{{ name = "x", shape = [2], dtype = "float32" }}]

[[pte_program]]
name = "program"
model = ":net"
stack = ":stack"
{program}

[[pte_test]]
name = "program_test"
program = ":program"
model = ":net"
cases = [{{ name = "drawn", generator = {{ seed = 1 }} }}]
{test}
"""


@pytest.mark.parametrize(
    ("program", "test", "asked", "expected"),
    [
        ("", "", None, "desk"),
        ("board", "", None, "board"),
        ("", "server", None, "server"),
        ("board", "server", None, "server"),
        ("board", "server", "desk", "desk"),
    ],
)
def test_the_programs_device_when_its_test_is_asked_for(
    tmp_path: Path, program: str, test: str, asked: str | None, expected: str
) -> None:
    def own(device: str) -> str:
        return f'device = "//:{device}"' if device else ""

    (tmp_path / "MODELBUILD.toml").write_text('[build]\ndefault_device = "//:desk"\n')
    (tmp_path / "net.py").touch()
    (tmp_path / "BUILD.toml").write_text(BUILD.format(device="{device}", program=own(program), test=own(test)))
    rules = load_rules(tmp_path, ())
    workspace = load_workspace(tmp_path)
    analyzer = Analyzer(Loader(workspace, rules.by_name), rules, workspace.config.default_device)
    analyzer.analyze(Label("", "program_test"), Label("", asked) if asked else None)
    devices = {node.label.name: each.device for node, each in analyzer.targets.items()}
    assert devices["program"] == Label("", expected)


@pytest.mark.parametrize(
    ("device", "message"), [("dekk", "no target 'dekk' in //; did you mean 'desk'?"), ("net", "not a device")]
)
def test_a_default_that_is_no_device_is_an_error_where_it_is_written(tmp_path: Path, device: str, message: str) -> None:
    (tmp_path / "MODELBUILD.toml").write_text(f'\n[build]\ndefault_device = "//:{device}"\n')
    (tmp_path / "net.py").touch()
    (tmp_path / "BUILD.toml").write_text(BUILD.format(device="{device}", program="", test=""))
    rules = load_rules(tmp_path, ())
    workspace = load_workspace(tmp_path)
    analyzer = Analyzer(Loader(workspace, rules.by_name), rules, workspace.config.default_device)
    with pytest.raises(LoadingError, match=re.escape(message)) as caught:
        analyzer.analyze(Label("", "program_test"))
    assert str(caught.value.location) == "MODELBUILD.toml:3:1"


def test_a_program_and_its_test_have_one_configuration_for_the_default_device(tmp_path: Path) -> None:
    (tmp_path / "MODELBUILD.toml").write_text('[build]\ndefault_device = "//:desk"\n')
    (tmp_path / "net.py").touch()
    (tmp_path / "BUILD.toml").write_text(BUILD.format(device="{device}", program="", test=""))
    rules = load_rules(tmp_path, ())
    workspace = load_workspace(tmp_path)
    analyzer = Analyzer(Loader(workspace, rules.by_name), rules, workspace.config.default_device)
    for name in ("program", "program_test"):
        analyzer.analyze(Label("", name))
    assert [str(node) for node in analyzer.targets if node.label.name == "program"] == ["//:program"]


BUNDLE = """
[[runtime_bundle]]
name = "bundle"
program = ":program"
runtime = { archive = { select = { "//:board" = "board.tar", default = "other.tar" } } }
"""


@pytest.mark.parametrize(
    ("program", "bundle", "asked", "expected", "configured"),
    [
        ("board", "", None, "board", "//:program"),
        ("", "", None, "desk", "//:program"),
        ("board", "server", None, "server", "//:program (//:server)"),
        ("server", "", "board", "board", "//:program (//:board)"),
        ("board", '{ select = { default = "//:server" } }', None, "desk", "//:program"),
    ],
)
def test_a_bundle_takes_the_device_of_its_program(
    tmp_path: Path, program: str, bundle: str, asked: str | None, expected: str, configured: str
) -> None:
    def own(device: str) -> str:
        return f'device = "//:{device}"' if device and "{" not in device else f"device = {device}" if device else ""

    for name in ("net.py", "board.tar", "other.tar"):
        (tmp_path / name).touch()
    (tmp_path / "MODELBUILD.toml").write_text('[build]\ndefault_device = "//:desk"\n')
    build = BUILD.format(device="{device}", program=own(program), test="")
    (tmp_path / "BUILD.toml").write_text(f"{build}{BUNDLE}{own(bundle)}\n")
    rules, workspace = load_rules(tmp_path, ()), load_workspace(tmp_path)
    analyzer = Analyzer(Loader(workspace, rules.by_name), rules, workspace.config.default_device)
    made = analyzer.analyze(Label("", "bundle"), Label("", asked) if asked else None)
    assert made.device == Label("", expected)
    assert [str(node) for node in analyzer.targets if node.label.name == "program"] == [configured]
    (action,) = (each for each in analyzer.graph.nodes.values() if getattr(each, "mnemonic", "") == "bundle")
    archive = "board.tar" if expected == "board" else "other.tar"
    assert [each.path for each in action.inputs if each.name == "runtime"] == [archive]
