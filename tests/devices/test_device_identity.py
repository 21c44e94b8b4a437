"""The identity of a device: the facts that are in the key of what runs there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from modelbuild.device_runners import DeviceRunner, parse_address
from modelbuild.devices.device import Device
from modelbuild.devices.facts import Facts, parse

LOCAL = DeviceRunner("local:", "local")
ORIN = {
    "arch": "aarch64",
    "model": "NVIDIA Jetson AGX Orin Developer Kit",
    "gpu": "Orin (nvgpu), 8.7, 540.4.0",
    "driver": "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64 540.4.0",
    "image": "# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic",
    "os": "Ubuntu 22.04.5 LTS",
    "kernel": "Linux 5.15.148-tegra",
    "libc": "glibc 2.35",
    "cpu": "Cortex-A78AE",
    "cpus": "12",
    "power": "pmode:0000",
    "memory": "32000000",
    "free": "100000",
}
OTHERS = {
    "model": {**ORIN, "model": "NVIDIA Jetson Orin Nano"},
    "capability": {**ORIN, "gpu": "Orin (nvgpu), 8.9, 540.4.0"},
    "driver of the GPU": {**ORIN, "gpu": "Orin (nvgpu), 8.7, 540.5.0"},
    "driver of the kernel": {**ORIN, "driver": ORIN["driver"].replace("540.4.0", "540.5.0")},
    "no driver": {name: text for name, text in ORIN.items() if name not in ("gpu", "driver")},
    "image": {**ORIN, "image": ORIN["image"].replace("4.3", "4.4")},
    "os": {**ORIN, "os": "Ubuntu 24.04 LTS"},
    "kernel": {**ORIN, "kernel": "Linux 5.15.149-tegra"},
    "libc": {**ORIN, "libc": "glibc 2.36"},
    "architecture": {**ORIN, "arch": "x86_64"},
    "processor": {**ORIN, "cpu": "Cortex-A78"},
    "processors": {**ORIN, "cpus": "8"},
    "power mode": {**ORIN, "power": "pmode:0002"},
}


def stated(facts: dict[str, str]) -> Facts:
    return parse("".join(f"{name}\t{text}\n" for name, text in facts.items()), LOCAL)


@pytest.mark.parametrize("changed", OTHERS)
def test_another_device_has_another_identity(changed: str) -> None:
    assert stated(OTHERS[changed]).identity() != stated(ORIN).identity()


def test_facts_that_decide_no_result_are_in_no_identity() -> None:
    other = {**ORIN, "free": "7", "memory": "31999999", "owner": "ci@lab for //:t"}
    assert stated(other).identity() == stated(ORIN).identity()
    assert stated(ORIN).identity() == {name: text for name, text in ORIN.items() if name not in ("free", "memory")}


def test_another_driver_of_a_device_is_another_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An nvidia-smi in PATH stands for a GPU."""
    program = tmp_path / "bin/nvidia-smi"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    found = []
    for driver in ("580.95.05", "580.105.08"):
        program.write_text(f"#!/bin/sh\necho NVIDIA H100 80GB HBM3, 9.0, {driver}\n")
        program.chmod(0o755)
        device = Device(parse_address(f"local:?folder={tmp_path / 'device'}"))
        found.append(device.facts.identity())
        device.close()
    assert [each["gpu"] for each in found] == [
        f"NVIDIA H100 80GB HBM3, 9.0, {each}" for each in ("580.95.05", "580.105.08")
    ]
    assert {**found[0], "gpu": ""} == {**found[1], "gpu": ""}
