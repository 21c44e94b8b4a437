"""`modelbuild init`."""

from __future__ import annotations

import importlib
import shlex
import shutil
from pathlib import Path
from typing import Any

import click

from modelbuild.cli.names import COMMANDS
from modelbuild.cli.settings import Settings
from modelbuild.errors import UsageError
from modelbuild.workspace.workspace import STARTER, WORKSPACE_FILE

_WORKSPACE = """\
# The root of a workspace; each folder in it with a BUILD.toml is a package.
# Settings of builds and of the cache go here, such as:
# [build]
# jobs = 4
"""
_IGNORED = "/modelbuild-out\n__pycache__/\n"


@click.command("init", short_help=COMMANDS["init"])
@click.argument("directory", required=False, default=".", metavar="[DIR]", type=click.Path(path_type=Path))
@click.option("--example", is_flag=True, help="Write a small model that builds as it is (the default).")
@click.option("--from-checkpoint", "checkpoint", type=click.Path(path_type=Path), metavar="FILE",
              help="Write targets for a state dict or an exported program.")  # fmt: skip
@click.pass_obj
def command(settings: Settings, directory: Path, example: bool, checkpoint: Path | None) -> None:
    """Write a workspace to DIR, the current folder by default: a model, its program and their test.

    FILE is a state dict (.pt, .pth, .bin, .safetensors), an exported program (.pt2) or TorchScript. It is copied to
    DIR, and nothing in it is executed. No file is overwritten.
    """

    if example and checkpoint is not None:
        raise UsageError("--example and --from-checkpoint exclude each other; expected one of them")
    folder = settings.directory / directory
    _check_folder(folder, directory)
    starters = importlib.import_module(STARTER)
    starter = starters.example() if checkpoint is None else starters.from_checkpoint(settings.directory / checkpoint)
    made = _write(folder, directory, starter)
    lines = [f"Wrote {', '.join(made)}"]
    lines += ["", "Fill in:", *(f"  {part}" for part in starter.todo)] if starter.todo else []
    runs = starter.runs if folder == settings.directory else (f"cd {_quoted(directory)}", *starter.runs)
    click.echo("\n".join((*lines, "", "Then:" if starter.todo else "Next:", *(f"  {line}" for line in runs))))


def _check_folder(folder: Path, shown: Path) -> None:
    """Raise UsageError for a folder that can't become a workspace."""

    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{shown} is not a folder; expected one for the workspace")
    for above in folder.parents:
        if (above / WORKSPACE_FILE).is_file():
            raise UsageError(f"{shown} is in the workspace {above}; expected a folder outside of a workspace")


def _write(folder: Path, shown: Path, starter: Any) -> list[str]:
    """Write the files; return their names. Raises UsageError, and writes nothing, if a file exists."""

    texts = {WORKSPACE_FILE: _WORKSPACE, **starter.files}
    if not (folder / ".gitignore").exists():
        texts[".gitignore"] = _IGNORED
    copies = {name: source for name, source in starter.copies.items() if not _is_same(source, folder / name)}
    for name in (*texts, *copies):
        if (folder / name).exists() or (folder / name).is_symlink():
            raise UsageError(f"{shown / name} exists already; expected a folder without it")
    folder.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []
    try:
        for name in (*texts, *copies):
            with (folder / name).open("xb") as file:
                made.append(folder / name)
                if name in texts:
                    file.write(texts[name].encode())
        for name, source in copies.items():
            shutil.copyfile(source, folder / name)
    except BaseException:  # for example a full disk: the next attempt must find none of the files
        for path in made:
            path.unlink(missing_ok=True)
        raise
    return [*texts, *copies]


def _is_same(one: Path, other: Path) -> bool:
    return other.exists() and one.samefile(other)


def _quoted(path: Path) -> str:

    return shlex.quote(str(path))
