"""Environments of toolchains: made once, whole or not at all, with one line for each thing that goes wrong."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from modelbuild.code.interpreter import Interpreter
from modelbuild.errors import EnvironmentProblem
from modelbuild.store.environments import environments
from modelbuild.store.local import open_store
from modelbuild.toolchain import make as making
from modelbuild.toolchain.lock_file import read_lock
from modelbuild.toolchain.make import Wanted, make
from modelbuild.toolchain.pythons import find_python
from modelbuild.toolchain.uv import explain, find_uv
from tests.command_runner import MODELBUILD
from tests.script_rule import SCRIPT
from tests.wheels import Index, ToolchainWorkspace, wheel

Make = Callable[..., Interpreter]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def made(tmp_path: Path, cache: Path, index: Index, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Return a function that makes the environment of a lock, by default that of the index."""
    for name, value in index.environment.items():
        monkeypatch.setenv(name, value)

    def make_it(lock: str | None = None, from_source: tuple[str, ...] = (), name: str = "tools.lock") -> Interpreter:
        (tmp_path / name).write_text(index.lock if lock is None else lock)
        found = read_lock(tmp_path, name, from_source)
        said: list[str] = []
        python = make(Wanted("//:tools", found, find_python("", "//:tools"), from_source), tmp_path, cache, said.append)
        make_it.said = said  # type: ignore[attr-defined]
        return python

    return make_it


def left(cache: Path) -> list[str]:
    """Return the names of unfinished environments, and of finished ones."""
    found = os.listdir(cache / "toolchains") if (cache / "toolchains").exists() else []
    return [name for name in found if not name.endswith(".lock")]


def refused(made: Make, cache: Path, *arguments: object, **named: object) -> str:
    """Return the error of an environment that cannot be made, which leaves nothing."""
    with pytest.raises(EnvironmentProblem) as raised:
        made(*arguments, **named)
    assert "\n" not in str(raised.value)
    assert left(cache) == []
    return str(raised.value)


def test_an_environment_is_made_once(made: Make, cache: Path) -> None:
    first = made()
    assert [line.partition(" ")[0] for line in made.said] == ["making", "made"]  # type: ignore[attr-defined]
    assert (made(), made.said) == (first, [])  # type: ignore[attr-defined]
    run = [first.program, "-c", "import alpha, sys; print(alpha.X, sys.prefix)"]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == f"1 {first.prefix}\n"
    spec = first.find_module("beta")
    assert spec is not None
    assert str(spec.origin).startswith(first.prefix)
    assert first.find_module("click") is None
    assert left(cache) == [Path(first.prefix).name]


def test_a_wheel_for_another_platform(made: Make, cache: Path, index: Index) -> None:
    index.add("other", "1.0", {"other.py": ""}, tag="py3-none-win_amd64")
    problem = refused(made, cache)
    assert problem.startswith("tools.lock:4:1: other 1.0: no wheel for Python 3.")
    assert problem.endswith("; expected one in the lock, or its name in 'from_source' of the toolchain")


def test_a_wheel_for_another_python(made: Make, cache: Path, index: Index) -> None:
    index.add("other", "1.0", {"other.py": ""}, tag="cp39-cp39-manylinux_2_17_x86_64")
    assert refused(made, cache).startswith("tools.lock:4:1: other 1.0: no wheel for Python 3.")


def test_a_pylock_for_another_python(made: Make, cache: Path, index: Index) -> None:
    digest = wheel(index.folder / "wheels", "x", "1.0", {"x.py": ""})
    archive = f'{{ path = "index/wheels/x-1.0-py3-none-any.whl", hashes = {{ sha256 = "{digest}" }} }}'
    text = f'[[packages]]\nname = "x"\nversion = "1.0"\nwheels = [{archive}]\n'
    start = 'lock-version = "1.0"\ncreated-by = "a test"\n'
    problem = refused(made, cache, f'{start}requires-python = ">=3.99"\n{text}', name="pylock.toml")
    assert problem.startswith("pylock.toml is for Python >=3.99, and the toolchain has Python 3.")
    assert made(start + text, name="pylock.toml").find_module("x") is not None


BACKEND = """
import shutil
def build_wheel(folder, *_):
    return shutil.copy("{name}.whl", folder + "/{name}-1.0-py3-none-any.whl").rpartition("/")[2]
"""


