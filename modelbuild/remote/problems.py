"""What can be wrong with a remote. None of it fails a build."""

from __future__ import annotations

from typing import Literal, TypeAlias

# down     not reachable, or broke off: worth another try
# slow     no progress in time
# refused  not allowed, or not offered
# full     takes nothing more
# wrong    answered with what cannot be right
# missing  does not have it
Kind: TypeAlias = Literal["down", "slow", "refused", "full", "wrong", "missing"]


class RemoteProblem(Exception):
    """One call failed. The message says why, without the remote's name."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
