"""`modelbuild run`: a program is built and run on files, in a separate process."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.format_shapes import check_format

RULES = {
    "MODELBUILD.toml": 'rules = ["//tools"]\n',
    "tools/__init__.py": '"""Rules."""\n',
    "tools/copied.py": '''"""copied: files as they are."""
from modelbuild.api import Attrs, Context, Files, Output, Source, rule


class CopiedAttrs(Attrs):
    """Copies."""

    srcs: tuple[Source, ...]
    fail: bool = False


@rule(attrs=CopiedAttrs)
def copied(ctx: Context[CopiedAttrs]) -> tuple[Files]:
    names = [str(source) for source in ctx.attrs.srcs]
    made = ctx.action(
        "copy",
        step="copy",
        inputs={name: ctx.file(source) for name, source in zip(names, ctx.attrs.srcs)},
        outputs=[Output(name, name) for name in names],
        params={"fail": ctx.attrs.fail},
    )
    return (Files(tuple(made[name] for name in names)),)
''',
    "tools/steps/__init__.py": "",
    "tools/steps/copy.py": '''"""Copies its inputs."""
import shutil
from modelbuild.step import Step, StepError


def run(step: Step) -> None:
    if step.params["fail"]:
        raise StepError("told to fail")
    for name, path in step.outputs.items():
        shutil.copyfile(step.input(name), path)
''',
    "m/BUILD.toml": """
[[copied]]
name = "program"
srcs = ["p.pte", "signature.json"]

[[copied]]
name = "broken"
srcs = ["p.pte"]
fail = true

[[copied]]
name = "x"
srcs = ["x.json"]

