"""runtime_bundle: an impossible device is an error before anything is built."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest

from modelbuild.actions import Action, DerivedArtifact
from modelbuild.errors import LoadingError
from modelbuild.rule_runner import RuleRunner

# A rule whose programs are always for one device, like a rule for programs from elsewhere.
PREBUILT = """
from modelbuild.api import Attrs, Source, rule
from modelbuild_rules.providers import DeviceTarget, Program

class PrebuiltAttrs(Attrs):
    pte: Source
    arch: str = ""
    outside: bool = False
    compute_capabilities: tuple[str, ...] = ()

@rule(attrs=PrebuiltAttrs)
def prebuilt(ctx):
    attrs, file = ctx.attrs, ctx.file(ctx.attrs.pte)
    device = DeviceTarget(attrs.arch, "linux", attrs.compute_capabilities) if attrs.arch else None
    return (Program(file, file if attrs.outside else None, file, file, {}, device),)
"""

BUILD = """
[[runtime_bundle]]
name = "bundle"
program = "//nets/net"
runtime = {{ archive = "runtime.tar" }}
{bundle}

[[device_target]]
name = "x86"
arch = "x86_64"
compute_capabilities = ["8.6"]

[[device_target]]
name = "arm"
arch = "aarch64"
"""


def analyzed(root: Path, program: str, bundle: str = "", build: str = BUILD) -> Action:
    """Return the action of a bundle."""
    files = {
        "MODELBUILD.toml": 'rules = ["//own"]\n',
        "own/__init__.py": "",
        "own/prebuilt.py": PREBUILT,
        "own/steps/__init__.py": "",
        "BUILD.toml": build.format(bundle=bundle),
        "nets/net/BUILD.toml": '[package]\ndefault_visibility = ["//visibility:public"]\n' + program,
        "nets/net/net.pte": "",
        "nets/net/net.py": "",
        "runtime.tar": "",
    }
    return RuleRunner(root, files).target("//:bundle").actions["bundle"]


def prebuilt(more: str = "") -> str:
    return f'\n[[prebuilt]]\nname = "net"\npte = "net.pte"\n{more}\n'


@pytest.mark.parametrize(
    ("program", "bundle", "line"),
    [
        (
            'arch = "aarch64"',
            'device = ":x86"',
            "BUILD.toml:6:1: '//nets/net' is compiled for linux on aarch64; expected linux on x86_64 with compute "
            "capability 8.6, the bundle's device",
        ),
        (
            'arch = "x86_64"\ncompute_capabilities = ["8.9"]',
            'device = ":x86"',
            "BUILD.toml:6:1: '//nets/net' is compiled for linux on x86_64 with compute capability 8.9; expected linux "
            "on x86_64 with compute capability 8.6, the bundle's device",
        ),
    ],
)
def test_a_bundle_that_cannot_be_for_its_device(tmp_path: Path, program: str, bundle: str, line: str) -> None:
    with pytest.raises(LoadingError, match="^" + re.escape(line)):
        analyzed(tmp_path, prebuilt(program), bundle)


SEVERAL = """
[[prebuilt]]
name = "net"
pte = "net.pte"
{net}

[[prebuilt]]
name = "other"
pte = "net.pte"
{other}
"""

PROGRAMS = 'program = "//nets/net"', 'program = {{ net = "//nets/net", "a-b" = "//nets/net:other" }}'


def test_several_programs_are_bundled_by_their_names(tmp_path: Path) -> None:
    build = BUILD.replace(*PROGRAMS)
    action = analyzed(tmp_path, SEVERAL.format(net='arch = "x86_64"', other=""), build=build)
    assert action.params["programs"] == ["a-b", "net"]
    assert action.params["arch"] == "x86_64"
    names = [each.name for each in action.inputs]
    assert (names.count("pte"), "ptd" in names) == (2, False)


COMPARED = """
[[backend_stack]]
name = "stack"
backends = ["portable"]

[[torch_model]]
name = "model"
entry = "net.py:make"
inputs = [{ name = "x", shape = [2], dtype = "float32" }]

