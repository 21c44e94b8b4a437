"""`modelbuild doctor` about toolchains: it makes none."""

from __future__ import annotations

from tests.script_rule import SCRIPT
from tests.wheels import TOOLCHAIN, ToolchainWorkspace

TORCH = {"torch/__init__.py": ""}


def findings(workspace: ToolchainWorkspace) -> dict[str, dict[str, str]]:
    found = workspace.run("doctor", "--json").json["checks"]
    return {each["name"]: each for each in found if each["name"].startswith(("toolchain", "backend"))}


def test_toolchains_that_are_made_and_not_made(tools: ToolchainWorkspace) -> None:
    assert tools.build(SCRIPT).code == 0
    tools.index.add("torch", "9.0", TORCH)
    tools.write({"other.lock": tools.index.lock, "b/BUILD.toml": TOOLCHAIN.replace("tools", "x"), "b/x.lock": "six\n"})
    tools.add("BUILD.toml", TOOLCHAIN.replace("tools", "other"))
    found = findings(tools)
    assert list(found) == ["toolchain //:tools (default)", "toolchain //:other", "toolchain //b:x"]
    default, other, broken = found.values()
    assert default["status"] == "ok"
    assert "no package of a backend of 3 packages in tools.lock, Python 3." in default["text"]
    assert "made: " in default["text"]
    assert "torch 9.0 of 4 packages in other.lock, Python 3." in other["text"]
    assert other["text"].endswith("not made")
    assert other["fix"] == "the next build makes it, or modelbuild fetch //:other"
    assert (broken["status"], broken["text"]) == (
        "error",
        "b/x.lock:1:1: 'six' is not pinned; expected six==version --hash=sha256:...",
    )
    assert len(list((tools.cache / "toolchains").glob("*/toolchain.json"))) == 1


def test_a_default_that_is_none(tools: ToolchainWorkspace) -> None:
    tools.write({"MODELBUILD.toml": '[build]\ntoolchain = "//:tool"\n'})
    found = findings(tools)["toolchain //:tool (default)"]
    assert found["text"] == "MODELBUILD.toml:2:1: no target 'tool' in //; did you mean 'tools'?"
