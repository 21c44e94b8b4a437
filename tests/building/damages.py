"""What can befall a cache's folder and the output tree's own: by mistake, by other programs, by a disk that fails."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

Damage: TypeAlias = Callable[[Path, random.Random], None]


def remove(path: Path, dice: random.Random) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def spoil_some_bytes(path: Path, dice: random.Random) -> None:
    """In the midst of a file, as a failing disk does, but for the time, which moves."""
    if path.is_file() and path.stat().st_size:
        data = bytearray(path.read_bytes())
        for _ in range(dice.randint(1, 20)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        path.chmod(0o644)
        path.write_bytes(data)


def cut_short(path: Path, dice: random.Random) -> None:
    """As a machine does that stops while it writes."""
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
    remove(path, dice)
    path.symlink_to(dice.choice(["nothing", path.name, "/etc/hostname", "/dev/zero", "/tmp", "."]))


def put_a_pipe(path: Path, dice: random.Random) -> None:
    remove(path, dice)
    os.mkfifo(path)


def put_another_file(path: Path, dice: random.Random) -> None:
    """One of those beside it, under its name."""
    others = [other for other in path.parent.iterdir() if other.is_file() and not other.is_symlink()]
    if others and path.is_file():
        shutil.copy2(dice.choice(others), path.parent / "copy")
        os.replace(path.parent / "copy", path)


IN_PLACE = [spoil_some_bytes, cut_short, zero_a_block, put_another_file]
DAMAGES: list[Damage] = [*IN_PLACE, remove, take_permissions, put_garbage, put_a_folder, put_a_link, put_a_pipe]


def damage_something(folder: Path, dice: random.Random, in_place: bool = True) -> str:
    """Damage anything in a folder; folders at its top as often as all that is below them. Returns what was done."""
    found = sorted(Path(top, name) for top, below, files in os.walk(folder) for name in (*below, *files))
    tops = [path for path in found if path.parent == folder]
    if not found:
        return "nothing"
    path = dice.choice(dice.choice([found, tops]))
    damage = dice.choice(DAMAGES if in_place else [each for each in DAMAGES if each not in IN_PLACE])
    try:
        damage(path, dice)
    except OSError as error:
        return f"{damage.__name__} {path.relative_to(folder)}: {error.strerror}"
    return f"{damage.__name__} {path.relative_to(folder)}"
