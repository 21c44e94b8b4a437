"""Tests of the process that forks a child for each order."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from modelbuild.actions import Output

# Reports the processes that imported it and that run it, and counts.
COUNTS = """
    import json, os
    HERE = os.getpid()
    runs = 0

    def run(step):
        global runs
        runs += 1
        step.outputs["out"].write_text(json.dumps([HERE, os.getpid(), os.getppid(), runs]))
"""


def test_each_action_has_a_process_that_imports_its_step(bench: Any) -> None:
    bench.step("tiny", COUNTS)
    found = [bench.value("tiny", params={"n": n}) for n in range(3)]
    assert len({here for here, *_ in found}) == 3
    assert all(here == process and runs == 1 for here, process, _, runs in found)
    assert len({parent for _, _, parent, _ in found}) == 1


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


def test_actions_of_one_step_read_their_own_plugins(bench: Any) -> None:
    bench.step(
        "loads",
        """
        import importlib
        def run(step):
            plugins = map(importlib.import_module, step.params["plugins"])
            step.outputs["out"].write_text(str([plugin.VALUE for plugin in plugins]))
    """,
    )
    for name in ("one", "two"):
        bench.step(name, f"VALUE = {name!r}\n")
    for names in ([], ["one"], ["two"], ["one", "two"], []):
        plugins = tuple(f"tiny_rules.{name}" for name in names)
        modules = (*bench.closure("tiny_rules.loads"), *plugins)
        outcome = bench.run("loads", params={"plugins": plugins}, plugins=plugins, modules=modules)
        assert outcome.problem == ""
        assert bench.store.read_bytes(outcome.result.output("out").digest).decode() == str(names)
    outcome = bench.run("loads", params={"plugins": ["tiny_rules.two"]}, modules=bench.closure("tiny_rules.loads"))
    assert "it loads tiny_rules.two, which" in outcome.problem


def test_two_steps_at_once(bench: Any) -> None:
    """Each answer reaches the thread that waits for it."""
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


def test_output_is_kept_for_each_action(bench: Any) -> None:
    bench.step("tiny", "import sys\ndef run(step):\n    print('out')\n    print('err', file=sys.stderr)\n")
    for number in range(3):
        outcome = bench.run("tiny", params={"n": number}, outputs=())
        assert outcome.problem == ""
        printed = [bench.store.read_bytes(digest) for digest in (outcome.stdout, outcome.stderr)]
        assert printed == [b"out\n", b"err\n"]


def test_a_step_may_format_its_stack(bench: Any) -> None:
    """Formatting reads the source of each function on the stack, including those of the fork server."""
    bench.step(
        "tiny", "import traceback\ndef run(step):\n    step.outputs['out'].write_text(traceback.format_stack()[0])\n"
    )
    outcome = bench.run("tiny")
    assert outcome.problem == ""
    assert "fork_server.py" in bench.text(outcome.result.output("out").digest)
