"""`modelbuild clean`, `cache`, `info`, `schema` and `version`."""

from __future__ import annotations

import os
import re
from importlib.metadata import version
from typing import Any

import pytest

from modelbuild import __version__

OUTPUT = "modelbuild-out/default/a/sums/sums.sha256"


@pytest.fixture
def built(workspace: Any, example_rules: dict[str, str]) -> Any:
    """Return a workspace with one built target."""
    workspace.write(
        {
            **example_rules,
            "a/BUILD.toml": '[[checksums]]\nname = "sums"\nsrcs = ["one.txt"]\n',
            "a/one.txt": "1\n",
            "devices/BUILD.toml": '[[device_target]]\nname = "pc"\narch = "x86_64"\n',
        }
    )
    assert workspace.ran("//a:sums") == {"//a:sums#checksums"}
    return workspace


def test_version(workspace: Any) -> None:
    assert workspace.run("--version").out == f"modelbuild {__version__}\n"


def test_clean_keeps_the_cache(built: Any) -> None:
    assert "Nothing to do" in built.run("build", "//a:sums").out
    assert (built.root / "modelbuild-out/.modelbuild/commands").is_dir()
    ended = built.run("clean")
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert not (built.root / "modelbuild-out").exists()
    assert built.ran("//a:sums") == set()
    assert (built.root / OUTPUT).is_file()
    assert built.run("clean").code == built.run("clean").code == 0


def test_clean_keeps_files_of_the_user(built: Any, tmp_path: Any) -> None:
    (built.root / "modelbuild-out/notes").write_text("mine")
    ended = built.run("clean")
    assert (ended.code, ended.out) == (0, "")
    assert ended.err == "note: modelbuild-out/notes stayed: no build laid it out\n"
    (built.root / "modelbuild-out/more").write_text("mine")
    ended = built.run("clean")
    assert ended.err == "note: modelbuild-out/more and 1 other file stayed: no build laid them out\n"
    (built.root / "modelbuild-out").rename(tmp_path / "mine")
    (built.root / "modelbuild-out").symlink_to(tmp_path / "mine")
    ended = built.run("clean")
    assert (ended.code, ended.out, ended.err.count("\n")) == (36, "", 1)
    assert "modelbuild-out is a symbolic link; expected a folder" in ended.err
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == ["more", "notes"]


def test_workspaces_with_one_cache_stay_up_to_date(built: Any, tmp_path: Any) -> None:
    """Laying out a blob elsewhere moves the time of every link to it."""
    (built.root / "modelbuild-out").rename(tmp_path / "out")
    assert built.ran("//a:sums") == set()
    assert "Nothing to do" in built.run("build", "//a:sums").out
    os.utime(
        tmp_path / "out/default/a/sums/sums.sha256", ns=(0, (built.root / OUTPUT).stat().st_mtime_ns + 5_000_000_000)
    )
    assert (tmp_path / "out/default/a/sums/sums.sha256").samefile(built.root / OUTPUT)
    assert "Nothing to do" in built.run("build", "//a:sums").out


def test_clean_expunge_empties_the_cache(built: Any) -> None:
    assert built.run("clean", "--expunge").code == 0
    assert built.run("cache", "stat", "--json").json["blobs"] == 0
    assert built.ran("//a:sums") == {"//a:sums#checksums"}


def test_cache_stat(built: Any) -> None:
    found = built.run("cache", "stat", "--json").json
    assert found["directory"] == str(built.cache)
    assert found["actions"] == 1
    assert found["bytes"] >= (built.root / OUTPUT).stat().st_size
    assert [step["step"] for step in found["steps"]] == ["tools_rules.steps.checksums"]
    lines = built.run("cache", "stat").out.splitlines()
    assert re.fullmatch(rf"{built.cache}: \d+ bytes in 1 blob, 1 action \(cap 20\.0 GiB\)", lines[0])
    assert lines[1].startswith("  tools_rules.steps.checksums: ")


def test_cache_gc(built: Any) -> None:
    assert built.run("cache", "gc", "--json").json["actions"] == 0
    ended = built.run("cache", "gc", "--max-size", "1")
    assert re.fullmatch(r"Freed \d+ bytes: 1 action and 1 blob; 0 bytes left\n", ended.out)
    (built.root / OUTPUT).unlink()
    assert built.ran("//a:sums") == {"//a:sums#checksums"}
    ended = built.run("cache", "gc", "--max-size", "much")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == 'error: --max-size: expected a size such as "20GiB" or "500 MB", or bytes, got \'much\'\n'
    assert built.run("cache", "gc", "--max-size", "0", "--json").json["left"] == 0


