"""The symbols that libmodelbuild_runtime.so exports: the list in runtime/abi.txt, and nothing else; and the
flags that its sources are compiled with."""

from __future__ import annotations

import difflib
import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.runtime.native.aarch64 import Runtime

UPDATE = (
    "nm -D --defined-only build/runtime/lib/libmodelbuild_runtime.so | awk '$2 != \"A\" {print $3}' | LC_ALL=C sort"
    " > runtime/abi.txt"
)


def difference(library: Path, listed: list[str]) -> str:
    """Return a diff of the list and the library's symbols, with the command that updates the list; '' if equal."""
    command = ["nm", "--dynamic", "--defined-only", str(library)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    symbols = sorted(name for _, kind, name in map(str.split, printed.splitlines()) if kind != "A")
    found = "\n".join(difflib.unified_diff(listed, symbols, "runtime/abi.txt", library.name, lineterm="", n=0))
    readable = subprocess.run(["c++filt"], input=found, capture_output=True, text=True, check=True).stdout
    return readable and (
        f"{readable}\nA removed symbol breaks compiled programs; an added one needs a greater MB_API_VERSION."
        f" To update the list:\n{UPDATE}"
    )


@pytest.fixture(scope="module")
def listed(repository: Path) -> list[str]:
    return (repository / "runtime/abi.txt").read_text().splitlines()


def test_the_library_exports_the_listed_symbols(native: Path, listed: list[str]) -> None:
    found = difference(native / "lib/libmodelbuild_runtime.so", listed)
    assert not found, found


@pytest.mark.slow
@pytest.mark.xdist_group("aarch64")
def test_the_library_for_aarch64_exports_the_listed_symbols(aarch64: Runtime, listed: list[str]) -> None:
    found = difference(aarch64.folder / "lib/libmodelbuild_runtime.so", listed)
    assert not found, found


def test_a_changed_symbol_is_shown_with_the_command_that_updates_the_list(native: Path, listed: list[str]) -> None:
    library = native / "lib/libmodelbuild_runtime.so"
    assert "\n+mb_load\n" in difference(library, [name for name in listed if name != "mb_load"])
    found = difference(library, sorted([*listed, "mb_gone"]))
    assert "\n-mb_gone\n" in found
    assert found.endswith(UPDATE)


def test_the_list_has_every_function_of_the_c_header_and_of_cpp_only_modelbuilds(
    repository: Path, listed: list[str]
) -> None:
    header = (repository / "runtime/include/modelbuild/runtime.h").read_text()
    functions = set(re.findall(r"^MB_API .*?\b(mb_\w+)\(", header, re.MULTILINE))
    assert {name for name in listed if name.startswith("mb_")} == functions
    # Functions of namespace modelbuild, const or not, and what belongs to the class of exceptions.
    allowed = re.compile(r"mb_\w+|_ZN(K|)10modelbuild\w+|_ZT[ISV]N10modelbuild5ErrorE")
    assert [name for name in listed if not allowed.fullmatch(name)] == []
    declared = re.findall(r"\b(mb_\w+)\(", re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL))
    assert set(declared) == functions


def test_only_what_tests_use_is_compiled_without_optimization(native: Path) -> None:
    commands = [each for each in json.loads((native / "compile_commands.json").read_text()) if "c++" in each["command"]]
    of_tests = [str(native / folder) for folder in ("fakes", "fuzz")]
    plain = {each["output"] for each in commands if " -O2 " not in each["command"]}
    assert plain == {each["output"] for each in commands if each["output"].startswith(tuple(of_tests))}
    assert plain
