"""pte_test on a device: over ssh to OpenSSH's server on this machine, and on this machine itself."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.devices.sshd import Proxy, Sshd, running, wait_for
from tests.report.browser import opened
from tests.runtime.native.scaled_model import MODEL, NET
from tests.workspace_builder import Workspace

pytestmark = pytest.mark.slow

BUILD = """
[[device_runner]]
name = "near"
connection = {{ type = "ssh", host = "127.0.0.1", port = {port}, key = "{key}", known_hosts = "{known_hosts}" }}
folder = "{folder}"
[[device_target]]
name = "pc"
arch = "x86_64"
runners = [":near"]
[[backend_stack]]
name = "stack"
backends = ["portable"]
[[pte_program]]
name = "program"
model = ":model_2"
stack = ":stack"
"""
BUNDLE = """
[[runtime_bundle]]
name = "bundle"
program = ":program"
runtime = { archive = "runtime.tar" }
"""
TEST = """
[[pte_test]]
name = "{name}"
program = ":program"
model = ":model_{scale}"
device = ":pc"
on_device = true
runtime = {{ archive = "runtime.tar" }}
cases = [
    {{ name = "drawn", generator = {{ seed = 3, count = 2, calls = 2 }} }},
    {{ name = "fed", steps = [{{ generator = {{ seed = 4 }} }}, {{ feed = {{ x = {{ output = "y" }} }} }}] }},
]
{more}
"""


@pytest.fixture(scope="module")
def tested(repository: Path, native: Path, server: Sshd, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Return a workspace with tests whose program and bundle are built."""
    build = BUILD.format(port=server.port, key=server.key, known_hosts=server.known_hosts, folder=server.folder)
    tests = [
        TEST.format(name="right", scale=2, more='latency = { max = { ":pc" = "1 s" } }'),
        TEST.format(name="wrong", scale=3, more=""),
        TEST.format(name="slow", scale=2, more='latency = { p95 = { "//:pc" = "0.001 us" } }'),
    ]
    models = [MODEL.format(scale=scale, shape="[2, 16]") for scale in (2, 3)]
    files = {"MODELBUILD.toml": "", "net.py": NET, "BUILD.toml": "".join([build, BUNDLE, *models, *tests])}
    made = Workspace(tmp_path_factory.mktemp("on_device"), files)
    pack = [sys.executable, repository / "runtime/archive.py", "--build", native, "--out", made.root / "runtime.tar"]
    subprocess.run(pack, check=True, capture_output=True)
    return made


def test_programs_run_on_the_device_and_results_are_cached(tested: Workspace, server: Sshd, tmp_path: Path) -> None:
    found = tested.test("//...", "--keep-going", code=4)
    assert {name: each["status"] for name, each in found.items()} == {
        "//:right": "passed",
        "//:wrong": "failed",
        "//:slow": "failed",
    }
    right = found["//:right"]
    assert right["measures"]["peak_memory"] > 1 << 20
    assert right["measures"]["first_ms"] > 0
    assert re.match(r"on //:near \(.*\): [0-9.e-]+ ms, [0-9.]+ MiB", right["reason"])
    names = ("latency_min_ms", "latency_ms", "latency_p95_ms", "latency_max_ms")
    measured = [right["measures"][name] for name in names]
    assert 0 < measured[0] <= measured[1] <= measured[2] <= measured[3]
    messages = {case["name"]: case["message"] for each in found.values() for case in each["cases"]}
    assert re.match("95th percentile of .* ms, expected at most 1e-06 ms", messages["latency.p95"])
    assert "call 1 of 2: output 'y': 32 of 32 values differ" in str(found["//:wrong"]["cases"])
    assert not list(server.folder.glob("jobs/*"))
    assert tested.test("//:right")["//:right"]["cached"]
    assert (right["device"], right["identity"]["arch"]) == ("//:pc", "x86_64")
    latency = f"{right['measures']['latency_ms']:.4g}"
    history = tested.run("history", "//:right", "--on", ":pc").out.splitlines()
    (line,) = (line for line in history if " latency_ms: " in line)  # the cached one is no measurement
    assert re.match(rf"//:pc  //:right.* latency_ms: last {latency}, .* \(1\)$", line)
    assert tested.run("test", "//:right", "--report", "page.html").code == 0
    page = opened(tested.root / "page.html", tmp_path / "browser").one("section", id="devices")
    assert [page.rows()[0][place] for place in (0, 2)] == ["//:pc", "latency (ms)"]


