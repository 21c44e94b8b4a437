"""Shared by all tests: hypothesis without clocks, and a reason for each GPU test that is not run."""

from __future__ import annotations

import fcntl
import gc
import importlib.util
import os
import shutil
import signal
import traceback
import zlib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

import pytest
from hypothesis import settings

from tests.packaging.installation import add_compiled, build, checkout, environment
from tests.powerless import give_up_power
from tests.workspace_builder import Workspace

SHARE = 3
Child: TypeAlias = Callable[[Callable[[], None]], int]

settings.register_profile("modelbuild", deadline=None, derandomize=True)
settings.load_profile("modelbuild")

# A shell's background processes ignore Ctrl-C, and so would the builds that tests interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and not Path("/dev/nvidiactl").exists():
        pytest.skip("not run: needs a CUDA device, and this machine has none")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of a group, or of a file without one, in one process, which makes their fixtures once. Groups with
    slow tests come first, so that none of them is the last. Of tables that are sampled, one row of SHARE is quick."""
    for item in items:
        if item.get_closest_marker("sampled") and zlib.crc32(item.name.encode()) % SHARE:
            item.add_marker(pytest.mark.exhaustive)
    groups = [_group(item) for item in items]
    slow = {group for group, item in zip(groups, items, strict=True) if item.get_closest_marker("slow")}
    items.sort(key=lambda item: _group(item) not in slow)


def _group(item: pytest.Item) -> str:
    """Return the name of an item's group; items without a group get one of their file."""
    mark = item.get_closest_marker("xdist_group")
    if mark is None:
        item.add_marker(pytest.mark.xdist_group(item.path.stem))
        return item.path.stem
    return str(mark.args[0])


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fail if pytest-xdist does not group tests, as with pytest 9.2, whose node ids it cannot change. Collect garbage
    among the objects of tests alone, and less often: a tenth of the time of tests that lower programs."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)
    if getattr(session.config.option, "loadgroup", False) and session.items and "@" not in session.items[0].nodeid:
        raise pytest.UsageError("pytest-xdist ignores xdist_group with this version of pytest")


@pytest.fixture(scope="session")
def repository() -> Path:
    """Return the root of the checkout that contains the tests."""
    return Path(__file__).parents[1]


@pytest.fixture(scope="session")
def dist(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the source archives of both distributions, and the wheels built from them. Tests that use it
    are in the group "distribution", so that one process builds them."""
    copy = checkout(repository, tmp_path_factory.mktemp("checkout"))
    build(copy / "runtime", copy / "dist")
    return build(copy, copy / "dist")


@pytest.fixture(scope="session")
def installed(dist: Path, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of programs of an environment with the wheels, and the compiled files that the runtime's wheel
    for an architecture has besides."""
    programs = environment(tmp_path_factory.mktemp("venv"), *dist.glob("*.whl"))
    add_compiled(programs, repository)
    return programs


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """An empty workspace, and a cache of its own, in the test's temporary folder."""
    return Workspace(tmp_path)


@pytest.fixture(scope="session")
def builder(repository: Path) -> ModuleType:
    """runtime/build.py as a module."""
    spec = importlib.util.spec_from_file_location("runtime_build", repository / "runtime/build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(repository / "runtime")
        spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def ci_formats() -> ModuleType:
    """Return the module that checks files for CI against their formats: ci_formats.py."""
    spec = importlib.util.spec_from_file_location("ci_formats", Path(__file__).with_name("ci_formats.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def example_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache for the tests that build programs of examples/, which are in the group "bundles"."""
    return tmp_path_factory.mktemp("example-cache")


@pytest.fixture(scope="session")
def cpp_runtime(repository: Path) -> Path:
    """Return the libraries to link CUDA delegates' libraries with, made once for each version of the compiler."""
    from modelbuild_rules.backend_api.steps.cpp_compiler import make_runtime

    made = repository / "build" / f"cpp-runtime-{version('ziglang')}"
    made.parent.mkdir(exist_ok=True)
    with made.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made / "link.json").exists():
            made.mkdir(exist_ok=True)
            make_runtime("x86_64-linux-gnu.2.28", made)
    return made


@pytest.fixture(scope="session")
def know_runtime(cpp_runtime: Path) -> Callable[[Path, Path, str], None]:
    """Return a function that puts cpp_runtime where the build of a target finds it: know_runtime(workspace, cache,
    "//package:target")."""
    import modelbuild
    from modelbuild.actions import Action, ActionResult
    from modelbuild.analysis.analyze import Analyzer
    from modelbuild.analysis.rules import load_rules
    from modelbuild.code.step_sources import StepCode
    from modelbuild.execution.keys import key_of, material_of
    from modelbuild.execution.resolver import Resolver
    from modelbuild.labels import Label
    from modelbuild.loading.loader import Loader
    from modelbuild.session.source_files import Sources
    from modelbuild.store.local import open_store
    from modelbuild.workspace.workspace import load_workspace

    def know(root: Path, cache: Path, target: str) -> None:
        rules = load_rules(root, ())
        analysis = Analyzer(Loader(load_workspace(root), rules.by_name), rules)
        analysis.analyze(Label.parse(target, ""))
        nodes = [node for node in analysis.graph.nodes.values() if isinstance(node, Action)]
        actions = [node for node in nodes if node.mnemonic == "cpp_runtime"]
        assert actions
        roots = {"modelbuild": Path(modelbuild.__file__).parent, **rules.packages}
        with open_store(cache) as store:
            keys = Resolver(StepCode(roots), root, store.read_bytes, Sources(root, store))
            for material in (material_of(keys.resolve(action, ())) for action in actions):
                copy = shutil.copytree(cpp_runtime, cache / "copy", dirs_exist_ok=True)
                store.put_action(key_of(material), ActionResult((("runtime", store.put_output(copy)),)), material)

    return know


@pytest.fixture
def child() -> Child:
    """child(work) forks, runs work, and returns the exit status: 0, 1 for an exception, -9 for a kill."""

    def run(work: Callable[[], None]) -> int:
        pid = os.fork()
        if pid == 0:
            signal.alarm(300)  # Ends a child that waits forever.
            try:
                work()
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            finally:  # also where nothing can be printed
                os._exit(1)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    return run


@pytest.fixture
def as_user(child: Child) -> Child:
    """Like child, but without root's power to write anywhere."""

    def run(work: Callable[[], None]) -> int:
        def powerless() -> None:
            give_up_power()
            work()

        return child(powerless)

    return run
