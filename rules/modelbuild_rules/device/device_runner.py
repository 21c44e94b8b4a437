"""device_runner: a way to reach a device, so that tests and programs run there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Discriminator, Field

from modelbuild.api import Attrs, Context, DeviceRunner, Provider, Size, rule
from modelbuild_rules.providers import Reached


class Local(Attrs):
    """This machine."""

    type: Literal["local"]
    """The kind of connection."""


class Qemu(Attrs):
    """This machine, with qemu's user-mode emulation of another architecture."""

    type: Literal["qemu"]
    """The kind of connection."""

    arch: Literal["x86_64", "aarch64"]
    """The architecture to emulate."""


class Ssh(Attrs):
    """A machine with a POSIX shell, by the system's OpenSSH client."""

    type: Literal["ssh"]
    """The kind of connection."""

    host: str
    """Name or address, or a `Host` of OpenSSH's configuration."""

    user: str = ""
    """The user's name; by default OpenSSH's."""

    port: int = Field(default=0, ge=0, le=65535)
    """The port; 0 for OpenSSH's."""

    jump: str = ""
    """Jump hosts, as [USER@]HOST[:PORT] with commas between them. `key` and `known_hosts` also apply to them."""

    key: str = ""
    """Path of a private key, relative to the workspace or with `~`; by default keys of the agent and OpenSSH's
    configuration."""

    known_hosts: str = ""
    """Path of the file with the host's key, as for `key`; by default OpenSSH's. An unknown host is refused."""


class DeviceRunnerAttrs(Attrs):
    """A way to reach a device: ssh, or this machine, also with an emulator.

    No key contains a runner: results depend on the identity that the device states.
    """

    renamed: ClassVar[Mapping[str, str]] = {
        "kind": "connection.type",
        **{name: f"connection.{name}" for name in ("host", "user", "port", "jump", "key", "known_hosts", "arch")},
    }

    connection: Annotated[Local | Qemu | Ssh, Discriminator("type")]
    """The connection."""

    folder: str = ""
    """The device's folder for files and jobs, absolute or relative to the home folder; by default
    `.cache/modelbuild-device`."""

    store_size: Size | None = None
    """Maximum size of files there, such as "2 GiB"; by default 8 GiB. The least recently used are deleted."""


EXAMPLE = """
[[device_runner]]
name = "orin_1"
connection = { type = "ssh", host = "orin-1.lab", user = "ci" }
"""


@rule(attrs=DeviceRunnerAttrs, example=EXAMPLE)
def device_runner(ctx: Context[DeviceRunnerAttrs]) -> tuple[Provider, ...]:
    attrs = ctx.attrs
    given = {"kind": attrs.connection.type, **attrs.connection.model_dump(exclude={"type"}), "folder": attrs.folder}
    given |= {} if attrs.store_size is None else {"store_size": int(attrs.store_size)}
    try:
        return (Reached(DeviceRunner(name=str(ctx.label), **given)),)
    except ValueError as error:
        raise ctx.error("connection", str(error)) from None
