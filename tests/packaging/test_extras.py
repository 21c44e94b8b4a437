"""Each extra alone, without the other extras' packages: what it is for works, and other work names its own extra."""

from __future__ import annotations

import re
import signal
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.packaging.installation import add_compiled, bare_environment, build, checkout
from tests.publish.fake_hub import TOKEN, fake_hub
from tests.stages import wait_for
from tests.trust.keys import write_key
from tests.workspace_builder import Workspace

pytestmark = pytest.mark.xdist_group("distribution")

# Extras that need a compiled runtime, a GPU, a server or a checkout, and their tests.
ELSEWHERE = {
    "runtime": "tests/runtime/native/test_native_wheels.py",
    "runtime-build": "tests/runtime/native/test_native_wheels.py",
    "tensorrt": "docs/reference/gpu-verification.md",
    "cuda": "tests/cli/test_shared_partitions.py",
    "docs": "tests/docs/test_site.py",
    "dev": "Makefile",
}

PY_TEST = {
    "t/BUILD.toml": '[[py_test]]\nname = "sum_test"\nsrcs = ["test_sum.py"]\n',
    "t/test_sum.py": "def test_sum():\n    assert 1 + 1 == 2\n",
}
MODEL = {
    "BUILD.toml": """
[[torch_model]]
name = "model"
entry = "net.py:Net"
inputs = [{ name = "x", shape = [2, 8], dtype = "float32", range = [-1, 1] }]
[[backend_stack]]
name = "stack"
backends = ["xnnpack", "portable"]
[[pte_program]]
name = "program"
model = ":model"
stack = ":stack"
[[pte_test]]
name = "program_test"
program = ":program"
model = ":model"
cases = [{ name = "drawn", generator = { seed = 1 } }]
""",
    "net.py": "import torch\nclass Net(torch.nn.Linear):\n    def __init__(self):\n        super().__init__(8, 4)\n",
}


