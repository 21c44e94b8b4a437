"""Run the commands of an action on a device, and stage their outputs as an input of the action's step."""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from modelbuild.actions import StagedInput, Tree
from modelbuild.device_runners import DeviceJob
from modelbuild.devices.device import DeviceSession, LocalFile
from modelbuild.devices.pool import Pool
from modelbuild.devices.problems import ConnectionLost, JobProblem
from modelbuild.execution.executor import ActionRequest
from modelbuild.lines import is_line
from modelbuild.paths import INPUTS
from modelbuild.store.interface import Store

VERSION = 1
INPUT = "device"
COMMANDS = "commands.json"
_ATTEMPTS = 2
_NAME = re.compile(r"[a-z0-9_]{1,60}")


def run_job(
    request: ActionRequest, job: DeviceJob, pool: Pool, store: Store, show: Callable[[str], None]
) -> ActionRequest:
    """Return the request with the input `device`: the folder `out` that the commands wrote, and device.json:

        unmet     why no device can be used; '' if the commands ran; only then the other members exist
        identity  of the device, as in the key
        emulator  of its processor; '' for a real processor
        runner    the runner's label or address
        commands  the name of each, its exit status as in a shell, its seconds, and whether it reached its time limit
        before, after  temperatures (degrees Celsius) and clocks (MHz) by name
        sent      files and bytes that were sent, and the number of files that the device had

    After a lost connection, the job runs once more. Raises DeviceProblem if that connection is also lost, and for a job
    that cannot run.
    """
    files = dict(_files(request, job, store))
    commands = _commands(request, job, store)
    with tempfile.TemporaryDirectory(prefix="modelbuild-device-") as temporary:
        folder = Path(temporary) / "device"
        for attempt in range(_ATTEMPTS):
            made = folder.with_name(f"device{attempt}")
            made.mkdir()
            try:
                document = _run(pool, request, job, files, commands, made / "out", show)
                break
            except ConnectionLost:
                if attempt == _ATTEMPTS - 1:
                    raise
                show("connecting again")
        (made / "device.json").write_text(json.dumps({"version": VERSION, **document}, sort_keys=True))
        value = store.put_output(made)
    staged = StagedInput(INPUT, f"{INPUTS}/{INPUT}.0/{INPUT}", None, value)
    return replace(request, inputs=(*request.inputs, staged))


def _run(
    pool: Pool,
    request: ActionRequest,
    job: DeviceJob,
    files: Mapping[str, LocalFile],
    commands: list[tuple[str, list[str]]],
    folder: Path,
    show: Callable[[str], None],
) -> dict[str, Any]:
    if pool.unmet:
        return {"unmet": pool.unmet}
    with pool.session(str(request.action.owner), show) as session:
        show(f"sending files to {session.runner.address}")
        session.put(files)
        before = session.state()
        ended = list(_ended(session, job, commands, show))
        after = session.state()
        folder.mkdir()
        session.get(folder)
        return {
            "unmet": "",
            "identity": session.facts.identity(),
            "emulator": session.shell.emulator,
            "runner": session.runner.name.partition("?")[0],
            "commands": ended,
            "before": before,
            "after": after,
            "sent": {"files": session.sent.files, "bytes": session.sent.bytes, "there": session.sent.there},
        }


def _ended(
    session: DeviceSession, job: DeviceJob, commands: list[tuple[str, list[str]]], show: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    """Run commands one after the other, until they reach their time limit; yield the end of each command."""
    deadline = time.monotonic() + job.seconds
    for number, (name, argv) in enumerate(commands, 1):
        show(f"command {number} of {len(commands)} on {session.runner.address}")
        left = deadline - time.monotonic()
        if left < 1:
            yield {"name": name, "status": 124, "seconds": 0.0, "timed_out": True}
            continue
        ended = session.run(name, [*session.shell.prefix, *argv], left)
        yield {"name": name, "status": ended.status, "seconds": ended.seconds, "timed_out": ended.timed_out}


def _files(request: ActionRequest, job: DeviceJob, store: Store) -> Iterator[tuple[str, LocalFile]]:
    """Yield the files of a job by their paths on the device."""
    for item in request.inputs:
        if item.name not in job.inputs:
            continue
        if isinstance(item.value, Tree):
            found = [(f"{item.name}/{path}", entry) for path, entry in item.value.files]
        else:
            found = [(f"{item.name}/{PurePosixPath(item.path).name}", item.value)]
        for path, entry in found:
            if not is_line(path) or path != path.strip():
                raise JobProblem(f"a file called {path!r}; expected a name that a shell can read")
            file = item.source or store.blob_path(entry.digest)
            yield path, LocalFile(file, entry.digest.hash, entry.digest.size)


def _commands(request: ActionRequest, job: DeviceJob, store: Store) -> list[tuple[str, list[str]]]:
    plan = next(item.value for item in request.inputs if item.name == job.plan)
    assert isinstance(plan, Tree)
    entry = dict(plan.files)[COMMANDS]
    commands = [
        (each["name"], [str(word) for word in each["argv"]]) for each in json.loads(store.read_bytes(entry.digest))
    ]
    if not all(_NAME.fullmatch(name) for name, _ in commands) or len({name for name, _ in commands}) < len(commands):
        raise JobProblem(f"{COMMANDS} names a command twice, or with other characters than a-z, 0-9 and _")
    return commands
