"""The distributions and local modules of tools and imports, with their requirements."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from modelbuild.code.distributions import Distribution, Distributions
from modelbuild.code.tools import Tools, foreign, imported_modules
from modelbuild.errors import LoadingError
from tests.script_rule import install, write


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder on sys.path with three installed distributions; `alpha` requires `beta`, and with an extra
    `gamma`."""
    site = tmp_path / "site"
    requires = ("beta>=1; python_version > '3'", "gamma; extra == 'x'", "nothing; python_version < '3'")
    install(site, "Alpha.Vision", "1.5", {"alpha/__init__.py": "", "alpha/nets.py": ""}, requires)
    install(site, "beta", "1.5", {"beta_module/__init__.py": ""})
    install(site, "gamma", "1.5", {"gamma.py": ""})
    monkeypatch.setattr(sys, "path", [*sys.path[:1], str(site), *sys.path[1:]])
    return site


@pytest.fixture
def tools(site: Path, tmp_path: Path) -> Tools:
    return Tools(tmp_path / "workspace", ("modelbuild",))


def test_an_import_brings_its_distribution_and_what_it_requires_but_no_extras(tools: Tools) -> None:
    found = tools.needed((), imported_modules({"m.py": b"def f():\n    import alpha.nets\n"}))
    assert found.distributions == ("alpha-vision", "beta")


@pytest.mark.parametrize("name", ["alpha_vision", "Alpha.Vision", "alpha-vision"])
def test_a_tool_that_is_named_brings_what_it_requires(tools: Tools, name: str) -> None:
    assert tools.needed([name], ()).distributions == ("alpha-vision", "beta")
    assert tools.needed([f"{name}[x]"], ()).distributions == ("alpha-vision", "beta", "gamma")
    assert tools.needed([name], ["gamma"]).distributions == ("alpha-vision", "beta", "gamma")


def test_standard_library_relative_and_missing_modules_are_no_tools(tools: Tools) -> None:
    source = b"import json, os.path\nfrom . import alpha\nimport not_installed_anywhere\nimport modelbuild.step\n"
    found = tools.needed((), imported_modules({"m.py": source}))
    assert (found.distributions, found.local) == ((), ())
    assert found.absent == ("not_installed_anywhere",)


def test_names_for_imports_come_to_the_same(tools: Tools, site: Path) -> None:
    write(site, {"loose.py": "import gamma\n", "mere/folder/package/__init__.py": ""})
    imported = ("alpha.nets", "loose", "mere.folder.package.x")
    names = tools.imported(imported)
    assert names == ("alpha-vision", "gamma", "loose", "mere.folder.package")
    assert tools.needed(names, ()) == tools.needed((), imported)


def test_imports_of_other_sources_are_no_tools() -> None:
    assert foreign(["models.net", "alpha", "net"], ["models/a.py", "net.py"]) == {"alpha"}


def test_source_that_is_not_python_is_a_located_error(tools: Tools, site: Path) -> None:
    with pytest.raises(LoadingError, match=r"^models/m\.py:2:5: not Python: "):
        imported_modules({"models/m.py": b"x = 1\ny = ="})
    write(site, {"loose.py": "x = 1\ny = =\n"})
    with pytest.raises(LoadingError, match=rf"^{site}/loose\.py:2:5: not Python: "):
        tools.needed((), ["loose"])


@pytest.fixture
def extras(site: Path, tools: Tools) -> Tools:
    """Return the tools of a workspace with the rule package acme_rules, whose distribution has an extra for each of two
    chips."""
    required = {
        "chip": ("chip-compiler", "Acme.Rules[base]"),
        "base": ("numbers",),
        "big": ("installed-sdk", "Acme.Rules[base]"),
        "dev": ("chip-compiler", "linter", "formatter"),
    }
    requires = [f"{name}; extra == '{extra}'" for extra, names in required.items() for name in names]
    install(site, "Acme.Rules", "1", {"acme_rules/__init__.py": ""}, ("alpha.vision", *requires))
    install(site, "installed_sdk", "1", {"sdk.py": ""}, ("sdk-libs",))
    install(site, "stranger", "1", {"stranger.py": ""}, ("chip-tool; extra == 'x'",))
    return Tools(site, ("modelbuild", "acme_rules"))


@pytest.mark.parametrize(
    ("missing", "asked", "hint"),
    [
        (("chip_compiler",), ("chip_compiler", "numbers"), "install acme-rules[chip]"),
        (("chip-compiler", "numbers"), (), "install acme-rules[chip]"),
        (("numbers",), (), "install acme-rules[base]"),
        (("sdk-libs",), (), "install acme-rules[big]"),
        (("chip-tool",), (), "install it"),
        (("no-such-tool",), (), "install it"),
    ],
    ids=str,
)
def test_a_tool_that_is_not_installed_names_the_extra_of_its_rule_package(
    extras: Tools, missing: tuple[str, ...], asked: tuple[str, ...], hint: str
) -> None:
    problem = extras.not_installed(missing, asked, "//m:net")
    toolchain = (
        "" if hint == "install it" else ", or name a toolchain, `toolchain = LABEL` in [build] of MODELBUILD.toml"
    )
    assert str(problem) == f"//m:net needs the package '{missing[0]}', which is not installed; {hint}{toolchain}"


def test_of_several_missing_tools_the_rules_first_one_is_named(extras: Tools) -> None:
    problem = extras.not_installed(("a-part", "chip-compiler"), ("chip-compiler", "a-part"), "//m:net")
    said = "//m:net needs the package 'chip-compiler', which is not installed; install acme-rules[chip], or name"
    assert str(problem).startswith(said)


def test_a_tool_that_is_not_installed_is_told(tools: Tools) -> None:
    assert tools.needed(["alpha.vision", "no-such-tool"], ()).missing == ("no-such-tool",)


def found_in(site: Path, name: str) -> Distribution:
    found = Distributions([str(site)]).find(name)
    assert found is not None
    return found


def test_files_in_record(site: Path) -> None:
    install(site, "delta", "1", {"delta/a.py": "", "delta/lib.so.13": "x", "delta/data.txt": "y", "delta_one.py": "zz"})
    record = site / "delta-1.dist-info/RECORD"
    record.write_text(record.read_text().replace("\n", "\r\n") + "../../bin/delta,sha256=x,5\r\ndelta/a.pyc,,\r\n")
    delta = found_in(site, "delta")
    assert delta.code == {"delta": {"a.py": 0, "lib.so.13": 1}, "": {"delta_one.py": 2}}
    paths = [line.partition(",")[0] for line in delta.contents]
    assert paths == ["delta/a.py", "delta/data.txt", "delta/lib.so.13", "delta_one.py"]
    assert delta.records("delta/a.py")
    assert delta.records("delta/")
    assert not delta.records("delta/a.pyc")
    assert not delta.records("lta/a.py")
    assert delta.project is None
