"""`modelbuild devices`, declarations of runners, and --runner."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelbuild.device_runners import parse_address
from modelbuild.devices.device import Device
from modelbuild.errors import UsageError
from tests.devices.sshd import Sshd, free_port
from tests.format_shapes import check_format
from tests.workspace_builder import Workspace

BUILD = """
[[device_target]]
name = "pc"
arch = "x86_64"
runners = [":near", ":gone"]

[[device_target]]
name = "board"
arch = "aarch64"
runners = [":emulated", ":wrong"]

[[device_target]]
name = "unreached"
arch = "aarch64"

[[device_runner]]
name = "near"
connection = {{ type = "ssh", host = "127.0.0.1", port = {port}, key = "keys/key", known_hosts = "keys/known_hosts" }}
folder = "{folder}"
store_size = "10 MiB"

[[device_runner]]
name = "gone"
connection = {{ type = "ssh", host = "127.0.0.1", port = {closed} }}

[[device_runner]]
name = "emulated"
connection = {{ type = "qemu", arch = "aarch64" }}
folder = "{folder}"

[[device_runner]]
name = "wrong"
connection = {{ type = "local" }}
folder = "{folder}"
"""


@pytest.fixture
def declared(server: Sshd, workspace: Workspace, tmp_path: Path) -> Workspace:
    """Return a workspace with devices of each kind. Paths of keys are relative to it."""
    build = BUILD.format(port=server.port, closed=free_port(), folder=tmp_path / "device")
    workspace.write({"MODELBUILD.toml": "", "BUILD.toml": build})
    (workspace.root / "keys").symlink_to(server.key.parent)
    return workspace


def test_devices_with_state_and_properties(declared: Workspace, server: Sshd, tmp_path: Path) -> None:
    device = Device(parse_address(server.at(server.port, folder=tmp_path / "device")))
    with device.session("//:my_test", 5, lambda text: None):
        ended = declared.run("devices", "--json")
    device.close()
    assert (ended.code, ended.err) == (0, "")
    check_format("devices", ended.json, maps=("devices[].runners[].identity",))
    found = {each["runner"]: each for one in ended.json["devices"] for each in one["runners"]}
    assert {name: each["state"] for name, each in found.items()} == {
        "//:near": "in use",
        "//:gone": "unusable",
        "//:emulated": "in use",
        "//:wrong": "unusable",
    }
    assert found["//:near"]["owner"].endswith("for //:my_test")
    assert found["//:near"]["address"] == f"ssh://127.0.0.1:{server.port}"
    assert found["//:near"]["identity"]["arch"] == "x86_64"
    assert found["//:emulated"]["identity"]["arch"] == "aarch64"
    assert found["//:emulated"]["identity"]["model"].startswith("qemu-aarch64 version ")
    assert found["//:gone"]["problem"] == "nothing accepts connections on this port"
    assert found["//:wrong"]["problem"] == "it is x86_64; expected aarch64, as declared"


def test_the_text_and_another_runner(declared: Workspace, server: Sshd, tmp_path: Path) -> None:
    expected = "  no runner; expected `runners` of the device_target, or --runner LABEL=ADDRESS"
    assert declared.run("devices", "//:unreached").out.splitlines() == ["//:unreached  aarch64", expected]
    given = declared.run("devices", ":unreached", f"--runner=:unreached=qemu:aarch64?folder={tmp_path / 'device'}").out
    assert given.splitlines()[1] == "  qemu:aarch64  free"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["//:near"], "error: //:near is a device_runner; expected a device that programs can run on"),
        (["--runner=//:pcc=local:"], "error: --runner //:pcc: no device of this label; did you mean '//:pc'?"),
        (["//:pc", "--runner=//:pcc=local:"], "error: no target 'pcc' in //; did you mean 'pc'?"),
        (["//:pc", "--runner=//:near=local:"], "error: //:near is a device_runner; expected a device that programs"),
        (["--runner=ssh://host"], "error: 'ssh://host': expected LABEL=ADDRESS, such as //:orin=ssh://user@host"),
        (
            ["--runner=//:pc=shh://host"],
            "error: 'shh://host' is not the address of a device; expected local:, qemu:ARCH",
        ),
    ],
)
def test_a_wrong_command_line(declared: Workspace, arguments: list[str], problem: str) -> None:
    ended = declared.run("devices", *arguments)
    assert ended.code == 2
    assert ended.err.startswith(problem)
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("command", [("build", "//:pc"), ("test", "//..."), ("doctor", "--on=//:pc")])
def test_a_runner_of_another_label_is_refused_before_any_work(declared: Workspace, command: tuple[str, ...]) -> None:
    ended = declared.run(*command, "--runner=//:pcc=local:")
    assert (ended.code, ended.err) == (2, "error: no target 'pcc' in //; did you mean 'pc'?\n")


SSH = 'type = "ssh", host = "a"'
DECLARED = [
    ('type = "ssh"', "'connection' of device_runner 'r' lacks the attribute 'host'"),
    ('type = "qemu"', "'connection' of device_runner 'r' lacks the attribute 'arch'"),
    ('type = "local", host = "x"', "3:32: unknown attribute 'host' of 'connection'"),
    ('type = "ssh", hots = "x"', "3:30: unknown attribute 'hots' of 'connection'; did you mean 'host'?"),
    ('type = "ssh", host = "-oProxyCommand=x"', "'-oProxyCommand=x' is not a host; expected a name or an IP address"),
    (f'{SSH}, user = "-x"', "'-x' is not a user's name"),
    (f'{SSH}, jump = "$(x)"', "'$(x)' is not a jump host; expected [USER@]HOST[:PORT]"),
    (f'{SSH}, jump = "gate:port"', "'gate:port' is not a jump host; expected [USER@]HOST[:PORT]"),
    (f'{SSH}, jump = "gate,-x"', "'-x' is not a jump host"),
    (f'{SSH}, jump = "gate:99999"', "'gate:99999' is not a jump host"),
    (f'{SSH}, jump = "-l@gate"', "'-l@gate' is not a jump host"),
    (f'{SSH}, jump = "gate,"', "'' is not a jump host"),
    (f'{SSH}, key = "x\\" y"', "is not a path; expected a path without quotes"),
    ('type = "shh"', "expected one of 'local', 'qemu', 'ssh', got 'shh'; did you mean 'ssh'?"),
    ("", "attribute 'connection': expected a table with 'type'"),
]


@pytest.mark.parametrize(("connection", "problem"), DECLARED)
def test_a_wrong_declaration_has_its_place(workspace: Workspace, connection: str, problem: str) -> None:
    declared = f'[[device_runner]]\nname = "r"\nconnection = {{ {connection} }}\n'
    workspace.write({"MODELBUILD.toml": "", "BUILD.toml": declared})
    ended = workspace.run("cquery", "//...")
    assert ended.code == 3
    assert ended.err.startswith("error: BUILD.toml:")
    assert problem in ended.err
    assert ended.err.count("\n") == 1


ADDRESSES = [
    ("", "is not the address of a device"),
    ("ssh://", "expected ssh://[USER@]HOST[:PORT]"),
    ("ssh:host", "expected ssh://[USER@]HOST[:PORT]"),
    ("ssh://host:99999", "with a port up to 65535"),
    ("ssh://host/path", "expected ssh://[USER@]HOST[:PORT]"),
    ("ssh://me:secret@host", "the address of a device with a password; expected ssh://[USER@]HOST, and a key"),
    ("ssh://host?kee=x", "no option 'kee'; did you mean 'key'?"),
    ("ssh://host?key=-x", "is not a path"),
    ("ssh://-oProxyCommand=x", "is not a host"),
    ("local:host", "expected local:, without a host"),
    ("local:?key=x", "no option 'key'; expected folder"),
    ("qemu:mips", "expected qemu:aarch64 or qemu:x86_64"),
]


@pytest.mark.parametrize(("address", "problem"), ADDRESSES)
def test_a_wrong_address(address: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_address(address)
    assert problem in str(caught.value)
    assert "secret" not in str(caught.value)


def test_addresses() -> None:
    found = parse_address("ssh://me@Orin.Lab:22?key=/a b/c&jump=gate")
    assert (found.host, found.user, found.port, found.key, found.jump) == ("Orin.Lab", "me", 22, "/a b/c", "gate")
    assert parse_address("ssh://h?jump=me@Gate.Lab:2222,[::1]:22,last").jumps() == (
        ("me", "Gate.Lab", 2222),
        ("", "::1", 22),
        ("", "last", 0),
    )
    assert parse_address("ssh://[::1]:22").address == "ssh://[::1]:22"
    assert parse_address("ssh://host").address == "ssh://host"
