"""Lock files: what they pin, and one located line for each thing that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelbuild.errors import LoadingError
from modelbuild.toolchain.lock_file import Lock, read_lock

A, B = "a" * 64, "b" * 64
WHEEL = f'wheels = [{{ url = "https://host.example/x-1.0-py3-none-any.whl", hashes = {{ sha256 = "{A}" }} }}]\n'
SDIST = f'sdist = {{ url = "https://host.example/x-1.0.tar.gz", hashes = {{ sha256 = "{A}" }} }}\n'
PYLOCK = 'lock-version = "1.0"\n[[packages]]\nname = "x"\nversion = "1.0"\n'


def lock(root: Path, text: str, name: str = "tools.lock", *from_source: str) -> Lock:
    (root / name).write_text(text)
    return read_lock(root, name, from_source)


def problem(root: Path, text: str, name: str = "tools.lock") -> str:
    with pytest.raises(LoadingError) as raised:
        lock(root, text, name)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_pins_with_their_lines(tmp_path: Path) -> None:
    text = (
        f"# A comment.\n--index-url https://host.example/simple\n\nAlpha_Net[big]==1.0 \\\n    --hash=sha256:{A} \\\n"
        f"    --hash=sha256:{B}\n    # via beta\nbeta==2.0 ; sys_platform == 'linux' --hash=sha256:{A}\n"
        f"gamma @ https://host.example/gamma-1.0-py3-none-any.whl --hash=sha256:{A}\n"
    )
    found = lock(tmp_path, text)
    assert [(pin.name, pin.version, str(pin.location)) for pin in found.pins] == [
        ("alpha-net", "1.0", "tools.lock:4:1"),
        ("beta", "2.0", "tools.lock:8:1"),
        ("gamma", "", "tools.lock:9:1"),
    ]
    assert found.pin("Alpha.net") == found.pins[0]


def test_a_package_with_versions_for_two_pythons_is_counted_once(tmp_path: Path) -> None:
    old, new = "alpha==1.0 ; python_version < '3.12'", "alpha==2.0 ; python_version >= '3.12'"
    found = lock(tmp_path, "".join(f"{each} --hash=sha256:{A}\n" for each in (old, new, "beta==1.0")))
    assert (len(found.pins), found.packages) == (3, 2)


def test_the_digest_is_of_what_is_pinned(tmp_path: Path) -> None:
    text = f"alpha==1.0 --hash=sha256:{A}\nbeta==2.0 --hash=sha256:{B}\n"
    first = lock(tmp_path, text).digest
    again = f"-i https://host.example\nbeta==2.0 \\\n  --hash=sha256:{B}  # why\nalpha == 1.0 --hash=sha256:{A}\n"
    assert lock(tmp_path, again).digest == first
    others = [
        text.replace("2.0", "2.1"),
        text.replace(B, A),
        text.replace("beta", "gamma"),
        text.replace("2.0 ", "2.0; python_version < '4' "),
        text.replace("beta", "beta[extra]"),
        text + f"gamma==1.0 --hash=sha256:{A}\n",
    ]
    assert len({first, *(lock(tmp_path, other).digest for other in others)}) == len(others) + 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("six==1.17.0\n", "tools.lock:1:1: 'six==1.17.0' has no hash; expected --hash=sha256:..., as"),
        (f"six --hash=sha256:{A}\n", "tools.lock:1:1: 'six' is not pinned; expected six==version --hash=sha256:..."),
        (f"# a\nsix>=1 --hash=sha256:{A}\n", "tools.lock:2:1: 'six>=1' is not pinned; expected six==version"),
        (f"six==1.* --hash=sha256:{A}\n", "tools.lock:1:1: 'six==1.*' is not pinned"),
        ("-r more.txt\n", "tools.lock:1:1: '-r' is not allowed in a lock; expected packages with versions and hashes"),
        ("-e .\n", "tools.lock:1:1: '-e' is not allowed in a lock"),
        ("git+https://host.example/x\n", "tools.lock:1:1: 'git+https://host.example/x' is not a requirement; expected"),
        (f"\xe9six==1.17.0 --hash=sha256:{A}\n", "tools.lock:1:1: '\xe9six==1.17.0' is not a requirement; expected"),
        (f"s\xefx==1.17.0 --hash=sha256:{A}\n", "tools.lock:1:1: 's\xefx==1.17.0' is not a requirement; expected"),
        ("./six.whl\n", "tools.lock:1:1: './six.whl' is not a requirement; expected name==version"),
        ("# nothing\n", "tools.lock:1:1: no package is pinned here; expected lines as"),
    ],
)
def test_requirements_that_are_refused(tmp_path: Path, text: str, expected: str) -> None:
    assert problem(tmp_path, text).startswith(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = \n", "pylock.toml:1:5: "),
        ("a = 1\n", "pylock.toml:1:1: not a lock file; expected a pylock.toml (PEP 751), with [[packages]]"),
        ('lock-version = "1.0"\npackages = []\n', "pylock.toml:1:1: no package is pinned here"),
        (PYLOCK, "pylock.toml:2:1: 'x' has no wheel; expected wheels, or its name in 'from_source' of the toolchain"),
        (PYLOCK + SDIST, "pylock.toml:2:1: 'x' has no wheel; expected wheels"),
        (PYLOCK + 'vcs = { type = "git" }\n', "pylock.toml:5:1: 'x' has no hash: it is from a vcs; expected wheels"),
        (PYLOCK + 'wheels = [{ url = "x.whl" }]\n', "pylock.toml:2:1: 'x' has no hash; expected hashes = "),
        (PYLOCK.replace('name = "x"', ""), "pylock.toml:2:1: a package without a name"),
    ],
)
def test_pylocks_that_are_refused(tmp_path: Path, text: str, expected: str) -> None:
    assert problem(tmp_path, text, "pylock.toml").startswith(expected)


def test_a_pylock(tmp_path: Path) -> None:
    found = lock(tmp_path, PYLOCK + WHEEL, "pylock.toml")
    assert [(pin.name, pin.version, str(pin.location)) for pin in found.pins] == [("x", "1.0", "pylock.toml:2:1")]
    elsewhere = lock(tmp_path, PYLOCK + WHEEL.replace("host.example", "mirror.example"), "pylock.toml")
    assert elsewhere.digest == found.digest
    assert lock(tmp_path, PYLOCK + WHEEL.replace(A, B), "pylock.toml").digest != found.digest
    assert lock(tmp_path, PYLOCK + SDIST, "pylock.toml", "x").pins == found.pins


def test_the_lock_of_a_project_is_refused(tmp_path: Path) -> None:
    expected = "uv.lock:1:1: the lock of a project is not installed as it is; expected requirements with hashes"
    assert problem(tmp_path, "version = 1\n", "uv.lock").startswith(expected)


@pytest.mark.parametrize("name", ["tools.lock", "pylock.toml"])
def test_bytes_that_are_no_text(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\xff\xfe")
    with pytest.raises(LoadingError, match=name):
        read_lock(tmp_path, name)