def test_another_identity_of_the_device_is_another_key(tested: Workspace, tmp_path: Path) -> None:
    other = tmp_path / "bin/uname"
    other.parent.mkdir()
    other.write_text('#!/bin/sh\n[ "$1" = -m ] && echo x86_64 || echo other\n')
    other.chmod(0o755)
    local = f"--runner=//:pc=local:?folder={tmp_path / 'device'}"
    tested.test("//:right", local)
    assert tested.test("//:right", local)["//:right"]["cached"]
    updated = tested.test("//:right", local, PATH=f"{other.parent}:{os.environ['PATH']}")
    assert not updated["//:right"]["cached"]
    explained = tested.run("explain", "//:right").out
    assert "device" in explained
    assert "other" in explained


def test_a_bundle_runs_on_a_device_and_its_outputs_come_back(tested: Workspace, server: Sshd) -> None:
    x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(2, 16)
    tested.write({"x.json": json.dumps(x.tolist())})
    ended = tested.run("run", ":bundle", "--on", ":pc", "--input=x=x.json", "--output-dir=out", "--repeat=3")
    assert (ended.code, ended.out.splitlines()[1:3]) == (
        0,
        ["input  x: float32[2, 16]", "output y: float32[2, 16] -> out/y.npy"],
    )
    assert ended.out.startswith("on //:near: ")
    assert re.search(r"^latency .* ms median, .* min, .* p95 \(3 runs after 3\)$", ended.out, re.MULTILINE)
    assert re.search(r"^first result after [0-9.]+ ms, peak memory [0-9.]+ MiB", ended.out, re.MULTILINE)
    np.testing.assert_allclose(np.load(tested.root / "out/y.npy"), np.tanh(x) * 2, rtol=1e-5)
    assert not list(server.folder.glob("jobs/*"))


def test_a_picture_is_resized_for_a_device(tested: Workspace) -> None:
    program = '[[pte_program]]\nname = "seeing"\nmodel = ":model_5"\nstack = ":stack"\n'
    bundle = BUNDLE.replace('"bundle"', '"seeing_bundle"').replace(":program", ":seeing")
    tested.add("BUILD.toml", MODEL.format(scale=5, shape="[1, 1, 2]") + program + bundle)
    Image.fromarray(np.array([[0, 0, 255, 255], [0, 0, 255, 255]], np.uint8)).save(tested.root / "p.png")
    command = ("run", ":seeing_bundle", "--on", ":pc", "--input=x=p.png", "--output-dir=seen", "--repeat=1")
    assert "expected shape [1, 1, 2], got [1, 2, 4]" in tested.run(*command).err
    ended = tested.run(*command, "--resize")
    assert ended.code == 0, ended.err
    resized = np.array([[[36, 219]]], np.float32) / 127.5 - 1
    np.testing.assert_allclose(np.load(tested.root / "seen/y.npy"), np.tanh(resized) * 5, rtol=1e-5)


def test_a_profile_is_recorded_on_the_device(tested: Workspace, server: Sshd, tmp_path: Path) -> None:
    tested.write({"x.json": json.dumps([[0.5] * 16] * 2)})
    outputs = [f"--profile-output=p.{suffix}" for suffix in ("json", "etdp", "html")]
    command = ("run", ":bundle", "--on", ":pc", "--input=x=x.json", "--repeat=4")
    ended = tested.run(*command, *outputs)
    assert ended.code == 0, ended.err
    assert ended.out.startswith("on //:near: ")
    assert "latency" not in ended.out
    assert re.search(r"^aten::tanh.out +portable +1 ", ended.out, re.MULTILINE)
    assert ended.out.endswith("median of 4\n")
    profile = json.loads((tested.root / "p.json").read_text())
    assert (profile["runs"], profile["rows"][0]["name"]) == (4, "aten::tanh.out")
    assert profile["run_us"] > 0
    assert (tested.root / "p.etdp").stat().st_size > 100
    section = opened(tested.root / "p.html", tmp_path / "browser").one("section", id="profile")
    assert "the median of 4 runs" in section.text
    found = tested.run(*command, "--profile", "--json")
    assert found.json["profile"]["runs"] == 4
    assert (found.json["latency"], found.json["runner"]) == (None, "//:near")
    assert found.json["peak_memory"] > 1 << 20
    assert found.json["first_ms"] > 0
    assert all(re.match(r"(temperature|clock)\.", name) for name in found.json["state"])
    assert not list(server.folder.glob("jobs/*"))


