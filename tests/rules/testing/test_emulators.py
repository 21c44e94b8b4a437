"""The machine that runs a test's program: this one, an emulator, or none."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

import pytest

from modelbuild_rules.testing.steps.parity import machine
from modelbuild_rules.testing.steps.parity.machine import Machine, machine_for


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Make the machine one for x86-64, with the emulator and the C library for aarch64 in a folder."""
    (tmp_path / "usr/aarch64-linux-gnu/lib").mkdir(parents=True)
    (tmp_path / "usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1").touch()
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(shutil, "which", {"qemu-aarch64": "/bin/qemu-aarch64"}.get)
    monkeypatch.setattr(machine, "_SYSROOTS", (f"{tmp_path}/usr/{{arch}}-linux-gnu",))
    return tmp_path


@pytest.mark.parametrize("arch", [None, "x86_64"])
def test_this_machine_runs_programs_of_its_own_architecture(arch: str | None) -> None:
    assert machine_for(arch) == Machine()


def test_an_emulator_runs_programs_of_another(here: Path) -> None:
    found = machine_for("aarch64")
    command = ("/bin/qemu-aarch64", "-L", f"{here}/usr/aarch64-linux-gnu")
    assert found == Machine("", "qemu-aarch64", command)


def test_a_static_emulator_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", {"qemu-aarch64-static": "/bin/qemu-aarch64-static"}.get)
    assert machine_for("aarch64").emulator == "qemu-aarch64-static"


@pytest.mark.parametrize("lacking", ["emulator", "library"])
def test_without_an_emulator_or_its_c_library_the_reason_names_the_packages(
    here: Path, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    if lacking == "emulator":
        monkeypatch.setattr(shutil, "which", {}.get)
    else:
        (here / "usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1").unlink()
    assert machine_for("aarch64") == Machine(
        "needs a device with aarch64, and this machine is x86_64; qemu-aarch64 (Debian's qemu-user and"
        " libc6-arm64-cross) would run it"
    )