@pytest.fixture(scope="module")
def wheels(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    copy = checkout(repository, tmp_path_factory.mktemp("checkout"))
    build(copy / "runtime", copy / "dist", "--wheel")
    return sorted(build(copy, copy / "dist", "--wheel").glob("*.whl"))


def ok(workspace: Workspace, *arguments: str) -> str:
    ended = workspace.run(*arguments)
    assert ended.code == 0, ended.err
    return ended.out


def nothing(workspace: Workspace) -> None:
    """Without an extra: other work fails with the extra's name."""
    workspace.write(MODEL | PY_TEST)
    for command, package, extra in (
        (("test", "//t:sum_test"), "pytest", "test"),
        (("build", "//:program"), "executorch", "models"),
    ):
        ended = workspace.run(*command)
        assert ended.code == 36
        expected = f"needs the package '{package}', which is not installed; install modelbuild[{extra}]"
        assert expected in ended.err, ended.err


def test(workspace: Workspace) -> None:
    workspace.write(PY_TEST)
    assert "1 passed" in ok(workspace, "test", "//t:sum_test")


test.__test__ = False  # type: ignore[attr-defined]


def models(workspace: Workspace) -> None:
    workspace.write(MODEL)
    assert "1 passed" in ok(workspace, "test", "//:program_test")
    workspace.write({"x.json": str([[0.5] * 8] * 2)})
    assert "output" in ok(workspace, "run", "//:program", "--input", "x=x.json", "--repeat", "1")
    assert "XnnpackBackend" in ok(workspace, "inspect", "//:program")


def kernels(workspace: Workspace) -> None:
    text = (Path(__file__).parents[2] / "docs/how-to/custom-kernels.md").read_text()
    example = text.partition("## An operator of your own")[2]
    workspace.write(dict(re.findall(r"^`(\S+)`\n\n```\w+\n(.*?)^```", example, re.MULTILINE | re.DOTALL)))
    ok(workspace, "build", "//:program")


def tensorrt_rtx(workspace: Workspace) -> None:
    device = '[[device_target]]\nname = "rtx"\narch = "x86_64"\ncompute_capabilities = ["8.9"]\n'
    stack = MODEL["BUILD.toml"].replace('"xnnpack" }', '"tensorrt", min_block_size = 1 }')
    workspace.write(MODEL | {"BUILD.toml": stack + device})
    ok(workspace, "build", "//:program", "--device", "//:rtx")
    assert "TensorRT engine" in ok(workspace, "inspect", "//:program", "--device", "//:rtx")


def remote(workspace: Workspace) -> None:
    file = workspace.folder / "far.txt"
    file.write_text("1")
    digest = "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"
    target = f'[[http_file]]\nname = "far.txt"\nurls = ["{file.as_uri()}"]\nsha256 = "{digest}"\n'
    workspace.write({"BUILD.toml": target})
    shared = ("--remote-cache", f"file://{workspace.folder}/shared")
    assert "1 ran" in ok(workspace, "build", "//:far.txt", *shared)
    file.unlink()
    ok(workspace, "clean", "--expunge")
    assert "1 cached" in ok(workspace, "build", "//:far.txt", *shared)


def trust(workspace: Workspace) -> None:
    workspace.write({"BUILD.toml": '[[filegroup]]\nname = "a"\nsrcs = ["a.txt"]\nlicense = "MIT"\n', "a.txt": "1"})
    ok(workspace, "sbom", "//:a", "-o", "bill.json")
    ok(workspace, "attest", "//:a", "-o", "made.json")
    write_key(workspace.root, "key")
    ok(workspace, "sign", "a.txt", "made.json", "--key", "key.pem")
    assert "is verified" in ok(workspace, "verify", "a.txt", "--key", "key.pub", "--attestation", "made.json")


def publish(workspace: Workspace) -> None:
    workspace.write({"BUILD.toml": '[[filegroup]]\nname = "a"\nsrcs = ["a.txt"]\n', "a.txt": "1"})
    write_key(workspace.root, "key")
    assert "5 documents" in ok(workspace, "publish", "//:a", "--to", f"file://{workspace.folder}/a", "--key", "key.pem")
    assert (workspace.folder / "a/a.txt").read_text() == "1"


def huggingface(workspace: Workspace) -> None:
    workspace.write({"BUILD.toml": '[[filegroup]]\nname = "a"\nsrcs = ["a.txt"]\n', "a.txt": "1"})
    with fake_hub() as hub:
        login = {"HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN, "HF_HOME": str(workspace.folder), "no_proxy": "127.0.0.1"}
        # The fake has no Xet, the storage of the public hub.
        ended = workspace.run("publish", "//:a", "--to", "hf://team/net", HF_HUB_DISABLE_XET="1", **login)
        assert ended.code == 0, ended.err
        assert hub.repositories["team/net"].files()["a.txt"] == b"1"


def watch(workspace: Workspace) -> None:
    workspace.write({"BUILD.toml": '[[filegroup]]\nname = "a"\nsrcs = ["a.txt"]\n', "a.txt": "1"})
    command = workspace.start("build", "//:a", "--watch")
    wait_for(lambda: command.over or "a.txt" in command.out)
    workspace.write({"a.txt": "2"})
    wait_for(lambda: command.over or "changed: a.txt" in command.err)
    command.send(signal.SIGINT)
    assert command.wait().code == 8


def lsp(workspace: Workspace) -> None:
    command = workspace.start("lsp")  # its standard input is empty, so that it ends
    assert (command.wait().code, command.err) == (0, "")


PROMISES: dict[str, Callable[[Workspace], None]] = {
    "": nothing,
    "test": test,
    "models": models,
    "kernels": kernels,
    "tensorrt-rtx": tensorrt_rtx,
    "remote": remote,
    "trust": trust,
    "publish": publish,
    "huggingface": huggingface,
    "watch": watch,
    "lsp": lsp,
}


def test_every_extra_has_a_test(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    assert set(project["optional-dependencies"]) | {""} == PROMISES.keys() | ELSEWHERE.keys()
    assert all((repository / place).is_file() for place in ELSEWHERE.values())


def test_every_extra_for_users_is_in_the_installation_guide(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    page = (repository / "docs/how-to/install.md").read_text()
    named = set(re.findall(r"`([\w-]+)`", "".join(re.findall(r"^\| (`[^|]*) \|", page, re.MULTILINE))))
    assert set(project["optional-dependencies"]) - {"dev", "docs", "runtime-build"} == named


def test_the_ci_workflow_installs_what_models_and_their_tests_need(repository: Path) -> None:
    workflow = (repository / "docs/how-to/ci/github-actions.yml").read_text()
    assert set(re.findall(r"pip install (.*)$", workflow, re.MULTILINE)) == {'"modelbuild[models,test]"'}


@pytest.mark.exhaustive
@pytest.mark.parametrize("extra", PROMISES)
def test_an_extra_alone_does_what_it_is_for(extra: str, wheels: list[Path], repository: Path, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "work", {"MODELBUILD.toml": ""})
    programs = bare_environment(tmp_path / "venv", extra, wheels)
    add_compiled(programs, repository)
    workspace.program = [str(programs / "modelbuild")]
    PROMISES[extra](workspace)
