"""The profile of a run on a device, from the events that its program recorded there."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

# The path where a program on the device writes its events, and the file's name among the outputs.
EVENTS = "profile.json"

# Writes HTML pages about a program, from its file and its profile's file.
WritePages: TypeAlias = Callable[[Path, Path], object]


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """A profile to make.

    command      the start of the command that runs programs here, with the program: it reads the events
    outputs      the files to write, relative to `folder`; pages are written by `write_pages`
    """

    command: Sequence[str]
    program: Path
    outputs: Sequence[Path]
    folder: Path
    write_pages: WritePages

    def write(self, events: Path, method: str, quiet: bool) -> dict[str, Any] | int:
        """Write the files, and print the table unless `quiet`. Returns the profile, or the exit code of the process
        that reads the events. No byte of the events is trusted."""

        sys.stdout.flush()
        with TemporaryDirectory() as temporary:
            made = Path(temporary) / "profile.json"
            others = [path for path in self.outputs if path.suffix != ".html"]
            arguments = [f"--profile-output={path}" for path in (made, *others)]
            process = subprocess.run(
                [*self.command, str(self.program), f"--events={events}", f"--method={method}", *arguments],
                cwd=self.folder,
                stdout=subprocess.DEVNULL if quiet else None,
                check=False,
            )
            if process.returncode:
                return process.returncode
            if len(others) < len(self.outputs):
                self.write_pages(self.program, made)
            found: dict[str, Any] = json.loads(made.read_bytes())
            return found