def sdist(index: Index, name: str) -> None:
    """Add a source archive that brings its own build backend, and pin it."""
    path = index.folder / "wheels" / f"{name}-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for file, text in {
            "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
            "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
            "backend.py": BACKEND.format(name=name),
        }.items():
            entry = tarfile.TarInfo(f"{name}-1.0/{file}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
        inner = index.folder / "inner"
        wheel(inner, name, "1.0", {f"{name}.py": ""})
        archive.add(inner / f"{name}-1.0-py3-none-any.whl", f"{name}-1.0/{name}.whl")
    index.pins[name] = f"{name}==1.0 --hash=sha256:{sha256(path.read_bytes()).hexdigest()}\n"


def test_a_package_without_a_wheel(made: Make, cache: Path, index: Index) -> None:
    sdist(index, "old")
    problem = refused(made, cache)
    assert problem.startswith("tools.lock:4:1: old 1.0: no wheel for Python 3.")
    assert problem.endswith("; expected one in the lock, or its name in 'from_source' of the toolchain")
    assert made(None, ("old",)).find_module("old") is not None


def test_a_hash_that_the_index_does_not_have(made: Make, cache: Path, index: Index) -> None:
    name = index.pins["alpha"].partition("sha256:")[0]
    problem = refused(made, cache, f"{name}sha256:{'0' * 64}\n")
    assert problem.startswith("tools.lock:1:1: alpha 1.0: the archive that the index has is not one that the lock")


def test_a_version_that_the_index_does_not_have(made: Make, cache: Path, index: Index) -> None:
    problem = refused(made, cache, index.lock.replace("beta==1.0", "beta==9.0"))
    assert problem == "tools.lock:2:1: beta 9.0: not found in the package index that uv is configured for"


def test_an_index_that_is_down(made: Make, cache: Path, index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UV_FIND_LINKS")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    assert refused(made, cache) == (
        "tools.lock: the package index cannot be reached: Connection refused (os error 111); expected a connection, or"
        " an environment that `modelbuild fetch` made"
    )


@pytest.mark.parametrize("size", [16 << 10, 600 << 10])
def test_a_full_disk(tools: ToolchainWorkspace, index: Index, size: int) -> None:
    """Full before the environment, and while uv writes to it."""
    if shutil.which("bwrap") is None:
        pytest.skip("not run: needs bubblewrap, which makes a small disk")
    index.add("big", "1.0", {"big.txt": "x" * (1 << 20)})
    tools.write({"tools.lock": index.lock})
    tools.cache.mkdir()
    place = [
        "bwrap",
        "--bind",
        "/",
        "/",
        "--dev-bind",
        "/dev",
        "/dev",
        "--size",
        str(size),
        "--tmpfs",
        str(tools.cache),
    ]
    after = f'"$@"; echo "ended $?"; ls {tools.cache}/toolchains'
    ended = tools.run("build", SCRIPT, program=(*place, "sh", "-c", after, "sh", *MODELBUILD))
    assert "ended 36\n" in ended.out, ended.err
    assert ended.err.splitlines()[-1] == f"error: {tools.cache}: no space left on the disk; free some, then build again"
    assert [name for name in ended.out.partition("ended 36\n")[2].split() if not name.endswith(".lock")] == []


def test_the_disk_of_uvs_own_cache_is_full(tmp_path: Path, index: Index) -> None:
    (tmp_path / "tools.lock").write_text(index.lock)
    text = (
        "error: Failed to download `x`\n  cause: failed to write to file `/uv/.tmp1/x.py`: No space left on device (os"
    )
    problem = explain(f"{text} error 28)", read_lock(tmp_path, "tools.lock"), tmp_path, "3.11.7", "linux-x86_64")
    assert str(problem) == "/uv/.tmp1: no space left on the disk; free some, then build again"


def test_uv_that_is_killed(made: Make, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "killed"
    script.write_text(f'#!/bin/sh\ncase $1 in pip) kill -9 $$;; *) exec {find_uv()} "$@";; esac')
    script.chmod(0o755)
    monkeypatch.setattr("modelbuild.toolchain.uv.find_uv", lambda: str(script))
    assert refused(made, cache) == "tools.lock: uv cannot install it: uv was killed by signal 9"


PROGRAM = """
import sys
from pathlib import Path
from modelbuild.toolchain import uv
from modelbuild.toolchain.lock_file import read_lock
from modelbuild.toolchain.make import Wanted, make
from modelbuild.toolchain.pythons import find_python
root, cache, program = map(Path, sys.argv[1:])
uv.find_uv = lambda: str(program)
print(make(Wanted("//:tools", read_lock(root, "tools.lock"), find_python("", "//:tools")), root, cache, print).prefix)
"""


def maker(root: Path, cache: Path, uv: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, str(root), str(cache), str(uv)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])


def test_a_killed_install_leaves_nothing_that_a_later_build_uses(
    made: Make, tmp_path: Path, cache: Path, index: Index
) -> None:
    (tmp_path / "tools.lock").write_text(index.lock)
    slow = tmp_path / "slow"
    slow.write_text(
        f'#!/bin/sh\n{find_uv()} "$@" || exit\ncase $1 in pip) touch {tmp_path}/there; exec sleep 60;; esac\n'
    )
    slow.chmod(0o755)
    process = maker(tmp_path, cache, slow)
    while not (tmp_path / "there").exists():
        assert process.poll() is None
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()
    (partial,) = left(cache)
    assert partial.endswith(".partial")
    python = made()
    assert left(cache) == [Path(python.prefix).name]


def test_two_builds_at_once_make_it_once(made: Make, tmp_path: Path, cache: Path, index: Index) -> None:
    (tmp_path / "tools.lock").write_text(index.lock)
    texts = [process.communicate()[0] for process in [maker(tmp_path, cache, find_uv()) for _ in range(2)]]
    assert sum(text.count("making //:tools") for text in texts) == 1
    assert texts[0].splitlines()[-1] == texts[1].splitlines()[-1]


def test_damage_is_found_and_what_is_damaged_is_made_again(made: Make, cache: Path) -> None:
    python = made()
    (file,) = Path(python.prefix).glob("lib/*/site-packages/gamma.py")
    with open_store(cache) as store:
        found = store.verify()
        assert (found.toolchains, found.damaged) == (1, ())
        assert found.toolchain_files > 9
        file.write_text("Z = 2\n")
        damaged = store.verify().damaged
    assert damaged == (str(file.relative_to(cache)),)
    assert left(cache) == []


@pytest.mark.parametrize(
    "damage",
    [
        "manifest",
        *(pytest.param(each, marks=pytest.mark.exhaustive) for each in ("folder", "program", "file in its place")),
    ],
)
def test_an_environment_that_is_incomplete_is_made_again(made: Make, cache: Path, damage: str) -> None:
    folder = Path(made().prefix)
    for top, _, _ in os.walk(folder):
        os.chmod(top, 0o755)
    if damage == "manifest":
        (folder / "toolchain.json").write_text("{")
    elif damage == "program":
        (folder / "bin/python").unlink()
    else:
        shutil.rmtree(folder)
        if damage == "file in its place":
            folder.write_text("")
    assert made().find_module("alpha") is not None


def test_environments_are_counted_and_the_least_recently_used_is_evicted(made: Make, cache: Path, index: Index) -> None:
    first = Path(made().prefix)
    index.add("more", "1.0", {"more.py": "x" * 100_000})
    second = Path(made().prefix)
    os.utime(first / "toolchain.json", (1, 1))
    with open_store(cache) as store:
        stat = store.stat()
        sizes = {each.folder: each.bytes for each in environments(cache)}
        assert (stat.toolchains, stat.toolchain_bytes) == (2, sum(sizes.values()))
    with open_store(cache, sum(sizes.values()) - 1) as store:
        collected = store.collect()
        assert (collected.toolchains, collected.freed, collected.left) == (1, sizes[first], sizes[second])
    assert [each.folder for each in environments(cache)] == [second]
    with open_store(cache, 0) as store:
        assert store.collect().toolchains == 1
    assert left(cache) == []


def test_no_environment_is_evicted_while_a_build_uses_the_cache(made: Make, cache: Path) -> None:
    made()
    with open_store(cache), open_store(cache, 0) as other:
        assert other.collect().busy
    assert len(environments(cache)) == 1


def test_an_environment_that_was_evicted_after_it_was_made(made: Make, cache: Path) -> None:
    python = made()
    with open_store(cache, 0) as store:
        store.collect()
    with pytest.raises(EnvironmentProblem, match="//:tools was removed from the cache after it was made; build again"):
        making.check_there(python)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("3.99", "//:tools: no Python 3.99 on this machine; expected one on PATH, or of `uv python install 3.99`"),
        ("/no/python", "//:tools: /no/python cannot be run: No such file or directory; expected a Python"),
        ("/bin/true", "//:tools: /bin/true does not answer as a Python does"),
    ],
)
def test_a_python_that_is_not_there(wanted: str, expected: str) -> None:
    with pytest.raises(EnvironmentProblem) as raised:
        find_python(wanted, "//:tools")
    assert str(raised.value) == expected
