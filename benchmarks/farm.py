"""Measure builds on a farm: trivial actions and actions of one second on 1, 4 and 16 workers, and the client's limits.

    benchmarks/farm.py [--workers N...] [--seconds N...] [--actions N] [--client N...]

The farm is buildbox-casd of tests/remote/servers.lock, with buildbox-run and bubblewrap, on 127.0.0.1, so that
workers, server and client share this machine. The second table replaces the workers by a server in the same process
that answers at once: what remains is the client's own cost. From it, the last table simulates farms that this machine
cannot hold.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from remote import CASD, casd

ROOT = Path(__file__).resolve().parents[1]
RUN = CASD.with_name("buildbox-run")
PYTHON = os.path.abspath(sys.executable)

RULE = '''"""work: independent actions, each of some seconds."""

from __future__ import annotations

from modelbuild.api import Attrs, Context, Files, Output, Provider, rule


class WorkAttrs(Attrs):
    """Independent actions."""

    count: int
    """Their number."""

    seconds: float
    """Seconds of each."""

    salt: str = ""
    """Another text, other actions."""


@rule(attrs=WorkAttrs)
def work(ctx: Context[WorkAttrs]) -> tuple[Provider, ...]:
    made = []
    for number in range(ctx.attrs.count):
        params = {"seconds": ctx.attrs.seconds, "text": f"{ctx.attrs.salt} {number}"}
        outputs = [Output("made", f"{number}.txt")]
        made.append(ctx.action("work", step="work", name=f"work{number}", outputs=outputs, params=params)["made"])
    return (Files(tuple(made)),)
'''

STEP = '''"""Sleep, then write a text."""

from __future__ import annotations

import time

from modelbuild.step import Step


def run(step: Step) -> None:
    time.sleep(step.params["seconds"])
    step.outputs["made"].write_text(step.params["text"])
'''

# Builds, then writes its calls, messages' bytes, seconds and peak memory. FAKE: the workers answer at once.
CLIENT = """
import json, resource, sys, time
from collections import Counter
from modelbuild.cli import invoke
import grpc

calls, sent, received = Counter(), Counter(), Counter()

class Method:
    def __init__(self, path, inner):
        self.path, self.inner = path, inner
    def __call__(self, *arguments, **options):
        calls[self.path] += 1
        return self.inner(*arguments, **options)
    def __getattr__(self, name):
        return getattr(self.inner, name)

class Channel:
    def __init__(self, inner):
        self.inner = inner
    def close(self):
        self.inner.close()
    def __getattr__(self, kind):
        make = getattr(self.inner, kind)
        def made(path, request_serializer, response_deserializer):
            def write(message):
                data = request_serializer(message)
                sent[path] += len(data)
                return data
            def read(data):
                received[path] += len(data)
                return response_deserializer(data)
            return Method(path, make(path, request_serializer=write, response_deserializer=read))
        return made

plain = grpc.insecure_channel
grpc.insecure_channel = lambda *arguments: Channel(plain(*arguments))
report, *arguments = sys.argv[1:]
began = time.monotonic()
code = invoke(arguments)
used = resource.getrusage(resource.RUSAGE_SELF)
facts = {"wall": time.monotonic() - began, "cpu": used.ru_utime + used.ru_stime, "memory": used.ru_maxrss / 1024,
         "calls": dict(calls), "sent": sum(sent.values()), "received": sum(received.values())}
open(report, "w").write(json.dumps(facts))
sys.exit(code)
"""

# A server in the place of a farm: it "runs" each action at once. Arguments: the module with FakeServer.
INSTANT = """
import importlib.util, json, sys, time
from modelbuild.remote.messages import message

spec = importlib.util.spec_from_file_location("fake_server", sys.argv[1])
fake = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fake)


class Instant(fake.FakeServer):
    def Execute(self, request, context, fault):
        began = time.perf_counter()
        action = message("Action").FromString(self.blobs[request.action_digest.hash])
        command = message("Command").FromString(self.blobs[action.command_digest.hash])
        answer = message("ExecuteResponse")()
        for path in command.output_paths:
            if path in ("stdout", "stderr"):
                continue
            ended = json.dumps({"seconds": time.perf_counter() - began, "max_rss": 1 << 20})
            data = {"ended": ended, "report": REPORT}.get(path, path).encode()
            digest = fake.hashlib.sha256(data).hexdigest()
            self.blobs[digest] = data
            file = answer.result.output_files.add(path=path)
            file.digest.hash, file.digest.size_bytes = digest, len(data)
        operation = message("google.longrunning.Operation")(name=request.action_digest.hash, done=True)
        operation.response.Pack(answer)
        yield operation


REPORT = json.dumps({"end": "done", "strays": []})
print(Instant().address, flush=True)
time.sleep(1e6)
"""


@dataclass(frozen=True)
class Build:
    """A build by a client: seconds of the actions and of the client's processor, MiB, calls, and MiB of messages."""

    actions: int
    seconds: float
    cpu: float
    memory: float
    calls: int
    sent: float
    received: float

    def row(self, name: str) -> str:
        each = self.actions
        return (
            f"| {name} | {each} | {each / self.seconds:.1f} | {self.cpu / each * 1e3:.1f} | {self.calls / each:.1f} "
            f"| {self.sent / each / 1024:.1f} | {self.received / each / 1024:.1f} | {self.memory:.0f} |"
        )


