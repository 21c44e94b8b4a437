"""An action that reads an undeclared file fails; the error names the file and the attribute to add it to."""

from __future__ import annotations

import os
import socket
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

ADD = "which is not a declared input; add it to 'data' of //models:detector_model"
ANCHORS = f"models/detector.py reads models/anchors.json, {ADD}"

READS = {
    "open": "result = open('models/anchors.json').read()",
    "os.open": "import os; os.open(WORKSPACE + '/models/anchors.json', os.O_RDONLY)",
    "pathlib": "from pathlib import Path; Path('models/anchors.json').read_bytes()",
    "beside the module": "import os; open(os.path.join(os.path.dirname(__file__), 'anchors.json'))",
    "dots": "open('models/../models/anchors.json')",
    "by absolute path": "open(WORKSPACE + '/models/anchors.json')",
    "dots out of the sandbox": "import os; open(os.path.relpath(WORKSPACE) + '/models/anchors.json')",
    "through a link": "import os; open(LINK)",
    "numpy": "import numpy; numpy.load('models/anchors.json')",
    "numpy, absolute": "import numpy; numpy.load(WORKSPACE + '/models/anchors.json')",
    "safetensors (native)": "import safetensors.numpy as s; s.load_file('models/anchors.json')",
    "ctypes": "import ctypes; ctypes.CDLL(WORKSPACE + '/models/anchors.json')",
    "caught": """
        try:
            result = open('models/anchors.json').read()
        except OSError:
            result = 'default'
    """,
    "caught by a bare except, in a thread": """
        import threading
        def read():
            try:
                open(WORKSPACE + '/models/anchors.json')
            except:
                pass
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
        result = 0
    """,
}


def with_paths(bench: Any, source: str) -> str:
    link = bench.workspace / "models/link"
    if link.parent.is_dir() and not link.is_symlink():
        link.symlink_to("anchors.json")
    return f"WORKSPACE = {str(bench.workspace)!r}\nLINK = {str(link)!r}\n" + textwrap.dedent(source)


@pytest.fixture(params=["kernel", "fallback"])
def bench(request: pytest.FixtureRequest, bench: Any) -> Any:
    """Messages are equal if the kernel hides other files and if only the audit hook refuses them."""
    bench.executor = bench.new_executor(namespaces=request.param == "kernel")
    return bench


@pytest.mark.parametrize("how", READS)
def test_an_undeclared_read_fails_by_name(bench: Any, how: str) -> None:
    bench.write("models/anchors.json", "[1]")
    outcome = bench.model(with_paths(bench, READS[how]), tools=("numpy", "safetensors"))
    assert outcome.result is None
    named = ANCHORS.replace("anchors.json", "link") if how == "through a link" else ANCHORS
    assert outcome.problem == named, bench.text(outcome.stderr)


@pytest.mark.usefixtures("landlocked")
def test_a_read_by_native_code_of_an_absolute_path(bench: Any) -> None:
    bench.write("models/anchors.json", "[1]")
    source = "import safetensors.numpy as s; s.load_file(WORKSPACE + '/models/anchors.json')"
    assert bench.model(with_paths(bench, source), tools=("numpy", "safetensors")).problem == ANCHORS


def test_a_declared_read_is_fine(bench: Any) -> None:
    bench.write("models/anchors.json", "[1]")
    source = "import json, os; result = json.load(open(os.path.dirname(__file__) + '/anchors.json'))"
    declared = bench.source("models/anchors.json", "data")
    assert bench.model(source, declared).problem == ""
    absolute = bench.model(with_paths(bench, READS["by absolute path"]), declared)
    assert absolute.problem == (
        "models/detector.py reads models/anchors.json by its absolute path; "
        "expected a path relative to the workspace, which is the current folder"
    )


def test_a_file_outside_the_workspace(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "x.pt").write_text("weights")
    outcome = bench.model(f"open({str(tmp_path / 'x.pt')!r})")
    assert outcome.problem == (
        f"models/detector.py reads {tmp_path}/x.pt, which is outside the workspace; copy it into the workspace and add "
        "it to 'data' of //models:detector_model"
    )


def test_several_reads_are_all_named(bench: Any) -> None:
    bench.write("models/a.json")
    bench.write("models/b.json")
    source = """
        for name in ("a", "b", "a"):
            try:
                open(f"models/{name}.json")
            except OSError:
                pass
        result = 1
    """
    assert bench.model(source).problem.splitlines() == [
        f"models/detector.py reads models/{name}.json, {ADD}" for name in "ab"
    ]


