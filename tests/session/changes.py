"""Changes that people and their tools make to a workspace. Each takes the workspace and dice, and returns its
description."""

from __future__ import annotations

import mmap
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from tests.command_runner import Ended
from tests.session.checked_workspace import RULE, STEP, CheckedWorkspace
from tests.session.file_systems import bound, erofs_image, mounted

Change: TypeAlias = Callable[[CheckedWorkspace, random.Random], str]

PACKAGES = ("p0", "p1", "p2")
LONG_AGO = 1_600_000_000_123_456_789
MOST_TARGETS = 3  # of a package, so that a build lists all

PACKAGE = 'package = { default_visibility = ["//visibility:public"] }\n'
ROOT_BUILD = f"""{PACKAGE}
[[device_target]]
name = "default"
arch = "x86_64"
"""


def begin(workspace: CheckedWorkspace, dice: random.Random) -> None:
    """Make a workspace of three packages."""
    workspace.write(
        {
            "MODELBUILD.toml": 'rules = ["//rules"]\n',
            "BUILD.toml": ROOT_BUILD,
            "rules/__init__.py": "",
            "rules/steps/__init__.py": "",
        }
    )
    edit_a_module(workspace, dice)
    edit_rule(workspace, dice)
    edit_step(workspace, dice)
    for package in PACKAGES:
        for name in ("a.txt", "b.txt", "f0/c.txt", "f0/f1/d.txt", "f2/e.dat"):
            workspace.write({f"{package}/{name}": _text(dice)})
    rewrite_build_files(workspace, dice)


# -- contents ---------------------------------------------------------------------------------------------------------


def _paths(workspace: CheckedWorkspace) -> list[Path]:
    """Everything below the packages but BUILD files and mounts, links to folders not followed."""
    found = []
    for package in PACKAGES:
        for top, folders, files in os.walk(workspace.root / package):
            folders[:] = [name for name in folders if Path(top, name) not in workspace.mounts]
            found += [Path(top, name) for name in (*folders, *files) if name != "BUILD.toml"]
    return sorted(found)


def _files(workspace: CheckedWorkspace) -> list[Path]:
    return [path for path in _paths(workspace) if path.is_file() and not path.is_symlink()]


def _folders(workspace: CheckedWorkspace) -> list[Path]:
    return [path for path in _paths(workspace) if path.is_dir() and not path.is_symlink()]


def _outputs(workspace: CheckedWorkspace) -> list[Path]:
    out = workspace.root / "modelbuild-out"
    return sorted(path for path in out.rglob("*") if path.is_file() and ".modelbuild" not in path.parts)


def _text(dice: random.Random) -> str:
    """Always as long, so that a file's size does not show that it changed."""
    return f"{dice.randrange(100):02}\n"


def _shown(workspace: CheckedWorkspace, path: Path) -> str:
    return os.path.relpath(path, workspace.root)


@contextmanager
def _times_kept(*paths: Path) -> Iterator[None]:
    """Set the times of remaining files back afterwards."""
    before = {path: os.stat(path) for path in paths if path.exists()}
    yield
    for path, status in before.items():
        with suppress(FileNotFoundError):
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


# -- sources ----------------------------------------------------------------------------------------------------------


def edit_a_source(workspace: CheckedWorkspace, dice: random.Random) -> str:
    path = dice.choice(_files(workspace))
    with _times_kept(*([path] if dice.random() < 0.5 else [])):
        path.write_text(_text(dice))
    return _shown(workspace, path)


def replace_a_source(workspace: CheckedWorkspace, dice: random.Random) -> str:
    """Save a file as editors do that write a new file and rename it."""
    path = dice.choice(_files(workspace))
    with _times_kept(path, path.parent):
        path.with_name("new").write_text(_text(dice))
        os.replace(path.with_name("new"), path)
    return _shown(workspace, path)


def make_a_source_fail(workspace: CheckedWorkspace, dice: random.Random) -> str:
    path = dice.choice(_files(workspace))
    path.write_text("fail\n")
    return _shown(workspace, path)


def touch_a_source(workspace: CheckedWorkspace, dice: random.Random) -> str:
    path = dice.choice(_files(workspace))
    time = LONG_AGO if dice.random() < 0.5 else path.stat().st_mtime_ns + 1
    os.utime(path, ns=(time, time))
    return _shown(workspace, path)


def make_a_source_executable(workspace: CheckedWorkspace, dice: random.Random) -> str:
    path = dice.choice(_files(workspace))
    with _times_kept(path):
        path.chmod(dice.choice([0o644, 0o755]))
    return _shown(workspace, path)