[[copied]]
name = "two"
srcs = ["x.json", "signature.json"]
""",
    "m/x.json": "[[1, 2, 3, 4], [5, 6, 7, 8]]",
    "m/signature.json": json.dumps(
        {
            "version": 2,
            "methods": {
                "forward": {
                    "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 4], "dynamic": {}, "range": None}],
                    "outputs": [{"name": "double", "dtype": "float32", "shape": [2, 4]}],
                }
            },
        }
    ),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return doubling(tmp_path_factory.mktemp("program") / "p.pte", 2, 4)


def doubling(path: Path, *shape: int) -> Path:
    import torch
    from executorch.exir import to_edge_transform_and_lower

    class Double(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    lowered = to_edge_transform_and_lower(torch.export.export(Double(), (torch.zeros(shape),))).to_executorch()
    path.write_bytes(lowered.buffer)
    return path


@pytest.fixture
def built(workspace: Any, program: Path) -> Any:
    workspace.write(RULES)
    (workspace.root / "m/p.pte").write_bytes(program.read_bytes())
    return workspace


DAMAGED = {
    "huge.npy": b"\x93NUMPY\x01\x00C\x00{'descr': '<f4', 'fortran_order': False, 'shape': (900000000000,)}\n",
    "archive.npy": b"PK\x05\x06" + bytes(18),
    "cut.png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff\xff\xff\xff",
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_input_file_ends_in_one_line(built: Any, name: str) -> None:
    (built.root / name).write_bytes(DAMAGED[name])
    ended = built.run("run", "//m:program", "--quiet", "--input", f"x={name}")
    line, end = ended.err.split("\n")
    assert (ended.code, ended.out, end) == (2, "", "")
    assert line.startswith(f"error: input 'x': {name}")


def test_shapes_and_latency_on_stdout_and_the_build_on_stderr(built: Any) -> None:
    ended = built.run("run", "//m:program", "--input", "x=m/x.json", "--output-dir", "../out", "--repeat", "4")
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert lines[:2] == ["input  x: float32[2, 4]", "output double: float32[2, 4] -> ../out/double.npy"]
    assert lines[2].startswith("latency ")
    assert lines[2].endswith("(4 runs after 3)")
    assert len(lines) == 3
    assert ended.err.splitlines()[-1].startswith("Built 1 target in ")
    assert "cpuinfo" not in ended.err
    np.testing.assert_array_equal(
        np.load(built.root.parent / "out/double.npy"), np.array([[2, 4, 6, 8], [10, 12, 14, 16]], np.float32)
    )
    again = built.run("run", "//m:program", "--input", "x=m/x.json")
    assert again.err.splitlines()[-1].startswith("Nothing to do: 1 target up to date")


def test_json_and_paths_relative_to_the_folder(built: Any) -> None:
    options = ("--json", "--output-dir", "out", "--output-format", "json")
    ended = built.run("run", ":program", "--input", "x=x.json", *options, cwd=built.root / "m")
    assert (ended.code, ended.err) == (0, "")
    assert ended.json["outputs"] == [{"name": "double", "dtype": "float32", "shape": [2, 4], "path": "out/double.json"}]
    assert ended.json["latency"]["runs"] == 10
    check_format("run", ended.json)
    assert json.loads((built.root / "m/out/double.json").read_text())[0] == [2, 4, 6, 8]
    elsewhere = built.run("-C", str(built.root / "m"), "run", ":program", "--input=x=x.json", "-q", cwd=Path("/"))
    assert (elsewhere.code, elsewhere.err) == (0, "")


def test_a_picture_of_another_size_is_resized_by_a_flag(built: Any) -> None:
    doubling(built.root / "m/p.pte", 1, 2, 3)
    signature = json.loads(RULES["m/signature.json"])
    signature["methods"]["forward"]["inputs"][0] |= {"shape": [1, 2, 3], "range": [0, 255]}
    signature["methods"]["forward"]["outputs"][0]["shape"] = [1, 2, 3]
    built.write({"m/signature.json": json.dumps(signature)})
    picture = Image.fromarray(np.arange(0, 250, 5, np.uint8).reshape(5, 10))
    picture.save(built.root / "p.png")
    ended = built.run("run", "//m:program", "--quiet", "--input=x=p.png", "--output-dir=out")
    assert (ended.code, ended.err) == (2, "error: input 'x': p.png: expected shape [1, 2, 3], got [1, 5, 10]\n")
    ended = built.run("run", "//m:program", "--quiet", "--input=x=p.png", "--output-dir=out", "--resize")
    assert (ended.code, ended.err) == (0, "")
    wide = picture.resize((3, 5), Image.Resampling.BILINEAR)
    resized = np.asarray(wide.resize((3, 2), Image.Resampling.BILINEAR), np.float32)
    np.testing.assert_array_equal(np.load(built.root / "out/double.npy")[0], resized * 2)


def test_an_input_may_be_a_target(built: Any) -> None:
    ended = built.run("run", "//m:program", "--input", "x=//m:x")
    assert ended.code == 0, ended.err
    assert "[2/2] copy //m:x" in ended.err or "[1/2] copy //m:x" in ended.err
    ended = built.run("run", ":program", "--input", "x=:x", cwd=built.root / "m")
    assert ended.code == 0, ended.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("//m:program",), 2, "error: missing input x: float32[2, 4]"),
        (
            ("//m:program", "--input=y=m/x.json", "--input=x=m/x.json"),
            2,
            "error: no input 'y'; inputs: x",
        ),
        (("//m:program", "--input=x=m/nope.npy"), 2, "error: input 'x': m/nope.npy: No such file or directory"),
        (("//m:program", "--input=m/x.npy"), 2, "error: --input m/x.npy: expected name=file"),
        (("//m:program", "--input=x=a.npy", "--input=x=b.npy"), 2, "error: --input x=b.npy: 'x' is given twice"),
        (
            ("//m:program", "--input=x=//m:two"),
            2,
            "error: //m:two: expected a target with one file, but it has x.json, signature.json",
        ),
        (("//m:x",), 2, "error: //m:x: expected a target with one .pte, but it has x.json"),
        (
            ("//m/...",),
            2,
            "error: '//m/...' matches several targets; expected the label of one, such as //package:name",
        ),
        (("//m:program", "--input=x=//m:y"), 2, None),
        (("//m:program", "--method=backward", "--input=x=m/x.json"), 2, None),
        (("//m:broken",), 1, None),
    ],
)
def test_errors(built: Any, arguments: tuple[str, ...], code: int, message: str | None) -> None:
    ended = built.run("run", *arguments, "-q")
    assert (ended.code, ended.out) == (code, ""), ended.err
    assert "Traceback" not in ended.err
    if message is not None:
        assert ended.err.splitlines() == [message]


@pytest.mark.parametrize("arguments", [("//m:x",), ("//m:program", "--input=x=//m:two")])
def test_invalid_programs_and_inputs_are_not_built(built: Any, arguments: tuple[str, ...]) -> None:
    ended = built.run("run", *arguments)
    assert (ended.code, ended.out, len(ended.err.splitlines())) == (2, "", 1), ended.err
    assert not (built.root / "modelbuild-out/default").exists()


def test_nor_is_what_goes_with_something_built_before(built: Any) -> None:
    """Only the input must be built again, but its target is no program."""
    built.build("//m:two", "//m:x")
    built.write({"m/x.json": "[]"})
    built.edit("m/BUILD.toml", 'srcs = ["x.json", "signature.json"]', 'srcs = ["signature.json"]')
    built.build("//m:two", "//m:x")
    before = built.root.joinpath("modelbuild-out/default/m/x/x.json").stat()
    built.write({"m/x.json": "[1]"})
    ended = built.run("run", "//m:two", "--input=x=//m:x", "-q")
    message = "error: //m:two: expected a target with one .pte, but it has signature.json"
    assert (ended.code, ended.err.splitlines()) == (2, [message])
    assert built.root.joinpath("modelbuild-out/default/m/x/x.json").stat() == before


def test_a_model_is_not_exported_for_an_input_that_it_does_not_take(workspace: Any) -> None:
    build = """