HEAD = """
| workers | actions | actions per second | client's ms | calls | KiB sent | KiB received | client's MiB |
| --- | --- | --- | --- | --- | --- | --- | --- |"""


def write_workspace(root: Path, actions: int, seconds: float, each: int = 100) -> None:
    """Write targets of up to `each` actions."""
    rules = root / "tools/rules"
    (rules / "steps").mkdir(parents=True)
    for path in ("__init__.py", "steps/__init__.py"):
        (rules / path).write_text('"""The benchmark."""\n')
    (rules / "work.py").write_text(RULE)
    (rules / "steps/work.py").write_text(STEP)
    (root / "MODELBUILD.toml").write_text('rules = ["//tools/rules"]\n')
    targets = [
        f'[[work]]\nname = "w{first}"\ncount = {min(each, actions - first)}\nseconds = {seconds}\nsalt = "{first}"\n'
        for first in range(0, actions, each)
    ]
    (root / "BUILD.toml").write_text("\n".join(targets))


def build(folder: Path, address: str, actions: int, seconds: float) -> Build:
    """Build on a farm with an empty cache here."""
    root = folder / "workspace"
    write_workspace(root, actions, seconds)
    report, events = folder / "report.json", folder / "events.json"
    flags = [f"--remote-cache={address}", f"--remote-executor={address}", "--strategy=*=remote", "--quiet"]
    # The interpreter on the workers is this one.
    (root / "MODELBUILD.toml").write_text(f'rules = ["//tools/rules"]\n[remote]\npython = "{PYTHON}"\n')
    command = [sys.executable, "-c", CLIENT, report, "-C", root, "build", "//...", *flags]
    variables = {**os.environ, "MODELBUILD_CACHE_DIR": str(folder / "cache")}
    subprocess.run([*command, f"--build-event-json={events}"], env=variables, check=True, stdout=subprocess.DEVNULL)
    facts = json.loads(report.read_text())
    happened = [json.loads(line) for line in events.read_text().splitlines()]
    at = [each["at"] for each in happened if each["event"] in ("action_started", "action_finished")]
    result = Build(
        actions, max(at) - min(at), facts["cpu"], facts["memory"], sum(facts["calls"].values()), facts["sent"],
        facts["received"],
    )  # fmt: skip
    for name in ("workspace", "cache"):
        shutil.rmtree(folder / name)
    return result


@contextmanager
def farm(folder: Path, workers: int) -> Iterator[str]:
    """Run a farm; yield its address. Workers see the system and this Python."""
    shown = ("/usr", "/bin", "/lib", "/lib64", "/etc", sys.base_prefix, os.path.abspath(sys.prefix))
    mounts = [f"--runner-arg=--ro-bind-mount={os.path.realpath(path)}:{path}" for path in shown if os.path.exists(path)]
    with casd(folder, f"--buildbox-run={RUN}", f"--jobs={workers}", "--reserved=64M", *mounts) as address:
        yield address


@contextmanager
def instant_farm() -> Iterator[str]:
    """Run a server that answers at once; yield its address."""
    command = [sys.executable, "-c", INSTANT, ROOT / "tests/remote/fake_server.py"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().strip()
        finally:
            server.kill()


def simulate(workers: int, seconds: float, client: float, jobs: int, actions: int = 20_000) -> float:
    """Return the actions per second of independent actions that take a worker some seconds each. The client's thread
    takes half of `client` seconds before each, and half after it; at most `jobs` are at the server at once."""
    send, receive = 0, 1
    free = [0.0] * workers  # times at which each worker has ended its last action
    waiting = [(0.0, send)] * min(jobs, actions)  # for the client
    unsent, now = actions - len(waiting), 0.0
    while waiting:
        since, what = heapq.heappop(waiting)
        now = max(now, since) + client / 2
        if what == send:
            end = max(now, heapq.heappop(free)) + seconds
            heapq.heappush(free, end)
            heapq.heappush(waiting, (end, receive))
        elif unsent:
            unsent -= 1
            heapq.heappush(waiting, (now, send))
    return actions / now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 4, 16])
    parser.add_argument("--seconds", type=float, nargs="*", default=[0.0, 1.0], help="of each action")
    parser.add_argument("--actions", type=int, default=20, help="for each worker")
    parser.add_argument("--client", type=int, nargs="*", default=[1000, 10_000], help="actions without a farm")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="modelbuild-farm-") as name:
        folder = Path(name)
        print(HEAD)
        for seconds in options.seconds:
            for workers in options.workers:
                with farm(folder / "farm", workers) as address:
                    done = build(folder, address, options.actions * workers, seconds)
                shutil.rmtree(folder / "farm")
                print(done.row(f"{workers}, actions of {seconds:g} s"), flush=True)
        for actions in options.client:
            with instant_farm() as address:
                done = build(folder, address, actions, 0.0)
            print(done.row("answers at once"), flush=True)
    client = done.cpu / done.actions
    print("\nsimulated, with the client's last processor time: actions per second (part of the workers' time used)\n")
    print("| workers | actions of 1 s | 10 s | 60 s |\n| --- | --- | --- | --- |")
    for workers in (16, 100, 1000):
        rates = [(simulate(workers, each, client, 2 * workers), workers / each) for each in (1, 10, 60)]
        print(f"| {workers} | {' | '.join(f'{rate:.1f} ({rate / most:.0%})' for rate, most in rates)} |")


if __name__ == "__main__":
    main()
