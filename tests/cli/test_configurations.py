"""Several devices, selects and matrices: each configuration is built separately and has separate outputs."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

DEVICES = """[package]
default_visibility = ["//visibility:public"]

[[device_target]]
name = "pc"
arch = "x86_64"

[[device_target]]
name = "board"
arch = "aarch64"
"""
BUILD = """[[checksums]]
name = "picked"
srcs = { select = { "//devices:board" = ["one.txt"], default = ["one.txt", ":more"] } }

[[checksums]]
name = "plain"
srcs = ["one.txt", ":more"]

[[checksums]]
name = "above"
srcs = [":picked"]

[[filegroup]]
name = "more"
srcs = ["two.txt"]

[[checksums]]
name = "{file}_{upper}"
matrix = { file = ["one", "two"], upper = [true, false] }
srcs = ["{file}.txt"]
uppercase = "{upper}"
"""
TEXTS = {"one.txt": "1\n", "two.txt": "2\n"}
BOTH = ("--device=//devices:pc", "--device=//devices:board")


@pytest.fixture
def many(workspace: Any, example_rules: dict[str, str]) -> Any:
    texts = {f"a/{name}": text for name, text in TEXTS.items()}
    workspace.write({**example_rules, "devices/BUILD.toml": DEVICES, "a/BUILD.toml": BUILD, **texts})
    return workspace


def sums(*names: str) -> str:
    return "".join(f"{hashlib.sha256(TEXTS[name].encode()).hexdigest()}  {name}\n" for name in names)


def output(workspace: Any, config: str, name: str) -> str:
    path: Path = workspace.root / f"modelbuild-out/{config}/a/{name}/{name}.sha256"
    return path.read_text()


def test_each_device_has_its_outputs_in_its_own_folder(many: Any) -> None:
    ended = many.run("build", "//a:picked", *BOTH, "--json")
    assert ended.code == 0, ended.err
    assert [(target["config"], target["outputs"]) for target in ended.json["targets"]] == [
        (config, [f"modelbuild-out/{config}/a/picked/picked.sha256"]) for config in ("devices~pc", "devices~board")
    ]
    assert {action["id"] for action in ended.json["actions"]} == {
        f"//a:picked (//devices:{device})#checksums" for device in ("pc", "board")
    }
    assert output(many, "devices~pc", "picked") == sums("one.txt", "two.txt")
    assert output(many, "devices~board", "picked") == sums("one.txt")
    assert not (many.root / "modelbuild-out/default").exists()

    many.build("//a:picked")
    assert output(many, "default", "picked") == sums("one.txt", "two.txt")
    assert output(many, "devices~board", "picked") == sums("one.txt")


def test_lines_say_which_configuration_an_output_is_of(many: Any) -> None:
    lines = many.run("build", "//a:picked", *BOTH).out.splitlines()
    assert lines[0] == "//a:picked (devices~pc)"
    assert lines[2] == "//a:picked (devices~board)"


def test_actions_that_no_device_decides_run_once(many: Any) -> None:
    assert many.build("//a:plain", *BOTH).statuses == {"//a:plain#checksums": "ran"}
    assert output(many, "devices~pc", "plain") == output(many, "devices~board", "plain") == sums("one.txt", "two.txt")
    assert many.build("//a:plain").statuses == {"//a:plain#checksums": "cached"}


def test_readers_of_a_select_are_configured(many: Any) -> None:
    assert set(many.build("//a:above", *BOTH).statuses) == {
        f"//a:{target} (//devices:{device})#checksums" for target in ("above", "picked") for device in ("pc", "board")
    }
    assert output(many, "devices~pc", "above") != output(many, "devices~board", "above")


def test_one_device_twice_is_one_device(many: Any) -> None:
    ended = many.run("build", "//a:picked", BOTH[0], BOTH[0], "--json")
    assert len(ended.json["targets"]) == 1


def test_a_change_of_one_branch_reruns_that_configuration(many: Any) -> None:
    many.build("//a:picked", *BOTH)
    many.edit("a/BUILD.toml", '["one.txt"], default', '["two.txt"], default')
    assert many.ran("//a:picked", *BOTH) == {"//a:picked (//devices:board)#checksums"}
    assert output(many, "devices~board", "picked") == sums("two.txt")


def test_the_workspaces_default_device_and_a_profiles(many: Any) -> None:
    more = '[build]\ndefault_device = "//devices:board"\n\n[profile.desk]\ndevice = ["//devices:pc"]\n'
    many.write({"MODELBUILD.toml": f'rules = ["//tools/rules"]\n\n{more}'})
    many.build("//a:picked")
    assert output(many, "devices~board", "picked") == sums("one.txt")
    many.build("//a:picked", "--config=desk")
    assert output(many, "devices~pc", "picked") == sums("one.txt", "two.txt")


def test_a_matrix_gives_a_target_for_each_combination(many: Any) -> None:
    ids = many.build("//a:one_true", "//a:one_false", "//a:two_false").statuses
    assert set(ids) == {f"//a:{name}#checksums" for name in ("one_true", "one_false", "two_false")}
    assert output(many, "default", "one_false") == sums("one.txt")
    assert output(many, "default", "two_false") == sums("two.txt")
    assert output(many, "default", "one_true").split()[0] == sums("one.txt").split()[0].upper()


@pytest.mark.xdist_group("classifier")
def test_a_program_whose_stack_the_device_selects(classifier: Any) -> None:
    """Built targets are not built again; the model is exported once for both devices."""
    classifier.edit(
        "classifier/BUILD.toml",
        'stack = ":xnnpack_stack"',
        'stack = { select = { ":other" = ":portable_stack", default = ":xnnpack_stack" } }',
    )
    portable = '[[backend_stack]]\nname = "portable_stack"\nbackends = ["portable"]\n\n[[backend_stack]]'
    classifier.edit("classifier/BUILD.toml", '[[backend_stack]]\nname = "xnn', f'{portable}\nname = "xnn')
    program = "//classifier:xnnpack"
    ran = classifier.ran(program, "--device=//classifier:cpu", "--device=//classifier:other")
    assert ran == {f"{program} (//classifier:other)#{step}" for step in ("partition", "emit", "verify")}
    folders = [
        classifier.root / f"modelbuild-out/classifier~{device}/classifier/xnnpack" for device in ("cpu", "other")
    ]
    first, second = ((folder / "xnnpack.pte").read_bytes() for folder in folders)
    assert b"XnnpackBackend" in first
    assert b"XnnpackBackend" not in second
