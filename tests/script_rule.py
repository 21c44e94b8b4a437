"""A rule that runs Python files as a model's source is run, without torch; and distributions that tests install."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from pathlib import Path

from tests.workspace_builder import write

FILES = {
    "MODELBUILD.toml": 'rules = ["//tools/rules"]\n',
    "tools/rules/__init__.py": "",
    "tools/rules/script.py": """
from modelbuild.api import Attrs, Context, Files, Output, Sources, rule

class ScriptAttrs(Attrs):
    srcs: Sources
    requires: tuple[str, ...] = ()

@rule(attrs=ScriptAttrs)
def script(ctx: Context[ScriptAttrs]) -> tuple[Files]:
    made = ctx.action(
        "script",
        step="script",
        inputs={"srcs": ctx.files(ctx.attrs.srcs)},
        outputs=[Output("out", "out.txt")],
        tools=ctx.attrs.requires,
        python=("srcs",),
    )
    return (Files((made["out"],)),)
""",
    "tools/rules/steps/__init__.py": "",
    "tools/rules/steps/script.py": """
import runpy, sys

def run(step):
    sys.path.insert(0, str(step.root))
    step.outputs["out"].write_text(str(runpy.run_path(str(step.inputs["srcs"][0]))["result"]))
""",
    "a/BUILD.toml": '[[script]]\nname = "s"\nsrcs = ["s.py"]\n',
}
SCRIPT = "//a:s"
# What a script says that is to begin its output and wait until it is let go: see Workspace.let_go.
WAITS = """
import os, tempfile, time
open(".outputs/out.txt", "w").close()
while not os.path.exists(tempfile.gettempdir() + "/go"):
    time.sleep(0.01)
"""
OUTPUT = "modelbuild-out/default/a/s/out.txt"


def install(site: Path, name: str, version: str, files: dict[str, str], requires: tuple[str, ...] = ()) -> None:
    """Install a distribution as pip does: its files first, RECORD last."""
    for old in site.glob(f"{name}-*.dist-info"):
        for file in old.iterdir():
            file.unlink()
        old.rmdir()
    info = f"{name}-{version}.dist-info"
    extras = sorted({extra for each in requires for extra in re.findall(r"extra == '(\w+)'", each)})
    lines = "".join(f"Provides-Extra: {extra}\n" for extra in extras)
    lines += "".join(f"Requires-Dist: {each}\n" for each in requires)
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{lines}"
    write(site, {**files, f"{info}/METADATA": metadata})
    record = [f"{path},{_hash(site / path)},{(site / path).stat().st_size}" for path in (*files, f"{info}/METADATA")]
    for path in files:
        os.utime(site / path, (1_700_000_000, 1_700_000_000))
    (site / info / "RECORD").write_text("\n".join([*record, f"{info}/RECORD,,", ""]))


def _hash(path: Path) -> str:
    digest = hashlib.sha256(path.read_bytes()).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).decode().rstrip("=")
