"""The command group: options before the command's name, and the commands by name."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from modelbuild.cli.names import COMMANDS, FOLDERS
from modelbuild.cli.settings import Settings
from modelbuild.errors import did_you_mean

if TYPE_CHECKING:
    from modelbuild.api.command import Command


class _Commands(click.Group):
    """Imports a command's module, modelbuild.cli.commands.<folder>.<name> with _ for -, when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*COMMANDS, *_declared(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            declared = _declared(ctx).get(cmd_name)
            return None if declared is None else _click_command(declared)
        folder = next(folder for folder, names in FOLDERS.items() if cmd_name in names)
        command = importlib.import_module(f"modelbuild.cli.commands.{folder}.{cmd_name.replace('-', '_')}").command
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)  # without importing each command
        known = {**COMMANDS, **{name: each.help for name, each in _declared(ctx).items()}}
        return [CompletionItem(name, help=known[name]) for name in sorted(known) if name.startswith(incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            declared = _declared(ctx)
            if args[0] not in declared:
                hint = did_you_mean(args[0], {**COMMANDS, **declared})
                raise click.UsageError(f"no command '{args[0]}'{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            declared = {name: each.help for name, each in _declared(ctx).items()}
            formatter.write_dl(sorted({**COMMANDS, **declared}.items()))


def _declared(ctx: click.Context) -> Mapping[str, Command]:
    """Return the commands of the rule packages of the workspace around the current folder, or the folder of the option
    -C."""
    from modelbuild.cli.targets.loaded_rules import commands_here

    declared = commands_here(Path(ctx.params.get("directory") or ".").resolve())
    for name in COMMANDS.keys() & declared.keys():
        package = declared[name].package
        raise click.UsageError(f"command '{name}' of '{package}' exists already in modelbuild; rename it")
    return declared


def _click_command(declared: Command) -> click.Command:
    from modelbuild.cli.rule_commands import click_command

    return click_command(declared)


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from modelbuild import __version__

        click.echo(f"modelbuild {__version__}")
        ctx.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, callback=_version, is_eager=True, expose_value=False, help="Print the version."
)
@click.option(
    "-C",
    "--workspace",
    "directory",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    metavar="DIR",
    help="Run as if started in DIR, a folder of the workspace.",
)
@click.option("--verbose-failures", is_flag=True, expose_value=False, help="Show tracebacks of errors.")
@click.pass_context
def cli(ctx: click.Context, directory: Path) -> None:
    """A build system for models: BUILD.toml in, ExecuTorch programs out."""
    try:
        folder = directory.resolve()
    except (OSError, RuntimeError):  # a folder was removed meanwhile, or links form a cycle
        raise click.UsageError(f"the folder '{directory}' no longer exists") from None
    ctx.obj = Settings(folder, ctx.obj or ())
