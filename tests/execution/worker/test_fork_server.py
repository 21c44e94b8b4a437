"""Fork servers: they import modules once, fork workers, and end with the engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modelbuild.execution.fork_server_client import ForkServer

# Shows which process did it, and when.
WARM = """
    import os
    PID = os.getpid()
"""

USES_WARM = """
    import json, os, sys
    def run(step):
        loaded = sys.modules.get("tiny_rules.server")
        found = [getattr(loaded, "PID", None), os.getppid(), os.getpid()]
        step.outputs["out"].write_text(json.dumps(found))
"""

USES = {
    "preload": ("tiny_rules.server",),
    "modules": ("modelbuild", "modelbuild.step", "tiny_rules", "tiny_rules.tiny", "tiny_rules.server"),
}

# Starts a program, writes both process ids, and stays.
STAYS = """
    import os, subprocess, sys, time
    def run(step):
        program = subprocess.Popen(["sleep", "600"])
        step.outputs["out"].write_text(f"{os.getppid()} {os.getpid()} {program.pid}\\n")
        time.sleep(600)
"""


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("waited for 30 seconds in vain")


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def pids_in(scratch: Path) -> list[int]:
    """Return the three process ids that STAYS writes, once they are complete."""
    found: list[int] = []

    def there() -> bool:
        texts = [path.read_text() for path in scratch.glob("build-*/*/.outputs/out")]
        found[:] = [int(word) for text in texts for word in text.split()]
        return len(found) == 3 and texts[0].endswith("\n")

    wait_until(there)
    return found


def test_modules_are_imported_once_and_only_for_who_asks(bench: Any) -> None:
    bench.step("server", WARM)
    bench.step("tiny", USES_WARM)
    first, second = (bench.value("tiny", params={"n": n}, **USES) for n in range(2))
    assert first[0] == first[1] == second[0]
    assert first[2] != second[2]
    cold = bench.value("tiny")
    assert cold[0] is None
    assert cold[1] != first[1]


def test_torch_is_warm(bench: Any) -> None:
    """The parent imports torch and stays single-threaded; the child computes with its number of threads."""
    bench.step(
        "tiny",
        """
        import json, os, sys
        def run(step):
            found = ["torch" in sys.modules, len(os.listdir(f"/proc/{os.getppid()}/task"))]
            import torch
            x = torch.ones(300, 300)
            found += [torch.get_num_threads(), float((x @ x).sum()), os.environ["OMP_NUM_THREADS"]]
            step.outputs["out"].write_text(json.dumps(found))
        """,
    )
    for cpu in (1, 2):
        assert bench.value("tiny", preload=("torch",), cpu=cpu) == [True, 1, cpu, 300.0**3, str(cpu)]


def test_a_module_that_cannot_be_preloaded(bench: Any) -> None:
    bench.step("tiny", USES_WARM)
    for _ in range(2):
        assert bench.run("tiny", preload=("no_such_module",)).problem == (
            "the process that starts workers ended with exit status 1: "
            "ModuleNotFoundError: No module named 'no_such_module'"
        )


def test_a_parent_that_dies_is_replaced(bench: Any) -> None:
    bench.step("tiny", USES_WARM)
    bench.step("kills", "import os, time\ndef run(step):\n    os.system('true')\n    time.sleep(600)\n")
    parent = bench.value("tiny")[1]
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(bench.run("kills").problem))
    thread.start()
    wait_until(lambda: len(Path(f"/proc/{parent}/task/{parent}/children").read_text().split()) == 1)
    os.kill(parent, signal.SIGKILL)
    thread.join()
    assert found == ["the process that starts workers was killed by SIGKILL"]
    assert bench.value("tiny")[1] != parent


@pytest.mark.usefixtures("landlocked")
def test_an_action_cannot_signal_other_processes(bench: Any) -> None:
    bench.step("tiny", "import os\ndef run(step):\n    os.kill(os.getppid(), 9)\n")
    assert bench.run("tiny").problem.endswith("PermissionError: [Errno 1] Operation not permitted")


def test_processes_of_a_step_end_with_it(bench: Any) -> None:
    bench.step(
        "tiny",
        """
        import subprocess
        def run(step):
            step.outputs["out"].write_text(str(subprocess.Popen(["sleep", "600"]).pid))
        """,
    )
    left = bench.value("tiny")
    wait_until(lambda: not runs(left))


def test_close_ends_everything_at_once(bench: Any) -> None:
    bench.step("tiny", STAYS)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(bench.run("tiny")))
    thread.start()
    pids = pids_in(bench.scratch)
    assert all(runs(pid) for pid in pids)
    bench.executor.close()
    thread.join(30)
    assert [(outcome.result, outcome.problem) for outcome in found] == [(None, "interrupted")]
    wait_until(lambda: not any(runs(pid) for pid in pids))
    assert not list(bench.scratch.glob("build-*"))
    assert bench.run("tiny").problem == "interrupted"
    bench.executor.close()


def test_close_while_modules_are_imported(bench: Any) -> None:
    bench.step("slow", "import time\ntime.sleep(600)\n")
    bench.step("tiny", STAYS)
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(bench.run("tiny", preload=("tiny_rules.slow",)).problem))
    thread.start()
    wait_until(lambda: bool(list(bench.scratch.glob("build-*/*/.home"))))
    bench.executor.close()
    thread.join(30)
    assert found == ["interrupted"]


ENGINE = """
import sys
from pathlib import Path
from modelbuild.actions import Action, Output
from modelbuild.execution.executor import ActionRequest
from modelbuild.execution.local_executor import LocalExecutor
from modelbuild.code.step_sources import StepCode
from modelbuild.store.local import open_store

