"""A run of a program, on this machine or on a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a program, as the command line describes it.

    inputs         NAME=FILE of each input
    resize         give pictures of another size the height and width of their input
    output_dir     the folder for the outputs; None to write none
    output_format  npy or json
    method         its name; None for the only method, or `forward`
    repeat         number of measured runs, after `warmup` unmeasured runs
    on             the label of the device to run on; None for this machine
    program        the name of the bundle's program; None for the only program
    profiled       record the time of each instruction, and write it to `profile_outputs`
    """

    inputs: tuple[str, ...]
    resize: bool
    method: str | None
    output_dir: Path | None
    output_format: str
    repeat: int
    warmup: int
    profiled: bool
    profile_outputs: tuple[Path, ...]
    on: str | None
    program: str | None

    def files(self) -> dict[str, str]:
        """Return the file, or the label, of each input. Raises click.UsageError for other text."""
        files: dict[str, str] = {}
        for text in self.inputs:
            name, equals, file = text.partition("=")
            if not (equals and name and file):
                raise click.UsageError(f"--input {text}: expected name=file")
            if name in files:
                raise click.UsageError(f"--input {text}: '{name}' is given twice")
            files[name] = file
        return files

    @property
    def profiles(self) -> bool:
        """Return whether the time of each instruction is recorded."""
        return self.profiled or bool(self.profile_outputs)

    def pages(self) -> list[Path]:
        """Return the HTML pages among the files of the profile."""
        return [path for path in self.profile_outputs if path.suffix == ".html"]

    def arguments(self, program: Path, files: Mapping[str, str]) -> list[str]:
        """Return the arguments of modelbuild_runtime for a program and the files of its inputs."""
        # A program's kernel libraries are in the program's folder.
        arguments = [str(program), "--plugin-dir", str(program.parent)]
        arguments += [] if self.method is None else ["--method", self.method]
        arguments += [f"--input={name}={file}" for name, file in files.items()]
        arguments += ["--resize"] if self.resize else []
        arguments += ["--repeat", str(self.repeat), "--warmup", str(self.warmup), "--output-format", self.output_format]
        arguments += ["--profile"] if self.profiles else []
        arguments += [f"--profile-output={path}" for path in self.profile_outputs if path not in self.pages()]
        return [*arguments, "--output-dir", str(self.output_dir)] if self.output_dir is not None else arguments
