"""`modelbuild doctor`: the checks of this machine, and the findings for machines with problems."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from modelbuild.analysis.rules import load_rules
from modelbuild.api import Finding
from modelbuild.cli import invoke
from modelbuild.cli.doctor import machine, packages
from modelbuild.cli.doctor.machine import check_remote
from modelbuild.errors import ExitCode
from modelbuild.workspace.remote_address import parse_address
from modelbuild.workspace.remote_settings import RemoteSettings
from modelbuild_rules.backend_api import cpp_probe as probe
from modelbuild_rules.bundle import probe as runtime_probe
from tests.format_shapes import check_format
from tests.workspace_builder import Workspace

Doctor = Callable[..., tuple[int, str]]


@pytest.fixture
def doctor(workspace: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Doctor:
    """Return a function that runs `modelbuild doctor ...` in a folder without MODELBUILD.toml."""
    monkeypatch.setenv("MODELBUILD_CACHE_DIR", str(workspace.cache))

    def run(*arguments: str) -> tuple[int, str]:
        code = invoke(["-C", str(workspace.root), "doctor", *arguments])
        out, err = capsys.readouterr()
        assert err == ""
        return code, out

    return run


def test_checks_this_machine_outside_of_a_workspace(doctor: Doctor, workspace: Workspace) -> None:
    code, out = doctor()
    lines = out.splitlines()
    assert all(re.match(r"(ok|warning|error) +[\w+ ]+: .|         \S", line) for line in lines)
    errors = [line for line in lines if line.startswith("error")]
    assert code == (ExitCode.ENVIRONMENT if errors else ExitCode.OK)
    assert f"ok       backend xnnpack: executorch {metadata.version('executorch')}" in out
    assert f"cache: {workspace.cache}, " in out
    assert "remote cache: none is configured" in out


def test_json_has_the_same_checks(doctor: Doctor) -> None:
    code, out = doctor("--json")
    told = json.loads(out)
    assert (told["version"], told["ok"]) == (1, code == 0)
    check_format("doctor", told)
    named = [check["name"] for check in told["checks"]]
    assert set(named) >= {"python", "modelbuild", "backend cuda", "cache", "sandbox", "gpu", "c++ compiler"}
    assert named == [line[9:].partition(":")[0] for line in doctor()[1].splitlines() if not line.startswith("  ")]


def test_starts_the_compiled_runtime(doctor: Doctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, out = doctor()
    assert re.search(r"^ok +c\+\+ runtime: starts \(/", out, re.M)
    (broken := tmp_path / "modelbuild-run").write_text("#!/bin/sh\necho 'libz.so.9: no such file' >&2\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setattr(runtime_probe, "_PROGRAM", str(broken))
    code, out = doctor()
    assert code == ExitCode.ENVIRONMENT
    assert "error    c++ runtime: does not start: libz.so.9: no such file\n" in out
    code, out = doctor("--json")
    assert (code, json.loads(out)["ok"]) == (ExitCode.ENVIRONMENT, False)


def test_runs_probes_of_the_workspaces_rules(doctor: Doctor, workspace: Workspace) -> None:
    own = (
        "from modelbuild.api import Finding, Probe\n"
        "def good():\n    return Finding('npu', 'warning', 'no NPU', 'buy one')\n"
        "def bad():\n    raise KeyError('x')\n"
        "GOOD, BAD = Probe('npu', good), Probe('other', bad)\n"
    )
    files = {"MODELBUILD.toml": 'rules = ["//tools/probes"]\n', "tools/probes/__init__.py": own}
    workspace.write({**files, "tools/probes/npu.py": own})
    workspace.write({"tools/probes/__init__.py": ""})
    code, out = doctor()
    assert "warning  npu: no NPU\n         buy one\n" in out
    assert "error    other: the check failed: KeyError: 'x'\n" in out
    assert code == ExitCode.ENVIRONMENT


def test_a_rule_package_that_does_not_load_is_one_of_the_errors(doctor: Doctor, workspace: Workspace) -> None:
    workspace.write({"MODELBUILD.toml": 'rules = ["//gone"]\n'})
    code, out = doctor()
    assert code == ExitCode.ENVIRONMENT
    assert re.search(r"^error    rules: MODELBUILD\.toml:1:\d+: no rule package '//gone'", out, re.MULTILINE)
    assert "backend xnnpack" in out


# Packages.


def test_every_built_in_backend_names_extras_that_install_its_packages(repository: Path) -> None:
    for backend in load_rules(repository, []).extensions["backend"].values():
        assert backend.extras, backend.name
        for extra in backend.extras:
            wanted = packages.requirements("modelbuild", extra)
            assert {"torch", "executorch"} <= set(wanted), extra
            assert str(wanted["torch"].specifier) == "==2.14.0"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return a table of packages, name -> version, that stands in for the installed ones."""
    table: dict[str, str] = {}

    def version(name: str) -> str:
        if name not in table:
            raise metadata.PackageNotFoundError(name)
        return table[name]

    requires = [
        *("click>=8,<9", "torch==2.14.0; extra == 'models'", "numpy>=2; extra == 'models'"),
        *(
            "shop[models]; extra == 'gpu'",
            "triton==3.8.0; extra == 'gpu'",
            "never==1; extra == 'gpu' and os_name == 'x'",
        ),
    ]
    monkeypatch.setattr(packages.metadata, "version", version)
    monkeypatch.setattr(packages.metadata, "requires", lambda name: requires)
    return table


