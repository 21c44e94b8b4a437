"""A delegate of somebody's own: a library and its <backend>.delegate.json, and a runtime that was compiled before."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def own(native: Path, tmp_path: Path) -> Path:
    """Return a plug-in folder with only the library."""
    folder = tmp_path / "own"
    folder.mkdir()
    shutil.copy(native / "fakes/libown_delegate.so", folder)
    return folder


def describe(folder: Path, content: Any) -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / "DoublerBackend.delegate.json").write_text(text)


def test_a_library_with_its_description_runs_without_a_word_of_it_in_the_runtime(
    modelbuild_run: Run, doubled_program: Path, own: Path, x: Path, tmp_path: Path
) -> None:
    describe(own, {"libraries": ["libnot_there.so", "libown_delegate.so"], "device": "cpu", "of_a_later_version": 1})
    done = modelbuild_run(doubled_program, f"--plugin-dir={own}", f"--input=input0={x}", f"--output-dir={tmp_path}")
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(tmp_path / "output0.npy"), np.load(x) * 2)


def test_a_description_in_the_runtime_s_own_folder_will_do(
    native: Path, lay_out_fakes: Callable[[Path], Any], doubled_program: Path, x: Path
) -> None:
    laid_out = lay_out_fakes(native)
    describe(laid_out.plugins, {"libraries": ["libown_delegate.so"]})
    done = laid_out("modelbuild-run", doubled_program, f"--input=input0={x}")
    assert done.returncode == 0, done.stderr


def test_a_delegate_s_library_may_lie_in_another_folder_than_its_description(
    native: Path, lay_out_fakes: Callable[[Path], Any], samples: Any, own: Path, tmp_path: Path
) -> None:
    """For example XNNPACK's delegate, which is part of executorch and described by the runtime."""
    laid_out = lay_out_fakes(native)
    library = laid_out.plugins / "libexecutorch_backend_xnnpack.so"
    shutil.copy(library, own)
    library.unlink()
    inputs = []
    for number, shape in enumerate([(2, 4), (2, 3)]):
        np.save(tmp_path / f"{number}.npy", np.ones(shape, np.float32))
        inputs.append(f"--input=input{number}={tmp_path}/{number}.npy")
    done = laid_out("modelbuild-run", samples["xnnpack"].path, *inputs)
    assert done.returncode == 1
    assert f"the backend XnnpackBackend needs {library.name}, which is in none of: {laid_out.root}" in done.stderr
    done = laid_out("modelbuild-run", samples["xnnpack"].path, *inputs, f"--plugin-dir={own}")
    assert done.returncode == 0, done.stderr


def test_without_a_description_the_backend_is_lacking(
    modelbuild_run: Run, doubled_program: Path, own: Path, x: Path
) -> None:
    done = modelbuild_run(doubled_program, f"--plugin-dir={own}", f"--input=input0={x}")
    assert (done.returncode, done.stderr) == (
        1,
        f"error: {doubled_program}: needs the backend DoublerBackend, which this runtime lacks (it has none)\n",
    )
    done = modelbuild_run(doubled_program, f"--plugin={own}/libown_delegate.so", f"--input=input0={x}")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "does not describe a delegate; expected a JSON object"),
        ([], "does not describe a delegate; expected a JSON object"),
        ({}, "does not describe a delegate; expected 'libraries' to list names of files"),
        ({"libraries": "libown_delegate.so"}, "does not describe a delegate; expected 'libraries' to list names"),
        ({"libraries": {"a": "b.so"}}, "does not describe a delegate; expected 'libraries' to list names of files"),
        ({"libraries": ["../own/libown_delegate.so"]}, "does not describe a delegate; expected 'libraries' to list"),
        ({"libraries": ["libnowhere.so"]}, "the backend DoublerBackend needs libnowhere.so, which is in none of: "),
        ({"libraries": ["libexecutorch.so"]}, "needs the backend DoublerBackend, which this runtime lacks"),
    ],
)
def test_a_description_that_is_none_is_named(
    modelbuild_run: Run, doubled_program: Path, own: Path, x: Path, content: Any, problem: str
) -> None:
    describe(own, content)
    done = modelbuild_run(doubled_program, f"--plugin-dir={own}", f"--input=input0={x}")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
    assert problem in done.stderr


def test_a_backend_s_name_leads_to_no_file_outside_the_plug_in_folders(
    modelbuild_run: Run, doubled_program: Path, own: Path, tmp_path: Path
) -> None:
    path = tmp_path / "elsewhere.pte"
    path.write_bytes(doubled_program.read_bytes().replace(b"DoublerBackend", b"../ublerBacken"))
    (tmp_path / "ublerBacken.delegate.json").write_text('{"libraries": ["libown_delegate.so"]}')
    done = modelbuild_run(path, f"--plugin-dir={own}")
    assert "needs the backend ../ublerBacken, which this runtime lacks" in done.stderr


@pytest.mark.parametrize(("device", "staged"), [("cuda", 128), ("cpu", 0)])
def test_transfers_follow_the_delegates_device(
    modelbuild_run: Run, doubled_program: Path, own: Path, device: str, staged: int
) -> None:
    describe(own, {"libraries": ["libown_delegate.so"], "device": device})
    told = modelbuild_run(doubled_program, f"--plugin-dir={own}", "--describe", "--json").stdout
    moved = json.loads(told)["methods"][0]["moved_at_most"]
    assert moved == {"staged_in": staged, "staged_out": staged, "copied_in": 0, "copied_out": 0}