RUNS = [
    (["//:bundle", "--on=:model_2"], 2, "error: //:model_2 is a torch_model; expected a device that programs can run"),
    (["//:program", "--on=:pc"], 2, "error: //:program: expected a target with one file, but it has program.pte"),
    (["//:bundle", "--on=:pc", "--input=y=x.json"], 2, "error: no input 'y'; inputs: x"),
    (["//:bundle", "--on=:pc", "--device=:other"], 2, "error: --device differs from --on //:pc; expected only --on"),
    (
        ["//:bundle", "--on=:pc", "--input=x=x.json", "--runner=:pc=ssh://127.0.0.1:1"],
        36,
        "error: no device: ssh://127",
    ),
]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("arguments", "code", "problem"), RUNS)
def test_a_run_on_a_device_that_cannot_be(tested: Workspace, arguments: list[str], code: int, problem: str) -> None:
    tested.write({"x.json": json.dumps([[0.0] * 16] * 2)})
    ended = tested.run("run", *arguments)
    assert ended.code == code
    assert [line for line in ended.err.splitlines() if line.startswith(problem)], ended.err


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("ssh://127.0.0.1:1", "no device: ssh://127.0.0.1:1: nothing accepts connections on this port"),
        pytest.param(
            "qemu:aarch64",
            "no device: qemu:aarch64: it is aarch64; expected x86_64, as declared",
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_without_a_device_a_test_is_not_run(tested: Workspace, address: str, reason: str) -> None:
    runner = f"--runner=//:pc={address}"
    found = tested.test("//:right", runner, code=36)["//:right"]
    assert (found["status"], found["reason"]) == ("not_run", reason)
    required = tested.test("//:right", runner, "--require-all", code=4)["//:right"]
    assert (required["status"], required["reason"]) == ("failed", f"not run, which --require-all forbids: {reason}")


@pytest.mark.exhaustive
def test_two_commands_at_once_share_a_device(tested: Workspace) -> None:
    both = [tested.start("test", "//:right", "--no-cache-test-results", "--json") for _ in range(2)]
    ends = [each.wait() for each in both]
    assert [each.code for each in ends] == [0, 0], [each.err for each in ends]


@pytest.mark.exhaustive
def test_an_interrupted_test_leaves_nothing_on_the_device(tested: Workspace, server: Sshd) -> None:
    more = "latency = { runs = 100000 }\nsize = 'large'"  # minutes
    long = TEST.format(name="long", scale=4, more=more).replace(":program", ":long_program")
    program = '[[pte_program]]\nname = "long_program"\nmodel = ":model_4"\nstack = ":stack"\n'
    tested.add("BUILD.toml", MODEL.format(scale=4, shape="[500, 1000]") + program + long)
    slow = tested.start("test", "//:long")
    wait_for(lambda: running("--repeat=100000"), "the program does not start", 100)
    slow.send(signal.SIGINT)
    assert slow.wait().code == 8
    wait_for(lambda: not running("--repeat=100000"), "the program still runs")
    wait_for(lambda: not list(server.folder.glob("jobs/*")), "its files are still there")


@pytest.mark.exhaustive
def test_a_connection_that_is_cut_twice_is_one_line(tested: Workspace, server: Sshd) -> None:
    proxy = Proxy(server.port, cut_after=12_000)
    try:
        address = server.at(proxy.port, folder=server.folder.with_name("far"))
        found = tested.test("//:right", f"--runner=//:pc={address}", "--no-cache-test-results", code=4)["//:right"]
    finally:
        proxy.close()
    assert found["status"] == "failed"
    assert found["reason"].startswith("//:pc: ")
