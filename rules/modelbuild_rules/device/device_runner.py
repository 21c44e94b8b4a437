"""device_runner: a way to reach a device, so that tests and programs run there."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from modelbuild.api import Attrs, Context, DeviceRunner, Provider, Size, rule
from modelbuild_rules.providers import Reached

_OF_KIND = {
    "local": ("folder", "store_size"),
    "qemu": ("arch", "folder", "store_size"),
    "ssh": ("host", "user", "port", "jump", "key", "known_hosts", "folder", "store_size"),
}
_REQUIRED = {"local": "", "qemu": "arch", "ssh": "host"}


class DeviceRunnerAttrs(Attrs):
    """A way to reach a device: over ssh, this machine itself, or this machine with an emulator.

    A `device_target` names its runners; several are a pool. No key contains a runner: results depend on the identity
    that the device states, and not on the way to it.
    """

    kind: Literal["local", "ssh", "qemu"]
    """`ssh`: a machine with a POSIX shell, by the system's OpenSSH client; `local`: this machine; `qemu`: this machine,
    with qemu's user-mode emulation for programs of `arch`."""

    host: str = ""
    """ssh: name or address of the host, or a `Host` of OpenSSH's configuration."""

    user: str = ""
    """ssh: the user's name; by default that of OpenSSH's configuration."""

    port: int = Field(default=0, ge=0, le=65535)
    """ssh: the port; 0 for that of OpenSSH's configuration."""

    jump: str = ""
    """ssh: a jump host, as [USER@]HOST[:PORT], or several with commas. `key` and `known_hosts` hold for them, too."""

    key: str = ""
    """ssh: path of a private key, relative to the workspace or with `~`; by default the keys of the agent and of
    OpenSSH's configuration."""

    known_hosts: str = ""
    """ssh: path of the file with the host's key, relative to the workspace or with `~`; by default OpenSSH's. A host
    whose key is not in it is refused."""

    arch: Literal["", "x86_64", "aarch64"] = ""
    """qemu: the architecture to emulate."""

    folder: str = ""
    """Folder on the device for files and jobs, absolute or relative to the home folder; by default
    `.cache/modelbuild-device`."""

    store_size: Size | None = None
    """Maximum size of the files to keep on the device, such as "2 GiB", by default 8 GiB; those unused for the longest
    time go first."""


EXAMPLE = """
[[device_runner]]
name = "orin_1"
kind = "ssh"
host = "orin-1.lab"
user = "ci"
"""


@rule(attrs=DeviceRunnerAttrs, example=EXAMPLE)
def device_runner(ctx: Context[DeviceRunnerAttrs]) -> tuple[Provider, ...]:
    attrs = ctx.attrs
    if not getattr(attrs, _REQUIRED[attrs.kind] or "kind"):
        name = _REQUIRED[attrs.kind]
        raise ctx.error("kind", f"a runner of kind '{attrs.kind}' without '{name}'; expected {name}")
    for name in sorted(attrs.model_fields_set - {"kind", *_OF_KIND[attrs.kind]}):
        if name in DeviceRunnerAttrs.model_fields and getattr(attrs, name):
            expected = ", ".join(_OF_KIND[attrs.kind])
            raise ctx.error(name, f"a runner of kind '{attrs.kind}' has no '{name}'; expected {expected}")
    given = attrs.model_dump(include={*_OF_KIND[attrs.kind], "kind"}, exclude={"store_size"})
    given |= {} if attrs.store_size is None else {"store_size": int(attrs.store_size)}
    try:
        return (Reached(DeviceRunner(name=str(ctx.label), **given)),)
    except ValueError as error:
        raise ctx.error("kind", str(error)) from None