@pytest.mark.parametrize(
    "listing", ["import os; os.listdir(WORKSPACE + '/data')", "import glob; result = glob.glob('data/*.json')"]
)
def test_listing(bench: Any, listing: str) -> None:
    bench.write("data/a.json")
    assert bench.model(with_paths(bench, listing)).problem == (
        "models/detector.py lists data, whose files are not declared inputs; "
        "add those that it needs to 'data' of //models:detector_model"
    )


@pytest.mark.parametrize(
    ("importing", "file"),
    [
        ("import helper", "models/helper.py"),
        ("import models.helper", "models/helper.py"),
        ("from models import helper", "models/helper.py"),
        ("import parts", "models/parts/__init__.py"),
    ],
)
def test_an_undeclared_import(bench: Any, importing: str, file: str) -> None:
    bench.write(file, "x = 1")
    outcome = bench.model(f"import sys; sys.path.insert(0, '')\n{importing}\n")
    assert outcome.problem == (
        f"models/detector.py imports {file}, which is not a declared input; add it to 'srcs' of //models:detector_model"
    )


def test_probing_is_fine(bench: Any) -> None:
    """Checking the existence of a file is not reading it; nor is searching for a file that exists nowhere."""
    bench.write("models/anchors.json")
    bench.write("models/__pycache__/detector.cpython-311.pyc")
    source = """
        import importlib.util, os
        result = [os.path.exists("models/anchors.json"), importlib.util.find_spec("helper") is None]
        for name in ("nowhere.json", "/nowhere/else.json"):
            try:
                open(name)
            except FileNotFoundError:
                result.append(name)
    """
    outcome = bench.model(source)
    assert outcome.problem == ""


def test_reading_what_every_action_may(bench: Any) -> None:
    source = """
        import json, os, site, ssl, tempfile
        for name in ("/etc/passwd", "/proc/self/status", "/dev/null", json.__file__, os.__file__):
            open(name, "rb").read(10)
        with tempfile.NamedTemporaryFile("w+") as file:
            file.write("x")
        os.listdir("/usr")
        result = sorted(os.listdir("models"))
    """
    assert bench.model(source).problem == ""


@pytest.mark.parametrize(
    "writing",
    [
        "open('models/detector.py', 'a')",
        "open('models/new.json', 'w')",
        "open(WORKSPACE + '/models/anchors.json', 'w')",
        "open('/tmp/modelbuild-test', 'w')",
        "import os; os.truncate('models/detector.py', 0)",
        "import os; os.chmod('models/detector.py', 0o777)",
        "import os; os.utime('models/detector.py')",
        "import os; os.mkdir('models/new')",
        "import os; os.rename('models/detector.py', 'models/other.py')",
        "import os; os.unlink(WORKSPACE + '/models/anchors.json')",
    ],
)
@pytest.mark.parametrize("network", [False, True])
def test_writing_elsewhere_is_refused(bench: Any, writing: str, network: bool) -> None:
    file = bench.write("models/anchors.json", "[1]")
    outcome = bench.model(with_paths(bench, writing), network=network)
    assert "PermissionError" in outcome.problem
    assert "models/detector.py" in outcome.problem
    assert file.read_text() == "[1]"
    assert not Path("/tmp/modelbuild-test").exists()


@pytest.mark.usefixtures("landlocked")
def test_native_code_cannot_read_either(bench: Any) -> None:
    """A program in another language, whose reads no hook sees."""
    file = bench.write("models/anchors.json", "[1]")
    source = f"""
        import subprocess
        result = subprocess.run(["cat", {str(file)!r}], capture_output=True, text=True).stdout
    """
    assert bench.model(source).problem == ""
    bench.write("models/detector.py", source)
    assert bench.value("run_source", "models/detector.py") == ""


def test_a_network_lets_nothing_more_be_read(bench: Any) -> None:
    bench.write("models/anchors.json", "[1]")
    assert bench.model(with_paths(bench, READS["open"]), network=True).problem == ANCHORS
    assert bench.model(with_paths(bench, READS["by absolute path"]), network=True).problem == ANCHORS


CONNECT = {
    "socket": "import socket; socket.create_connection(('127.0.0.1', PORT))",
    "urllib": "import urllib.request; urllib.request.urlopen('http://127.0.0.1:PORT/')",
    "by name": "import urllib.request; urllib.request.urlopen('http://files.invalid/x')",
}


