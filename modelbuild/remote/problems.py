"""Problems with a remote. None of them fails a build."""

from __future__ import annotations

from typing import Literal, TypeAlias

# down     unreachable or disconnected: worth a retry
# late     an action reached its time limit
Kind: TypeAlias = Literal["down", "slow", "refused", "full", "big", "wrong", "missing", "late"]


# In characters: a server's message may be a whole page.
_LONGEST = 300

_secrets: set[str] = set()


def keep_secret(secret: str) -> None:
    """Remove this secret from messages of all problems: servers may repeat what they received."""
    _secrets.add(secret)


class RemoteProblem(Exception):
    """One call failed. The message contains the reason, without the remote's name and secrets."""

    def __init__(self, kind: Kind, message: str) -> None:
        for secret in _secrets:
            message = message.replace(secret, "(token)")
        super().__init__(message[:_LONGEST])
        self.kind = kind
