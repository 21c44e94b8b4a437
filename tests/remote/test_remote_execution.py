"""Actions on remote workers: a real server with bubblewrap, and answers that are wrong."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import modelbuild.step
from modelbuild.actions import Action, Digest, FileEntry, Output, Place, Resources
from modelbuild.code.distributions import Distributions
from modelbuild.code.installed_contents import InstalledContents
from modelbuild.code.step_sources import StepCode
from modelbuild.errors import UsageError
from modelbuild.execution.executor import ActionRequest, Outcome, RunHere
from modelbuild.execution.gpus import visible
from modelbuild.execution.isolation.environment import PYTHON_OPTIONS
from modelbuild.execution.isolation.kernel_choice import machine
from modelbuild.execution.time_limit import TimeLimit
from modelbuild.remote.execution.executor import RemoteExecutor, place_of
from modelbuild.remote.execution.queue_watch import QueueWatch
from modelbuild.remote.execution.remote_action import SourceChanged, Workers, describe, outputs_of
from modelbuild.remote.execution.strategy_executor import StrategyExecutor
from modelbuild.remote.execution.worker_entry import TOOLCHAIN
from modelbuild.remote.messages import message
from modelbuild.remote.problems import RemoteProblem
from modelbuild.store.digests import digest_file
from modelbuild.workspace.remote_strategy import parse_strategy


@pytest.fixture(params=["casd", pytest.param("BuildGrid", marks=pytest.mark.exhaustive)])
def any_farm(
    request: pytest.FixtureRequest, tmp_path: Path, shared_casd: Any, build_grid: ModuleType, mounts: Any
) -> Iterator[Any]:
    """Return servers with different kinds of workers: built in, and bots that poll for work."""
    if request.param == "casd":
        yield request.getfixturevalue("farm")
        return
    if shutil.which("bwrap") is None:
        pytest.skip("not run: needs bubblewrap, which .ci/run installs")
    server = build_grid.Farm(tmp_path / "farm", [shared_casd.programs / "buildbox-run", *mounts()])
    yield server
    server.kill()


def remotely(place: Any, address: str, more: str = "") -> None:
    text = f'rules = ["//tools/rules"]\n[remote]\nexecutor = "{address}"\npython = "{sys.executable}"\n{more}'
    place.write({"MODELBUILD.toml": text})


ONLY_REMOTE = '[remote.strategy]\n"*" = ["remote"]\n'


def test_workers_make_the_same_bytes(place: Any, any_farm: Any) -> None:
    here, there, third = place("here"), place("there"), place("third")
    here.build()
    remotely(there, any_farm.address, f'cache = "{any_farm.address}"\n{ONLY_REMOTE}')
    ended = there.build()
    assert set(ended.statuses.values()) == {"ran"}
    assert there.outputs() == here.outputs()
    assert "remote" not in ended.err
    told = json.loads(there.run("explain", "//a:sums", "--json").out)["actions"]
    assert all(each["place"]["worker"] for each in told)
    assert f"on {told[-1]['place']['worker']}" in there.run("explain", "//a:sums").out
    # Users with only the cache find the workers' results.
    assert set(third.build(f"--remote-cache={any_farm.address}").statuses.values()) == {"cached"}
    assert third.outputs() == here.outputs()


def cached_bytes(place: Any) -> int:
    return sum(f.stat().st_size for f in (place.cache / "cas").rglob("*") if f.is_file())


@pytest.mark.parametrize(("download", "fetched"), [("toplevel", False), ("all", True), ("minimal", False)])
def test_intermediate_results_of_workers_are_not_fetched(place: Any, farm: Any, download: str, fetched: bool) -> None:
    here, there = place("here"), place("there")
    here.build(target="//a:sums")
    remotely(there, farm.address, f'cache = "{farm.address}"\ndownload = "{download}"\n{ONLY_REMOTE}')
    assert set(there.build(target="//a:sums").statuses.values()) == {"ran"}
    assert there.outputs() == ({} if download == "minimal" else here.outputs())
    assert (cached_bytes(there) > 600_000) == fetched
    # An action that runs here reads outputs on the server.
    there.write({"tools/rules/steps/checksums.py": (here.root / "tools/rules/steps/checksums.py").read_text() + "\n"})
    told = there.build("--strategy=*=local", "--remote-download=toplevel", target="//a:sums")
    assert told.statuses == {"//a:made#blobs": "cached", "//a:sums#checksums": "ran"}
    assert there.outputs() == here.outputs()


# A build whose server loses its workers' outputs at once.
LOSES = """
import os, sys
from modelbuild.remote.execution.executor import RemoteExecutor
from modelbuild.cli import main