def backend(name: str, *extras: str, tools: tuple[str, ...] = ()) -> Any:
    return SimpleNamespace(point="backend", name=name, extras=extras, tools=tools)


def findings(*backends: Any) -> list[tuple[str, str, str, str]]:
    found = packages.check_backends((each, "shop" if each.extras else None) for each in backends)
    return [(each.name, each.status, each.text, each.fix) for each in found]


def test_extras_are_expanded() -> None:
    assert packages.requirements("modelbuild", "").keys() >= {"click", "pydantic"}
    assert packages.requirements("modelbuild", "cuda").keys() >= {"triton", "torch"}
    assert "click" not in packages.requirements("modelbuild", "cuda")


def test_backends_with_all_some_and_wrong_packages(installed: dict[str, str]) -> None:
    installed.update(torch="2.14.0", numpy="2.1")
    cpu, gpu = backend("cpu", "models"), backend("gpu", "gpu")
    assert findings(cpu, gpu) == [
        ("backend cpu", "ok", "torch 2.14.0", ""),
        ("backend gpu", "ok", "not installed (no triton)", "pip install 'shop[gpu]'"),
    ]
    installed["torch"] = "2.13.0"
    wrong = "torch 2.13.0 is installed; expected ==2.14.0"
    assert findings(cpu) == [("backend cpu", "error", wrong, "pip install 'shop[models]'")]
    assert findings(backend("either", "gpu", "models"))[0][1:] == ("error", wrong, "pip install 'shop[models]'")
    installed.clear()
    assert [each[:2] for each in findings(cpu, gpu)] == [
        *(("backend cpu", "ok"), ("backend gpu", "ok"), ("backends", "error")),
    ]


def test_a_backend_without_extras_needs_its_tools(installed: dict[str, str]) -> None:
    installed["npu-sdk"] = "1.0"
    assert findings(backend("npu", tools=("npu-sdk",)))[0][:3] == ("backend npu", "ok", "npu-sdk 1.0")
    (name, status, text, fix), *_ = findings(backend("npu", tools=("npu-sdk", "npu-tools")))
    assert (name, status, text) == ("backend npu", "warning", "npu-tools not installed")
    assert fix.startswith("pip install npu-tools")


# The machine.


