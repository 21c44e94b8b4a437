"""The tools that the benchmark compares: how to install each, and its command for each scenario."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKED = Path(__file__).resolve().parent / "tools"
NPM = ("turbo", "nx", "moon", "bazel")

NO_CACHE = "no cache"
WHOLE = "loads the graph in every build: see 'null'"
NO_REVISIONS = "no revisions"

# Commands that commit the graph, for tools that compare with a commit.
COMMITTED = (
    ("git", "init", "--quiet", "--initial-branch=main"),
    ("git", "add", "--all"),
    ("git", "-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "--quiet", "--message=all"),
)


@dataclass(frozen=True)
class Tool:
    """A peer, or modelbuild itself.

    build     command that builds everything; scenarios differ in the change before it
    one       command that builds one model, {model}, which is {name} in {package}
    load      command that loads the graph and prints it, running nothing
    restore   command that restores removed outputs from a cache
    affected  command that lists targets affected by changes since the last commit
    outputs   folders (globs) of outputs
    setup     commands to run once after the graph is written; `teardown`: after the last measurement
    blank     scenario -> reason for having no figure
    most      maximum number of models; more would take too long
    """

    name: str
    build: tuple[str, ...]
    one: tuple[str, ...]
    load: tuple[str, ...] = ()
    restore: tuple[str, ...] = ()
    affected: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ("out/*/*",)
    setup: tuple[tuple[str, ...], ...] = ()
    teardown: tuple[tuple[str, ...], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    blank: Mapping[str, str] = field(default_factory=dict)
    most: int = 1_000_000
    note: str = ""


TOOLS = (
    Tool(
        "modelbuild",
        ("modelbuild", "build", "//...", "--quiet", "-j2"),
        one=("modelbuild", "build", "//model/{package}:{name}", "--quiet", "-j2"),
        load=("modelbuild", "query", "//..."),
        restore=("modelbuild", "build", "//...", "--quiet", "-j2"),
        affected=("modelbuild", "affected", "--since", "HEAD"),
        outputs=("modelbuild-out",),
        setup=COMMITTED,
    ),
    Tool(
        "ninja",
        ("ninja", "--quiet", "-j2"),
        one=("ninja", "--quiet", "-j2", "out/{model}.4"),
        load=("ninja", "-t", "targets", "all"),
        blank={"restore": NO_CACHE, "affected": NO_REVISIONS},
    ),
    Tool(
        "make",
        ("make", "--silent", "-j2"),
        one=("make", "--silent", "-j2", "out/{model}.4"),
        blank={"restore": NO_CACHE, "load": WHOLE, "affected": NO_REVISIONS},
    ),
    Tool(
        "doit",
        ("doit", "-v0", "-n2"),
        one=("doit", "-v0", "-n2", "all:out/{model}.4"),
        load=("doit", "list", "--all"),
        blank={"restore": NO_CACHE, "affected": NO_REVISIONS},
        most=2_500,
    ),
    Tool(
        "scons",
        ("scons", "-Q", "-s", "-j2"),
        one=("scons", "-Q", "-s", "-j2", "out/{model}.4"),
        blank={"load": WHOLE, "restore": "its CacheDir copies; not set up here", "affected": NO_REVISIONS},
        most=2_500,
    ),
    Tool(
        "snakemake",
        ("snakemake", "--cores", "2", "--quiet", "all"),
        one=("snakemake", "--cores", "2", "--quiet", "all", "--", "out/{model}.4"),
        blank={
            "load": WHOLE,
            "restore": "its cache needs a storage per rule; not set up here",
            "affected": NO_REVISIONS,
        },
        most=50,
    ),
    Tool(
        "dvc",
        ("dvc", "repro", "--quiet"),
        one=("dvc", "repro", "--quiet", "{package}-{name}-4"),
        load=("dvc", "stage", "list"),
        restore=("dvc", "checkout", "--quiet"),
        setup=(("dvc", "init", "--no-scm", "--quiet"),),
        environment={"DVC_NO_ANALYTICS": "1"},
        blank={"affected": "lists stale stages (`dvc status`), which takes as long as null"},
        most=25,
        note="needs a minute of its own for 100 actions",
    ),
    Tool(
        "turbo",
        ("turbo", "run", "append4", "--output-logs=none", "--concurrency=2"),
        one=("turbo", "run", "append4", "--output-logs=none", "--concurrency=2", "--filter={package}"),
        restore=("turbo", "run", "append4", "--output-logs=none", "--concurrency=2"),
        affected=("turbo", "ls", "--affected"),
        outputs=("model/*/out",),
        setup=COMMITTED,
        environment={"TURBO_TELEMETRY_DISABLED": "1", "TURBO_SCM_BASE": "HEAD"},
        blank={"load": "`turbo ls` lists packages, not steps"},
        note="one task does the same step of 50 models",
    ),
    Tool(
        "nx",
        ("nx", "run-many", "-t", "append4", "--parallel=2"),
        one=("nx", "run", "{package}:append4"),
        load=("nx", "show", "projects"),
        restore=("nx", "run-many", "-t", "append4", "--parallel=2"),
        affected=("nx", "show", "projects", "--affected", "--base=HEAD"),
        outputs=("model/*/out",),
        setup=(("ln", "-s", "../../node/node_modules", "node_modules"), *COMMITTED),
        environment={"NX_DAEMON": "false", "NX_NO_CLOUD": "true"},
        most=250,
        note="one task does the same step of 50 models; without its daemon",
    ),
    Tool(
        "moon",
        ("moon", "run", ":append4", "--concurrency=2", "--summary=none"),
        one=("moon", "run", "{package}:append4", "--concurrency=2", "--summary=none"),
        load=("moon", "query", "tasks"),
        restore=("moon", "run", ":append4", "--concurrency=2", "--summary=none"),
        affected=("moon", "query", "projects", "--affected"),
        outputs=("model/*/out",),
        setup=COMMITTED,
        note="one task does the same step of 50 models",
    ),
    Tool(
        "bazel",
        ("bazel", "build", "--jobs=2", "--noshow_progress", "//model/..."),
        one=("bazel", "build", "--jobs=2", "--noshow_progress", "//model/{package}:{name}_4"),
        load=("bazel", "query", "//model/..."),
        outputs=(),
        teardown=(("bazel", "shutdown"),),
        blank={"restore": "its output tree is its cache", "affected": NO_REVISIONS},
        most=250,
        note="2.1, the last version in a single package; with its server running, whose CPU and memory are not counted",
    ),
)


@dataclass(frozen=True)
class Installed:
    """Installed tools: folders for PATH, and the reason for each missing tool."""

    path: str
    missing: Mapping[str, str]


def install(folder: Path) -> Installed:
    """Install modelbuild, as a user does, and the peers from registries. Tools that are installed already stay."""
    folder.mkdir(parents=True, exist_ok=True)
    own, others, node = folder / "modelbuild", folder / "peers", folder / "node"
    missing: dict[str, str] = {}
    if not (own / "bin/python").exists():
        _run([sys.executable, "-m", "venv", str(own)])
    _run([str(own / "bin/pip"), "install", "--quiet", "--disable-pip-version-check", "--upgrade", str(ROOT)])
    if not (others / "bin/dvc").exists():
        _run([sys.executable, "-m", "venv", str(others)])
        pip = [str(others / "bin/pip"), "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, "--no-deps", "--require-hashes", "--requirement", str(LOCKED / "requirements.lock")])
    if shutil.which("npm") is None:
        missing |= dict.fromkeys(NPM, "npm is not installed")
    elif not (node / "node_modules/.bin/moon").exists():
        node.mkdir(exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(LOCKED / name, node)
        # Not `npm ci`, which requires packages of every platform in the lock.
        _run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=node)
    return Installed(f"{own}/bin:{others}/bin:{node}/node_modules/.bin:{os.environ['PATH']}", missing)


def _run(command: list[str], cwd: Path | None = None) -> None:
    subprocess.run(command, check=True, cwd=cwd, stdout=sys.stderr)
