"""The table [remote] of MODELBUILD.toml."""

from __future__ import annotations

import os
from pathlib import Path

from modelbuild.errors import UsageError, did_you_mean
from modelbuild.labels import Label
from modelbuild.workspace.flags import MOST_JOBS
from modelbuild.workspace.remote_address import GRPC, SCHEMES, Address, parse_address
from modelbuild.workspace.remote_settings import DOWNLOADS, UPLOADS, RemoteSettings, Security, Strategy
from modelbuild.workspace.remote_strategy import check_places
from modelbuild.workspace.toml_document import show
from modelbuild.workspace.toml_table import Table


def read_settings(table: Table, root: Path) -> RemoteSettings:
    """Return the settings. Paths are relative to the workspace. Raises LoadingError, located."""
    default = RemoteSettings()
    security = _security(table, root)
    cache = read_address(table, "cache")
    settings = RemoteSettings(
        cache=cache,
        upload=read_choice(table, "upload", UPLOADS) or default.upload,  # type: ignore[arg-type]
        download=read_choice(table, "download", DOWNLOADS) or default.download,  # type: ignore[arg-type]
        timeout=table.duration("timeout") or default.timeout,
        queue_notice=table.duration("queue_notice") or default.queue_notice,
        security=security,
        executor=read_address(table, "executor", GRPC),
        jobs=table.count("jobs", MOST_JOBS) or default.jobs,
        python=table.line("python", "a command") or default.python,
        platform=_platform(table),
        gpus=_gpus(table),
        strategy=_strategy(table),
        toolchains=_toolchains(table),
    )
    table.finish()
    return settings


def read_address(table: Table, key: str, schemes: tuple[str, ...] = SCHEMES) -> Address | None:
    text = table.line(key, "an address")
    try:
        return None if text is None else parse_address(text, schemes)
    except UsageError as error:
        raise table.error(f"'{key}': {error}", key) from None


def read_choice(table: Table, key: str, choices: tuple[str, ...]) -> str | None:
    """Return a word from `choices`, or None. Raises LoadingError, located."""
    text = table.string(key)
    if text is not None and text not in choices:
        expected = ", ".join(f'"{choice}"' for choice in choices)
        raise table.error(f"'{key}': expected one of {expected}, got \"{text}\"{did_you_mean(text, choices)}", key)
    return text


def _platform(table: Table) -> tuple[tuple[str, str], ...]:
    below = table.table("platform")
    if below is None:
        return ()
    # Builds without workers do not need this.
    from modelbuild.workspace.platform_properties import check_value

    found = []
    for key in sorted(below.values):
        try:
            found.append((key, check_value(below.string(key) or "")))
        except UsageError as error:
            raise below.error(f"'{key}': {error}", key) from None
    return tuple(found)


def _gpus(table: Table) -> tuple[str, ...]:
    models = table.strings("gpus") or ()
    for index, model in enumerate(models):
        name, _, capability = model.rpartition(" (")  # the format of modelbuild.execution.gpus
        if not (name and capability.endswith(")") and capability[:-1].replace(".", "", 1).isdigit()):
            expected = "expected a name and a compute capability, such as 'NVIDIA L4 (8.9)'"
            raise table.error(f"'gpus': {expected}, got {show(model)}", "gpus", index)
    return tuple(dict.fromkeys(models))


def _strategy(table: Table) -> Strategy:
    below = table.table("strategy")
    found = []
    for kind in below.values if below else ():
        assert below is not None
        try:
            found.append((kind, check_places(below.strings(kind) or ())))
        except UsageError as error:
            raise below.error(f"'{kind}': {error}", kind) from None
    return tuple(found)


def _toolchains(table: Table) -> tuple[tuple[str, str], ...]:
    below = table.table("toolchains")
    found = []
    for key in below.values if below else ():
        assert below is not None
        try:
            found.append((str(Label.parse_toolchain(key)), below.line(key, "an interpreter on the workers") or ""))
        except UsageError as error:
            raise below.error(f"'{key}': {error}", key) from None
    return tuple(sorted(found))


def _security(table: Table, root: Path) -> Security:
    tokens = [key for key in ("token_file", "token_command", "token_env") if key in table.values]
    if len(tokens) > 1:
        raise table.error(f"'{tokens[1]}': '{tokens[0]}' is already set; expected only one of them", tokens[1])
    if ("tls_cert" in table.values) != ("tls_key" in table.values):
        key = "tls_cert" if "tls_cert" in table.values else "tls_key"
        raise table.error(f"'{key}': expected 'tls_cert' and 'tls_key' together", key)
    return Security(
        ca=_path(table, "tls_ca", root),
        cert=_path(table, "tls_cert", root),
        key=_path(table, "tls_key", root),
        token_file=_path(table, "token_file", root),
        token_command=table.strings("token_command") or (),
        token_env=table.line("token_env", "the name of an environment variable") or "",
    )


def _path(table: Table, key: str, root: Path) -> Path | None:
    text = table.line(key, "a path")
    return None if text is None else Path(os.path.abspath(os.path.join(root, os.path.expanduser(text))))