@pytest.mark.parametrize(("free", "status"), [(20 << 30, "ok"), (5 << 30, "warning"), (1 << 20, "error")])
def test_room_at_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, status: str) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=free))
    found = machine.check_cache(tmp_path / "not/yet")
    assert (found.status, bool(found.fix)) == (status, status != "ok")
    assert not (tmp_path / "not").exists()


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert machine.check_cache(tmp_path / "file").status == "error"


def test_guarantees_that_the_kernel_does_not_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelbuild.execution.isolation.landlock.abi", lambda: 0)
    found = list(machine.check_sandbox(tmp_path))
    assert {each.status for each in found} == {"warning"}
    assert any("no Landlock" in each.text for each in found)


def test_gpus_and_their_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver, control = tmp_path / "version", tmp_path / "nvidiactl"
    monkeypatch.setattr(machine, "_DRIVER", driver)
    monkeypatch.setattr(machine, "_CONTROL", control)
    monkeypatch.setattr(machine, "visible", lambda: ())
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert machine.check_gpus().status == "ok"
    control.touch()
    driver.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 07:19:28 UTC 2025\n")
    assert machine.check_gpus() == Finding(
        "gpu", "warning", "CUDA does not start, driver 580.65.06", "check that nvidia-smi works in this environment"
    )
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "CUDA_VISIBLE_DEVICES=''" in machine.check_gpus().text
    monkeypatch.setattr(machine, "visible", lambda: ("NVIDIA L4 (8.9)",))
    assert machine.check_gpus().text == "NVIDIA L4 (8.9), driver 580.65.06"


def test_the_compiler_compiles_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    assert probe._check.__wrapped__() == Finding("c++ compiler", "ok", f"zig {metadata.version('ziglang')}")
    monkeypatch.setattr(probe, "_SOURCE", "no C++")
    broken = probe._check.__wrapped__()
    assert broken.status == "error"
    assert "zig can't compile C++: " in broken.text
    monkeypatch.setattr(probe, "find_spec", lambda name: None)
    assert probe._check.__wrapped__().text.startswith("not installed with modelbuild; ")


# The remote cache.


def settings(folder: Path, **more: Any) -> RemoteSettings:
    return RemoteSettings(cache=parse_address(f"file://{folder}"), **more)


def test_a_blob_makes_a_round_trip_through_the_remote_cache(tmp_path: Path) -> None:
    found = check_remote(settings(tmp_path / "remote"))
    assert found.status == "ok"
    assert re.fullmatch(rf"file://{tmp_path}/remote stores and returns a blob of 64 bytes in \d+ ms", found.text)
    assert [path.stat().st_size for path in (tmp_path / "remote").rglob("*") if path.is_file()]


def test_a_machine_that_does_not_upload_stores_nothing(tmp_path: Path) -> None:
    (tmp_path / "remote").mkdir()
    found = check_remote(settings(tmp_path / "remote", upload="never"))
    assert (found.status, "uploads nothing" in found.text) == ("ok", True)
    assert list((tmp_path / "remote").rglob("*")) == []


def test_a_remote_cache_out_of_reach_is_an_error(tmp_path: Path) -> None:
    found = check_remote(RemoteSettings(cache=parse_address("http://127.0.0.1:1/x"), timeout=2))
    assert (found.status, found.name) == ("error", "remote cache")
    assert found.text.startswith("http://127.0.0.1:1/x: ")
    (tmp_path / "file").write_text("")
    assert check_remote(settings(tmp_path / "file")).status == "error"


def test_a_remote_cache_that_returns_other_bytes_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Cache:
        blobs: dict[Any, bytes]

        def write_small(self, blobs: dict[Any, bytes]) -> None:
            self.blobs = {digest: os.urandom(64) for digest in blobs}

        def read_small(self, digests: list[Any]) -> dict[Any, bytes]:
            return self.blobs

        def close(self) -> None:
            pass

    monkeypatch.setattr("modelbuild.remote.open.open_cache", lambda address, settings: Cache())
    found = check_remote(settings(tmp_path))
    assert (found.status, found.text) == ("error", f"file://{tmp_path} returns other bytes than were stored")
