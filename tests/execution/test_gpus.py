"""Tests of the models of GPUs, which are in the keys of actions that take one and of no others."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from modelbuild.code.step_sources import StepCode
from modelbuild.execution import gpus, resolver
from modelbuild.execution.keys import key_of, material_of
from modelbuild.execution.resolver import Resolver
from modelbuild.session.source_files import Sources
from tests.execution.isolation.conftest import RULE, Probes

# A driver with the GPUs that a variable has: `NVIDIA A:86 NVIDIA B:90`, with a '|' between them. '!' does not start.
DRIVER = r"""
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
static char names[8][64];
static int capabilities[8], count;
int cuInit(unsigned flags) {
    char text[512];
    snprintf(text, sizeof text, "%s", getenv("FAKE_GPUS"));
    if (text[0] == '!') return 999;
    for (char *each = strtok(text, "|"); each; each = strtok(NULL, "|"), ++count)
        sscanf(each, "%63[^:]:%d", names[count], &capabilities[count]);
    return 0;
}
int cuDeviceGetCount(int *found) { *found = count; return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuDeviceGetName(char *name, int size, int device) { snprintf(name, size, "%s", names[device]); return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 75 ? capabilities[device] / 10 : attribute == 76 ? capabilities[device] % 10 : -1;
    return 0;
}
"""

A, B = "NVIDIA A:86", "NVIDIA B:120"


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    """Return the folder of a fake driver."""
    folder = tmp_path / "driver"
    folder.mkdir()
    (folder / "driver.c").write_text(DRIVER)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "libcuda.so.1", folder / "driver.c"], check=True)
    return folder


@pytest.fixture
def seen(driver: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], tuple[str, ...]]]:
    """Return the visible ones of the driver's GPUs."""

    def visible(text: str) -> tuple[str, ...]:
        monkeypatch.setenv("LD_LIBRARY_PATH", str(driver))
        monkeypatch.setenv("FAKE_GPUS", text)
        gpus.visible.cache_clear()
        return gpus.visible()

    yield visible
    gpus.visible.cache_clear()


@pytest.mark.parametrize(
    ("text", "models"),
    [
        (A, ("NVIDIA A (8.6)",)),
        (f"{B}|{A}|{B}", ("NVIDIA B (12.0)", "NVIDIA A (8.6)")),
        ("", ()),
        ("!", ()),
    ],
)
def test_models_are_those_of_the_driver_each_once(seen: Any, text: str, models: tuple[str, ...]) -> None:
    assert seen(text) == models


@pytest.mark.parametrize("library", ["is damaged", "has no functions"])
def test_without_a_driver_there_are_none(seen: Any, driver: Path, library: str) -> None:
    assert seen(A)
    (driver / "libcuda.so.1").unlink()
    if library == "is damaged":
        (driver / "libcuda.so.1").write_text("no library")
    else:
        subprocess.run(["cc", "-shared", "-o", driver / "libcuda.so.1", "-x", "c", "/dev/null"], check=True)
    assert seen(A) == ()


def key(bench: Any, gpu: int, stated: tuple[str, ...] = ()) -> str:
    making = Resolver(
        StepCode(bench.packages), bench.workspace, bench.store.read_bytes, Sources(bench.workspace, bench.store), stated
    )
    return key_of(material_of(making.resolve(bench.request("tiny", gpu=gpu).action, ())))


def test_the_model_is_in_the_key_of_an_action_that_takes_a_gpu(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.step("tiny", "def run(step):\n    pass\n")
    found = {}
    for models in (("A (8.6)",), ("B (8.6)",), ("A (8.6)", "B (8.6)"), ("B (8.6)", "A (8.6)"), ()):
        monkeypatch.setattr(resolver, "visible", lambda models=models: models)
        found[models] = key(bench, gpu=1)
        assert key(bench, gpu=2) == found[models]  # their number is not in the key
    assert len(set(found.values())) == len(found)


def test_nobody_asks_the_driver_for_an_action_that_takes_none(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.step("tiny", "def run(step):\n    pass\n")
    monkeypatch.setattr(resolver, "visible", lambda: pytest.fail("asked the driver"))
    assert key(bench, gpu=0) == key(bench, gpu=0, stated=("A (8.6)",))


def test_a_machine_without_a_gpu_makes_the_key_of_the_models_that_are_stated(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.step("tiny", "def run(step):\n    pass\n")
    monkeypatch.setattr(resolver, "visible", lambda: ("A (8.6)",))
    with_one = key(bench, gpu=1)
    assert key(bench, gpu=1, stated=("B (8.6)",)) == with_one  # this machine's GPUs are used
    monkeypatch.setattr(resolver, "visible", lambda: ())
    assert key(bench, gpu=1, stated=("A (8.6)",)) == with_one
    assert key(bench, gpu=1) != with_one


def test_another_card_runs_the_actions_that_take_one(driver: Path, tmp_path: Path) -> None:
    """No other key changes, through the command line."""
    workspace = Probes(tmp_path, ())
    takes = 'resources=Resources(gpu=int(ctx.label.name == "on_gpu")),\n        network='
    rule = RULE.replace("network=ctx", f"{takes}ctx", 1).replace("Output, Sources", "Output, Resources, Sources")
    workspace.write({"probe/probe.py": rule})
    workspace.step("only", "def run(step):\n    step.outputs['out'].write_text('1')\n")
    for name in ("on_gpu", "on_cpu"):
        workspace.target(name, "only")
    said = []
    for number, card in enumerate((A, B, A)):
        workspace.target(f"new{number}", "only")  # otherwise the build has nothing to do, with any GPU
        environment = {"LD_LIBRARY_PATH": str(driver), "FAKE_GPUS": card}
        done = workspace.build_all("--json", **environment)
        assert done.code == 0, done.err
        ran = {action["owner"] for action in done.json["actions"] if action["status"] == "ran"}
        assert ran == {f"//:new{number}"} | ({"//:on_gpu", "//:on_cpu"}, {"//:on_gpu"}, set())[number]
        said.append(workspace.run("explain", "//:on_gpu", **environment).out)
    assert '  gpu: ["NVIDIA A (8.6)"] -> ["NVIDIA B (12.0)"]\n' in said[1]
    assert "its new result was already in the cache" in said[2]
    models = workspace.run("info", "gpu_models", LD_LIBRARY_PATH=str(driver), FAKE_GPUS=f"{A}|{B}|{B}").out
    assert models == "NVIDIA A (8.6), NVIDIA B (12.0)\n"
