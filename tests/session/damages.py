"""Damage to a cache's folder and the output tree: by mistake, by other programs, by a failing disk."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

# A folder beside the workspace and the cache that no build may change.
ELSEWHERE = "elsewhere"
DECOYS = {
    "file": "mine\n",
    "lock": "mine\n",
    "build-1/lock": "mine\n",
    "build-1/folder/file": "mine\n",
    "00/file": "mine\n",
    f"{'a' * 2}/{'a' * 64}": "mine\n",
    "index-v2.0.db": "mine\n",
    "1.db": "mine\n",
    "outputs/list.json": "[]",
}

Damage: TypeAlias = Callable[[Path, random.Random], None]


def remove(path: Path, dice: random.Random) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def spoil_some_bytes(path: Path, dice: random.Random) -> None:
    """Damage the middle of a file, as a failing disk does, except that the time changes."""
    if path.is_file() and path.stat().st_size:
        data = bytearray(path.read_bytes())
        for _ in range(dice.randint(1, 20)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        path.chmod(0o644)
        path.write_bytes(data)


def cut_short(path: Path, dice: random.Random) -> None:
    """Truncate a file, as a machine does that stops during a write."""
    if path.is_file():
        path.chmod(0o644)
        os.truncate(path, dice.randrange(path.stat().st_size + 1))


def zero_a_block(path: Path, dice: random.Random) -> None:
    if path.is_file() and path.stat().st_size:
        path.chmod(0o644)
        with path.open("r+b") as file:
            file.seek(dice.randrange(path.stat().st_size) // 512 * 512)
            file.write(bytes(512))


def take_permissions(path: Path, dice: random.Random) -> None:
    if path.exists() and not path.is_symlink():
        path.chmod(dice.choice([0o000, 0o444, 0o222]))


def put_garbage(path: Path, dice: random.Random) -> None:
    remove(path, dice)
    path.write_bytes(dice.randbytes(dice.randint(0, 3000)))


def put_a_folder(path: Path, dice: random.Random) -> None:
    remove(path, dice)
    (path / "with/some").mkdir(parents=True)
    (path / "with/some/files").write_bytes(b"")


def put_a_link(path: Path, dice: random.Random) -> None:
    """Also to somebody else's files and folders, which have names such as those of a cache."""
    remove(path, dice)
    elsewhere = [ELSEWHERE, *(f"{ELSEWHERE}/{name}" for name in DECOYS)]
    target = dice.choice(["nothing", path.name, ".", "/dev/zero", *elsewhere])
    top = next(parent for parent in path.parents if (parent / ELSEWHERE).is_dir())
    path.symlink_to(target if not target.startswith(ELSEWHERE) else os.path.relpath(top / target, path.parent))


def put_a_pipe(path: Path, dice: random.Random) -> None:
    remove(path, dice)
    os.mkfifo(path)


def put_another_file(path: Path, dice: random.Random) -> None:
    """Replace a file by one of those beside it, under its name."""
    others = [other for other in path.parent.iterdir() if other.is_file() and not other.is_symlink()]
    if others and path.is_file():
        shutil.copy2(dice.choice(others), path.parent / "copy")
        os.replace(path.parent / "copy", path)


IN_PLACE = [spoil_some_bytes, cut_short, zero_a_block, put_another_file]
DAMAGES: list[Damage] = [*IN_PLACE, remove, take_permissions, put_garbage, put_a_folder, put_a_link, put_a_pipe]


def make_decoys(folder: Path) -> None:
    for name, text in DECOYS.items():
        path = folder / ELSEWHERE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / ELSEWHERE / "build-1/folder").chmod(0o750)


def assert_untouched(folder: Path) -> None:
    top = folder / ELSEWHERE
    found = {path.relative_to(top).as_posix(): path.read_text() for path in top.rglob("*") if path.is_file()}
    assert found == DECOYS
    assert (top / "build-1/folder").stat().st_mode & 0o777 == 0o750
    assert all(path.stat().st_mode & 0o777 in (0o644, 0o640) for path in top.rglob("*") if path.is_file())


def damage_something(folder: Path, dice: random.Random, in_place: bool = True) -> str:
    """Damage anything in a folder; folders at its top as often as everything below them. Return a description."""
    found = sorted(Path(top, name) for top, below, files in os.walk(folder) for name in (*below, *files))
    tops = [path for path in found if path.parent == folder]
    if not found:
        return "nothing"
    path = dice.choice(dice.choice([found, tops]))
    in_place = in_place and not path.is_symlink()  # through which the damage would be done elsewhere
    damage = dice.choice(DAMAGES if in_place else [each for each in DAMAGES if each not in IN_PLACE])
    try:
        damage(path, dice)
    except OSError as error:
        return f"{damage.__name__} {path.relative_to(folder)}: {error.strerror}"
    return f"{damage.__name__} {path.relative_to(folder)}"
