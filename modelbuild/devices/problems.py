"""Problems with devices, each in one line."""

from __future__ import annotations

import re
from collections.abc import Mapping

from modelbuild.device_runners import DeviceRunner
from modelbuild.errors import ExitCode, ModelbuildError
from modelbuild.lines import one_line

_MOST = 300


class DeviceProblem(ModelbuildError):
    """A device cannot be used: it is unreachable, it refuses, or it differs from its declaration."""

    exit_code = ExitCode.ENVIRONMENT


class Busy(DeviceProblem):
    """Another session uses the device, and the wait has reached its limit. `holder` describes that session."""

    def __init__(self, message: str, holder: str = "another session") -> None:
        super().__init__(message)
        self.holder = holder


class ConnectionLost(DeviceProblem):
    """The connection to a device ended, or the device stopped answering, while a script ran there."""


class JobProblem(DeviceProblem):
    """A job failed, but not because of its program: a full disk, or output that breaks the rules."""


class DiskFull(JobProblem):
    """The disk of a device, or a quota, is full."""


# Messages of OpenSSH, and their meaning for the user.
_SSH: Mapping[str, str] = {
    r"REMOTE HOST IDENTIFICATION HAS CHANGED": "the host's key differs from the one in {known_hosts}; expected the"
    " same key, or remove the old one if the device was installed anew",
    r"No .* host key is known|Host key verification failed": "the host's key is not known; expected it in"
    " {known_hosts} (`ssh-keyscan` prints it)",
    r"Permission denied \(|Too many authentication failures": "the device refuses the key of {user}; expected one that"
    " is in its authorized_keys",
    r"Could not resolve hostname": "no host of this name",
    r"Connection refused": "nothing accepts connections on this port",
    r"[Tt]imed out|No route to host|Network is unreachable": "the host does not answer",
    r"Identity file .* not accessible|Load key .*(No such file|Permission denied|error in libcrypto)": "the key"
    " {key} cannot be read",
}


def ssh_problem(runner: DeviceRunner, stderr: str) -> str:
    """Return the reason why ssh could not connect, in one line, from its messages."""
    facts = {
        "known_hosts": runner.known_hosts or "~/.ssh/known_hosts",
        "user": runner.user or "this user",
        "key": runner.key or "of ssh's configuration",
    }
    for pattern, text in _SSH.items():
        if re.search(pattern, stderr):
            return text.format(**facts)
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return cut(lines[-1]) if lines else "ssh ended without a message"


def cut(text: str) -> str:
    """Return text of a device on one line, with at most 300 characters."""
    line = one_line(text.strip())
    return line if len(line) <= _MOST else f"{line[:_MOST]}..."
