"""Take the pictures of docs/how-to/read-a-report.md: build the examples, change them, and open the reports in Chromium.

    .venv/bin/python tools/report_pictures.py

It needs the packages of modelbuild[models,test], pillow, chromium and the C++ runtime (`make runtime`), and takes some
minutes.
"""

from __future__ import annotations

import os
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
WIDTH, TALL, MOST = 1240, 3000, 1160
# Name of the picture, page, its first and last section (None: from the page's top), dark colors.
PICTURES = (
    ("report", "ci", None, 2, False),
    ("actions", "ci", 3, 3, True),
    ("program", "program", None, 0, False),
    ("profile", "profile", None, 0, False),
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
        run = ("run", "//models:detector", "--input", "image=//third_party:astronaut")
        modelbuild(root, *run, "--profile-output", "profile.html")
        for picture, page, first, last, dark in PICTURES:
            shot = folder / f"{picture}.png"
            screenshot(root / f"{page}.html", shot, dark, folder / "browser")
            image = Image.open(shot).convert("RGB")
            found = sections(image)
            top = 0 if first is None else found[first][0] - 10
            image = image.crop((0, top, WIDTH, min(found[last][1] + 10, top + MOST)))
            image.quantize(200, dither=Image.Dither.NONE).save(PICTURES_FOLDER / f"{picture}.png", optimize=True)


def sections(image: Image.Image) -> list[tuple[int, int]]:
    """Return the first and last row of each section: more than 100 rows that are not of the page's color alone."""
    color = image.getpixel((0, 0))
    found, start = [], 0
    for row in range(image.height):
        if image.crop((0, row, image.width, row + 1)).getcolors() == [(image.width, color)]:
            if row - start > 100:
                found.append((start, row))
            start = row + 1
    return [*found, (start, image.height)]


def modelbuild(root: Path, *arguments: str) -> None:
    own = {"MODELBUILD_CACHE_DIR": str(root.parent / "cache")}
    environment = {**os.environ, **own}
    subprocess.run([sys.executable, "-m", "modelbuild", *arguments], cwd=root, check=False, env=environment)


def commit(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", "edit")


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, check=True)


def screenshot(page: Path, picture: Path, dark: bool, folder: Path) -> None:
    command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += ["--virtual-time-budget=3000", f"--user-data-dir={folder}", f"--window-size={WIDTH},{TALL}"]
    command += ["--blink-settings=preferredColorScheme=0"] if dark else []
    subprocess.run([*command, f"--screenshot={picture}", page.as_uri()], check=True, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
