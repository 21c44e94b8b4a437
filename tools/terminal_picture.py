"""Run the commands of the README's picture on a copy of examples/, and draw what they print as an SVG.

python tools/terminal_picture.py [docs/pictures/build.svg]

The first build starts with an empty cache. Needs the installed extras `models` and a network for the example's weights.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
WIDTH = 100
COMMANDS = (
    "modelbuild build //models:detector",
    "echo '# a comment' >> models/nets.py",
    "modelbuild build //models:detector",
    "modelbuild build //models:detector",
)


def session(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield each command with its output."""
    workspace = folder / "examples"
    shutil.copytree(ROOT / "examples", workspace, ignore=shutil.ignore_patterns("modelbuild-out", "__pycache__"))
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {**os.environ, "PATH": path, "MODELBUILD_CACHE_DIR": str(folder / "cache"), "FORCE_COLOR": "1"}
    for command in COMMANDS:
        ended = subprocess.run(
            ["bash", "-c", command],
            cwd=workspace,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
        )
        yield command, ended.stdout


def picture(recorded: Iterator[tuple[str, str]]) -> str:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    for command, output in recorded:
        console.print(Text.assemble(("$ ", "green"), (command, "bold")))
        for line in output.splitlines():
            text = Text.from_ansi(line)
            text.truncate(WIDTH, overflow="ellipsis")
            console.print(text, soft_wrap=True)
    drawn = console.export_svg(title="modelbuild", unique_id="build")
    return re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)  # no fonts from other servers


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs/pictures/build.svg"
    with tempfile.TemporaryDirectory() as folder:
        drawn = picture(session(Path(folder)))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(drawn)


if __name__ == "__main__":
    main()