workspace, cache, rules = map(Path, sys.argv[1:4])
executor = LocalExecutor(workspace, open_store(cache), cache / "tmp", {"tiny_rules": rules})
outputs = (Output("out", "out"),)
action = Action("id", "//:x", "Tiny", "tiny_rules.tiny", outputs=outputs, preload=tuple(sys.argv[4:]))
modules = StepCode({"tiny_rules": rules}).modules("tiny_rules.tiny")
executor.run(ActionRequest(action, (), modules=modules, preload=action.preload))
"""


def engine(bench: Any, *preload: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", ENGINE, bench.workspace, bench.scratch.parent, bench.rules, *preload]
    return subprocess.Popen(command, start_new_session=True)


def children(pid: int) -> list[int]:
    return [int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]


def only_child() -> int:
    """Return the process id of the one server that this process started; other tests may have other children."""

    def servers() -> list[int]:
        return [pid for pid in children(os.getpid()) if b"fork_server" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    wait_until(lambda: bool(servers()))
    (pid,) = servers()
    return pid


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_a_process_that_was_started_early_is_used_first(bench: Any) -> None:
    bench.step("server", WARM)
    bench.step("tiny", USES_WARM)
    spare = ForkServer()
    bench.executor = bench.new_executor(spare=spare)
    pid = only_child()
    found, parent, _ = bench.value("tiny", **USES)
    assert found == parent == pid
    assert bench.value("tiny")[1] != pid
    bench.executor.close()
    assert not runs(pid)
    spare.close()


def test_a_process_that_was_started_early_and_ended_is_not_used(bench: Any) -> None:
    bench.step("tiny", USES_WARM)
    spare = ForkServer()
    spare.close()
    assert not spare.alive
    bench.executor = bench.new_executor(spare=spare)
    bench.value("tiny")


@pytest.mark.parametrize("waits", [False, True])
def test_a_process_that_was_started_early_and_not_needed_ends(bench: Any, waits: bool) -> None:
    executor = bench.new_executor(spare=ForkServer())
    pid = only_child()
    if waits:  # for its settings; else it is not there yet
        time.sleep(1)
    executor.close()
    assert not runs(pid)


def test_nothing_outlives_an_engine_that_is_killed(bench: Any) -> None:
    bench.step("tiny", STAYS)
    process = engine(bench)
    pids = pids_in(bench.scratch)
    process.kill()
    process.wait()
    wait_until(lambda: not any(runs(pid) for pid in pids))


def test_nothing_outlives_an_engine_that_is_killed_while_modules_are_imported(bench: Any) -> None:
    bench.step("tiny", STAYS)
    bench.step("slow", "import time\nopen('/proc/self/comm', 'w').write('importing')\ntime.sleep(600)\n")
    process = engine(bench, "tiny_rules.slow")
    wait_until(lambda: any(name_of(pid) == "importing" for pid in children(process.pid)))
    (server,) = children(process.pid)
    process.kill()
    process.wait()
    wait_until(lambda: not runs(server))


def test_an_interrupt_of_the_terminal_does_not_reach_workers(bench: Any) -> None:
    """Ctrl-C goes to the foreground group; workers are in separate groups and a separate session."""
    bench.step("tiny", STAYS)
    process = engine(bench)
    try:
        pids = pids_in(bench.scratch)
        assert {os.getsid(pid) for pid in pids} == {pids[0]}
        assert [os.getpgid(pid) for pid in pids] == [pids[0], pids[1], pids[1]]
        os.killpg(process.pid, signal.SIGINT)
        process.wait()
        wait_until(lambda: not any(runs(pid) for pid in pids))
    finally:
        process.kill()
