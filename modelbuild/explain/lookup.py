"""Find a key's contents by the key's first digits, in the cache or in the history."""

from __future__ import annotations

import re
from contextlib import suppress

from modelbuild.actions import Material
from modelbuild.errors import UsageError
from modelbuild.history.action_records import Records
from modelbuild.history.stored_facts import check_material
from modelbuild.store.local import open_store
from modelbuild.workspace.workspace import Workspace

_KEY = re.compile(r"[0-9a-f]{4,64}\Z")


def material_of(workspace: Workspace, prefix: str) -> Material:
    """Return the contents of a key. Raises UsageError unless exactly one known key has this prefix."""
    if not _KEY.match(prefix):
        raise UsageError(f"'{prefix}' is not a key; expected at least its first 4 digits, 0-9 and a-f")
    config = workspace.config
    found = Records(config.cache_dir, workspace.root).material(prefix)
    with open_store(config.cache_dir) as store:
        for key, material in store.materials(prefix).items():
            with suppress(ValueError):
                found[key] = check_material(material)
    if len(found) != 1:
        known = f"{len(found)} known keys begin with" if found else "no known key begins with"
        raise UsageError(f"{known} '{prefix}'")
    return next(iter(found.values()))
