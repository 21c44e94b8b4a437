"""Changes that people and their tools make to a workspace. Each takes the workspace and dice, and returns its
description."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from tests.build.world import RULE, STEP, Ended, World

Change: TypeAlias = Callable[[World, random.Random], str]

PACKAGES = ("p0", "p1", "p2")
LONG_AGO = 1_600_000_000_123_456_789
MOST_TARGETS = 3  # of a package, so that a build lists all

PACKAGE = 'package = { default_visibility = ["//visibility:public"] }\n'
ROOT_BUILD = f"""{PACKAGE}
[[device_target]]
name = "default"
arch = "x86_64"
"""


def begin(world: World, dice: random.Random) -> None:
    """Make a workspace of three packages."""
    world.write(
        {
            "MODELBUILD.toml": 'rules = ["//rules"]\n',
            "BUILD.toml": ROOT_BUILD,
            "rules/__init__.py": "",
            "rules/steps/__init__.py": "",
        }
    )
    edit_rule(world, dice)
    edit_step(world, dice)
    for package in PACKAGES:
        for name in ("a.txt", "b.txt", "f0/c.txt", "f0/f1/d.txt", "f2/e.dat"):
            world.write({f"{package}/{name}": _text(dice)})
    rewrite_build_files(world, dice)


# -- contents ---------------------------------------------------------------------------------------------------------


def _paths(world: World) -> list[Path]:
    """Everything below the packages but BUILD files, links to folders not followed."""
    found = []
    for package in PACKAGES:
        for top, folders, files in os.walk(world.root / package):
            found += [Path(top, name) for name in (*folders, *files) if name != "BUILD.toml"]
    return sorted(found)


def _files(world: World) -> list[Path]:
    return [path for path in _paths(world) if path.is_file() and not path.is_symlink()]


def _folders(world: World) -> list[Path]:
    return [path for path in _paths(world) if path.is_dir() and not path.is_symlink()]


def _outputs(world: World) -> list[Path]:
    out = world.root / "modelbuild-out"
    return sorted(path for path in out.rglob("*") if path.is_file() and ".modelbuild" not in path.parts)


def _text(dice: random.Random) -> str:
    """Always as long, so that a file's size does not show that it changed."""
    return f"{dice.randrange(100):02}\n"


def _shown(world: World, path: Path) -> str:
    return os.path.relpath(path, world.root)


@contextmanager
def _times_kept(*paths: Path) -> Iterator[None]:
    """Set the times of remaining files back afterwards."""
    before = {path: os.stat(path) for path in paths if path.exists()}
    yield
    for path, status in before.items():
        with suppress(FileNotFoundError):
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


# -- sources ----------------------------------------------------------------------------------------------------------


def edit_a_source(world: World, dice: random.Random) -> str:
    path = dice.choice(_files(world))
    with _times_kept(*([path] if dice.random() < 0.5 else [])):
        path.write_text(_text(dice))
    return _shown(world, path)


def replace_a_source(world: World, dice: random.Random) -> str:
    """Save a file as editors do that write a new file and rename it."""
    path = dice.choice(_files(world))
    with _times_kept(path, path.parent):
        path.with_name("new").write_text(_text(dice))
        os.replace(path.with_name("new"), path)
    return _shown(world, path)


def make_a_source_fail(world: World, dice: random.Random) -> str:
    path = dice.choice(_files(world))
    path.write_text("fail\n")
    return _shown(world, path)


def touch_a_source(world: World, dice: random.Random) -> str:
    path = dice.choice(_files(world))
    time = LONG_AGO if dice.random() < 0.5 else path.stat().st_mtime_ns + 1
    os.utime(path, ns=(time, time))
    return _shown(world, path)


def make_a_source_executable(world: World, dice: random.Random) -> str:
    path = dice.choice(_files(world))
    with _times_kept(path):
        path.chmod(dice.choice([0o644, 0o755]))
    return _shown(world, path)


def add_a_source(world: World, dice: random.Random) -> str:
    folder = dice.choice([*_folders(world), *(world.root / package for package in PACKAGES)])
    path = folder / f"{dice.choice('ghij')}.{dice.choice(['txt', 'dat'])}"
    if not os.path.lexists(path):
        with _times_kept(folder):
            path.write_text(_text(dice))
    return _shown(world, path)


def remove_something(world: World, dice: random.Random) -> str:
    path = dice.choice(_paths(world))
    with _times_kept(path.parent):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    return _shown(world, path)


def rename_something(world: World, dice: random.Random) -> str:
    path = dice.choice(_paths(world))
    target = dice.choice([world.root / dice.choice(PACKAGES), *_folders(world)]) / f"{dice.choice('klm')}.txt"
    if os.path.lexists(target) or path in target.parents:
        return "nothing"
    with _times_kept(path.parent, target.parent):
        path.rename(target)
    return f"{_shown(world, path)} to {_shown(world, target)}"


