"""Running actions on this machine: laying out inputs, running, collecting outputs, and error messages."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from modelbuild.actions import FileEntry, Output, StagedInput, Tree
from modelbuild.execution.executor import Outcome
from modelbuild.execution.isolation.kernel_choice import kernels

# Reports its start, and waits for a file.
WAITS = """
    import os, tempfile, time
    def run(step):
        open(os.path.join(tempfile.gettempdir(), "begun"), "w").close()
        while not os.path.exists(os.path.join(tempfile.gettempdir(), "go")):
            time.sleep(0.01)
        step.outputs["out"].write_text("1")
"""

WRITE = 'step.outputs["out"].write_text(json.dumps(%s))'


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("waited for 30 seconds in vain")


def step_that_writes(bench: Any, expression: str, setup: str = "") -> None:
    bench.step("tiny", f"import json, os, sys\n{setup}\ndef run(step):\n    {WRITE % expression}\n")


def test_a_step_gets_params_inputs_and_outputs(bench: Any) -> None:
    bench.write("models/a.txt", "first")
    bench.write("models/b.txt", "second")
    step_that_writes(
        bench,
        "[step.params, [p.read_text() for p in step.inputs['srcs']], step.input('tree').joinpath('x/y').read_text(),"
        " str(step.root) == os.getcwd(), str(step.inputs['srcs'][0].relative_to(step.root)), step.cpus]",
    )
    blob = bench.store.put_bytes(b"derived")
    tree = StagedInput("tree", ".inputs/tree.0/t", None, Tree((("x/y", FileEntry(blob)),)))
    value = bench.value("tiny", "models/a.txt", "models/b.txt", tree, params={"n": [1]}, unkeyed={"url": "u"}, cpu=2)
    assert value == [{"n": [1], "url": "u"}, ["first", "second"], "derived", True, "models/a.txt", 2]


def test_outputs_reach_the_store(bench: Any) -> None:
    bench.step(
        "tiny",
        """
        def run(step):
            step.outputs["file"].write_text("f")
            (step.outputs["tree"] / "a").mkdir()
            (step.outputs["tree"] / "a/b").write_text("b")
            print("to stdout")
        """,
    )
    result = bench.ok("tiny", outputs=(Output("file", "deep/file.bin"), Output("tree", "t", "tree")))
    file, tree = result.output("file"), result.output("tree")
    assert bench.store.read_bytes(file.digest) == b"f"
    assert [(path, bench.store.read_bytes(entry.digest)) for path, entry in tree.files] == [("a/b", b"b")]
    assert bench.text(result.stdout) == "to stdout\n"
    assert result.stderr is None
    assert result.seconds > 0
    assert result.max_rss > 1 << 20


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("pass", "the step did not write its output 'out' (out)"),
        ("step.outputs['out'].mkdir()", "the step's output 'out' (out) is not a file"),
        (
            "step.outputs['out'].symlink_to('/etc/hostname')",
            "the step's output 'out' (out) is not a file",
        ),
        (
            "step.outputs['out'].write_text(''); step.outputs['out'].with_name('more').write_text('')",
            "step tiny_rules.tiny wrote 'more', which is not a declared output",
        ),
    ],
)
def test_wrong_outputs(bench: Any, body: str, problem: str) -> None:
    bench.step("tiny", f"def run(step):\n    {body}\n")
    outcome = bench.run("tiny")
    assert (outcome.result, outcome.problem) == (None, problem)


def test_a_link_in_a_tree_is_refused_by_name(bench: Any) -> None:
    bench.step("tiny", "def run(step):\n    (step.outputs['out'] / 'link').symlink_to('/etc/hostname')\n")
    assert "link" in bench.run("tiny", outputs=(Output("out", "out", "tree"),)).problem


def test_a_temporary_file_can_become_an_output(bench: Any) -> None:
    bench.step(
        "tiny",
        """
        import os, pathlib, tempfile
        def run(step):
            file = pathlib.Path(tempfile.mkdtemp(), "x")
            file.write_text("1")
            os.replace(file, step.outputs["out"])
        """,
    )
    assert bench.value("tiny") == 1


def test_each_action_starts_fresh(bench: Any) -> None:
    bench.step(
        "tiny",
        """
        import json, os, random, sys, tempfile
        import pathlib
        def run(step):
            before = [getattr(pathlib, "seen", 0), os.environ.get("SEEN"), os.listdir(os.environ["HOME"]),
                      os.listdir(tempfile.gettempdir()), "colorsys" in sys.modules]
            import colorsys
            pathlib.seen = 1
            os.environ["SEEN"] = "1"
            for folder in (os.environ["HOME"], tempfile.gettempdir()):
                open(folder + "/left", "w").close()
            step.outputs["out"].write_text(json.dumps(before))
        """,
    )
    for _ in range(2):
        assert bench.value("tiny") == [0, None, [], [], False]


def test_the_environment_is_fixed(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x")
    monkeypatch.setenv("PIP_INDEX_URL", "x")
    monkeypatch.setenv("HTTPS_PROXY", "x")
    for name in ("LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "PYTHONSTARTUP"):
        monkeypatch.setenv(name, "/usr/lib")
    step_that_writes(bench, "dict(os.environ)")
    found = bench.value("tiny", env=(("DECLARED", "d"),), cpu=2)
    threads = ["MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"]
    folders = ["HOME", "PATH", "TMPDIR", "XDG_CACHE_HOME"]
    expected = [*kernels(), *threads, *folders, "CUDA_VISIBLE_DEVICES", "DECLARED", "LANG", "PYTHONHASHSEED", "TZ"]
    assert sorted(found) == sorted(expected)
    assert (found["DECLARED"], found["OMP_NUM_THREADS"], found["PYTHONHASHSEED"]) == ("d", "2", "0")
    assert str(bench.scratch) in found["HOME"]
    assert str(bench.scratch) in found["TMPDIR"]
    fetching = bench.value("tiny", network=True)
    assert (fetching["PIP_INDEX_URL"], fetching["HTTPS_PROXY"], fetching["HOME"]) == ("x", "x", os.environ["HOME"])
    assert "SECRET" not in fetching


def test_gpus_are_seen_by_actions_that_take_some(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes differ by their preloads, and actions with GPUs find no module imported."""
    bench.step("looks", "import os\nseen = os.environ.get('CUDA_VISIBLE_DEVICES')")
    bench.step(
        "tiny",
        """
        import json, os, sys
        def run(step):
            found = [os.environ.get("CUDA_VISIBLE_DEVICES"), "tiny_rules.looks" in sys.modules]
            from tiny_rules import looks
            step.outputs["out"].write_text(json.dumps([*found, looks.seen]))
        """,
    )
    preload = {"preload": ("tiny_rules.looks",)}
    assert bench.value("tiny", **preload) == ["", True, ""]
    assert bench.value("tiny", gpu=1, **preload) == [None, False, None]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert bench.value("tiny", **preload) == ["", True, ""]
    assert bench.value("tiny", gpu=1, **preload) == ["1", False, "1"]


def test_two_threads_run_at_once(bench: Any) -> None:
    """Both actions are released only once both have begun."""
    bench.step("tiny", WAITS)
    outcomes: list[Outcome] = []
    threads = [threading.Thread(target=lambda: outcomes.append(bench.run("tiny"))) for _ in "ab"]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(list(bench.scratch.glob("build-*/*/.home/begun"))) == 2)
    for begun in bench.scratch.glob("build-*/*/.home/begun"):
        begun.with_name("go").touch()
    for thread in threads:
        thread.join()
    assert [outcome.problem for outcome in outcomes] == ["", ""]


def test_many_threads(bench: Any) -> None:
    step_that_writes(bench, "step.params['n']")
    found: dict[int, int] = {}

    def run(start: int) -> None:
        for n in range(start, start + 5):
            found[n] = bench.value("tiny", params={"n": n})

    threads = [threading.Thread(target=run, args=(start,)) for start in range(0, 40, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: n for n in range(40)}
