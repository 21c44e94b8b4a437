"""An action of any user has no rights over the machine, its devices and other processes."""

from __future__ import annotations

from typing import Any

from modelbuild.execution.isolation.landlock import knows_scopes

PROBE = """
    import json, os, subprocess
    def succeeds(*command):
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
    def run(step):
        status = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True).stdout.splitlines()
        found = [line.split()[1] for line in status if line.startswith(("CapEff", "NoNewPrivs"))]
        programs = [f"open(F, '{how}', '{file}') or exit 1" for how in ("<", "+<") for file in FILES]
        found += [succeeds("perl", "-e", program) for program in programs]
        found.append(succeeds("unshare", "-Ur", "mount", "-t", "tmpfs", "x", os.environ["HOME"]))
        step.outputs["out"].write_text(json.dumps(found))
"""


def test_an_action_has_no_rights_of_root_s_and_no_devices(workspace: Any) -> None:
    files = ["/dev/ptmx", "/dev/tty", "/dev/mem", "/dev/kmsg", "/dev/vda", "/dev/sda"]
    found = workspace.probe(PROBE.replace("FILES", repr(files)))
    assert found == ["0000000000000000", "1", *[False] * (2 * len(files) + 1)]


def test_an_action_signals_nobody_else(workspace: Any) -> None:
    """Neither its parent nor the process that builds; its own it does."""
    source = """
        import json, os, subprocess
        def run(step):
            own = subprocess.Popen(["sleep", "600"])
            others = [os.getppid(), int(open(f"/proc/{os.getppid()}/stat").read().split()[3])]
            script = 'kill -0 "$0"'
            found = [subprocess.run(["sh", "-c", script, str(pid)]).returncode == 0 for pid in (own.pid, *others)]
            step.outputs["out"].write_text(json.dumps(found))
    """
    assert workspace.probe(source) == [True, *[not knows_scopes()] * 2]
