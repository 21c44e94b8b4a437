"""`modelbuild fmt`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from modelbuild.analysis.attribute_order import table_order
from modelbuild.analysis.rules import load_rules
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.settings import Settings
from modelbuild.errors import ExitCode, UsageError
from modelbuild.loading.loader import Loader
from modelbuild.loading.package import PACKAGE_FILE
from modelbuild.loading.patterns import parse_pattern
from modelbuild.loading.tree import join
from modelbuild.user_files import write_file
from modelbuild.workspace.toml_document import read_document
from modelbuild.workspace.toml_format import format_toml


@click.command("fmt", short_help=COMMANDS["fmt"])
@click.argument("patterns", nargs=-1, metavar="[FILE|PATTERN]...")
@click.option("--check", is_flag=True, help="Print the files that would change, and change none.")
@click.pass_obj
def command(settings: Settings, patterns: tuple[str, ...], check: bool) -> int:
    """Format BUILD.toml files, and print those that changed; by default all of the workspace.

    A PATTERN such as //models or //... names packages. Comments stay with what they describe, and targets in order;
    attributes are sorted as their rule declares them. With --check, exit code 1 if a file would change.
    """

    workspace = settings.workspace()
    rules = load_rules(workspace.root, workspace.config.rules, workspace.rule_locations()).by_name
    package = workspace.package_of(settings.directory)
    files = list(dict.fromkeys(_files(Loader(workspace, rules), patterns or ("//...",), package, settings.directory)))
    order = table_order(rules)
    changed = []
    for name in files:
        document, _, _ = read_document(workspace.root, name)
        made = format_toml(document.text, order)
        before = (workspace.root / name).read_bytes()
        data = made.replace("\n", "\r\n").encode() if b"\r\n" in before else made.encode()
        if data != before:
            changed.append(name)
            if not check:
                write_file(workspace.root / name, data)
    if changed:
        click.echo("\n".join(changed))
    return ExitCode.BUILD_FAILED if check and changed else ExitCode.OK


def _files(loader: Loader, patterns: Sequence[str], package: str, folder: Path) -> Iterator[str]:
    """Yield the BUILD files that patterns and paths name, relative to the workspace. Raises UsageError for a pattern or
    path without BUILD files."""

    root = os.path.realpath(loader.workspace.root)
    for text in patterns:
        path = folder / text
        if not text.startswith("//") and (path.name == PACKAGE_FILE or path.is_file()):
            below = os.path.relpath(os.path.join(os.path.realpath(path.parent), path.name), root)
            if path.name != PACKAGE_FILE or not path.is_file() or below.split(os.sep)[0] == os.pardir:
                raise UsageError(f"{text}: expected a {PACKAGE_FILE} of the workspace")
            yield below
            continue
        pattern = parse_pattern(text, package)
        if pattern.subtract:
            raise UsageError(f"'{text}' subtracts; expected a package such as //models, or //models/...")
        if pattern.name is not None and ":" not in text and not text.startswith("//"):
            raise UsageError(f"no file '{text}'; expected a {PACKAGE_FILE}, or a package such as //models")
        names = loader.packages_below(pattern.package) if pattern.below else [pattern.package]
        for name in names:
            if not (loader.workspace.root / name / PACKAGE_FILE).is_file():
                raise UsageError(f"no package //{name}: there is no {join(name, PACKAGE_FILE)}")
            yield join(name, PACKAGE_FILE)
