"""Tests of the folders in which actions run."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from modelbuild.actions import FileEntry, Output, StagedInput, Tree
from modelbuild.execution.sandbox import LARGE
from modelbuild.execution.scratch import Scratch

READ = "def run(step):\n    step.outputs['out'].write_bytes(step.input('srcs').read_bytes())\n"


@pytest.fixture(params=["small", "large"])
def size(request: pytest.FixtureRequest) -> int:
    return 3 if request.param == "small" else LARGE + 1


@pytest.mark.parametrize("change", ["content", "size", "gone"])
def test_a_file_that_changed_after_it_was_digested(bench: Any, size: int, change: str) -> None:
    bench.step("tiny", READ)
    file = bench.write("models/a.bin", b"a" * size)
    staged = bench.source("models/a.bin")
    if change == "gone":
        file.unlink()
    else:
        file.write_bytes(b"b" * size if change == "content" else b"a" * (size + 1))
    outcome = bench.run("tiny", staged)
    assert (outcome.result, outcome.problem) == (None, "models/a.bin changed during the build; build again")


def test_an_edit_while_the_action_runs_cannot_reach_it(bench: Any, size: int) -> None:
    """The result is that of the content in the key."""
    file = bench.write("models/a.bin", b"a" * size)
    bench.step(
        "tiny",
        """
        import os, tempfile, time
        def run(step):
            step.outputs["begun"].touch()
            while not os.path.exists(os.path.join(tempfile.gettempdir(), "go")):
                time.sleep(0.01)
            step.outputs["out"].write_bytes(step.input("srcs").read_bytes())
        """,
    )
    staged = bench.source("models/a.bin")
    found: list[Any] = []
    outputs = (Output("out", "out"), Output("begun", "begun"))
    thread = threading.Thread(target=lambda: found.append(bench.ok("tiny", staged, outputs=outputs)))
    thread.start()
    while not list(bench.scratch.glob("build-*/*/.outputs/begun")):
        assert thread.is_alive()
    with file.open("r+b") as edited:
        edited.write(b"bbb")
    (home,) = bench.scratch.glob("build-*/*/.home")
    (home / "go").touch()
    thread.join()
    assert bench.store.read_bytes(found[0].output("out").digest) == b"a" * size


def test_no_folder_is_made_twice(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Making folders dominates the cost of laying out small inputs."""
    for name in ("a", "b"):
        bench.write(f"models/deep/{name}.bin", name)
    request = bench.request("tiny", "models/deep/a.bin", "models/deep/b.bin", outputs=(Output("out", "x/y/out"),))
    scratch = Scratch(bench.scratch)
    made: list[str] = []

    def mkdir(path: str, *arguments: Any, real: Any = os.mkdir) -> None:
        made.append(os.path.relpath(path, scratch.path))
        real(path, *arguments)

    monkeypatch.setattr(os, "mkdir", mkdir)
    scratch.new().lay_out(request.action, request.inputs, bench.store)
    assert made == ["0", "0/.outputs", "0/.home", "0/models", "0/models/deep", "0/.outputs/x", "0/.outputs/x/y"]


@pytest.mark.usefixtures("landlocked")
def test_the_workspace_and_the_store_are_out_of_reach(bench: Any, size: int) -> None:
    """Neither through the inputs' files: no input is one file with the workspace's, and no action may write to one."""
    file = bench.write("models/a.bin", b"a" * size)
    before = file.stat()
    bench.step(
        "tiny",
        """
        import subprocess
        def run(step):
            for path in step.inputs["srcs"]:
                for command in (["sh", "-c", "echo x >>" + str(path)], ["truncate", "-s0", path], ["rm", path]):
                    assert subprocess.run(command).returncode, command
            step.outputs["out"].write_text("1")
        """,
    )
    blob = bench.store.put_bytes(b"derived")
    derived = StagedInput("srcs", ".inputs/srcs.0/x", None, FileEntry(blob))
    bench.ok("tiny", "models/a.bin", derived)
    after = file.stat()
    assert (after.st_mtime_ns, after.st_ctime_ns, after.st_nlink) == (before.st_mtime_ns, before.st_ctime_ns, 1)
    assert bench.store.read_bytes(blob) == b"derived"


