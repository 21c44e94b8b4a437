"""The candidates of choices of kernels, for a program that times them on another machine (timing.py).

`NAME.tuning.pyz` is a zip file that Python runs: timing.py as `__main__.py`, each cubin by its digest, and
`choices.json`: versions of torch and Triton, the compute capability, and for each choice

    op, inputs, output, options   as in the tuning file
    usual                         the index of the candidate by cost, null if it can't be timed
    chosen, launches              the parameters, and how the kernel is launched (timing.Launch), of each candidate
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from modelbuild_rules.backends.cuda.steps.kernels import timing
from modelbuild_rules.backends.cuda.steps.kernels.timing import CHOICES, VERSION, Launch, TimingError, identity

FILE = "tuning.pyz"
"""The file that a compile step writes for a partition, and the output of a program."""

_DATE = (1980, 1, 1, 0, 0, 0)

Call = Callable[[], None]
"""A call of a kernel through Inductor's launcher, which is recorded."""


class Candidates:
    """Candidates of the choices of one partition. Each call reports its launch to `launched`.

    limit  the number of candidates of a choice that are compiled
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._choices: dict[str, dict[str, Any]] = {}
        self._cubins: dict[str, bytes] = {}
        self._launch: Launch | None = None

    def __contains__(self, key: str) -> bool:
        return key in self._choices

    def launched(self, launch: Launch) -> None:
        self._launch = launch

    def add(
        self, what: Mapping[str, Any], chosen: Sequence[Mapping[str, Any]], usual: int, calls: Mapping[int, Call]
    ) -> None:
        """Add a choice. `usual`: the index of the candidate by cost; `calls`: candidates' calls by index."""
        taken, launches = [], []
        for index, call in calls.items():
            try:
                call()
            except TimingError:  # a launch that can't be recorded
                continue
            launch, self._launch = self._launch, None
            assert launch is not None
            digest = hashlib.sha256(launch.cubin).hexdigest()
            self._cubins[digest] = launch.cubin
            taken.append(index)
            launches.append({**asdict(launch), "cubin": digest})
        if len(taken) > 1:
            self._choices[identity(what)] = {
                **what,
                "usual": taken.index(usual) if usual in taken else None,
                "chosen": [chosen[index] for index in taken],
                "launches": launches,
            }

    def write(self, path: Path, **head: str) -> None:
        """Write the package. `head`: torch, triton and capability."""
        _write(path, {"version": VERSION, **head}, self._choices, self._cubins)


def merge(files: Iterable[Path], made: Path) -> None:
    """Write one package with the choices of packages for the same versions and compute capability."""
    head: dict[str, Any] = {"version": VERSION, "torch": "", "triton": "", "capability": ""}
    choices: dict[str, dict[str, Any]] = {}
    cubins: dict[str, bytes] = {}
    for file in files:
        with zipfile.ZipFile(file) as opened:
            package = json.loads(opened.read(CHOICES))
            head = {name: package[name] for name in timing.HEAD}
            choices |= {identity(each): each for each in package["choices"]}
            cubins |= {name: opened.read(name) for name in opened.namelist() if name not in (CHOICES, "__main__.py")}
    _write(made, head, choices, cubins)


def _write(
    path: Path, head: Mapping[str, Any], choices: Mapping[str, Mapping[str, Any]], cubins: Mapping[str, bytes]
) -> None:
    used = {each["cubin"] for choice in choices.values() for each in choice["launches"]}
    about = {**head, "choices": [choices[key] for key in sorted(choices)]}
    files = {
        "__main__.py": Path(timing.__file__).read_bytes(),
        CHOICES: json.dumps(about).encode(),
        **{digest: cubins[digest] for digest in sorted(used)},
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_DEFLATED)