run, what, where, runs = RemoteExecutor.run, sys.argv.pop(1), sys.argv.pop(1), []

def runs_and_loses(self, request):
    outcome = run(self, request)
    runs.append(request.action.id)
    print("made by a worker:", request.action.id, file=sys.stderr)
    if len(runs) == 1 and what == "blobs":
        # The server removes folders of its own meanwhile: os.walk passes over what is gone, rglob raises.
        for folder, _, files in os.walk(where):
            for path in (os.path.join(folder, name) for name in files):
                if os.path.exists(path) and os.path.getsize(path) > 500_000:
                    os.unlink(path)
    elif len(runs) == 1:
        os.kill(int(where), 9)
    return outcome

RemoteExecutor.run = runs_and_loses
sys.exit(main())
"""


@pytest.mark.parametrize("what", ["blobs", "all"])
def test_results_that_the_server_lost_are_made_again(place: Any, farm: Any, what: str) -> None:
    here, there = place("here"), place("there")
    here.build()
    strategy = '[remote.strategy]\nchecksums = ["local"]\n'
    remotely(there, farm.address, f'cache = "{farm.address}"\nupload = "never"\n{strategy}')
    where = str(farm.folder) if what == "blobs" else str(farm.process.pid)
    ended = there.run("build", "//a:all", program=(sys.executable, "-c", LOSES, what, where))
    assert ended.code == 0, ended.err
    assert there.outputs() == here.outputs()
    assert ended.err.count("made by a worker: //a:made#blobs") == (2 if what == "blobs" else 1)


@pytest.mark.exhaustive
def test_an_action_that_takes_a_gpu_runs_where_there_is_one(
    place: Any, tmp_path: Path, shared_casd: Any, build_grid: ModuleType, mounts: Any
) -> None:
    one, plain = place("one"), "OSFamily=linux"
    others = [f"{plain},gpu=1,compute_capability={capability}" for capability in ("9.0", "8.9")]
    rule = (one.root / "tools/rules/blobs.py").read_text()
    wanted = 'resources=Resources(gpu=1, compute_capability="8.9"),\n        outputs=['
    one.write({"tools/rules/blobs.py": rule.replace("outputs=[", wanted).replace("Output,", "Output, Resources,")})
    names = [f"made{number}" for number in range(4)]
    for name in names:
        one.write({f"{name}/BUILD.toml": f'[[blobs]]\nname = "{name}"\nsrcs = ["seed.txt"]\n'})
        one.write({f"{name}/seed.txt": f"{name}\n"})
    farm = build_grid.Farm(tmp_path / "farm", [shared_casd.programs / "buildbox-run", *mounts()], [plain, *others])
    try:
        remotely(one, farm.address, f'{ONLY_REMOTE}[remote.platform]\nOSFamily = "linux"\n')
        one.build(target="//...")
    finally:
        farm.kill()
    for name in names:
        (told,) = json.loads(one.run("explain", f"//{name}", "--json").out)["actions"]
        assert told["place"]["worker"] == others[1]


RAISES = "import modelbuild.step\n    raise modelbuild.step.StepError('no seed')\n    seed = step.inputs"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("seed = step.inputs", RAISES),
        ("print(", "step.outputs['big'].unlink()\n    print("),
        ("print(", "import os, signal\n    os.kill(os.getpid(), signal.SIGKILL)\n    print("),
    ],
)
def test_remote_failures_have_the_same_message(place: Any, farm: Any, old: str, new: str) -> None:
    ended = []
    for name in ("here", "there"):
        made = place(name)
        step = (made.root / "tools/rules/steps/blobs.py").read_text()
        made.write({"tools/rules/steps/blobs.py": step.replace(old, new)})
        if name == "there":
            remotely(made, farm.address, ONLY_REMOTE)
        ended.append(made.run("build", "//a:made", "--quiet"))
    assert [each.code for each in ended] == [1, 1]
    said = [[line for line in each.err.splitlines() if line.startswith("error:")] for each in ended]
    assert said[0]
    assert [line.partition(" (out of memory")[0] for line in said[0]] == [
        line.partition(" (out of memory")[0] for line in said[1]
    ]


def test_undeclared_files_are_not_there(place: Any, farm: Any) -> None:
    one = place("one")
    one.write({"a/secret.txt": "s"})
    step = (one.root / "tools/rules/steps/blobs.py").read_text()
    one.write({"tools/rules/steps/blobs.py": step.replace("seed = step", "open('a/secret.txt')\n    seed = step")})
    remotely(one, farm.address, ONLY_REMOTE)
    ended = one.run("build", "//a:made", "--quiet")
    assert ended.code == 1
    assert "No such file or directory: 'a/secret.txt'" in ended.err


def test_without_workers_it_runs_here_and_says_so_once(place: Any) -> None:
    one = place("one")
    remotely(one, "grpc://127.0.0.1:1")
    ended = one.build()
    assert set(ended.statuses.values()) == {"ran"}
    assert len([line for line in ended.err.splitlines() if "running it here" in line]) == 1


def test_without_workers_it_fails_where_nothing_else_is_allowed(place: Any) -> None:
    one = place("one")
    ended = one.run("build", "//a:made", "--remote-executor=grpc://127.0.0.1:1", "--strategy=blobs=remote")
    assert ended.code == 1
    assert "remote executor grpc://127.0.0.1:1" in ended.err


AFTER = [pytest.param(n, marks=[] if n in (9, 40) else pytest.mark.exhaustive) for n in range(3, 63)]


@pytest.mark.parametrize("after", AFTER)
def test_a_server_that_is_killed_while_it_runs_actions(place: Any, farm: Any, proxies: Any, after: int) -> None:
    here, there = place("here"), place("there")
    here.build()
    proxy = proxies.Proxy(farm.port, lambda n: farm.kill() or "" if n == after else "")
    address = f"grpc://127.0.0.1:{proxy.port}"
    # Every other time the server is also the cache, and the workers' outputs stay there until they are needed.
    remotely(there, address, f'cache = "{address}"\n' if after % 2 == 0 else "")
    there.build()
    assert there.outputs() == here.outputs()
    proxy.close()


STEP = "modelbuild.step"


@pytest.fixture
def code(repository: Path) -> StepCode:
    return StepCode({"modelbuild": repository / "modelbuild"})


def request(**changes: Any) -> ActionRequest:
    outputs = (Output("file", "x/f.bin"), Output("tree", "t", "tree"))
    action = replace(Action("//a:b#c", "//a:b", "c", STEP, outputs=outputs), **changes)
    digest = hashlib.sha256(Path(modelbuild.step.__file__).read_bytes()).hexdigest()
    installed = Distributions(sys.path)
    contents = InstalledContents(installed, lambda path: FileEntry(digest_file(Path(path))))
    return ActionRequest(action, (), contents.states(["click"]), {STEP: digest})


def staged(described: Any, digest: Digest, folder: Path) -> None:
    """Lay an input root out as a worker does."""
    folder.mkdir(parents=True, exist_ok=True)
    node = message("Directory").FromString(described.blobs[digest])
    for file in node.files:
        (folder / file.name).write_bytes(described.blobs[Digest(file.digest.hash, file.digest.size_bytes)])
    for below in node.directories:
        staged(described, Digest(below.digest.hash, below.digest.size_bytes), folder / below.name)


@pytest.fixture
def worker(code: StepCode, tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """Run an action like a worker, with another toolchain in its order; return the exit code and the output."""

    def run(**toolchain: Any) -> tuple[int, str]:
        described = describe(request(), Workers(code, sys.executable, {}))
        action = message("Action").FromString(described.blobs[described.action])
        digest = Digest(action.input_root_digest.hash, action.input_root_digest.size_bytes)
        staged(described, digest, tmp_path / "root")
        folder = tmp_path / "root/action"
        order = json.loads((folder / "order.json").read_text())
        order["toolchain"] |= toolchain
        (folder / "order.json").write_text(json.dumps(order))
        command = [sys.executable, *PYTHON_OPTIONS, "-B", "code/modelbuild/remote/execution/worker_entry.py"]
        plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        ended = subprocess.run(command, cwd=folder, env=plain, capture_output=True, text=True, check=False)
        assert (folder / "report").exists() == (ended.returncode != TOOLCHAIN)
        return ended.returncode, ended.stderr

    return run


def test_a_worker_with_another_toolchain_does_not_try(worker: Callable[..., tuple[int, str]]) -> None:
    code, said = worker(tools={"click": "0.1", "no-such-thing": "1"})
    assert code == TOOLCHAIN
    assert "click 8." in said
    assert "expected 0.1" in said
    assert "no-such-thing is missing, expected 1" in said


def test_a_step_that_changed_since_its_key_was_made_is_not_sent(code: StepCode) -> None:
    stale = replace(request(), modules={STEP: "0" * 64})
    with pytest.raises(SourceChanged, match=r"^module modelbuild\.step changed during the build; build again$"):
        describe(stale, Workers(code, "python3", {}))


def test_a_worker_without_the_kernels_that_the_key_states_does_not_try(worker: Callable[..., tuple[int, str]]) -> None:
    """A worker with features that this machine lacks differs too: numerical libraries would choose kernels for them."""
    has = machine()
    lacks = has.removesuffix("-avx2") if has.endswith("-avx2") else f"{has}-avx2"
    code, said = worker(machine=lacks)
    assert code == TOOLCHAIN
    assert f"machine {has}, expected {lacks}" in said
    assert worker(machine=has)[0] != TOOLCHAIN


def test_a_worker_with_other_gpus_than_the_key_states_does_not_try(worker: Callable[..., tuple[int, str]]) -> None:
    here = ", ".join(visible()) or "none"
    code, said = worker(gpus=["NVIDIA Nowhere (1.0)"])
    assert code == TOOLCHAIN
    assert f"GPU {here}, expected NVIDIA Nowhere (1.0)" in said
    assert worker(gpus=list(visible()))[0] != TOOLCHAIN


@pytest.mark.parametrize(("gpu", "stated"), [(0, None), (1, ["NVIDIA L4 (8.9)"])])
def test_an_order_states_the_gpus_of_an_action_that_takes_some(code: StepCode, gpu: int, stated: Any) -> None:
    asks = replace(request(resources=Resources(gpu=gpu)), gpus=tuple(stated or ()))
    described = describe(asks, Workers(code, "python3", {}))
    order = next(
        json.loads(data) for data in described.blobs.values() if data.startswith(b'{"') and b"toolchain" in data
    )
    assert order["toolchain"].get("gpus") == stated


def test_the_same_action_is_the_same_message_whatever_machine_it_comes_from(code: StepCode, tmp_path: Path) -> None:
    shutil.copytree(Path(next(iter(dict(code.closure(STEP)).values()))).parent, tmp_path / "elsewhere/modelbuild")
    other = StepCode({"modelbuild": tmp_path / "elsewhere/modelbuild"})
    one = describe(request(), Workers(code, "python3", {"OSFamily": "linux"}))
    assert describe(request(), Workers(other, "python3", {"OSFamily": "linux"})).action == one.action
    assert describe(request(), Workers(code, "python3", {})).action != one.action
    assert describe(request(params={"x": 1}), Workers(code, "python3", {"OSFamily": "linux"})).action != one.action
    assert not any(str(tmp_path).encode() in data for data in one.blobs.values())


@pytest.mark.parametrize("seconds", [None, 1.5, 1_000_000.0])
def test_the_time_limit_of_an_action_is_the_servers(code: StepCode, seconds: float | None) -> None:
    limit = None if seconds is None else TimeLimit(seconds, "--action-timeout")
    described = describe(replace(request(), limit=limit), Workers(code, "python3", {}))
    sent = message("Action").FromString(described.blobs[described.action])
    assert sent.HasField("timeout") == (seconds is not None)
    assert sent.timeout.ToNanoseconds() == (seconds or 0) * 1e9


def test_an_action_that_reaches_its_limit_on_a_worker_fails_and_does_not_run_here(
    code: StepCode, local: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def execute(*_: Any) -> Any:
        raise RemoteProblem("late", "it could not run the action: deadline exceeded")

    nowhere: Any = SimpleNamespace(execute=execute, close=lambda: None)
    queue = QueueWatch("farm", 60.0, lambda text: None)
    executor = RemoteExecutor(nowhere, nowhere, local, local, Workers(code, "python3", {}), queue)
    monkeypatch.setattr(executor, "_send", lambda described: None)
    places = StrategyExecutor(nowhere, executor, "farm", (), lambda text: None)
    outcome = places.run(replace(request(), limit=TimeLimit(1800, "--action-timeout")))
    assert (outcome.result, outcome.problem) == (None, "took longer than 30 min (--action-timeout)")


@pytest.mark.parametrize("report", ['{"end": "done"}', '{"end": "failed"}', "1", '{"end": []}'])
def test_a_report_that_lacks_parts_is_the_workers_fault(
    code: StepCode, local: Any, monkeypatch: pytest.MonkeyPatch, report: str
) -> None:
    blobs, result = {}, message("ActionResult")()
    for path, text in (("report", report), ("ended", "{}")):
        digest = Digest(hashlib.sha256(text.encode()).hexdigest(), len(text))
        blobs[digest] = text.encode()
        file = result.output_files.add(path=path)
        file.digest.hash, file.digest.size_bytes = digest.hash, digest.size
    answer = SimpleNamespace(result=result, cached_result=False)
    service: Any = SimpleNamespace(execute=lambda *_: answer, close=lambda: None)
    client: Any = SimpleNamespace(read_all=lambda digests: {each: blobs[each] for each in digests})
    queue = QueueWatch("farm", 60.0, lambda text: None)
    executor = RemoteExecutor(service, client, local, local, Workers(code, "python3", {}), queue)
    monkeypatch.setattr(executor, "_send", lambda described: None)
    with pytest.raises(RemoteProblem, match="sent no report"):
        executor.run(request())


def test_a_worker_ends_an_action_at_its_limit(place: Any, any_farm: Any) -> None:
    there = place("there")
    there.write({"tools/rules/steps/checksums.py": "import time\n\n\ndef run(step):\n    time.sleep(60)\n"})
    remotely(there, any_farm.address, ONLY_REMOTE)
    ended = there.run("build", "//a:all", "--action-timeout", "2 s")
    assert ended.code == 1
    assert "took longer than 2 s (--action-timeout)" in ended.err


def asked_of_workers(described: Any) -> dict[str, str]:
    """Return the platform properties of an action's message."""
    action = message("Action").FromString(described.blobs[described.action])
    return {each.name: each.value for each in action.platform.properties}