def test_a_large_file_is_copied_once(bench: Any) -> None:
    bench.step(
        "tiny",
        "import os\ndef run(step):\n    step.outputs['out'].write_text(str(os.stat(step.input('srcs')).st_ino))\n",
    )
    bench.write("models/a.bin", b"a" * LARGE)
    assert bench.value("tiny", "models/a.bin") == bench.value("tiny", "models/a.bin", params={"again": 1})


@pytest.mark.parametrize("mode", [0o644, 0o755])
def test_the_executable_bit(bench: Any, size: int, mode: int) -> None:
    bench.step(
        "tiny",
        "import os\ndef run(step):\n    step.outputs['out'].write_text(str(os.stat(step.input('srcs')).st_mode & 1))\n",
    )
    bench.write("models/tool", b"a" * size).chmod(mode)
    assert bench.value("tiny", "models/tool") == mode & 1


def test_a_linked_source_becomes_a_plain_file(bench: Any) -> None:
    bench.write("shared/a.txt", "a")
    bench.write("models/b.txt", "b")
    (bench.workspace / "models/a.txt").symlink_to("../shared/a.txt")
    bench.step(
        "tiny",
        "import os\ndef run(step):\n    step.outputs['out'].write_text(str(int(os.path.islink('models/a.txt'))))\n",
    )
    assert bench.value("tiny", "models/a.txt") == 0


def test_one_file_as_two_inputs(bench: Any) -> None:
    bench.write("models/a.txt", "1")
    bench.step("tiny", "def run(step):\n    assert step.input('more') == step.input('srcs')\n" + READ.split("\n", 1)[1])
    assert bench.value("tiny", "models/a.txt", bench.source("models/a.txt", "more")) == 1


def test_an_empty_tree(bench: Any) -> None:
    bench.step(
        "tiny", "def run(step):\n    step.outputs['out'].write_text(str(len(list(step.input('t').iterdir()))))\n"
    )
    assert bench.value("tiny", StagedInput("t", ".inputs/t.0/t", None, Tree(()))) == 0


def test_folders_are_emptied(bench: Any) -> None:
    bench.step(
        "tiny",
        """
        import os, tempfile
        def run(step):
            for number, folder in enumerate((tempfile.gettempdir(), os.environ["HOME"])):
                os.mkdir(f"{folder}/closed{number}")
                open(f"{folder}/closed{number}/file", "w").close()
                os.chmod(f"{folder}/closed{number}", 0)
            step.outputs["out"].write_text("1")
        """,
    )
    bench.ok("tiny")
    (build,) = bench.scratch.glob("build-*")
    while list(build.glob("[0-9]*/*")):  # while the build continues
        time.sleep(0.01)
    bench.executor.close()
    assert not build.exists()


LIST = """
    import json, os
    def run(step):
        found = [f"{folder}/{name}"[2:] for folder, below, files in os.walk(".") for name in below + files]
        step.outputs["out"].write_text(json.dumps(sorted(path for path in found if path[0] != ".")))
"""


def emptied(bench: Any) -> os.stat_result:
    """Return the only folder, once it is ready for another action."""
    (build,) = bench.scratch.glob("build-*")
    deadline = time.monotonic() + 30
    while not (ready := bench.executor._scratch._emptied):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    (sandbox,) = ready
    assert list(build.glob("[0-9]*")) == [sandbox.folder]
    return os.stat(sandbox.folder)


