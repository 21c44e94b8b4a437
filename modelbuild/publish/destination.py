"""Destinations: addresses of registries, object stores, folders and hubs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace as changed

from modelbuild.errors import UsageError, did_you_mean
from modelbuild.publish.content import Content, Published
from modelbuild.publish.hub_address import HubAddress, parse_hub_address
from modelbuild.registry.address import EXPECTED, RegistryAddress, parse_registry_address
from modelbuild.workspace.remote_address import STORES, Address, parse_address

SCHEMES = ("oci", *STORES, "hf")

Destination = RegistryAddress | Address | HubAddress


def parse_destination(text: str, version: str = "") -> Destination:
    """Return the destination that an address names. A version is a tag, or a folder with its name. Raises UsageError
    for a malformed address, and for an address with a tag if there is also a version."""
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in SCHEMES:
        hint = did_you_mean(scheme, SCHEMES) if separator else ""
        raise UsageError(f"--to: '{scheme}' is no destination; expected {', '.join(f'{s}://' for s in SCHEMES)}{hint}")
    if "@" in rest.partition("/")[0]:
        raise UsageError("--to: expected an address without a user and a password; see the guide for logins")
    if scheme == "oci":
        address = parse_registry_address(text)
        if address is None or address.digest:
            raise UsageError(f"--to {text}: expected {EXPECTED.partition(' or ')[0]}")
        if version and address.tag:
            raise UsageError(f"--to {text}: the tag of a release is its version; expected an address without a tag")
        return changed(address, tag=version or address.tag)
    if scheme == "hf":
        return parse_hub_address(text, version)
    if "@" in rest or ".." in rest.split("/"):
        raise UsageError(f"--to {text}: expected a path without '@' and '..'")
    store = parse_address(text, STORES)
    return (
        changed(store, path="/".join(part for part in (store.path.rstrip("/"), version) if part)) if version else store
    )


def publish(content: Content, destination: Destination, replace: bool, say: Callable[[str], None]) -> Published:
    """Publish to a destination. A tag or a manifest appears only after everything was uploaded. `say` gets a line for
    each upload. Raises as the functions that it calls do."""
    if isinstance(destination, RegistryAddress):
        from modelbuild.publish.oci import publish_oci

        return publish_oci(content, destination, replace, say)
    if isinstance(destination, HubAddress):
        from modelbuild.publish.hub import publish_hub

        return publish_hub(content, destination, replace, say)
    from modelbuild.publish.store import publish_store

    return publish_store(content, destination, replace, say)