def add_a_source(workspace: CheckedWorkspace, dice: random.Random) -> str:
    folder = dice.choice([*_folders(workspace), *(workspace.root / package for package in PACKAGES)])
    path = folder / f"{dice.choice('ghij')}.{dice.choice(['txt', 'dat'])}"
    if not os.path.lexists(path):
        with _times_kept(folder):
            path.write_text(_text(dice))
    return _shown(workspace, path)


def remove_something(workspace: CheckedWorkspace, dice: random.Random) -> str:
    path = dice.choice(_paths(workspace))
    with _times_kept(path.parent):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    return _shown(workspace, path)


def rename_something(workspace: CheckedWorkspace, dice: random.Random) -> str:
    path = dice.choice(_paths(workspace))
    target = dice.choice([workspace.root / dice.choice(PACKAGES), *_folders(workspace)]) / f"{dice.choice('klm')}.txt"
    if os.path.lexists(target) or path in target.parents:
        return "nothing"
    with _times_kept(path.parent, target.parent):
        path.rename(target)
    return f"{_shown(workspace, path)} to {_shown(workspace, target)}"


def swap_two_things(workspace: CheckedWorkspace, dice: random.Random) -> str:
    """Swap files or folders by renaming: nothing in them changes."""
    one, two = dice.choice(_paths(workspace)), dice.choice(_paths(workspace))
    if one == two or one in two.parents or two in one.parents:
        return "nothing"
    aside = workspace.root / "aside"
    with _times_kept(one.parent, two.parent):
        one.rename(aside)
        two.rename(one)
        aside.rename(two)
    return f"{_shown(workspace, one)} and {_shown(workspace, two)}"


def unpack_a_copy(workspace: CheckedWorkspace, dice: random.Random) -> str:
    """Replace a folder by a copy with all its times and one more file."""
    folders = _folders(workspace)
    if not folders:
        return "nothing"
    folder = dice.choice(folders)
    with _times_kept(folder.parent):
        copy, old = workspace.root / "copy", workspace.root / "old"
        shutil.copytree(folder, copy, symlinks=True)
        new = copy / f"{dice.choice('nop')}.txt"
        if not os.path.lexists(new):
            new.write_text(_text(dice))
        shutil.copystat(folder, copy)
        folder.rename(old)
        copy.rename(folder)
        shutil.rmtree(old)
    return _shown(workspace, folder)


def put_a_folder_in_place_of_a_file(workspace: CheckedWorkspace, dice: random.Random) -> str:
    path = dice.choice(_files(workspace))
    with _times_kept(path.parent):
        path.unlink()
        path.mkdir()
        (path / "q.txt").write_text(_text(dice))
    return _shown(workspace, path)


def put_a_file_in_place_of_a_folder(workspace: CheckedWorkspace, dice: random.Random) -> str:
    folders = _folders(workspace)
    if not folders:
        return "nothing"
    path = dice.choice(folders)
    with _times_kept(path.parent):
        shutil.rmtree(path)
        path.write_text(_text(dice))
    return _shown(workspace, path)


def put_a_link_in_place(workspace: CheckedWorkspace, dice: random.Random) -> str:
    """Make a link to a file, a folder or a missing path, in place of something or beside it."""
    path = dice.choice(_paths(workspace))
    if dice.random() < 0.5:
        path = path.with_name(f"{dice.choice('rst')}.txt")
    target = workspace.root / dice.choice(
        ["missing", "missing folder/x", *(_shown(workspace, p) for p in _paths(workspace))]
    )
    with _times_kept(path.parent):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.symlink_to(os.path.relpath(target, path.parent))
    return f"{_shown(workspace, path)} to {_shown(workspace, target)}"


def make_or_take_what_links_lead_to(workspace: CheckedWorkspace, dice: random.Random) -> str:
    for path in (workspace.root / "missing", workspace.root / "missing folder/x"):
        if path.exists():
            path.unlink()
        elif dice.random() < 0.7:
            path.parent.mkdir(exist_ok=True)
            path.write_text(_text(dice))
    return ""


def store_through_a_mapping(workspace: CheckedWorkspace, dice: random.Random) -> str:
    """Later stores of a mapping move no time. See CheckedWorkspace.mappings."""
    if not workspace.mappings or dice.random() < 0.3:
        file = dice.choice(_files(workspace)).open("r+b")
        workspace.mappings.append((file, mmap.mmap(file.fileno(), 0)))
    file, mapped = dice.choice(workspace.mappings)
    mapped[:] = _text(dice).encode().rjust(len(mapped), b"0")[-len(mapped) :]
    return _shown(workspace, Path(file.name))


