"""The kernel library of docs/how-to/custom-kernels.md through the command line: built, tested, bundled and run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.workspace_builder import Workspace

MORE = """
[[pte_test]]
name = "test"
program = ":program"
model = ":model"
runtime = { archive = "runtime.tar" }
cases = [{ name = "drawn", generator = { seed = 3, count = 2 } }]

[[runtime_bundle]]
name = "bundle"
program = ":program"
runtime = { archive = "runtime.tar" }

[[device_target]]
name = "board"
arch = "aarch64"
"""
KERNEL = "my_ops::leaky_sum.out"

pytestmark = [pytest.mark.xdist_group("bundles"), pytest.mark.exhaustive]


def documented(repository: Path) -> dict[str, str]:
    """Return the files of the section "An operator of your own"."""
    text = (repository / "docs/how-to/custom-kernels.md").read_text().partition("## An operator of your own")[2]
    return dict(re.findall(r"^`([\w./]+)`\n\n```\w+\n(.*?)```", text, flags=re.S | re.M))


@pytest.fixture(scope="module")
def made(
    repository: Path,
    native: Path,
    know_runtime: Callable[[Path, Path, str], None],
    tmp_path_factory: pytest.TempPathFactory,
) -> Workspace:
    """Return a workspace with the built program and bundle."""
    files = documented(repository)
    assert files.keys() == {"ops/my_ops.py", "ops/leaky_sum.cpp", "ops/BUILD.toml", "net.py", "BUILD.toml"}
    workspace = Workspace(tmp_path_factory.mktemp("own_kernels"), {**files, "MODELBUILD.toml": ""})
    workspace.add("BUILD.toml", MORE)
    pack = [sys.executable, repository / "runtime/archive.py", "--build", native, "--out"]
    subprocess.run([*pack, workspace.root / "runtime.tar"], check=True, stdout=subprocess.DEVNULL)
    know_runtime(workspace.root, workspace.cache, "//:program")
    statuses = workspace.build("//:program", "//:bundle", "//ops:my_ops").statuses
    assert {each for each, status in statuses.items() if status == "cached"} >= {"//:program#cpp_runtime"}
    return workspace


def outputs(made: Workspace, target: str) -> Path:
    (found,) = made.root.glob(f"modelbuild-out/*/{target}")
    return found


def test_a_kernel_of_its_own_computes_the_results_of_eager_mode(made: Workspace) -> None:
    tests = made.test("//:test", code=0)
    assert tests["//:test"]["status"] == "passed", tests
    assert [case["name"] for case in tests["//:test"]["cases"]] == ["drawn[0]", "drawn[1]"]


def test_run_finds_the_library_beside_the_program(made: Workspace) -> None:
    np.save(made.root / "x.npy", np.ones((2, 8), np.float32))
    command = ("run", "//:program", "--input", "x=x.npy", "--repeat", "1", "--warmup", "0")
    done = made.run(*command)
    assert done.code == 0, done.err


def test_a_bundle_contains_the_library_and_runs_alone(made: Workspace, tmp_path: Path) -> None:
    bundle = tmp_path / "moved"
    shutil.copytree(outputs(made, "bundle/bundle"), bundle)
    assert {"libmy_ops.so", "my_ops.kernels.json"} <= {path.name for path in (bundle / "lib").iterdir()}
    x = np.random.default_rng(1).uniform(-1, 1, (2, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    command = [bundle / "run.sh", f"--input=x={tmp_path}/x.npy", f"--output-dir={tmp_path}"]
    done = subprocess.run(command, env={}, cwd="/", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert np.load(tmp_path / "output.npy").shape == (2, 8)
    (bundle / "lib/my_ops.kernels.json").unlink()
    done = subprocess.run(command, env={}, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 1
    wanted = (
        f"program.pte: the kernel {KERNEL} needs the kernel library my_ops (my_ops.kernels.json), which is in none of"
    )
    assert wanted in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_edit_of_the_kernel_compiles_it_again_and_lowers_nothing(made: Workspace) -> None:
    source = (made.root / "ops/leaky_sum.cpp").read_text()
    try:
        made.edit("ops/leaky_sum.cpp", "total < 0", "total <= 0")
        assert made.ran("//:program") == {"//:program#kernels:my_ops"}
        made.write({"ops/leaky_sum.cpp": source})
        assert made.ran("//:program") == set()
    finally:
        made.write({"ops/leaky_sum.cpp": source})


@pytest.mark.timeout(1800)  # libc++ for another architecture is built first
def test_the_library_is_for_the_device_of_the_program(made: Workspace) -> None:
    from modelbuild_rules.backend_api.steps.elf import machine, needs

    made.build("//:program", "--device", "//:board")
    library = made.root / "modelbuild-out/board/program/libmy_ops.so"
    assert machine(library) == "aarch64"
    assert needs(library).glibc <= (2, 28)
    assert machine(outputs(made, "ops/my_ops/libmy_ops.so")) == "x86_64"


def test_an_exception_of_a_kernel_fails_the_run_in_one_line(made: Workspace, tmp_path: Path) -> None:
    copy: Any = made.copy(tmp_path / "throwing")
    copy.edit(
        "ops/leaky_sum.cpp",
        "  ET_KERNEL_CHECK_MSG(",
        '  throw std::runtime_error("out of luck");\n  ET_KERNEL_CHECK_MSG(',
    )
    copy.edit("ops/leaky_sum.cpp", "#include <exec", "#include <stdexcept>\n#include <exec")
    copy.build("//:program")
    np.save(copy.root / "x.npy", np.ones((2, 8), np.float32))
    done = copy.run("run", "//:program", "--input", "x=x.npy")
    assert done.code == 1
    (line,) = [each for each in done.err.splitlines() if each.startswith("error: ")]
    assert f"{KERNEL}: out of luck" in line