def swap_two_things(world: World, dice: random.Random) -> str:
    """Swap files or folders by renaming: nothing in them changes."""
    one, two = dice.choice(_paths(world)), dice.choice(_paths(world))
    if one == two or one in two.parents or two in one.parents:
        return "nothing"
    aside = world.root / "aside"
    with _times_kept(one.parent, two.parent):
        one.rename(aside)
        two.rename(one)
        aside.rename(two)
    return f"{_shown(world, one)} and {_shown(world, two)}"


def unpack_a_copy(world: World, dice: random.Random) -> str:
    """Replace a folder by a copy with all its times and one more file."""
    folders = _folders(world)
    if not folders:
        return "nothing"
    folder = dice.choice(folders)
    with _times_kept(folder.parent):
        copy, old = world.root / "copy", world.root / "old"
        shutil.copytree(folder, copy, symlinks=True)
        new = copy / f"{dice.choice('nop')}.txt"
        if not os.path.lexists(new):
            new.write_text(_text(dice))
        shutil.copystat(folder, copy)
        folder.rename(old)
        copy.rename(folder)
        shutil.rmtree(old)
    return _shown(world, folder)


def put_a_folder_in_place_of_a_file(world: World, dice: random.Random) -> str:
    path = dice.choice(_files(world))
    with _times_kept(path.parent):
        path.unlink()
        path.mkdir()
        (path / "q.txt").write_text(_text(dice))
    return _shown(world, path)


def put_a_file_in_place_of_a_folder(world: World, dice: random.Random) -> str:
    folders = _folders(world)
    if not folders:
        return "nothing"
    path = dice.choice(folders)
    with _times_kept(path.parent):
        shutil.rmtree(path)
        path.write_text(_text(dice))
    return _shown(world, path)


def put_a_link_in_place(world: World, dice: random.Random) -> str:
    """Make a link to a file, a folder or a missing path, in place of something or beside it."""
    path = dice.choice(_paths(world))
    if dice.random() < 0.5:
        path = path.with_name(f"{dice.choice('rst')}.txt")
    target = world.root / dice.choice(["missing", "missing folder/x", *(_shown(world, p) for p in _paths(world))])
    with _times_kept(path.parent):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.symlink_to(os.path.relpath(target, path.parent))
    return f"{_shown(world, path)} to {_shown(world, target)}"


def make_or_take_what_links_lead_to(world: World, dice: random.Random) -> str:
    for path in (world.root / "missing", world.root / "missing folder/x"):
        if path.exists():
            path.unlink()
        elif dice.random() < 0.7:
            path.parent.mkdir(exist_ok=True)
            path.write_text(_text(dice))
    return ""


# -- packages and rules -----------------------------------------------------------------------------------------------


def _sources(world: World, package: str, dice: random.Random) -> str:
    """Return a value for `srcs`: a glob, or names of files and of targets of later packages."""
    if dice.random() < 0.5:
        pattern = dice.choice(["**/*.txt", "*.txt", "f0/**", "**"])
        return f'{{ glob = ["{pattern}"], exclude = ["**/b.txt"], allow_empty = true }}'
    folder = world.root / package
    inside = [path.relative_to(folder).as_posix() for path in _files(world) if folder in path.parents]
    later = [f"//{other}:t0" for other in PACKAGES if other > package]
    return str(dice.sample(inside, min(2, len(inside))) + dice.sample(later, dice.randint(0, len(later))))


def _target(world: World, package: str, name: str, dice: random.Random) -> str:
    prefix = dice.choice(['"1 "', '"2 "', '{ select = { "//:default" = "default ", default = "none " } }'])
    return (
        f'[[join]]\nname = "{name}"\nsrcs = {_sources(world, package, dice)}\n'
        f"data = {_sources(world, package, dice)}\nprefix = {prefix}\n"
    )


def _write_package(world: World, package: str, dice: random.Random) -> None:
    names = [f"t{number}" for number in range(dice.randint(1, MOST_TARGETS))]
    text = PACKAGE + "".join(_target(world, package, name, dice) for name in names)
    path = world.root / package / "BUILD.toml"
    if path.parent.is_symlink() or not path.parent.is_dir():
        remove = path.parent.unlink if os.path.lexists(path.parent) else str
        remove()
        path.parent.mkdir()
    path.unlink(missing_ok=True)
    path.write_text(text)


def rewrite_build_files(world: World, dice: random.Random) -> str:
    """Write all files as they should be, regardless of changes to the files that they name."""
    for package in PACKAGES:
        for path in (world.root / package).rglob("BUILD.toml"):
            path.unlink()
        _write_package(world, package, dice)
    for path in _files(world):
        if "fail" in path.read_text():
            path.write_text(_text(dice))
    return ""


def edit_a_build_file(world: World, dice: random.Random) -> str:
    package = dice.choice(PACKAGES)
    path = world.root / package / "BUILD.toml"
    with _times_kept(path, path.parent):
        _write_package(world, package, dice)
    return package