GPUS = Resources(memory=1 << 30, gpu=2, compute_capability="8.9")


@pytest.mark.parametrize(
    ("changes", "platform", "asked"),
    [
        ({}, {}, {}),
        ({}, {"OSFamily": "linux"}, {"OSFamily": "linux"}),
        ({"resources": GPUS}, {}, {"gpu": "2", "compute_capability": "8.9"}),
        ({"resources": GPUS}, {"gpus": "{gpu}"}, {"gpus": "2", "compute_capability": "8.9"}),
        (
            {"resources": GPUS},
            {"is": "{gpu}x{compute_capability}", "RAM": "{memory}"},
            {"is": "2x8.9", "RAM": f"{1 << 30}"},
        ),
        ({}, {"gpus": "{gpu}", "cores": "{cpu}"}, {"cores": "1"}),
        ({"network": True}, {}, {"network": "on"}),
    ],
)
def test_requirements_of_an_action_on_workers(
    code: StepCode, changes: dict[str, Any], platform: dict[str, str], asked: dict[str, str]
) -> None:
    assert asked_of_workers(describe(request(**changes), Workers(code, "python3", platform))) == asked


@pytest.mark.parametrize(
    "spoil",
    [
        lambda r: r.output_symlinks.add(path="root/.outputs/x/f.bin", target="/etc/passwd"),
        lambda r: setattr(r.output_files[0].digest, "hash", "x"),
        lambda r: setattr(r.output_directories[0].tree_digest, "hash", "0" * 64),
        lambda r: setattr(r.output_directories[0].tree_digest, "size_bytes", 1 << 40),
    ],
)
def test_outputs_that_cannot_be_right_are_refused(spoil: Any) -> None:
    result = message("ActionResult")()
    result.output_files.add(path="root/.outputs/x/f.bin").digest.hash = "1" * 64
    tree = message("Tree")().SerializeToString()
    result.output_directories.add(path="root/.outputs/t").tree_digest.hash = "2" * 64
    known = {Digest("2" * 64, 0): tree, Digest("2" * 64, 1 << 40): tree}
    read = lambda digests: {d: known[d] for d in digests if d in known}  # noqa: E731
    assert [name for name, _ in outputs_of(request(), result, read)[0]] == ["file", "tree"]
    spoil(result)
    with pytest.raises((ValueError, KeyError)):
        outputs_of(request(), result, read)


