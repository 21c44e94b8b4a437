"""Take the pictures of docs/how-to/read-a-report.md: build the examples, change them, and open the reports in Chromium.

    .venv/bin/python tools/report_pictures.py

It needs the packages of modelbuild[models,test], pillow and chromium, and takes some minutes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

TOP = Path(__file__).parents[1]
EXAMPLES, PICTURES_FOLDER = TOP / "examples", TOP / "docs/pictures"
TARGETS = ("//models:detector", "//models:detector_test", "//models:classifier_xnnpack")
TARGETS += ("//models:classifier_xnnpack_test", "//models:boxes_test")
# A comment, which changes no program; a larger layer, which does; a tolerance that the test cannot keep.
EDITS = {
    "models/boxes.py": ("\n\ndef anchors", "\n\n# Boxes are rows of (left, top, right, bottom).\ndef anchors"),
    "models/classifier.py": ("width: int = 16", "width: int = 24"),
    "models/BUILD.toml": ("abs = 1e-5, rel = 1e-4", "abs = 1e-12, rel = 1e-12"),
}
WIDTH = 1240
# Name of the picture, page, first and last row of its pixels, dark colors.
PICTURES = (
    ("report", "ci", 0, 1062, False),
    ("actions", "ci", 1062, 2230, True),
    ("program", "program", 0, 1160, False),
)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        root = folder / "examples"
        shutil.copytree(EXAMPLES, root, ignore=shutil.ignore_patterns("modelbuild-out", "__pycache__"))
        git(root, "init", "--quiet")
        commit(root)
        modelbuild(root, "ci", *TARGETS)
        for path, (old, new) in EDITS.items():
            text = (root / path).read_text()
            assert old in text, path
            (root / path).write_text(text.replace(old, new))
        commit(root)
        modelbuild(root, "ci", *TARGETS, "--since", "HEAD~1", "--report", "ci.html")
        modelbuild(root, "inspect", "//models:detector", "--html", "program.html")
        for picture, page, first, last, dark in PICTURES:
            shot = folder / f"{picture}.png"
            screenshot(root / f"{page}.html", shot, last, dark, folder / "browser")
            image = Image.open(shot).convert("RGB").crop((0, first, WIDTH, last))
            image.quantize(200, dither=Image.Dither.NONE).save(PICTURES_FOLDER / f"{picture}.png", optimize=True)


def modelbuild(root: Path, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "modelbuild", *arguments], cwd=root, check=False)


def commit(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", "edit")


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, check=True)


def screenshot(page: Path, picture: Path, height: int, dark: bool, folder: Path) -> None:
    command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += ["--virtual-time-budget=3000", f"--user-data-dir={folder}", f"--window-size={WIDTH},{height}"]
    command += ["--blink-settings=preferredColorScheme=0"] if dark else []
    subprocess.run([*command, f"--screenshot={picture}", page.as_uri()], check=True, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
