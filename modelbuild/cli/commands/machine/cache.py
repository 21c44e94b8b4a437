"""`modelbuild cache gc|stat|verify`."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import click

from modelbuild.cli.names import COMMANDS
from modelbuild.cli.settings import Settings
from modelbuild.errors import EnvironmentProblem, ExitCode
from modelbuild.sizes import parse_size
from modelbuild.store.local import open_store
from modelbuild.wording import count, size_text

if TYPE_CHECKING:
    from modelbuild.store.gc import Collected
    from modelbuild.store.local import LocalStore

# Version of the JSON of each command.
VERSION = 1

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.group("cache", short_help=COMMANDS["cache"])
def command() -> None:
    """Maintain the local cache: the one in MODELBUILD.toml or MODELBUILD_CACHE_DIR."""


@command.command("stat")
@as_json
@click.pass_obj
def stat(settings: Settings, as_json: bool) -> None:
    """Print the cache's size by step."""
    with _store(settings) as store:
        found = store.stat()
    if as_json:
        click.echo(json.dumps({"version": VERSION, **dataclasses.asdict(found)}, default=str))
        return
    cap = "no cap" if found.max_size is None else f"cap {size_text(found.max_size)}"
    kept = f"{count(found.blobs, 'blob')}, {count(found.actions, 'action')}"
    click.echo(f"{found.directory}: {size_text(found.bytes)} in {kept} ({cap})")
    for step in sorted(found.steps, key=lambda s: s.bytes, reverse=True):
        click.echo(f"  {step.step}: {size_text(step.bytes)}, {count(step.actions, 'action')}")
    if found.toolchains:
        click.echo(f"  {count(found.toolchains, 'toolchain')}: {size_text(found.toolchain_bytes)}")
    if found.orphans:
        click.echo(f"  unreferenced: {size_text(found.orphan_bytes)} in {count(found.orphans, 'blob')}")
    if found.temporary:
        files = count(found.temporary, "file")
        click.echo(f"  temporary: {size_text(found.temporary_bytes)} in {files}")
    click.echo(f"  index: {size_text(found.index_bytes)}")


@command.command("gc")
@click.option("--max-size", metavar="SIZE", help='Shrink to this size, such as "5GiB", instead of the cap.')
@as_json
@click.pass_obj
def gc(settings: Settings, max_size: str | None, as_json: bool) -> None:
    """Shrink the cache to its cap.

    Deletes the least recently used results and toolchains above the cap, and useless files.
    """
    with _store(settings, max_size) as store:
        collected = collect(store)
    if as_json:
        click.echo(json.dumps({"version": VERSION, **dataclasses.asdict(collected)}))
        return
    gone = f"{count(collected.actions, 'action')} and {count(collected.blobs, 'blob')}"
    gone += f", {count(collected.toolchains, 'toolchain')}" if collected.toolchains else ""
    click.echo(f"Freed {size_text(collected.freed)}: {gone}; {size_text(collected.left)} left")


@command.command("verify")
@as_json
@click.pass_obj
def verify(settings: Settings, as_json: bool) -> int:
    """Find and delete damaged blobs and toolchains.

    Later builds make them again. Exit code 1 if any was damaged.
    """

    with _store(settings) as store:
        found = store.verify()
    if as_json:
        click.echo(json.dumps({"version": VERSION, **dataclasses.asdict(found)}))
    else:
        click.echo(
            f"Read {size_text(found.bytes)} in {count(found.blobs, 'blob')}: {len(found.bad)} damaged,"
            f" {count(found.actions, 'action')} dropped"
        )
        for digest in found.bad:
            click.echo(f"  damaged: {digest}")
        if found.toolchains:
            files = f"{size_text(found.toolchain_bytes)} in {count(found.toolchain_files, 'file')}"
            click.echo(f"Read {files} of {count(found.toolchains, 'toolchain')}: {len(found.damaged)} damaged")
        for path in found.damaged:
            click.echo(f"  damaged: {path}")
    return ExitCode.BUILD_FAILED if found.bad or found.actions or found.damaged else ExitCode.OK


def collect(store: LocalStore) -> Collected:
    """Evict and delete unreferenced files. Raises EnvironmentProblem while that is impossible."""

    collected = store.collect()
    if collected.busy:
        raise EnvironmentProblem(f"{store.directory} is in use by another build; try again when it has ended")
    return collected


def _store(settings: Settings, max_size: str | None = None) -> LocalStore:

    config = settings.workspace().config
    try:
        size = config.cache_size if max_size is None else parse_size(max_size, least=0)
    except ValueError as error:
        raise click.UsageError(f"--max-size: {error}") from None
    return open_store(config.cache_dir, size)