def test_a_folder_that_is_used_again_holds_nothing_of_before(bench: Any) -> None:
    for path in ("a/b/c/one", "a/b/two", "a/three", "d/a", "a/b/c.py/four"):
        bench.write(path, "1")
    bench.step("tiny", LIST)
    assert bench.value("tiny", "a/b/c/one") == ["a", "a/b", "a/b/c", "a/b/c/one"]
    first = emptied(bench)
    assert bench.value("tiny", "a/three", "d/a") == ["a", "a/three", "d", "d/a"]
    assert emptied(bench).st_ino == first.st_ino
    assert bench.value("tiny", "d/a") == ["d", "d/a"]
    emptied(bench)
    found = bench.value("tiny", "a/b/two", "a/b/c.py/four")
    assert found == ["a", "a/b", "a/b/c.py", "a/b/c.py/four", "a/b/two"]
    emptied(bench)
    tree = Tree((("b", bench.source("a/three").value),))
    bench.store.put_bytes(b"1")
    assert bench.value("tiny", StagedInput("t", "a", None, tree)) == ["a", "a/b"]
    assert emptied(bench).st_ino == first.st_ino


def test_a_folder_that_an_action_changed_is_not_used_again(bench: Any) -> None:
    bench.write("a/b", "1")
    bench.step("tiny", LIST)
    bench.step(
        "opens",
        """
        import subprocess
        def run(step):
            subprocess.run(["chmod", "777", "a"], check=True)
            step.outputs["out"].touch()
        """,
    )
    bench.ok("tiny", "a/b")
    first = emptied(bench)
    bench.ok("opens", "a/b")
    (build,) = bench.scratch.glob("build-*")
    while list(build.glob("[0-9]*")):
        time.sleep(0.01)
    assert bench.value("tiny", "a/b") == ["a", "a/b"]
    assert emptied(bench).st_ino != first.st_ino


def test_leftover_processes_cannot_write_to_the_next_action(bench: Any, landlocked: None) -> None:
    """Though it stays in the folder, which another action gets."""
    bench.step(
        "leaves",
        """
        import os, subprocess
        def run(step):
            script = "sleep 0.3; for i in $(seq 300); do touch left || exit; sleep 0.01; done"
            for folder in (step.outputs["out"].parent, os.environ["HOME"]):
                subprocess.Popen(["sh", "-c", script], cwd=folder, start_new_session=True, stderr=subprocess.DEVNULL)
            step.outputs["out"].touch()
        """,
    )
    bench.step(
        "looks",
        """
        import json, os, time
        def run(step):
            found = []
            for _ in range(20):
                time.sleep(0.05)
                found += [name for folder in (".", ".outputs", ".home") for name in os.listdir(folder)]
            step.outputs["out"].write_text(json.dumps(sorted(set(found))))
        """,
    )
    bench.ok("leaves")
    first = emptied(bench)
    assert bench.value("looks") == [".home", ".outputs"]
    assert emptied(bench).st_ino == first.st_ino


def test_folders_are_kept_on_demand(bench: Any) -> None:
    bench.executor = bench.new_executor(keep_sandboxes=True)
    bench.write("models/a.txt", "1")
    bench.step("tiny", "def run(step):\n    step.outputs['out'].write_text('1')\n    assert False\n")
    problem, where = bench.run("tiny", "models/a.txt").problem.splitlines()
    assert problem == "internal error in step tiny_rules.tiny: AssertionError"
    folder = Path(where.removeprefix("(its folder is kept: ").removesuffix(")"))
    bench.executor.close()
    Scratch(bench.scratch).close()
    assert (folder / "models/a.txt").read_text() == "1"
    assert (folder / ".outputs/out").read_text() == "1"


def test_folders_of_killed_builds_are_removed_and_used_folders_stay(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from modelbuild.execution.scratch import Scratch\n"
        "scratch = Scratch(Path(sys.argv[1])); (scratch.path / 'x').mkdir(); print(scratch.path, flush=True)\n"
        "os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", script, tmp_path], stdout=subprocess.PIPE, text=True, check=False)
    left = Path(killed.stdout.strip())
    assert (left / "x").is_dir()
    living = Scratch(tmp_path)
    assert not left.exists()
    (living.path / "x").mkdir()
    other = Scratch(tmp_path)
    assert (living.path / "x").is_dir()
    assert living.path != other.path
    living.close()
    other.close()
    assert os.listdir(tmp_path) == ["lock"]
