"""The error message of a step that fails, is killed, or ends its process."""

from __future__ import annotations

import re
from typing import Any

import pytest


def test_a_step_error_is_its_message(bench: Any) -> None:
    bench.step("tiny", "from modelbuild.step import StepError\ndef run(step):\n    raise StepError('no such layer')\n")
    outcome = bench.run("tiny")
    assert (outcome.result, outcome.problem, outcome.stderr) == (None, "no such layer", None)


def test_user_traceback(bench: Any) -> None:
    bench.write("models/layers.py", "def build(n):\n    return [1][n]\n")
    layers = bench.source("models/layers.py", "more")
    outcome = bench.model("import layers\n\nlayers.build(7)\n", layers)
    assert outcome.problem == (
        "Traceback (most recent call last):\n"
        '  File "models/detector.py", line 3, in <module>\n'
        "    layers.build(7)\n"
        '  File "models/layers.py", line 2, in build\n'
        "    return [1][n]\n"
        "IndexError: list index out of range"
    )
    assert "Traceback" not in bench.text(outcome.stderr)


def test_the_traceback_ends_with_the_line_of_the_library_that_failed(bench: Any) -> None:
    problem = bench.model(
        "import packaging.version\n\npackaging.version.parse('x y')\n", tools=("packaging",)
    ).problem.splitlines()
    assert problem[:3] == [
        "Traceback (most recent call last):",
        '  File "models/detector.py", line 3, in <module>',
        "    packaging.version.parse('x y')",
    ]
    assert re.fullmatch(r'  File "packaging/version.py", line \d+, in \w+', problem[3])
    assert problem[-1].endswith("InvalidVersion: Invalid version: 'x y'")


def test_paths_in_messages_are_those_of_the_workspace(bench: Any) -> None:
    outcome = bench.model("import os; open(os.path.abspath('models/none.json'))")
    assert (
        outcome.problem.splitlines()[-1] == "FileNotFoundError: [Errno 2] No such file or directory: 'models/none.json'"
    )


def test_a_syntax_error_in_the_users_code(bench: Any) -> None:
    assert bench.model("x = 1\ny = = 2\n").problem == (
        'Traceback (most recent call last):\n  File "models/detector.py", line 2\n    y = = 2\n'
        "SyntaxError: invalid syntax"
    )


def test_an_error_that_a_step_wraps(bench: Any) -> None:
    """The user's frames are the cause's, the last line is the raised error's."""
    bench.step(
        "run_source",
        """
        import runpy
        def run(step):
            try:
                runpy.run_path(str(step.input("srcs")))
            except ValueError as error:
                raise RuntimeError("tracing failed") from error
        """,
    )
    assert bench.model("raise ValueError('x')").problem == (
        'Traceback (most recent call last):\n  File "models/detector.py", line 1, in <module>\n'
        "    raise ValueError('x')\nRuntimeError: tracing failed"
    )


def test_an_error_in_a_step_of_ours(bench: Any) -> None:
    bench.step("tiny", "def run(step):\n    {}['missing']\n")
    outcome = bench.run("tiny")
    assert outcome.problem == "internal error in step tiny_rules.tiny: KeyError: 'missing'"
    assert "Traceback" in bench.text(outcome.stderr)
    assert "tiny.py" in bench.text(outcome.stderr)


def test_an_internal_error_has_one_line(bench: Any) -> None:
    bench.step("tiny", "def run(step):\n    raise RuntimeError('bad view\\n\\nWhile executing %a\\nmore words')\n")
    outcome = bench.run("tiny")
    assert outcome.problem == "internal error in step tiny_rules.tiny: RuntimeError: bad view"
    assert "more words" in bench.text(outcome.stderr)


def test_a_step_that_cannot_be_imported(bench: Any) -> None:
    assert bench.run("nowhere").problem == (
        "internal error in step tiny_rules.nowhere: ModuleNotFoundError: No module named 'tiny_rules.nowhere'"
    )


ENDS = {
    "os._exit(3)": "the process ended with exit status 3 before step tiny_rules.run_source returned",
    "os._exit(0)": "the process ended with exit status 0 before step tiny_rules.run_source returned",
    "os.kill(os.getpid(), signal.SIGSEGV)": "killed by SIGSEGV",
    "ctypes.string_at(0)": "killed by SIGSEGV",
    "os.abort()": "killed by SIGABRT",
    "os.kill(os.getpid(), signal.SIGINT)": "killed by SIGINT",
}


@pytest.mark.parametrize("how", ENDS)
def test_a_worker_that_dies(bench: Any, how: str) -> None:
    outcome = bench.model(f"import ctypes, os, signal\nprint('before')\n{how}\n")
    assert outcome.problem == ENDS[how]
    assert outcome.result is None
    assert bench.text(outcome.stdout) == "before\n"
    if "SIGSEGV" in outcome.problem:
        assert 'detector.py", line 3' in bench.text(outcome.stderr)
    assert bench.model("result = 1").problem == ""


def test_killed_for_memory(bench: Any) -> None:
    outcome = bench.model("import os, signal\nx = bytearray(300 << 20)\nos.kill(os.getpid(), signal.SIGKILL)\n")
    assert outcome.problem == "killed by SIGKILL (out of memory? peak 0.3 GiB)"


def test_out_of_memory_in_python(bench: Any) -> None:
    outcome = bench.model(
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))\nx = bytearray(1 << 30)\n"
    )
    assert outcome.problem.splitlines()[-1] == "MemoryError"


def test_system_exit(bench: Any) -> None:
    assert bench.model("import sys\nsys.exit('bad')\n").problem == (
        'Traceback (most recent call last):\n  File "models/detector.py", line 2, in <module>\n'
        "    sys.exit('bad')\nSystemExit: bad"
    )


def test_an_undeclared_read_counts_also_when_the_worker_is_killed_after_it(bench: Any) -> None:
    bench.write("models/a.json")
    source = """
        import os
        try:
            open("models/a.json")
        except OSError:
            os._exit(0)
    """
    assert bench.model(source).problem.startswith("models/detector.py reads models/a.json, which is not a declared")


def test_a_child_of_the_users_code_cannot_speak_for_it(bench: Any) -> None:
    """A forked child that returns through our frames does not end the action."""
    source = """
        import os
        pid = os.fork()
        if pid == 0:
            raise ValueError("in the child")
        os.waitpid(pid, 0)
        result = 1
    """
    assert bench.model(source).problem == ""


@pytest.mark.parametrize("path", ["models/a.py", "models/a.json"])
def test_the_attribute_of_an_action_without_the_users_code(bench: Any, path: str) -> None:
    bench.write(path)
    bench.write("models/b.txt")
    bench.step("tiny", f"def run(step):\n    open('{path}')\n")
    attribute = "srcs" if path.endswith(".py") else "image"
    assert bench.run("tiny", bench.source("models/b.txt", "image")).problem.endswith(
        f"add it to '{attribute}' of //models:detector_model"
    )
