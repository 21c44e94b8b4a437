"""Tests of branches: a step that several actions run is imported once, and nothing else is different for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from modelbuild.actions import Output
from tests.execution.worker.test_fork_server import ENGINE, STAYS, pids_in, runs, wait_until

# Says where it was imported, where it runs, and who forked that; and counts.
COUNTS = """
    import json, os
    HERE = os.getpid()
    THREADS = os.environ["OMP_NUM_THREADS"]
    SET = os.environ.get("SET")
    runs = 0

    def run(step):
        global runs
        runs += 1
        found = [HERE, os.getpid(), os.getppid(), runs, THREADS, SET, os.environ["HOME"]]
        step.outputs["out"].write_text(json.dumps(found))
"""


def test_a_step_is_imported_once_for_all_actions_but_the_first(bench: Any) -> None:
    bench.step("tiny", COUNTS)
    first, second, third = (bench.value("tiny", params={"n": n}) for n in range(3))
    assert first[0] == first[1]
    assert second[0] == second[2] == third[0] == third[2] != first[2]
    assert len({first[1], second[1], third[1]}) == 3
    assert [found[3] for found in (first, second, third)] == [1, 1, 1]
    assert {Path(found[6]).name for found in (first, second, third)} == {".home"}  # not what it was imported with


def test_what_a_module_may_look_at_has_a_branch_of_its_own(bench: Any) -> None:
    bench.step("tiny", COUNTS)
    for cpu, env in ((1, {}), (2, {}), (1, {"SET": "x"})):
        found = [bench.value("tiny", cpu=cpu, env=env) for _ in range(3)]
        assert {(f[4], f[5]) for f in found} == {(str(cpu), env.get("SET"))}
        assert found[1][0] == found[2][0] != found[0][0]


@pytest.mark.parametrize("options", [{"network": True}, {"gpu": 1}])
def test_actions_that_see_more_than_others_import_their_step_themselves(bench: Any, options: Any) -> None:
    bench.step("tiny", COUNTS)
    for _ in range(3):
        here, process, *_ = bench.value("tiny", **options)
        assert here == process


@pytest.mark.parametrize(
    ("top", "problem"),
    [
        ("open(SECRET).read()", "step tiny_rules.tiny reads models/secret.txt, which is not a declared input"),
        ("1 / 0", "internal error in step tiny_rules.tiny: ZeroDivisionError: division by zero"),
        ("def", "internal error in step tiny_rules.tiny: SyntaxError: invalid syntax"),
        ("os._exit(3)", "the process ended with exit status 3 before step tiny_rules.tiny returned"),
    ],
)
def test_a_step_that_cannot_be_imported_says_so_for_each_action(bench: Any, top: str, problem: str) -> None:
    secret = bench.write("models/secret.txt", "1")
    bench.step("tiny", f"import os\nSECRET = {str(secret)!r}\n{top}\ndef run(step):\n    pass\n")
    for _ in range(3):
        found = bench.run("tiny").problem
        assert found.startswith(problem), found


def test_a_read_that_a_module_hides_is_told_for_each_action(bench: Any) -> None:
    secret = bench.write("models/secret.txt", "1")
    bench.step(
        "tiny",
        f"""
        try:
            open({str(secret)!r})
        except OSError:
            pass
        def run(step):
            step.outputs["out"].write_text("1")
        """,
    )
    for _ in range(3):
        assert "reads models/secret.txt" in bench.run("tiny").problem


@pytest.mark.parametrize(
    "top",
    [
        "open(os.path.join(os.environ['HOME'], 'made'), 'w').close()",
        "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()",
    ],
)
def test_what_a_process_can_do_only_for_itself_is_done_in_each(bench: Any, top: str) -> None:
    bench.step("tiny", COUNTS.replace("import json, os", f"import json, os, threading, time; {top}"))
    for _ in range(3):
        here, process, *_ = bench.value("tiny")
        assert here == process


def test_a_branch_that_dies_fails_what_it_runs_and_no_more(bench: Any) -> None:
    bench.step("tiny", COUNTS)
    bench.value("tiny")
    branch = bench.value("tiny")[2]
    bench.step("waits", STAYS)
    outcomes: list[str] = []

    def run() -> None:
        outcomes.append(bench.run("waits").problem)

    first = threading.Thread(target=run)
    first.start()
    _, child, _ = pids_in(bench.scratch)
    os.kill(child, signal.SIGKILL)
    first.join()
    wait_until(lambda: not list(bench.scratch.glob("build-*/*/.outputs/out")))
    second = threading.Thread(target=run)
    second.start()
    parent, child, _ = pids_in(bench.scratch)
    os.kill(parent, signal.SIGKILL)
    second.join()
    assert outcomes[1] == "the process that had imported step tiny_rules.waits ended"
    wait_until(lambda: not runs(child))
    assert bench.value("tiny")[2] == branch


def test_branches_end_with_the_engine(bench: Any) -> None:
    bench.step(
        "tiny",
        """
        import os, subprocess, time
        def run(step):
            if step.params["stay"]:
                program = subprocess.Popen(["sleep", "600"])
                step.outputs["out"].write_text(f"{os.getppid()} {os.getpid()} {program.pid}\\n")
                time.sleep(600)
            step.outputs["out"].write_text("1")
        """,
    )
    source = ENGINE.replace(
        "executor.run(Request(action, (), modules=modules, preload=action.preload))",
        "from dataclasses import replace\n"
        "for stay in (0, 0, 1):\n"
        "    executor.run(Request(replace(action, params={'stay': stay}), (), modules=modules))",
    )
    command = [sys.executable, "-c", source, bench.workspace, bench.scratch.parent, bench.rules]
    process = subprocess.Popen(command, start_new_session=True)
    pids = pids_in(bench.scratch)
    process.kill()
    process.wait()
    wait_until(lambda: not any(runs(pid) for pid in pids))


def test_close_while_a_branch_imports(bench: Any) -> None:
    bench.step(
        "tiny",
        """
        import os, time
        if os.path.basename(os.environ["HOME"]).startswith("build-"):
            time.sleep(600)  # in a branch only: an action's own folder has another name
        def run(step):
            step.outputs["out"].write_text("1")
        """,
    )
    bench.ok("tiny")
    wait_until(lambda: not list(bench.scratch.glob("build-*/*/.home")))
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(bench.run("tiny").problem))
    thread.start()
    wait_until(lambda: bool(list(bench.scratch.glob("build-*/*/.home"))))
    bench.executor.close()
    thread.join(30)
    assert found == ["interrupted"]


def test_two_steps_at_once(bench: Any) -> None:
    """Orders wait for their branch, and answers find who waits for them."""
    bench.step("tiny", COUNTS)
    bench.step("other", COUNTS)
    found: list[tuple[str, Any]] = []

    def run(step: str, n: int) -> None:
        result = bench.executor.run(bench.request(step, params={"n": n}, outputs=(Output("out", f"{step}{n}"),)))
        found.append((step, result.result))

    threads = [threading.Thread(target=run, args=(step, n)) for n in range(6) for step in ("tiny", "other")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(step for step, result in found if result is not None) == ["other"] * 6 + ["tiny"] * 6


def test_what_a_step_prints_is_kept_of_each_action(bench: Any) -> None:
    bench.step("tiny", "import sys\ndef run(step):\n    print('out')\n    print('err', file=sys.stderr)\n")
    for number in range(3):
        outcome = bench.run("tiny", params={"n": number}, outputs=())
        assert outcome.problem == ""
        printed = [bench.store.read_bytes(digest) for digest in (outcome.stdout, outcome.stderr)]
        assert printed == [b"out\n", b"err\n"]
