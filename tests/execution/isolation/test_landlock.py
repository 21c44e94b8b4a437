"""Landlock denies a process unlisted files and ports. Each test runs in a separate process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from modelbuild.execution.isolation import landlock

SYSTEM = "*(p for p in ('/usr', '/lib', '/lib64', '/etc', '/proc', '/dev', sys.prefix, sys.base_prefix))"


def restricted(body: str, read: Path, write: Path, network: bool = False) -> str:
    """Return the output of a process that may only read `read` and write `write`."""
    script = (
        "import os, socket, sys\nfrom pathlib import Path\nfrom modelbuild.execution.isolation import landlock\n"
        f"read, write = Path({str(read)!r}), Path({str(write)!r})\n"
        f"assert landlock.restrict([{SYSTEM}, str(read), '/no/such/path'], [str(write)], {network})\n"
        f"try:\n    print({body})\nexcept OSError as error:\n    print(type(error).__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def folders(landlocked: None, tmp_path: Path) -> tuple[Path, Path, Path]:
    for name in ("read", "write", "other"):
        (tmp_path / name / "folder").mkdir(parents=True)
        (tmp_path / name / "file").write_text(name)
    return tmp_path / "read", tmp_path / "write", tmp_path / "other"


@pytest.mark.parametrize(
    ("body", "printed"),
    [
        ("(read / 'file').read_text()", "read"),
        ("(write / 'file').read_text()", "write"),
        ("(read / '../other/file').read_text()", "PermissionError"),
        ("os.listdir(read / '../other')", "PermissionError"),
        ("(read / '../other/file').stat().st_size", "5"),
        ("(write / 'new').write_text('abc')", "3"),
        ("os.rename(write / 'file', write / 'folder/file')", "None"),
        ("os.truncate(write / 'file', 0)", "None"),
        ("(read / 'new').write_text('abc')", "PermissionError"),
        ("os.truncate(read / 'file', 0)", "PermissionError"),
        ("os.unlink(read / 'file')", "PermissionError"),
        ("os.mkdir(read / 'new')", "PermissionError"),
        ("os.link(read / 'file', write / 'linked')", "OSError"),
        ("os.symlink(read / '../other/file', write / 'l') or (write / 'l').read_text()", "PermissionError"),
        ("os.system(f'cat {read}/../other/file 2>&-') == 0", "False"),
        ("os.kill(os.getppid(), 0)", "PermissionError"),
    ],
)
def test_files(folders: tuple[Path, Path, Path], body: str, printed: str) -> None:
    read, write, _ = folders
    assert restricted(body, read, write) == printed


@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("call", ["s.bind(('127.0.0.1', 0))", "s.connect(('127.0.0.1', 1))"])
def test_tcp(folders: tuple[Path, Path, Path], network: bool, call: str) -> None:
    allowed = "None" if "bind" in call else "ConnectionRefusedError"
    read, write, _ = folders
    body = f"(s := socket.socket()) and {call}"
    assert restricted(body, read, write, network) == (allowed if network else "PermissionError")


def test_a_single_file_can_be_listed(folders: tuple[Path, Path, Path]) -> None:
    _, write, other = folders
    assert restricted("(read).read_text()", other / "file", write) == "other"
    assert restricted("(read.parent / 'folder/../file').read_text()", other / "file", write) == "other"
    assert restricted("os.listdir(read.parent)", other / "file", write) == "PermissionError"


def test_held_folders_are_opened_once(folders: tuple[Path, Path, Path]) -> None:
    read, write, other = folders
    script = (
        "import os, sys\nfrom modelbuild.execution.isolation import landlock\nopened = []\n"
        "sys.addaudithook(lambda event, given: opened.append(given[0]) if event == 'open' else None)\n"
        f"landlock.hold(['/usr', {str(read)!r}, '/no/such/path'])\ndel opened[:]\npid = os.fork()\nif pid:\n"
        "    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
        f"assert landlock.restrict(['/usr', {str(read)!r}, '/no/such/path'], [{str(write)!r}], False)\n"
        f"assert opened == ['/no/such/path', {str(write)!r}], opened\n"
        f"open({str(read / 'file')!r}), open({str(write / 'new')!r}, 'w')\n"
        f"try:\n    open({str(other / 'file')!r})\nexcept PermissionError:\n    os._exit(7)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 7, done.stderr


def test_old_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    assert not landlock.restrict(["/nowhere"], [], False)


def test_names_alone_may_be_read(folders: tuple[Path, Path, Path]) -> None:
    read, _, other = folders
    script = (
        "import os\nfrom modelbuild.execution.isolation import landlock\n"
        f"assert landlock.restrict(['/usr', {str(other / 'file')!r}], [], False, [{str(read.parent)!r}])\n"
        f"assert sorted(os.listdir({str(read)!r})) == ['file', 'folder']\n"
        f"assert open({str(other / 'file')!r}).read() == 'other'\n"
        f"try:\n    open({str(read / 'file')!r})\nexcept PermissionError:\n    os._exit(7)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 7


@pytest.mark.parametrize("abi", range(1, 8))
def test_each_version_takes_what_is_asked_of_it(folders: tuple[Path, Path, Path], abi: int) -> None:
    """A newer kernel accepts an older version's rights, so this test also covers the requests to older kernels."""
    if abi > landlock.abi():
        pytest.skip(f"not run: this kernel has Landlock ABI {landlock.abi()}")
    read, write, _ = folders
    script = (
        "import sys\nfrom modelbuild.execution.isolation import landlock\n"
        f"landlock.abi = lambda: {abi}\n"
        f"assert landlock.restrict(['/usr', {str(read)!r}], [{str(write)!r}], False)\n"
        f"open({str(read / 'file')!r})\n"
        f"try:\n    open({str(read.parent / 'other/file')!r})\nexcept PermissionError:\n    sys.exit(7)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 7
