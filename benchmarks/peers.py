"""The tools that are measured beside each other: how each is installed, and how it is asked for the same thing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYPI = ("ninja", "doit", "scons", "snakemake", "dvc")
NPM = ("turbo", "nx")

NO_CACHE = "keeps no results"
WHOLE = "loads the graph in every build: see null"


@dataclass(frozen=True)
class Tool:
    """A peer, or modelbuild itself.

    build    what builds everything; the scenarios differ in what was done before
    load     what loads the graph afresh and prints it, running nothing
    restore  what gets removed outputs back from a cache
    outputs  folders (globs) that hold outputs
    blank    scenario -> why there is no figure
    most     models above which it takes too long to be worth a row here
    """

    name: str
    build: tuple[str, ...]
    load: tuple[str, ...] = ()
    restore: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ("out/*/*",)
    setup: tuple[tuple[str, ...], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    blank: Mapping[str, str] = field(default_factory=dict)
    most: int = 1_000_000
    note: str = ""


TOOLS = (
    Tool(
        "modelbuild",
        ("modelbuild", "build", "//...", "--quiet", "-j2"),
        load=("modelbuild", "query", "//..."),
        restore=("modelbuild", "build", "//...", "--quiet", "-j2"),
        outputs=("modelbuild-out",),
    ),
    Tool("ninja", ("ninja", "--quiet", "-j2"), load=("ninja", "-t", "targets", "all"), blank={"restore": NO_CACHE}),
    Tool("make", ("make", "--silent", "-j2"), blank={"restore": NO_CACHE, "load": WHOLE}),
    Tool(
        "doit",
        ("doit", "-v0", "-n2"),
        load=("doit", "list", "--all"),
        blank={"restore": NO_CACHE},
        most=2_500,
    ),
    Tool(
        "scons",
        ("scons", "-Q", "-s", "-j2"),
        blank={"load": WHOLE, "restore": "its CacheDir copies; not set up here"},
        most=2_500,
    ),
    Tool(
        "snakemake",
        ("snakemake", "--cores", "2", "--quiet", "all"),
        blank={"load": WHOLE, "restore": "its cache needs a storage per rule; not set up here"},
        most=50,
    ),
    Tool(
        "dvc",
        ("dvc", "repro", "--quiet"),
        load=("dvc", "stage", "list"),
        restore=("dvc", "checkout", "--quiet"),
        setup=(("dvc", "init", "--no-scm", "--quiet"),),
        environment={"DVC_NO_ANALYTICS": "1"},
        most=25,
        note="needs a minute of its own for 100 actions",
    ),
    Tool(
        "turbo",
        ("turbo", "run", "append4", "--output-logs=none", "--concurrency=2"),
        restore=("turbo", "run", "append4", "--output-logs=none", "--concurrency=2"),
        outputs=("model/*/out",),
        setup=(("git", "init", "--quiet"),),
        environment={"TURBO_TELEMETRY_DISABLED": "1"},
        blank={"load": "`turbo ls` knows packages, not steps"},
        note="one task does the same step of 50 models",
    ),
    Tool(
        "nx",
        ("nx", "run-many", "-t", "append4", "--parallel=2"),
        load=("nx", "show", "projects"),
        restore=("nx", "run-many", "-t", "append4", "--parallel=2"),
        outputs=("model/*/out",),
        setup=(("git", "init", "--quiet"), ("ln", "-s", "../../node/node_modules", "node_modules")),
        environment={"NX_DAEMON": "false", "NX_NO_CLOUD": "true"},
        most=250,
        note="one task does the same step of 50 models; without its daemon",
    ),
    Tool(
        "bazel",
        ("bazel", "build", "--jobs=2", "--noshow_progress", "//model/..."),
        load=("bazel", "query", "//model/..."),
        outputs=(),
        blank={"restore": "its output tree is its cache"},
        note="with its server, warm; Debian's bazel-bootstrap is 4.2",
    ),
)


@dataclass(frozen=True)
class Installed:
    """Where the tools are: folders for PATH, and why some are not there."""

    path: str
    missing: Mapping[str, str]


def install(folder: Path) -> Installed:
    """Install modelbuild, as a user does, and the peers that the registries have. What is there already stays."""
    folder.mkdir(parents=True, exist_ok=True)
    own, others, node = folder / "modelbuild", folder / "peers", folder / "node"
    missing: dict[str, str] = {}
    if not (own / "bin/python").exists():
        _run([sys.executable, "-m", "venv", str(own)])
    shutil.rmtree(ROOT / "build/lib", ignore_errors=True)  # setuptools would pack what an earlier build left there
    _run([str(own / "bin/pip"), "install", "--quiet", "--disable-pip-version-check", "--upgrade", str(ROOT)])
    if not (others / "bin/dvc").exists():
        _run([sys.executable, "-m", "venv", str(others)])
        _run([str(others / "bin/pip"), "install", "--quiet", "--disable-pip-version-check", *PYPI])
    if shutil.which("npm") is None:
        missing |= dict.fromkeys(NPM, "npm is not installed")
    elif not (node / "node_modules/.bin/nx").exists():
        node.mkdir(exist_ok=True)
        (node / "package.json").write_text('{"private": true}\n')
        _run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", *NPM], cwd=node)
    if shutil.which("bazel") is None:
        missing["bazel"] = "not installed (Debian: bazel-bootstrap)"
    return Installed(f"{own}/bin:{others}/bin:{node}/node_modules/.bin:{os.environ['PATH']}", missing)


def _run(command: list[str], cwd: Path | None = None) -> None:
    subprocess.run(command, check=True, cwd=cwd, stdout=sys.stderr)
