"""Actions share no memory, and leave none behind."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

# Ways to leave something for another action: an expression that leaves it, and one that finds it.
WAYS = {
    "POSIX shared memory": ("libc.shm_open(NAME, 0o102, 0o666)", "libc.shm_open(NAME, 0o2, 0)"),
    "a POSIX semaphore": ("pthread.sem_open(NAME, 0o100, 0o666, 1) or -1", "pthread.sem_open(NAME, 0) or -1"),
    "a file in /dev/shm": (
        'perl(\'open(F, ">", "/dev/shm$ARGV[0]") or exit 1\')',
        "perl('exit !-e \"/dev/shm$ARGV[0]\"')",
    ),
    "System V shared memory": ("libc.shmget(KEY, 4096, 0o1666)", "libc.shmget(KEY, 4096, 0o666)"),
    "a System V semaphore": ("libc.semget(KEY, 1, 0o1666)", "libc.semget(KEY, 1, 0o666)"),
    "a System V message queue": ("libc.msgget(KEY, 0o1666)", "libc.msgget(KEY, 0o666)"),
    "a POSIX message queue": ("librt.mq_open(NAME, 0o102, 0o666, None)", "librt.mq_open(NAME, 0o2)"),
    "a file in /dev/mqueue": (
        'perl(\'open(F, ">", "/dev/mqueue$ARGV[0]") or exit 1\')',
        "perl('exit !-e \"/dev/mqueue$ARGV[0]\"')",
    ),
    "a file in /tmp": ('perl(\'open(F, ">", "/tmp$ARGV[0]") or exit 1\')', "perl('exit !-e \"/tmp$ARGV[0]\"')"),
    "a key of the user": (
        "libc.syscall(ADD_KEY, b'user', NAME, b'x', 1, USER_KEYRING)",
        "libc.syscall(REQUEST_KEY, b'user', NAME, None, 0)",
    ),
}

STEP = """
    import ctypes, json, os, subprocess
    libc, pthread, librt = (ctypes.CDLL(name, use_errno=True) for name in (None, "libpthread.so.0", "librt.so.1"))
    pthread.sem_open.restype = ctypes.c_void_p
    NAME, KEY, USER_KEYRING = b"/modelbuild-test", 0x6d62, -4
    ADD_KEY, REQUEST_KEY = {"x86_64": (248, 249), "aarch64": (217, 218)}[os.uname().machine]
    def perl(program):
        return -subprocess.run(["perl", "-e", program, NAME.decode()], stderr=subprocess.DEVNULL).returncode
    def run(step):
        step.outputs["out"].write_text(json.dumps(EXPRESSION))
"""


def leftovers() -> list[str]:
    """Return the shared memory on this machine with a name of these tests."""
    found = [
        str(path) for folder in ("/dev/shm", "/dev/mqueue", "/tmp") for path in Path(folder).glob("*modelbuild-test*")
    ]
    for kind in ("shm", "sem", "msg"):
        found += [line for line in Path("/proc/sysvipc", kind).read_text().splitlines() if f" {0x6D62} " in f" {line} "]
    return found


def test_nothing_of_one_action_is_there_for_another(workspace: Any) -> None:
    for number, (leaves, finds) in enumerate(WAYS.values()):
        workspace.step(f"leaves{number}", STEP.replace("EXPRESSION", leaves))
        workspace.step(f"finds{number}", STEP.replace("EXPRESSION", finds))
        workspace.target(f"leaves{number}", f"leaves{number}")
    left = workspace.build_all()
    assert left.code == 0, left.err
    assert leftovers() == []
    for number in range(len(WAYS)):
        workspace.target(f"finds{number}", f"finds{number}")
    found = workspace.build_all()
    assert found.code == 0, found.err
    assert [way for number, way in enumerate(WAYS) if workspace.value(f"finds{number}") >= 0] == []


def test_nothing_of_one_action_is_there_for_another_beside_it(workspace: Any) -> None:
    """The second action runs while the first still uses it."""
    for number, (leaves, finds) in enumerate(WAYS.values()):
        waits = STEP.replace("json.dumps(EXPRESSION)", f"json.dumps([{leaves}, __import__('time').sleep(1)])")
        workspace.step(f"leaves{number}", waits)
        workspace.step(f"finds{number}", STEP.replace("EXPRESSION", f"[__import__('time').sleep(0.5), {finds}][1]"))
        workspace.target(f"leaves{number}", f"leaves{number}")
        workspace.target(f"finds{number}", f"finds{number}")
    found = workspace.build_all(f"--jobs={2 * len(WAYS)}")
    assert found.code == 0, found.err
    assert [way for number, way in enumerate(WAYS) if workspace.value(f"finds{number}") >= 0] == []


PROCESSES = """
    import json, multiprocessing, os
    from multiprocessing import shared_memory
    def run(step):
        context = multiprocessing.get_context("spawn")
        memory = shared_memory.SharedMemory(create=True, size=10)
        memory.buf[0] = 5
        with multiprocessing.Pool(2) as pool:
            found = pool.map(abs, [-1, 2])
        with multiprocessing.Manager() as manager:
            found += list(manager.list([3]))
        again = shared_memory.SharedMemory(memory.name)
        found.append(again.buf[0])
        lock = context.Lock()
        with lock:
            step.outputs["out"].write_text(json.dumps(found))
"""


def test_processes_of_one_action_share_memory_where_the_kernel_keeps_it_apart(workspace: Any) -> None:
    """Otherwise they are refused, and the error refers to `modelbuild info sandbox`."""
    workspace.step("only", PROCESSES)
    workspace.target("only", "only")
    with TemporaryDirectory() as cache:  # the path of a socket in it must be short
        done = workspace.build_all(MODELBUILD_CACHE_DIR=cache)
    if workspace.namespaces:
        assert done.code == 0, done.err
        assert workspace.value("only") == [1, 2, 3, 5]
    else:
        assert "(this machine gives actions neither Unix sockets nor shared memory: see" in done.err
    assert not [name for name in os.listdir("/dev/shm") if name.startswith("psm_")]
