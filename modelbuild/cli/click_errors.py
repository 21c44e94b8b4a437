"""Rewrite click's errors about the command line in modelbuild's form."""

from __future__ import annotations

import re

import click
from click.exceptions import NoSuchCommand

from modelbuild.errors import did_you_mean

_EXTRA = re.compile(r"Got unexpected extra arguments? \((.*)\)")


def message(error: click.ClickException) -> str:
    """Return one line: the problem, and the expected value or the usage."""
    match error:
        case click.NoSuchOption():
            return f"no option '{error.option_name}'{did_you_mean(error.option_name, error.possibilities or ())}"
        case click.MissingParameter():
            name = error.param.make_metavar(_context(error)) if error.param is not None else "an argument"
            return f"missing {name.rstrip('.').strip('[]')}; {_usage(error)}"
        case click.BadParameter() if error.param is not None:
            option = isinstance(error.param, click.Option)
            name = "/".join(error.param.opts) if option else error.param.human_readable_name
            return f"{name}: {_bad_value(error.message, error.param)}"
        case NoSuchCommand():
            return f"no command '{error.command_name}'; {_usage(error)}"
        case click.BadOptionUsage():
            return _problem(error.message)
        case click.UsageError():
            extra = _EXTRA.match(error.message)
            if extra is not None:
                first = extra[1].split(" ")[0]
                return f"unexpected argument '{first}'; {_usage(error)}"
    return error.format_message()


def _context(error: click.UsageError) -> click.Context:
    return error.ctx or click.Context(click.Command("modelbuild"))


def _usage(error: click.UsageError) -> str:
    """Return `usage: modelbuild query [OPTIONS] EXPRESSION`."""
    return "" if error.ctx is None else " ".join(error.ctx.get_usage().split()).replace("Usage:", "usage:")


def _problem(text: str) -> str:
    text = text.rstrip(".")
    return text[:1].lower() + text[1:]


def _bad_value(text: str, parameter: click.Parameter) -> str:
    kind = parameter.type
    value = text.partition(" is not ")[0].strip("'")
    if isinstance(kind, click.IntRange):
        most = "" if kind.max is None else f" and at most {kind.max}"
        return f"'{value}' is not an integer of at least {kind.min}{most}"
    return _problem(text)
