"""What can be wrong with a remote. None of it fails a build."""

from __future__ import annotations

from typing import Literal, TypeAlias

# down     not reachable, or broke off: worth another try
# slow     no progress in time
# refused  not allowed, or not offered
# full     takes nothing more
# big      takes nothing of this size
# wrong    answered with what cannot be right
# missing  does not have it
Kind: TypeAlias = Literal["down", "slow", "refused", "full", "big", "wrong", "missing"]


# Characters: what a server says may be a page.
_LONGEST = 300

_secrets: set[str] = set()


def keep_secret(secret: str) -> None:
    """See that no problem's message holds this: servers may repeat what they were sent."""
    _secrets.add(secret)


class RemoteProblem(Exception):
    """One call failed. The message says why, without the remote's name, and without secrets."""

    def __init__(self, kind: Kind, message: str) -> None:
        for secret in _secrets:
            message = message.replace(secret, "(token)")
        super().__init__(message[:_LONGEST])
        self.kind = kind