def test_facts_that_a_worker_reports() -> None:
    result = message("ActionResult")()
    assert place_of(result) == Place("a worker")
    told = result.execution_metadata
    told.worker = "worker-7"
    starts = {"queued": 1, "worker_start": 3, "input_fetch_start": 3, "execution_start": 5, "output_upload_start": 9}
    ends = {"input_fetch_completed": 5, "execution_completed": 9, "output_upload_completed": 9}
    for name, at in (starts | ends).items():
        getattr(told, f"{name}_timestamp").seconds = at
    told.input_fetch_completed_timestamp.nanos = 500_000_000
    told.output_upload_completed_timestamp.nanos = 7_000_000
    assert place_of(result) == Place("worker-7", queued=2.0, fetching=2.5, running=4.0, sending=0.007)
    told.ClearField("queued_timestamp")
    assert place_of(result).queued == 0.0


class Places:
    """Two executors that record their requests."""

    def __init__(self, strategy: str = "", problem: RemoteProblem | None = None) -> None:
        self.asked: list[str] = []
        self.said: list[str] = []
        self.problem = problem
        strategies = (parse_strategy(strategy),) if strategy else ()
        self.mixed = StrategyExecutor(self._one("local"), self._one("remote"), "X", strategies, self.said.append)

    def _one(self, name: str) -> Any:
        def run(request: ActionRequest) -> Outcome:
            self.asked.append(name)
            if name == "remote" and self.problem is not None:
                raise self.problem
            return Outcome(None, "ran")

        return type("One", (), {"run": staticmethod(run)})()


