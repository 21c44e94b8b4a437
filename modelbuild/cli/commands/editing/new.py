"""`modelbuild new`."""

from __future__ import annotations

from pathlib import Path

import click
import tomli

from modelbuild.analysis.new_target import draft_target
from modelbuild.analysis.rules import load_rules
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.settings import Settings
from modelbuild.cli.targets.loaded_rules import no_rule
from modelbuild.errors import UsageError
from modelbuild.labels import Label, is_package_name, is_target_name
from modelbuild.lines import shown
from modelbuild.loading.loader import Loader
from modelbuild.loading.package import PACKAGE_FILE
from modelbuild.loading.parse import RESERVED
from modelbuild.user_files import write_file
from modelbuild.workspace.workspace import find_root, load_workspace


@click.command("new", short_help=COMMANDS["new"])
@click.argument("rule", metavar="RULE")
@click.argument("name", metavar="NAME")
@click.option("--package", metavar="//PKG", help="The package of the target; by default the current folder's.")
@click.pass_obj
def command(settings: Settings, rule: str, name: str, package: str | None) -> None:
    """Append a target of RULE called NAME to a BUILD.toml.

    The attributes are from the rule's example, with labels and files of the workspace where one fits; the
    other values are marked as placeholders. `modelbuild help RULE` describes them.
    """

    workspace = load_workspace(find_root(settings.directory))
    rules = load_rules(workspace.root, workspace.config.rules, workspace.rule_locations()).by_name
    if rule not in rules:
        raise no_rule(rule, rules)
    label = _label(name, workspace.package_of(settings.directory) if package is None else package)
    loader = Loader(workspace, rules)
    file = workspace.root / label.package / PACKAGE_FILE
    _check_new(loader, label, file)
    made = draft_target(rules[rule], label.name, label.package, loader)
    _append(file, made.text)
    lines = [f"Added {label} to {file.relative_to(workspace.root)}"]
    lines += [f"  {attribute} = {value}" for attribute, value in made.found.items()]
    lines += [f"Placeholders: {', '.join(made.placeholders)} (modelbuild help {rule})"] if made.placeholders else []
    click.echo("\n".join(lines))


def _label(name: str, package: str) -> Label:
    """Return the label of a target. Raises UsageError for names that are not possible."""

    where = package.removeprefix("//")
    if not is_package_name(where):
        raise UsageError(f"{shown(package)} is not a package; expected a folder of the workspace such as //models")
    if not is_target_name(name) or name in RESERVED:
        raise UsageError(f"{shown(name)} is not a name; expected letters, digits and any of _.+@=-")
    return Label(where, name)


def _check_new(loader: Loader, label: Label, file: Path) -> None:
    """Raise UsageError if the target exists, and LoadingError for an error in the BUILD file."""

    if not file.exists():
        return
    other = loader.package(label.package).targets.get(label.name)
    if other is not None:
        raise UsageError(f"{label} is taken by the {other.rule} at {other.location()}; expected another name")


def _append(file: Path, text: str) -> None:
    """Append a target to a BUILD file, which is created if it is missing. Raises UsageError if the file declares the
    targets of this rule in a form that cannot be appended to."""

    before = file.read_bytes() if file.exists() else b""
    after = before.decode("utf-8-sig").replace("\r\n", "\n")
    after = f"{after.rstrip()}\n\n{text}" if after.strip() else text
    try:
        tomli.loads(after)
    except tomli.TOMLDecodeError:  # an array in one value: torch_model = [{ name = "net" }]
        header = text.partition("\n")[0]
        raise UsageError(f"{file}: its targets are not tables; expected {header} for each") from None
    file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, (after.replace("\n", "\r\n") if b"\r\n" in before else after).encode())