def comment_in_a_build_file(world: World, dice: random.Random) -> str:
    path = world.root / dice.choice(PACKAGES) / "BUILD.toml"
    if path.is_file():
        path.write_text(f"# {dice.randrange(10)}\n{path.read_text()}")
    return _shown(world, path)


def break_a_build_file(world: World, dice: random.Random) -> str:
    path = world.root / dice.choice(PACKAGES) / "BUILD.toml"
    broken = dice.choice(["[[join", "[[joyn]]\nname = 't0'\n", "[[join]]\nname = 't0'\nsrcs = ['nowhere.txt']\n"])
    path.write_text(broken)
    return f"{_shown(world, path)}: {broken!r}"


def make_a_folder_a_package(world: World, dice: random.Random) -> str:
    folders = _folders(world)
    if not folders:
        return "nothing"
    folder = dice.choice(folders)
    with _times_kept(folder):
        (folder / "BUILD.toml").write_text("")
    return _shown(world, folder)


def take_a_package_away(world: World, dice: random.Random) -> str:
    path = dice.choice([path for package in PACKAGES for path in (world.root / package).rglob("BUILD.toml")] or [None])
    if path is None:
        return "nothing"
    with _times_kept(path.parent):
        path.unlink()
    return _shown(world, path)


def edit_step(world: World, dice: random.Random) -> str:
    """Change one output byte; the source has the same size, and perhaps the same time."""
    path = world.root / "rules/steps/join.py"
    with _times_kept(path):
        path.write_text(STEP.replace('step.params["prefix"]', f'"s{dice.randrange(10)} " + step.params["prefix"]'))
    return ""


def edit_rule(world: World, dice: random.Random) -> str:
    path = world.root / "rules/join.py"
    with _times_kept(path):
        path.write_text(RULE.replace("ctx.attrs.prefix}", f'f"r{dice.randrange(10)} {{ctx.attrs.prefix}}"}}'))
    return ""


# -- outputs and the cache --------------------------------------------------------------------------------------------


def damage_an_output(world: World, dice: random.Random) -> str:
    outputs = _outputs(world)
    if not outputs:
        return "nothing"
    path = dice.choice(outputs)
    how = dice.randrange(4)
    if how == 0:
        path.unlink()
    elif how == 1:
        path.chmod(0o755 if path.stat().st_mode & 0o100 == 0 else 0o644)
    elif how == 2:
        path.chmod(0o644)
        path.write_text(_text(dice))
    else:
        path.with_name("new").write_text(_text(dice))
        os.replace(path.with_name("new"), path)
    return f"{_shown(world, path)}: {how}"


def remove_the_outputs(world: World, dice: random.Random) -> str:
    shutil.rmtree(world.root / "modelbuild-out", ignore_errors=True)
    return ""


def remove_the_cache(world: World, dice: random.Random) -> str:
    shutil.rmtree(world.cache, ignore_errors=True)
    return ""


def _assert_cleaned(ended: Ended) -> None:
    """Fail unless the command succeeded, MODELBUILD.toml is wrong (3), or another build used the cache (36)."""
    assert ended.code in (0, 3) or (ended.code == 36 and "is in use by another build" in ended.err), ended.err


def clean(world: World, dice: random.Random) -> str:
    options = dice.choice([(), ("--expunge",)])
    ended = world.run("clean", *options)
    _assert_cleaned(ended)
    return " ".join(options)


def collect(world: World, dice: random.Random) -> str:
    size = str(dice.choice([1, 200, 2000]))
    ended = world.run("cache", "gc", "--max-size", size)
    _assert_cleaned(ended)
    return size


def cap_the_cache(world: World, dice: random.Random) -> str:
    size = dice.choice([1, 500, 10**9])
    (world.root / "MODELBUILD.toml").write_text(f'rules = ["//rules"]\n[cache]\nmax_size = {size}\n')
    return str(size)


CHANGES: dict[Change, int] = {
    edit_a_source: 8,
    replace_a_source: 2,
    make_a_source_fail: 1,
    touch_a_source: 2,
    make_a_source_executable: 2,
    add_a_source: 5,
    remove_something: 3,
    rename_something: 3,
    swap_two_things: 4,
    unpack_a_copy: 2,
    put_a_folder_in_place_of_a_file: 1,
    put_a_file_in_place_of_a_folder: 1,
    put_a_link_in_place: 4,
    make_or_take_what_links_lead_to: 3,
    rewrite_build_files: 2,
    edit_a_build_file: 4,
    comment_in_a_build_file: 1,
    break_a_build_file: 1,
    make_a_folder_a_package: 2,
    take_a_package_away: 1,
    edit_step: 2,
    edit_rule: 2,
    damage_an_output: 4,
    remove_the_outputs: 1,
    remove_the_cache: 1,
    clean: 1,
    collect: 2,
    cap_the_cache: 1,
}
