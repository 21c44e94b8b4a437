"""The program on a remote worker: runs one step, confined as on the user's machine.

Started as `python -P -s -S -B code/modelbuild/remote/execution/worker_entry.py` in a folder with `order.json`, the
inputs in `root/`, and in `code/` this file, the step and the modules of modelbuild that they import. The worker needs
Python and, unless they are in `toolchain/`, the distributions in the order, in the same versions. Writes `report` (see
modelbuild.execution.worker.child), `ended`, and the step's outputs. Exits with 0 if the step succeeded, 1 if it failed,
and TOOLCHAIN if it was not run.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import site
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from modelbuild.execution.orders import Exit, Order, RemoteOrder, Toolchain

ENTRY = "modelbuild.remote.execution.worker_entry"
"""This module, which runs as `__main__`."""
TOOLCHAIN = 86


def main() -> int:
    folder = Path.cwd().resolve()
    code = folder / "code"
    sys.path.insert(0, str(code))
    order: RemoteOrder = json.loads((folder / "order.json").read_text())
    if order["toolchain"]["folder"]:
        sys.path.append(str(folder / order["toolchain"]["folder"]))
    else:
        _find_installed()
    wrong = differences(order["toolchain"])
    if wrong:
        print("; ".join(wrong), file=sys.stderr)
        return TOOLCHAIN
    ended = _fork(folder, code, order)
    (folder / "ended").write_text(json.dumps(ended))
    return 0 if ended["status"] == 0 else 1


def _find_installed() -> None:
    """Add the folders of installed distributions to sys.path, as `site` does, but read no .pth file in them."""
    site.addpackage = lambda *_: None
    site.addsitepackages(site.venv(set()) or set())


def differences(wanted: Toolchain) -> list[str]:
    """Return the differences between a toolchain and this machine, as text."""
    from modelbuild.code.distributions import Distributions
    from modelbuild.code.installed_contents import InstalledContents
    from modelbuild.execution.gpus import visible
    from modelbuild.execution.isolation.kernel_choice import machine

    installed = Distributions(sys.path)
    there = [name for name in wanted["tools"] if installed.find(name) is not None]
    here = {"Python": platform.python_version(), "machine": machine()}
    here |= dict.fromkeys(wanted["tools"], "") | InstalledContents(installed, _entry).states(there)
    expected = {"Python": wanted["python"], "machine": wanted["machine"], **wanted["tools"]}
    if "gpus" in wanted:
        here["GPU"], expected["GPU"] = (", ".join(models) or "none" for models in (visible(), wanted["gpus"]))
    return [f"{n} {here[n] or 'is missing'}, expected {expected[n]}" for n in expected if here[n] != expected[n]]


def _entry(path: str) -> Any:
    from modelbuild.actions import FileEntry
    from modelbuild.store.digests import digest_file

    return FileEntry(digest_file(Path(path)))


def _fork(folder: Path, code: Path, remote: RemoteOrder) -> Exit:
    """Run the step in a child, as the fork server does, and kill all its leftover processes."""
    from modelbuild.execution import network_files
    from modelbuild.execution.isolation import confine, environment, namespaces
    from modelbuild.execution.isolation.leftover_processes import adopt, end_orphans
    from modelbuild.execution.worker.child import LoadedStep, ready_to_fork, work
    from modelbuild.execution.worker.keyed_finder import InstalledModules, KeyedFinder
    from modelbuild.execution.worker.streams import Streams

    ours = frozenset((*sys.modules, ENTRY))
    packages = {name: str(code / name) for name in remote["packages"]}
    # The workspace is not on this machine; only declared files were sent.
    nowhere = folder / "nowhere"
    imports = [path for path in sys.path if path]
    settings = confine.completed(
        {
            "packages": packages,
            "import_path": imports,
            "readable": environment.readable(nowhere, imports),
            "workspace": str(nowhere),
            "scratch": str(folder / "scratch"),
        }
    )
    root = folder / "root"
    for made in (root, folder / "scratch"):
        made.mkdir(exist_ok=True)
    installed = InstalledModules(imports)
    KeyedFinder(installed, installed.of(remote["action"]["distributions"])).install()
    views = namespaces.views(settings, str(root))
    if not remote["action"]["gpu"]:  # a child cannot use a GPU that its parent has initialized
        os.environ[environment.GPUS] = ""
        for module in remote["preload"]:
            importlib.import_module(module)
    outputs, home = root / remote["outputs_folder"], root / remote["home"]
    for made in (outputs, home, *(root / path for path in remote["folders"])):
        made.mkdir(parents=True, exist_ok=True)
    action = remote["action"]
    variables = environment.variables(home, action["cpus"], action["network"], action["gpu"])
    order: Order = {
        **action,
        "env": {**variables, **action["env"]},
        "fetches": network_files.readable(nowhere, action["params"]) if action["network"] else [],
        "root": str(root),
        "writable": [str(outputs), str(home)],
    }
    report, stdout, stderr = (
        os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) for name in ("report", "stdout", "stderr")
    )
    streams = Streams(report, stdout, stderr, os.open(os.devnull, os.O_WRONLY))  # the API has no progress
    started = time.monotonic()
    ready_to_fork()
    loaded = LoadedStep.now(packages, ours)
    adopt()
    view = namespaces.View()
    if views is not None:
        view = views.hidden() if confine.is_hidden(order) else views.whole()
    modules = confine.Code.of([*order["modules"], *ours], packages)
    child = os.fork()
    if child == 0:
        work(order, settings, loaded, modules, streams, view)
    _, status, usage = os.wait4(child, 0)
    end_orphans(())
    return {
        "status": os.waitstatus_to_exitcode(status),
        "seconds": time.monotonic() - started,
        "max_rss": usage.ru_maxrss * 1024,
    }


if __name__ == "__main__":
    sys.exit(main())