[[torch_model]]
name = "m"
entry = "m.py:M"
inputs = [{ name = "image", shape = [1], dtype = "float32" }, { name = "size", shape = [2], dtype = "int64" }]

[[backend_stack]]
name = "stack"
backends = ["portable"]

[[pte_program]]
name = "p"
model = ":m"
stack = ":stack"
"""
    workspace.write({"MODELBUILD.toml": "", "m/BUILD.toml": build, "m/m.py": "raise SystemExit('never run')\n"})
    ended = workspace.run("run", "//m:p", "--input=size=s.npy", "--input=imgae=x.npy")
    message = "error: no input 'imgae'; inputs: image, size; did you mean 'image'?"
    assert (ended.code, ended.out, ended.err.splitlines()) == (2, "", [message])


def stand_in(built: Any, main: str) -> str:
    """Return a PYTHONPATH with a fake modelbuild_runtime."""
    fake = built.root / "fake" / "modelbuild_runtime"
    fake.mkdir(parents=True)
    (fake / "__init__.py").write_text("")
    (fake / "__main__.py").write_text(main)
    return f"{fake.parent}:{':'.join(sys.path)}"


def test_a_program_that_dies_is_told_as_such(built: Any) -> None:
    """The fake runtime here kills itself, as a crashing delegate would."""
    dies = "import os, sys\nsys.stderr.write('[x.cpp:1] oh\\n')\nsys.stderr.flush()\nos.abort()\n"
    ended = built.run("run", "//m:program", "-q", PYTHONPATH=stand_in(built, dies))
    assert ended.code == 1
    assert ended.err.splitlines() == [
        "[x.cpp:1] oh",
        "error: //m:program: the program was killed by SIGABRT while it ran",
    ]


def test_sigterm_ends_the_running_program(built: Any) -> None:
    stays = "import os, sys, time\nprint(os.getpid(), file=sys.stderr, flush=True)\ntime.sleep(600)\n"
    running = built.start("run", "//m:program", "-q", PYTHONPATH=stand_in(built, stays))
    while not (said := running.err).endswith("\n"):
        assert not running.over
        time.sleep(0.01)
    running.send(signal.SIGTERM)
    ended = running.wait()
    assert (ended.code, ended.err.removeprefix(said).strip()) == (8, "interrupted")
    with pytest.raises(ProcessLookupError):
        os.kill(int(said), 0)