def test_cache_verify_drops_what_is_damaged(built: Any) -> None:
    ended = built.run("cache", "verify")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.endswith(": 0 damaged, 0 actions dropped\n")
    digest = built.cache / "cas"
    text = (built.root / OUTPUT).read_bytes()
    (blob,) = [path for path in digest.rglob("*") if path.is_file() and path.read_bytes() == text]
    blob.chmod(0o644)
    blob.write_bytes(b"x" * len(text))
    ended = built.run("cache", "verify", "--json")
    assert ended.code == 1
    assert len(ended.json["bad"]) == ended.json["actions"] == 1
    assert built.run("cache", "verify").code == 0
    assert built.ran("//a:sums") == {"//a:sums#checksums"}
    assert (built.root / OUTPUT).read_bytes() == text


def test_info(built: Any) -> None:
    facts = built.run("info", "--json").json
    assert facts["workspace"] == str(built.root)
    assert facts["output"] == str(built.root / "modelbuild-out")
    assert facts["cache"] == str(built.cache)
    assert facts["rules"] == ["modelbuild_rules", "//tools/rules"]
    assert facts["devices"] == ["//devices:pc"]
    assert facts["tools"]["executorch"] == "1.5.1"
    assert facts["jobs"] >= 1
    assert facts["memory"] > 1 << 20
    text = built.run("info").out
    assert f"\nworkspace       {built.root}\n" in text
    assert [line.split()[0] for line in text.splitlines() if line[0] != " "] == list(facts)[1:]


def test_info_of_the_sandbox_is_a_line_a_guarantee(built: Any) -> None:
    lines = built.run("info", "sandbox").out.splitlines()
    assert lines == built.run("info", "sandbox", "--json").json["sandbox"]
    assert all(line.startswith(("holds: ", "does not hold: ")) for line in lines)
    text = built.run("info").out
    assert all(f"  {line}\n" in text for line in lines)


def test_info_of_one_key(built: Any) -> None:
    assert built.run("info", "cache").out == f"{built.cache}\n"
    assert built.run("info", "devices", "--json").json == {"version": 1, "devices": ["//devices:pc"]}
    ended = built.run("info", "workspce")
    assert ended.code == 2
    assert ended.err.startswith("error: no 'workspce'; did you mean 'workspace'?; known: modelbuild, python, ")


def test_info_works_while_a_build_file_is_broken(built: Any) -> None:
    built.write({"a/BUILD.toml": "[[checksums"})
    ended = built.run("info", "--json")
    assert (ended.code, ended.json["devices"]) == (0, None)


def test_info_prints_the_versions_of_what_the_workspace_s_own_backends_name(built: Any) -> None:
    own = """
from typing import Literal
from modelbuild.api import Attrs, Extension

class Npu(Attrs):
    type: Literal["npu"]

NPU = Extension("backend", "npu", Npu, tools=("click", "not-installed-anywhere"))
"""
    built.write({"tools/rules/npu.py": own})
    tools = built.run("info", "--json").json["tools"]
    assert tools["click"] == version("click")
    assert "not-installed-anywhere" not in tools
    built.write({"tools/rules/npu.py": "import nothing_of_the_kind"})
    ended = built.run("info", "--json")
    assert (ended.code, ended.json["devices"], ended.json["tools"]["executorch"]) == (0, None, "1.5.1")
    assert "click" not in ended.json["tools"]


@pytest.mark.parametrize("command", [["clean"], ["cache", "stat"], ["info"], ["run", "//a"]])
def test_outside_of_a_workspace(workspace: Any, command: list[str]) -> None:
    ended = workspace.run(*command)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: no MODELBUILD.toml in ")


def test_a_cache_folder_that_cannot_be_made(workspace: Any) -> None:
    workspace.write({"MODELBUILD.toml": ""})
    ended = workspace.run("cache", "stat", MODELBUILD_CACHE_DIR="/proc/none/cache")
    assert (ended.code, ended.err) == (
        36,
        "error: /proc/none/cache cannot be created; expected a folder for the cache\n",
    )