[[pte_program]]
name = "net"
model = ":model"
stack = ":stack"
"""


@pytest.mark.parametrize(("more", "waits"), [("", ["//nets/net:net#verify"]), ("verify = false\n", [])])
def test_a_bundle_waits_until_its_program_was_compared(tmp_path: Path, more: str, waits: list[str]) -> None:
    """So no bundle has a program that computes something else than its model."""
    inputs = analyzed(tmp_path, COMPARED + more).inputs
    found = [each.artifact for each in inputs if each.name == "verified"]
    assert [str(each.action) for each in found if isinstance(each, DerivedArtifact)] == waits


def test_programs_with_weights_outside_have_one_file_of_weights(tmp_path: Path) -> None:
    outside = "outside = true"
    action = analyzed(tmp_path, SEVERAL.format(net=outside, other=outside), build=BUILD.replace(*PROGRAMS))
    (data,) = (each.artifact for each in action.inputs if each.name == "ptd")
    assert isinstance(data, DerivedArtifact)
    assert str(data.action) == "//:bundle#weights"


@pytest.mark.parametrize(
    ("net", "other", "given", "line"),
    [
        (
            'arch = "x86_64"',
            'arch = "aarch64"',
            PROGRAMS[1],
            "BUILD.toml:4:13: '//nets/net' is compiled for linux on x86_64; expected linux on aarch64, the device of "
            "'//nets/net:other'",
        ),
        (
            "outside = true",
            "",
            PROGRAMS[1],
            "BUILD.toml:4:33: '//nets/net:other' contains its weights, and those of others are outside; expected the "
            "same 'external_weights' of all",
        ),
        ("", "", "", "BUILD.toml:2:1: runtime_bundle 'bundle' lacks the attribute 'program'"),
        ("", "", "program = {{}}", "BUILD.toml:4:1: expected the label of a pte_program, or a table with one or more"),
        (
            "",
            "",
            PROGRAMS[1].replace("program", "programs"),
            "BUILD.toml:4:1: unknown attribute 'programs' of runtime_bundle 'bundle'; expected 'program'",
        ),
        (
            "",
            "",
            'program = {{ lib = "//nets/net" }}',
            "BUILD.toml:4:13: attribute 'program.lib': 'lib' is a folder of each bundle; expected another name",
        ),
        (
            "",
            "",
            'program = {{ "a/b" = "//nets/net" }}',
            "BUILD.toml:4:13: attribute 'program.a/b': 'a/b' cannot name a program; expected letters, digits, '_' "
            "and '-'",
        ),
    ],
    ids=["devices", "weights", "none", "empty", "old name", "folder", "name"],
)
def test_programs_that_cannot_be_in_one_bundle(tmp_path: Path, net: str, other: str, given: str, line: str) -> None:
    build = BUILD.replace(PROGRAMS[0], given)
    with pytest.raises(LoadingError, match="^" + re.escape(line)):
        analyzed(tmp_path, SEVERAL.format(net=net, other=other), build=build)


@pytest.mark.parametrize(
    ("program", "bundle", "arch", "capabilities"),
    [
        ('arch = "x86_64"', "", "x86_64", []),
        ('arch = "x86_64"\ncompute_capabilities = ["8.6"]', 'device = ":x86"', "x86_64", ["8.6"]),
        ("", 'device = ":x86"', "x86_64", ["8.6"]),
        ('arch = "aarch64"', "", "aarch64", []),
        ("", 'device = ":arm"', "aarch64", []),
        ("", "", None, None),
    ],
)
def test_checks_of_a_bundle(
    tmp_path: Path, program: str, bundle: str, arch: str | None, capabilities: list[str] | None
) -> None:
    params = analyzed(tmp_path, prebuilt(program), bundle).params
    assert (params["arch"], params["capabilities"]) == (arch, capabilities)
    assert params["programs"] == ["net"]  # from '//nets/net', short for '//nets/net:net'


@pytest.mark.parametrize(
    ("program", "distribution", "module"),
    [
        ("", "modelbuild-runtime", "modelbuild_runtime_native"),
        ('arch = "{here}"', "modelbuild-runtime", "modelbuild_runtime_native"),
        ('arch = "{other}"', "modelbuild-runtime-{other}", "modelbuild_runtime_{other}"),
    ],
)
def test_without_an_archive_a_bundle_needs_the_package_for_its_architecture(
    tmp_path: Path, program: str, distribution: str, module: str
) -> None:
    here = platform.machine()
    names = {"here": here, "other": next(each for each in ("x86_64", "aarch64") if each != here)}
    action = analyzed(
        tmp_path,
        prebuilt(program.format(**names)),
        build=BUILD.replace('runtime = {{ archive = "runtime.tar" }}\n', ""),
    )
    assert distribution.format(**names).replace("_", "-") in action.tools
    assert action.params["installed"] == module.format(**names)
    assert "runtime" not in {each.name for each in action.inputs}

    archive = analyzed(tmp_path / "archive", prebuilt(program.format(**names)))
    assert "installed" not in archive.params
    assert not any(name.startswith("modelbuild-runtime") for name in archive.tools)
