"""BuildGrid, a server of the Remote Execution API: a cache, and with PostgreSQL and a bot, workers."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

PACKAGES = Path(sys.prefix, "buildgrid")

CACHE = """
server:
  - !channel
    address: "127.0.0.1:{port}"
    insecure-mode: true
authorization:
  method: none
monitoring:
  enabled: false
storages:
  - !disk-storage &storage
    path: {folder}/cas
caches:
  - !lru-action-cache &results
    storage: *storage
    max-cached-refs: 10000
    allow-updates: true
    cache-failed-actions: false
{scheduler}
instances:
  - name: ''
    services:
      - !action-cache
        cache: *results
      - !cas
        storage: *storage
      - !bytestream
        storage: *storage
{execution}
thread-pool-size: 20
"""

SCHEDULER = """
connections:
  - !sql-connection &sql
    connection-string: {database}
    pool-size: 5
    max-overflow: 10
schedulers:
  - !sql-scheduler &scheduler
    sql: *sql
    storage: *storage
    action-cache: *results
    bot-session-keepalive-timeout: 60
    assigners:
      - !priority-age-assigner
        count: 1
        interval: 0.1
    property-set:
      !dynamic-property-set
      match-property-keys: [OSFamily, gpu, compute_capability]
"""

EXECUTION = """
      - !execution
        scheduler: *scheduler
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
    pytest.fail(f"nothing listens on port {port}: {log.read_text()}")


def start(
    command: Sequence[str | Path], log: Path, variables: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    with log.open("ab") as file:
        return subprocess.Popen(command, stdout=file, stderr=file, env={**os.environ, **(variables or {})})


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class PostgreSQL:
    """A separate database on a free port of 127.0.0.1. It does not run as root, so it has a separate folder."""

    def __init__(self) -> None:
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        found = shutil.which("initdb") or (str(programs[-1]) if programs else "")
        if not found:
            pytest.skip("not run: needs PostgreSQL")
        self._programs = Path(found).resolve().parent
        self._folder = Path(tempfile.mkdtemp(prefix="modelbuild-postgresql-"))
        self._user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        shutil.chown(self._folder, self._user)
        self._run("initdb", "-D", self._folder / "data", "-U", "grid", "-A", "trust", "--no-sync")
        self.port = free_port()
        settings = ("listen_addresses=127.0.0.1", f"port={self.port}", f"unix_socket_directories={self._folder}")
        quick = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
        options = " ".join(f"-c {setting}" for setting in settings + quick)
        self._run("pg_ctl", "-D", self._folder / "data", "-w", "-l", self._folder / "log", "-o", options, "start")
        self._run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "grid", "grid")
        driver = "postgresql" if sys.version_info >= (3, 13) else "postgresql+psycopg2"
        self.address = f"{driver}://grid@127.0.0.1:{self.port}/grid"

    def _run(self, program: str, *arguments: str | Path) -> None:
        done = subprocess.run(
            [self._programs / program, *arguments],
            user=self._user if os.geteuid() == 0 else None,
            cwd=self._folder,
            stdout=subprocess.PIPE if program != "pg_ctl" else subprocess.DEVNULL,
            stderr=subprocess.STDOUT if program != "pg_ctl" else subprocess.DEVNULL,
            text=True,
        )
        assert done.returncode == 0, done.stdout

    def close(self) -> None:
        self._run("pg_ctl", "-D", self._folder / "data", "-m", "immediate", "-w", "stop")
        shutil.rmtree(self._folder, ignore_errors=True)


class BuildGrid:
    """The server, on a free port of 127.0.0.1. With a `database` (its address) it takes actions and bots."""

    def __init__(self, folder: Path, database: str = "") -> None:
        if not (PACKAGES / "buildgrid").is_dir():
            pytest.fail(f"{PACKAGES} lacks buildgrid; 'make test' installs tests/remote/buildgrid.lock there")
        self.folder = folder
        self.port = free_port()
        self.address = f"grpc://127.0.0.1:{self.port}"
        self.folder.mkdir(parents=True)
        scheduler = SCHEDULER.format(database=database) if database else ""
        execution = EXECUTION if database else ""
        settings = folder / "server.yml"
        settings.write_text(CACHE.format(port=self.port, folder=folder, scheduler=scheduler, execution=execution))
        log = folder / "log"
        program = [sys.executable, "-P", PACKAGES / "bin/bgd"]
        packages = {"PYTHONPATH": str(PACKAGES)}
        if database:
            assert start([*program, "migrate", "apply", database], log, packages).wait() == 0, log.read_text()
        self.process = start([*program, "server", "start", settings], log, packages)
        wait_for(self.port, self.process, log)

    def kill(self) -> None:
        end(self.process)


class Farm:
    """BuildGrid with a database and some bots, each with properties, which run actions by `runner`, a command."""

    def __init__(self, folder: Path, runner: Sequence[str | Path], bots: Sequence[str] = ("OSFamily=linux",)) -> None:
        self._database = PostgreSQL()
        try:
            self._server = BuildGrid(folder, self._database.address)
        except BaseException:
            self._database.close()
            raise
        self.address, self.port = self._server.address, self._server.port
        program = [sys.executable, "-P", Path(__file__).with_name("bot.py"), f"127.0.0.1:{self.port}"]
        variables = {"PYTHONPATH": str(PACKAGES)}
        self._bots = [start([*program, bot, *runner], folder / "bot.log", variables) for bot in bots]

    def kill(self) -> None:
        for bot in self._bots:
            end(bot)
        self._server.kill()
        self._database.close()
