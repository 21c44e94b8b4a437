"""The symbols that libmodelbuild_runtime.so exports: the list in runtime/abi.txt, and those of its own plug-ins; the
symbols of others that the libraries use; and the flags that their sources are compiled with."""

from __future__ import annotations

import difflib
import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.runtime.native.aarch64 import Runtime

UPDATE = (
    "nm -D --defined-only build/runtime/lib/libmodelbuild_runtime.so | awk '$3 ~ /^mb_/ {print $3}' | LC_ALL=C sort"
    " > runtime/abi.txt"
)


# Functions of namespace modelbuild, const or not, and what belongs to the class of exceptions.
OWN = re.compile(r"_ZN(K|)10modelbuild\w+|_ZT[ISV]N10modelbuild5ErrorE")


def symbols(library: Path, *which: str) -> list[str]:
    """Return the names of a library's dynamic symbols."""
    command = ["nm", "--dynamic", *which, str(library)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return sorted(re.findall(r"^[0-9a-f ]+ [B-Z] (.+)$", printed, re.IGNORECASE | re.MULTILINE))


def difference(library: Path, listed: list[str]) -> str:
    """Return a diff of the list and the library's symbols, with the command that updates the list; '' if equal."""
    exported = [each for each in symbols(library, "--defined-only") if not OWN.fullmatch(each)]
    found = "\n".join(difflib.unified_diff(listed, exported, "runtime/abi.txt", library.name, lineterm="", n=0))
    return found and (
        f"{found}\nA removed symbol breaks compiled programs; an added one needs a greater MB_API_VERSION."
        f" To update the list:\n{UPDATE}"
    )


@pytest.fixture(scope="module")
def listed(repository: Path) -> list[str]:
    return (repository / "runtime/abi.txt").read_text().splitlines()


def test_the_library_exports_the_listed_symbols(native: Path, listed: list[str]) -> None:
    found = difference(native / "lib/libmodelbuild_runtime.so", listed)
    assert not found, found


@pytest.mark.slow
@pytest.mark.exhaustive
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


def test_the_list_has_every_function_of_the_c_header_and_no_other(repository: Path, listed: list[str]) -> None:
    header = (repository / "runtime/include/modelbuild/runtime.h").read_text()
    functions = set(re.findall(r"^MB_API .*?\b(mb_\w+)\(", header, re.MULTILINE))
    assert set(listed) == functions
    declared = re.findall(r"\b(mb_\w+)\(", re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL))
    assert set(declared) == functions


def test_no_type_of_a_standard_library_is_in_what_the_libraries_use_of_others(native: Path) -> None:
    """ExecuTorch and the shims are compiled with libstdc++, this runtime with libc++."""
    own = list((native / "lib").glob("libmodelbuild_*.so"))
    assert len(own) > 5
    for library in [*own, native / "bin/modelbuild-run"]:
        needed = symbols(library, "--undefined-only", "--demangle")
        assert [each for each in needed if "executorch::" in each and "std::" in each] == []
        assert [each for each in needed if "__cxa_throw" in each or "GLIBCXX" in each] == []


def test_an_exception_has_one_type_in_all_libraries(native: Path) -> None:
    """Zig's C++ library knows types by their addresses."""
    owners = [
        each.name
        for each in (native / "lib").glob("libmodelbuild_*.so")
        if "_ZTIN10modelbuild5ErrorE" in symbols(each, "--defined-only")
    ]
    assert owners == ["libmodelbuild_runtime.so"]


def test_only_what_tests_use_is_compiled_without_optimization(native: Path) -> None:
    commands = [each for each in json.loads((native / "compile_commands.json").read_text()) if "c++" in each["command"]]
    of_tests = [str(native / folder) for folder in ("fakes", "fuzz")]
    plain = {each["output"] for each in commands if " -O2 " not in each["command"]}
    assert plain == {each["output"] for each in commands if each["output"].startswith(tuple(of_tests))}
    assert plain