@pytest.mark.parametrize(
    ("strategy", "network", "asked"),
    [
        ("", False, ["remote"]),
        ("", True, ["local"]),
        ("c=local", False, ["local"]),
        ("d=local", False, ["remote"]),
        ("*=local,remote", False, ["local"]),
        ("*=remote", True, ["local"]),
        ("c=remote", True, ["remote"]),
    ],
)
def test_where_an_action_runs(strategy: str, network: bool, asked: list[str]) -> None:
    places = Places(strategy)
    wanted = request(network=network)
    places.mixed.run(wanted)
    assert places.asked == asked
    assert places.mixed.runs_here(wanted.action) == (asked == ["local"])


def test_a_worker_that_does_not_fit_is_named_and_the_action_runs_here() -> None:
    places = Places(problem=RemoteProblem("missing", "worker7 has torch 2.0, expected 2.14"))
    for number in range(5):
        wanted = request(id=f"//a:b#{number}")
        with pytest.raises(RunHere):
            places.mixed.run(wanted)
        assert places.mixed.runs_here(wanted.action)
        assert places.mixed.run(wanted).problem == "ran"
    assert places.asked == ["remote", "local"] * 5
    assert places.said == ["remote executor X: worker7 has torch 2.0, expected 2.14; running it here"]


@pytest.mark.parametrize("text", ["compile", "compile=", "compile=farm", "compile=local,local", "=local"])
def test_invalid_strategies(text: str) -> None:
    with pytest.raises(UsageError):
        parse_strategy(text)