def close_mappings(workspace: CheckedWorkspace, dice: random.Random) -> str:
    """Close all mappings, and move the times of their files."""
    for file, mapped in workspace.mappings:
        mapped.close()
        os.utime(file.fileno())
        file.close()
    workspace.mappings.clear()
    return ""


def mount_something(workspace: CheckedWorkspace, dice: random.Random) -> str:
    """Mount an image, whose times are always equal, or a folder over a folder; or unmount."""
    folder = workspace.root / dice.choice(PACKAGES) / "mounted"
    if folder in workspace.mounts:
        workspace.mounts.pop(folder).close()
        return f"nothing to {_shown(workspace, folder)}"
    if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir()):
        return "nothing"
    folder.mkdir(exist_ok=True)
    source = workspace.folder / f"{folder.parent.name}.img"
    if dice.random() < 0.7:
        source.write_bytes(erofs_image({"x.txt": _text(dice).encode()}, LONG_AGO // 10**9))
        mount = mounted(source, folder)
    else:
        mount = bound(dice.choice([*_folders(workspace), workspace.root / dice.choice(PACKAGES)]), folder)
    with ExitStack() as stack:
        stack.enter_context(mount)
        workspace.mounts[folder] = stack.pop_all()
    return f"{source} to {_shown(workspace, folder)}"


# -- packages and rules -----------------------------------------------------------------------------------------------


def _sources(workspace: CheckedWorkspace, package: str, dice: random.Random) -> str:
    """Return a value for `srcs`: a glob, or names of files and of targets of later packages."""
    if dice.random() < 0.5:
        pattern = dice.choice(["**/*.txt", "*.txt", "f0/**", "**"])
        return f'{{ glob = ["{pattern}"], exclude = ["**/b.txt"], allow_empty = true }}'
    folder = workspace.root / package
    inside = [path.relative_to(folder).as_posix() for path in _files(workspace) if folder in path.parents]
    later = [f"//{other}:t0" for other in PACKAGES if other > package]
    return str(dice.sample(inside, min(2, len(inside))) + dice.sample(later, dice.randint(0, len(later))))


def _target(workspace: CheckedWorkspace, package: str, name: str, dice: random.Random) -> str:
    prefix = dice.choice(['"1 "', '"2 "', '{ select = { "//:default" = "default ", default = "none " } }'])
    return (
        f'[[join]]\nname = "{name}"\nsrcs = {_sources(workspace, package, dice)}\n'
        f"data = {_sources(workspace, package, dice)}\nprefix = {prefix}\n"
    )


def _write_package(workspace: CheckedWorkspace, package: str, dice: random.Random) -> None:
    names = [f"t{number}" for number in range(dice.randint(1, MOST_TARGETS))]
    text = PACKAGE + "".join(_target(workspace, package, name, dice) for name in names)
    path = workspace.root / package / "BUILD.toml"
    if path.parent.is_symlink() or not path.parent.is_dir():
        remove = path.parent.unlink if os.path.lexists(path.parent) else str
        remove()
        path.parent.mkdir()
    path.unlink(missing_ok=True)
    path.write_text(text)


def rewrite_build_files(workspace: CheckedWorkspace, dice: random.Random) -> str:
    """Write all files as they should be, regardless of changes to the files that they name."""
    for package in PACKAGES:
        for path in (workspace.root / package).rglob("BUILD.toml"):
            path.unlink(missing_ok=True)
        _write_package(workspace, package, dice)
    edit_rule(workspace, dice)
    for path in _files(workspace):
        if "fail" in path.read_text():
            path.write_text(_text(dice))
    return ""


def edit_a_build_file(workspace: CheckedWorkspace, dice: random.Random) -> str:
    package = dice.choice(PACKAGES)
    path = workspace.root / package / "BUILD.toml"
    with _times_kept(path, path.parent):
        _write_package(workspace, package, dice)
    return package


def comment_in_a_build_file(workspace: CheckedWorkspace, dice: random.Random) -> str:
    path = workspace.root / dice.choice(PACKAGES) / "BUILD.toml"
    if path.is_file():
        path.write_text(f"# {dice.randrange(10)}\n{path.read_text()}")
    return _shown(workspace, path)


def break_a_build_file(workspace: CheckedWorkspace, dice: random.Random) -> str:
    path = workspace.root / dice.choice(PACKAGES) / "BUILD.toml"
    broken = dice.choice(["[[join", "[[joyn]]\nname = 't0'\n", "[[join]]\nname = 't0'\nsrcs = ['nowhere.txt']\n"])
    path.write_text(broken)
    return f"{_shown(workspace, path)}: {broken!r}"


def make_a_folder_a_package(workspace: CheckedWorkspace, dice: random.Random) -> str:
    folders = _folders(workspace)
    if not folders:
        return "nothing"
    folder = dice.choice(folders)
    with _times_kept(folder):
        (folder / "BUILD.toml").write_text("")
    return _shown(workspace, folder)


def take_a_package_away(workspace: CheckedWorkspace, dice: random.Random) -> str:
    path = dice.choice(
        [path for package in PACKAGES for path in (workspace.root / package).rglob("BUILD.toml")] or [None]
    )
    if path is None:
        return "nothing"
    with _times_kept(path.parent):
        path.unlink()
    return _shown(workspace, path)


def edit_step(workspace: CheckedWorkspace, dice: random.Random) -> str:
    """Change one output byte; the source has the same size, and perhaps the same time."""
    path = workspace.root / "rules/steps/join.py"
    with _times_kept(path):
        path.write_text(STEP.replace('step.params["prefix"]', f'"s{dice.randrange(10)} " + step.params["prefix"]'))
    return ""


def edit_rule(workspace: CheckedWorkspace, dice: random.Random) -> str:
    path = workspace.root / "rules/join.py"
    with _times_kept(path):
        prefix = f'f"r{dice.randrange(10)} {{module.VALUE}} {{ctx.attrs.prefix}}"}}'
        path.write_text("import module\n" + RULE.replace("ctx.attrs.prefix}", prefix))
    return ""


def make_the_rule_read(workspace: CheckedWorkspace, dice: random.Random) -> str:
    path = workspace.root / "rules/join.py"
    root = '__file__.rpartition("/rules/")[0]'
    read = dice.choice([f"open({root} + '/p0/a.txt').read()", f"os.listdir({root})", "os.environ.get('HOME')"])
    if "import os" not in path.read_text():
        edited = path.read_text().replace("    ctx.files(", f"    {read}\n    ctx.files(")
        path.write_text(f"import os\n{edited}")
    return read


def edit_a_module(workspace: CheckedWorkspace, dice: random.Random) -> str:
    """Of another size, because Python's own byte code is valid for a size and seconds."""
    path = workspace.modules / "module.py"
    size = path.stat().st_size if path.exists() else 0
    path.write_text(f"VALUE = {dice.randrange(10)}".ljust(size, "#") + "#\n")
    return ""


# -- outputs and the cache --------------------------------------------------------------------------------------------


def damage_an_output(workspace: CheckedWorkspace, dice: random.Random) -> str:
    outputs = _outputs(workspace)
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
    return f"{_shown(workspace, path)}: {how}"


def remove_the_outputs(workspace: CheckedWorkspace, dice: random.Random) -> str:
    shutil.rmtree(workspace.root / "modelbuild-out", ignore_errors=True)
    return ""


def remove_the_cache(workspace: CheckedWorkspace, dice: random.Random) -> str:
    shutil.rmtree(workspace.cache, ignore_errors=True)
    return ""


def _assert_cleaned(ended: Ended) -> None:
    """Fail unless the command succeeded, MODELBUILD.toml is wrong (3), or another build used the cache (36)."""
    assert ended.code in (0, 3) or (ended.code == 36 and "is in use by another build" in ended.err), ended.err


def clean(workspace: CheckedWorkspace, dice: random.Random) -> str:
    options = dice.choice([(), ("--expunge",)])
    ended = workspace.run("clean", *options)
    _assert_cleaned(ended)
    return " ".join(options)


def collect(workspace: CheckedWorkspace, dice: random.Random) -> str:
    size = str(dice.choice([1, 200, 2000]))
    ended = workspace.run("cache", "gc", "--max-size", size)
    _assert_cleaned(ended)
    return size


def cap_the_cache(workspace: CheckedWorkspace, dice: random.Random) -> str:
    size = dice.choice([1, 500, 10**9])
    (workspace.root / "MODELBUILD.toml").write_text(f'rules = ["//rules"]\n[cache]\nmax_size = {size}\n')
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
    make_the_rule_read: 1,
    edit_a_module: 2,
    store_through_a_mapping: 3,
    close_mappings: 1,
    mount_something: 3,
    damage_an_output: 4,
    remove_the_outputs: 1,
    remove_the_cache: 1,
    clean: 1,
    collect: 2,
    cap_the_cache: 1,
}