@pytest.mark.parametrize("how", CONNECT)
def test_no_network(bench: Any, how: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        outcome = bench.model(CONNECT[how].replace("PORT", str(port)))
        where = "files.invalid:80" if how == "by name" else f"127.0.0.1:{port}"
        assert outcome.problem == (
            f"models/detector.py uses the network (no network here: {where}); "
            "declare the file with an http_file target and read that"
        )


def test_network_where_it_is_allowed(bench: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        bench.write("models/detector.py", CONNECT["socket"].replace("PORT", str(port)) + "\nresult = 1")
        assert bench.value("run_source", "models/detector.py", network=True) == 1


def test_a_source_imports_other_inputs(bench: Any) -> None:
    bench.write("models/helper.py", "x = 1")
    helper = bench.source("models/helper.py")
    bench.write("models/detector.py", "import helper; result = helper.x")
    detector = bench.source("models/detector.py", "main")
    bench.step(
        "run_main",
        "from tiny_rules import run_source\nfrom modelbuild.step import Step\ndef run(step):\n"
        "    run_source.run(Step(step.params, {'srcs': step.inputs['main']}, step.outputs, step.root))\n",
    )
    assert bench.value("run_main", detector, helper, python=("srcs", "main")) == 1


def test_a_module_that_is_not_in_the_key_is_not_there(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loose").mkdir()
    (tmp_path / "loose/loose_module.py").write_text("x = 1")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "loose")])
    problem = bench.model("import loose_module; result = 1", tools=("torch",)).problem
    assert problem.splitlines()[-2:] == [
        "ModuleNotFoundError: No module named 'loose_module'",
        "no import statement names loose_module; add it to 'requires' of //models:detector_model",
    ]


def test_a_step_may_load_only_what_its_key_covers(bench: Any) -> None:
    bench.step("_shared", "x = 1")
    bench.step(
        "tiny",
        "import importlib\ndef run(step):\n    importlib.import_module('tiny_rules._' + 'shared')\n"
        "    step.outputs['out'].write_text('1')\n",
    )
    known = ("modelbuild", "modelbuild.step", "tiny_rules", "tiny_rules.tiny")
    assert bench.run("tiny", modules=(*known, "tiny_rules._shared")).problem == ""
    assert bench.run("tiny", modules=known).problem == (
        "internal error in step tiny_rules.tiny: it loads tiny_rules._shared, which no import "
        "statement in its source names, so its key does not contain it"
    )


def test_a_virtual_environment_in_the_workspace(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files below sys.prefix may be read even there; files beside it may not."""
    bench.write("venv/lib/inside.txt", "i")
    bench.write("venv2/lib/beside.txt", "b")
    monkeypatch.setattr(sys, "prefix", str(bench.workspace / "venv"))
    bench.executor = bench.new_executor()
    assert bench.model(with_paths(bench, "result = open(WORKSPACE + '/venv/lib/inside.txt').read()")).problem == ""
    beside = bench.model(with_paths(bench, "open(WORKSPACE + '/venv2/lib/beside.txt')"))
    assert beside.problem.startswith("models/detector.py reads venv2/lib/beside.txt, which is not a declared input")


def test_a_step_of_ours_that_reads_too_much(bench: Any) -> None:
    bench.write("models/anchors.json")
    bench.write("models/a.txt")
    bench.step("tiny", "def run(step):\n    open('models/anchors.json')\n")
    assert bench.run("tiny", "models/a.txt").problem == (
        "step tiny_rules.tiny reads models/anchors.json, which is not a declared input; "
        "add it to 'srcs' of //models:detector_model"
    )


@pytest.mark.parametrize("place", ["run", "module"])
def test_a_file_beside_a_step_is_in_no_key(bench: Any, place: str) -> None:
    (bench.rules / "header.txt").write_text("one")
    read = "text = (Path(__file__).parent / 'header.txt').read_text()"
    lines = [f"    {read}", ""] if place == "run" else ["    pass", read]
    bench.step("tiny", "from pathlib import Path\ndef run(step):\n" + "\n".join(lines) + "\n")
    bench.write("models/a.txt")
    for _ in range(3):
        problem = bench.run("tiny", "models/a.txt").problem
        assert problem.startswith(f"step tiny_rules.tiny reads {bench.rules}/header.txt, which is outside")


@pytest.mark.usefixtures("landlocked")
def test_links_to_the_workspace_do_not_help(bench: Any) -> None:
    file = bench.write("models/anchors.json", "[1]")
    source = f"""
        import os, tempfile
        link = os.path.join(tempfile.mkdtemp(), "x")
        os.symlink({str(file)!r}, link)
        result = open(link).read()
    """
    assert bench.model(source).result is None
    assert os.path.exists(file)
