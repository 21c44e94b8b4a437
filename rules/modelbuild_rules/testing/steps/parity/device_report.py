"""The results that a device returned: each command's end, printed text and outputs. None of their bytes is trusted."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from modelbuild_rules.testing.steps.parity.programs import Results
from modelbuild_runtime.errors import ProgramError

LATENCY = "latency"  # the command that measures the first call; the commands of other methods begin with this name
_MOST_TEXT = 10_000
_MOST_JSON = 1 << 24


@dataclass(frozen=True)
class DeviceReport:
    """The folder with device.json, and its content."""

    folder: Path
    document: Mapping[str, Any]

    @classmethod
    def read(cls, folder: Path) -> DeviceReport:
        return cls(folder, json.loads((folder / "device.json").read_bytes()))

    @property
    def emulator(self) -> str:
        return str(self.document.get("emulator", ""))

    def name(self) -> str:
        """Return the runner and the device's model, for the report."""
        identity = self.document["identity"]
        what = identity.get("gpu") or identity.get("model") or identity.get("cpu") or identity["arch"]
        return f"{self.document['runner']} ({what})"

    def unmet_requirement(self) -> str:
        """Return a requirement of the program that no device meets, as text; '' if the program can run."""
        if self.document["unmet"]:
            return str(self.document["unmet"])
        try:
            unmet = self._printed("describe").get("unmet", ())
        except ProgramError:
            return ""  # its cases report the error
        return _line(next(iter(unmet), "")) if isinstance(unmet, list) else ""

    def outputs(self, name: str, calls: int) -> Results:
        """Return the outputs of a command for each of its calls. Raises ProgramError for a program that failed, and for
        outputs that cannot be read."""
        found: Results = [{} for _ in range(calls)]
        try:
            for output in self._printed(name)["outputs"]:
                found[_index(output.get("call", 1), calls)][str(output["name"])] = np.load(
                    self._file(name, output["path"])
                )
        except (KeyError, TypeError, AttributeError, ValueError, OSError, EOFError, MemoryError) as error:
            raise ProgramError(f"the device returned outputs that cannot be read: {_line(str(error))}") from error
        return found

    def latency(self, name: str = LATENCY) -> dict[str, float]:
        """Return latency_ms (the median), latency_min_ms, latency_p95_ms and latency_max_ms of a command. Raises
        ProgramError as outputs() does."""
        names = {"latency_ms": "median_ms", **{f"latency_{each}": each for each in ("min_ms", "p95_ms", "max_ms")}}
        try:
            latency = self._printed(name)["latency"]
            found = {name: float(latency[each]) for name, each in names.items()}
        except (KeyError, TypeError, ValueError) as error:
            raise ProgramError("the device returned no latencies; expected the output of modelbuild-run") from error
        if not all(0 <= value < 1e12 for value in found.values()):
            raise ProgramError("the device returned latencies that are no durations; expected milliseconds")
        return found

    def other_latencies(self) -> dict[str, float]:
        """Return the median milliseconds of each other method: latency_ms_decode. Raises ProgramError as outputs()
        does."""
        names = [name for name in self._commands() if name.startswith(f"{LATENCY}_")]
        return {name.replace(LATENCY, f"{LATENCY}_ms", 1): self.latency(name)["latency_ms"] for name in names}

    def first(self) -> dict[str, float]:
        """Return first_ms: the milliseconds of loading the program and of its first run; empty if they are not stated.
        Raises ProgramError as outputs() does."""
        value = self._printed(LATENCY).get("first_ms", 0.0)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return {"first_ms": float(value)} if number and 0 < value < 1e12 else {}

    def peak_memory(self) -> dict[str, float]:
        """Return peak_memory: the most bytes of the measured process that were in RAM at once; empty if its system
        does not state it. Raises ProgramError as outputs() does."""
        value = self._printed(LATENCY).get("peak_memory")
        return {"peak_memory": float(value)} if type(value) is int and 0 < value < 1 << 50 else {}

    def state(self) -> dict[str, float]:
        """Return the highest temperature and the highest clock after the run, if the device states them."""
        found: dict[str, float] = {}
        for measure, prefix in (("temperature_c", "temperature."), ("clock_mhz", "clock.")):
            values = [value for name, value in self.document["after"].items() if name.startswith(prefix)]
            found |= {measure: float(max(values))} if values else {}
        return found

    def logs(self) -> str:
        """Return the end of the programs' output on standard error."""
        texts = []
        for name in self._commands():
            text = self._text(name, "stderr")
            if text.strip():
                kept = "".join(each if each.isprintable() or each == "\n" else "?" for each in text[-_MOST_TEXT:])
                texts.append(f"--- {name} on the device\n{kept.rstrip()}\n")
        return "".join(texts)

    def _commands(self) -> Mapping[str, Mapping[str, Any]]:
        commands: Sequence[Mapping[str, Any]] = self.document.get("commands", ())
        return {each["name"]: each for each in commands}

    def _printed(self, name: str) -> dict[str, Any]:
        """Return the JSON object that a command printed. Raises ProgramError if it failed or printed anything else."""
        ended = self._commands()[name]
        if ended["timed_out"]:
            raise ProgramError("took longer than the test's timeout on the device")
        if ended["status"]:
            raise ProgramError(f"modelbuild-run {_failure(ended['status'], self._text(name, 'stderr'))}")
        try:
            document = json.loads(self._text(name, "stdout"))
        except (ValueError, RecursionError) as error:
            raise ProgramError("the device returned no report of modelbuild-run; expected one JSON object") from error
        if not isinstance(document, dict):
            raise ProgramError("the device returned no report of modelbuild-run; expected one JSON object")
        return document

    def _text(self, name: str, stream: str) -> str:
        path = self.folder / "out" / name / stream
        if not path.is_file() or path.stat().st_size > _MOST_JSON:
            return ""
        return path.read_text(errors="replace")

    def _file(self, name: str, path: str) -> Path:
        """Return the file of an output, which must be in the command's own folder."""
        parts = PurePosixPath(path).parts
        if parts[:2] != ("out", name) or ".." in parts:
            raise ValueError(f"an output at {path[:60]!r}; expected it in out/{name}")
        return self.folder.joinpath(*parts)


def _index(call: object, calls: int) -> int:
    if not isinstance(call, int) or not 1 <= call <= calls:
        raise ValueError(f"an output of call {str(call)[:20]}; expected 1 to {calls}")
    return call - 1


def _failure(status: int, stderr: str) -> str:
    """Return how a program failed, from its status in a shell: its last error line, its signal, or the status."""
    if status > 128 and status - 128 in signal.valid_signals():
        return f"was killed by {signal.Signals(status - 128).name}"
    lines = [line.removeprefix("error: ") for line in stderr.splitlines() if line.startswith("error: ")]
    last = next((line for line in reversed(stderr.splitlines()) if line.strip()), "")
    return f"failed: {_line(lines[-1])}" if lines else f"ended with exit status {status}: {_line(last)}"


def _line(text: object) -> str:
    line = str(text)[:300]
    return "".join(each if each.isprintable() else "?" for each in line)
