"""Views of the machine: the contents of hidden views, and machines without views."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from modelbuild.execution.isolation import namespaces

# Prints the value of an expression in a hidden view with `shown` and one folder of `scratch`.
SCRIPT = """
import os, sys
from pathlib import Path
from modelbuild.execution.isolation.namespaces import Views
base = Path(sys.argv[1])
shown, scratch, names = base / "shown", base / "cache/scratch", [str(base / "named/by")]
views = Views(str(scratch), [str(shown), str(base / "file")], names)
view = views.hidden(str(scratch / "one"))
view.join()
print(eval(sys.argv[2]))
"""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    if why := namespaces.refusal(str(tmp_path)):
        pytest.skip(f"not run: no namespaces here, {why}")
    for folder in ("shown/deep", "cache/scratch/one", "cache/scratch/two", "hidden", "named"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("shown/deep/x", "file", "hidden/x", "cache/scratch/one/x", "cache/scratch/two/x"):
        (tmp_path / file).write_text("x")
    (tmp_path / "named/by").symlink_to("../shown")
    return tmp_path


def seen(base: Path, expression: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(base), expression], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("expression", "printed"),
    [
        (
            "(shown / 'deep/x').read_text() + (base / 'file').read_text() + (base / 'named/by/deep/x').read_text()",
            "xxx",
        ),
        ("sorted(os.listdir(base))", "['cache', 'file', 'named', 'shown']"),
        ("sorted(os.listdir(scratch)), (scratch / 'one/x').read_text()", "(['one'], 'x')"),
        ("(scratch / 'one/new').write_text('ab')", "2"),
        ("sorted(os.listdir('/dev/shm')), Path('/dev/shm/x').write_text('a')", "([], 1)"),
        (
            "Path('/dev/zero').open('rb').read(2), os.path.realpath('/dev/fd') == f'/proc/{os.getpid()}/fd'",
            "(b'\\x00\\x00', True)",
        ),
        ("sorted(os.listdir('/home'))", "[]"),
        ("os.access(base, os.W_OK), os.access('/dev', os.W_OK)", "(False, False)"),
        ("os.path.exists('/usr/bin/env'), os.getuid()", f"(True, {os.getuid()})"),
    ],
)
def test_contents_of_a_hidden_view(base: Path, expression: str, printed: str) -> None:
    assert seen(base, expression) == printed


def test_nothing_of_it_reaches_the_machine(base: Path) -> None:
    seen(base, "Path('/dev/shm/modelbuild-view').write_text('a')")
    assert not Path("/dev/shm/modelbuild-view").exists()


def test_a_whole_view_hides_nothing_but_shared_memory(base: Path) -> None:
    script = SCRIPT.replace("views.hidden(str(scratch / 'one'))", "views.whole()").replace(
        'views.hidden(str(scratch / "one"))', "views.whole()"
    )
    expression = "(base / 'hidden/x').read_text(), os.listdir('/dev/shm'), os.path.exists('/dev/ptmx')"
    done = subprocess.run(
        [sys.executable, "-c", script, str(base), expression], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "('x', [], True)"


def test_a_folder_that_holds_those_of_actions_is_shown_around_them(base: Path) -> None:
    script = SCRIPT.replace('[str(shown), str(base / "file")]', "[str(base)]")
    command = [sys.executable, "-c", script, str(base), "sorted(os.listdir(base)), os.listdir(scratch)"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(['cache', 'file', 'hidden', 'named', 'shown'], ['one'])"


# Prints whether a folder's view is reused after a process in it ran a statement.
AGAIN = """
import os, sys
from modelbuild.execution.isolation.namespaces import Views
scratch = sys.argv[1] + "/cache/scratch"
views = Views(scratch, [], [])
first = views.hidden(scratch + "/one")
if os.fork() == 0:
    views.hidden(scratch + "/one").join()
    exec(sys.argv[2])
    os._exit(0)
assert os.wait()[1] == 0
again, other = views.hidden(scratch + "/one"), views.hidden(scratch + "/two")
alone = views.hidden(), views.hidden()
number = lambda view: os.fstat(view.descriptor).st_ino
assert len({number(first), number(other), *map(number, alone)}) == 4
print(number(again) == number(first))
"""


@pytest.mark.parametrize(
    ("statement", "same"),
    [
        ("os.listdir('/dev/shm'), os.stat('/dev/shm')", True),
        ("open(scratch + '/one/new', 'w').close()", True),
        ("open('/dev/shm/x', 'w').close()", False),
        ("open('/dev/shm/x', 'w').close(); os.unlink('/dev/shm/x'); os.utime('/dev/shm', (0, 0))", False),
        ("os.chmod('/dev/shm', 0o1700); os.chmod('/dev/shm', 0o1777)", False),
        ("os.utime('/dev/shm', (1, 1))", False),
    ],
)
def test_a_view_is_used_again_where_nothing_was_left_in_it(base: Path, statement: str, same: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AGAIN, str(base), statement], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == (f"{same}\n", "")


@pytest.mark.parametrize(
    "statement",
    ["os.chmod(scratch, 0o700)", "os.utime(scratch, (1, 1))", "os.chmod('/dev', 0o700)", "os.mkdir(scratch + '/new')"],
)
def test_nothing_else_of_a_view_can_be_changed(base: Path, statement: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AGAIN, str(base), statement], capture_output=True, text=True, check=False
    )
    assert "Read-only file system" in done.stderr


@pytest.mark.parametrize(
    ("scratch", "shown", "why"),
    [
        ("/usr/share", "{base}/shown", "/usr/share is in a folder of the system"),
        ("{base}/cache", "/dev/shm", "actions read /dev/shm, and get a /dev of their own"),
        ("/dev/shm", "{base}/shown", "/dev/shm is in a folder of the system"),
    ],
)
def test_where_there_can_be_none(base: Path, scratch: str, shown: str, why: str) -> None:
    assert namespaces.refusal(scratch.format(base=base), [shown.format(base=base)]) == why
