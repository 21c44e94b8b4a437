"""`modelbuild help`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from modelbuild.analysis.rule_help import describe_rule, summary
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.settings import Settings
from modelbuild.cli.targets.loaded_rules import no_rule, rules_here

if TYPE_CHECKING:
    from modelbuild.analysis.rule_help import Attribute, AttributeTable, RuleHelp
    from modelbuild.api.rule import Rule

_WIDTH = 100


@click.command("help", short_help=COMMANDS["help"])
@click.argument("topic", required=False, metavar="[RULE]")
@click.pass_context
def command(context: click.Context, topic: str | None) -> None:
    """Print the attributes of RULE with types, defaults, meaning and an example; without RULE, list the rules.

    RULE is a rule of the workspace, or outside of a workspace a built-in rule. It may also be a table inside
    attributes, such as Xnnpack, or a command, for its flags.
    """

    settings: Settings = context.obj
    rules = rules_here(settings.directory)
    if topic is None:
        click.echo("\n".join(_list(rules.values())))
    elif topic in rules:
        click.echo("\n".join(_page(describe_rule(rules[topic]))))
    elif topic in COMMANDS:
        _describe_command(context, topic)
    else:
        tables = {table.name.lower(): table for rule in rules.values() for table in describe_rule(rule).tables}
        if topic.lower() not in tables:
            raise no_rule(topic, rules, [*COMMANDS, *(table.name for table in tables.values())])
        click.echo("\n".join(_table(tables[topic.lower()])))


def _describe_command(context: click.Context, name: str) -> None:
    """Print the help of a command, as `modelbuild NAME --help` does."""
    assert context.parent is not None
    group = context.parent.command
    assert isinstance(group, click.Group)
    found = group.get_command(context.parent, name)
    assert found is not None
    with click.Context(found, info_name=name, parent=context.parent) as inner:
        click.echo(found.get_help(inner))


def _list(rules: Iterable[Rule]) -> Iterator[str]:
    known = sorted(rules, key=lambda rule: rule.name)
    width = max(len(rule.name) for rule in known)
    yield "Rules, each a kind of target in BUILD.toml:"
    yield ""
    for rule in known:
        yield from _wrapped(f"  {rule.name:<{width}}  {summary(rule)}", width + 4)
    yield ""
    yield "modelbuild help RULE describes a rule's attributes, modelbuild --help the commands."


def _page(described: RuleHelp) -> Iterator[str]:
    yield f"{described.attributes.name}: a target in BUILD.toml. A file is a path in the package or a label."
    yield ""
    yield from _paragraphs(described.attributes.about, "")
    yield ""
    yield "example"
    yield ""
    yield from textwrap.indent(described.example.rstrip("\n"), "  ").split("\n")
    yield ""
    yield "attributes"
    yield ""
    yield from _attributes(described.attributes.attributes)
    for table in described.tables:
        yield ""
        yield from _table(table)
    yield ""
    yield "attributes of every target"
    yield ""
    yield from _attributes(described.every)


def _table(table: AttributeTable) -> Iterator[str]:
    yield f"table {table.name}"
    yield from _paragraphs(table.about, "  ")
    yield ""
    yield from _attributes(table.attributes)


def _attributes(rows: Iterable[Attribute]) -> Iterator[str]:
    for row in rows:
        end = ", required" if row.required else f", default {row.default}" if row.default else ""
        yield from _wrapped(f"  {row.name}: {row.type}{end}", 6)
        yield from _paragraphs(row.about, " " * 6)


def _paragraphs(text: str, indent: str) -> Iterator[str]:
    for paragraph in text.split("\n\n") if text else ():
        yield from _wrapped(indent + paragraph, len(indent))


def _wrapped(line: str, indent: int) -> list[str]:
    return textwrap.wrap(
        line, _WIDTH, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    ) or [""]
