"""No secret is in a key, a log, a trace, a statement, an upload or the history: canaries in each place that has one."""

from __future__ import annotations

import base64
import hashlib
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from modelbuild.redaction import redacted, without_secrets
from tests.trust.conftest import TARGET, TEST, WEIGHTS, attested
from tests.trust.keys import write_key
from tests.workspace_builder import Workspace

CANARY = b"CANARY"


def findings(folder: Path) -> list[str]:
    """Return the files below a folder that contain the canary, also in compressed columns of a database."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            if CANARY in data or any(CANARY in part for part in _unpacked(data)):
                found.append(str(path.relative_to(folder)))
    return found


def _unpacked(data: bytes) -> list[bytes]:
    """Return what zlib finds in some bytes."""
    found, start = [], 0
    while (start := data.find(b"\x78\x9c", start)) >= 0:
        with suppress(zlib.error):
            found.append(zlib.decompressobj().decompress(data[start:]))
        start += 1
    return found


def test_the_search_finds_a_canary_in_a_database(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 10 + zlib.compress(b"a CANARY"))
    assert findings(tmp_path) == ["a"]


ENVIRONMENT = {
    "AWS_SECRET_ACCESS_KEY": "CANARY-aws",
    "GITHUB_TOKEN": "CANARY-github",
    "MODELBUILD_KEY_PASSPHRASE": "CANARY-passphrase",
    "REMOTE_TOKEN": "CANARY-token",
    "https_proxy": "http://me:CANARY-proxy@127.0.0.1:9",
    "no_proxy": "127.0.0.1",
    "PIP_INDEX_URL": "https://me:CANARY-pip@127.0.0.1:9/simple",
}


_TEST_SEES = """

def test_environment():
    import os
    assert [value for value in os.environ.values() if "CAN" "ARY" in value] == []
"""


@pytest.fixture
def secretive(trusted: Workspace) -> Workspace:
    """A workspace whose environment, home, remote settings, repository and keys contain canaries."""
    home = trusted.folder / "home"
    home.mkdir()
    (home / ".netrc").write_text("machine 127.0.0.1 login me password CANARY-netrc\n")
    trusted.write(
        {"a/s.py": "import os\nassert not [v for v in os.environ.values() if 'CAN' 'ARY' in v]\nresult = 1\n"}
    )
    trusted.write({"a/test_s.py": (trusted.root / "a/test_s.py").read_text() + _TEST_SEES})
    settings = f'[remote]\ncache = "file://{trusted.folder}/uploads"\ntoken_env = "REMOTE_TOKEN"\n'
    trusted.add("MODELBUILD.toml", settings)
    trusted.commit()
    return trusted


@pytest.mark.exhaustive
def test_secrets_are_nowhere_after_a_build_tests_and_statements(secretive: Workspace) -> None:
    environment = {**ENVIRONMENT, "HOME": str(secretive.folder / "home")}
    files = ("--profile=../trace.json", "--build-event-json=../events.json", "--junit=../junit.xml")
    printed = []
    key = write_key(secretive.folder / "keys", "release", "CANARY-passphrase")
    output = "modelbuild-out/default/a/s/out.txt"
    for command in (
        ("test", TEST, *files),
        ("build", TARGET, "--json"),
        ("attest", TARGET, "-o", "../made.json"),
        ("sbom", TARGET, "-o", "../bill.json"),
        ("explain", TARGET, "--json"),
        ("aquery", TARGET, "--output=json"),
        ("info",),
        ("sign", output, "../made.json", f"--key={key}"),
        ("verify", output, f"--key={key.with_suffix('.pub')}", "--attestation=../made.json"),
    ):
        ended = secretive.run(*command, **environment)
        assert ended.code == 0, (command, ended.err)
        printed.append((command[0], ended.out + ended.err))
    assert [name for name, text in printed if "CANARY" in text] == []
    found = findings(secretive.folder)
    # The places where the test itself put them, and the repository's own configuration.
    assert [path for path in found if path not in ("home/.netrc", "workspace/.git/config")] == []
    assert any((secretive.folder / "uploads").rglob("*"))


@pytest.mark.exhaustive
def test_a_repository_with_a_password_in_its_address_is_stated_without_it(trusted: Workspace) -> None:
    assert b"CANARY" in (trusted.root / ".git/config").read_bytes()
    assert "CANARY" not in str(attested(trusted))


def test_an_address_with_a_password_in_a_build_file_is_neither_printed_nor_stored(trusted: Workspace) -> None:
    trusted.edit("a/BUILD.toml", 'urls = ["', 'urls = ["https://me:CANARY@127.0.0.1:9/weights.txt", "')
    for command in ("build", "attest", "sbom", "cquery", "test"):
        ended = trusted.run(command, TARGET)
        assert ended.code == 3
        assert "CANARY" not in ended.out + ended.err
    assert [path for path in findings(trusted.folder) if path.startswith("cache")] == []


SIGNED = "weights.txt?X-Signature=CANARY&a=CANARY#CANARY"


@pytest.fixture
def signed_address(trusted: Workspace, server: str) -> Workspace:
    """A workspace that downloads from a signed address, with signed addresses as source and as remote repository."""
    mirror = (trusted.root / "a/BUILD.toml").read_text().partition('urls = ["')[2].partition('"')[0]
    trusted.edit("a/BUILD.toml", mirror, f"{server}/{SIGNED}")
    trusted.edit("a/BUILD.toml", "https://host.example/weights", "https://host.example/weights?sig=CANARY")
    trusted.edit("a/BUILD.toml", 'srcs = [":code", ":weights"]', 'srcs = [":code", ":weights"]\naddress = ["CODE"]')
    trusted.edit("a/BUILD.toml", '["CODE"]', '["https://me:CANARY@host.example/code?sig=CANARY"]')
    trusted.edit("tools/rules/script.py", "requires:", "address: tuple[str, ...] = ()\n    requires:")
    trusted.edit("tools/rules/script.py", "tools=ctx", 'params={"address": list(ctx.attrs.address)}, tools=ctx')
    trusted.git("remote", "set-url", "origin", "https://git.example/nets.git?token=CANARY")
    trusted.commit()
    return trusted


def _canaries(workspace: Workspace) -> list[str]:
    """Return the files with the canary, except those in which the test itself put it. The remote is not looked up."""
    own = ("workspace/.git/config", "workspace/a/BUILD.toml")
    return [path for path in findings(workspace.folder) if path not in own]


def test_a_signed_address_is_in_no_record_and_no_output(signed_address: Workspace) -> None:
    workspace = signed_address
    files = ["profile=../trace.json", "build-event-json=../events.json", "junit=../j.xml", "report=../page.html"]
    printed = []
    for command in (
        ("test", TEST, *(f"--{file}" for file in files)),
        ("attest", TARGET, "-o", "../made.json"),
        ("attest", "//a:weights"),
        ("sbom", TARGET, "-o", "../bill.json"),
        ("explain", TARGET, "--json"),
        ("aquery", TARGET, "--output=json"),
        ("cquery", "deps(//a:s)", "--output=json"),
        ("query", "deps(//a:s)", "--output=json"),
    ):
        ended = workspace.run(*command, NETRC="/nonexistent")
        assert ended.code == 0, (command, ended.err)
        printed.append((command, ended.out + ended.err))
    assert [command for command, text in printed if "CANARY" in text] == []
    assert "https://host.example/weights" in printed[2][1]
    assert _canaries(workspace) == []


def test_another_secret_in_a_key_is_explained_without_it(signed_address: Workspace) -> None:
    workspace = signed_address
    for secret in ("CANARY", "CANARY-2"):
        workspace.edit("a/BUILD.toml", "host.example/code?sig=CANARY", f"host.example/code?sig={secret}")
        workspace.run("build", TARGET, NETRC="/nonexistent")
    ended = workspace.run("explain", TARGET)
    assert "the user, password or query of an address changed, which is not recorded" in ended.out
    assert "CANARY" not in ended.out


def test_a_signed_address_is_in_no_error(signed_address: Workspace) -> None:
    workspace = signed_address
    long = "print('https://me:CANARY@host.example/?CANARY\\n' * 50)"
    workspace.write({"a/s.py": f"{long}\nraise ValueError('https://me:CANARY@host.example/?sig=CANARY')\n"})
    pinned = hashlib.sha256(WEIGHTS.encode()).hexdigest()
    for old, new, code, message in (
        (TEST, TEST, 1, "ValueError: https://host.example/"),
        (pinned, "0" * 64, 1, "/weights.txt: wrong SHA-256"),
        (SIGNED, "?CANARY", 3, "does not end in a file name"),
        ("http://127", "htp://127", 3, "is not a file's address"),
    ):
        build = (workspace.root / "a/BUILD.toml").read_text()
        workspace.write({"a/BUILD.toml": build.replace(old, new)})
        ended = workspace.run("build", TARGET, "-k", "--build-event-json=../events.json", NETRC="/nonexistent")
        assert (ended.code, message in ended.err) == (code, True), ended.err
        assert "CANARY" not in ended.out + ended.err
    assert [path for path in _canaries(workspace) if path != "workspace/a/s.py"] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("GET https://a:b@h.example:8/p/q?x=1#y failed", "GET https://h.example:8/p/q failed"),
        ("'s3+http://h/p?x', \"h://u@h?x\"", "'s3+http://h/p', \"h://h\""),
        ("https://a@b:c@h/p", "https://h/p"),
        ("(see https://h/p?x=1): no. https://h/p#x.", "(see https://h/p): no. https://h/p."),
        ("'ssh://me@h:22?folder=/a' ssh://me:b@h", "'ssh://me@h:22' ssh://me@h"),
        ("1https://a:b@h/p", "1https://h/p"),
        ("https://h?x=https://i?y", "https://h"),
        ("pkg:pypi/a@1#b a@b //a:b what? #3", "pkg:pypi/a@1#b a@b //a:b what? #3"),
        ("file:///a/b", "file:///a/b"),
        ("https://h/p@q", "https://h/p@q"),
    ],
)
def test_secrets_are_removed_from_addresses_and_nothing_else(text: str, expected: str) -> None:
    assert without_secrets(text) == expected
    assert redacted({"a": [text, (text, 1)], "b": None}) == {"a": [expected, [expected, 1]], "b": None}


@pytest.mark.parametrize("part", ["a", "a@", "a.", "?", "://", "a://", "a://@", "a://h?.", "a:"])
def test_long_texts_take_linear_time(part: str) -> None:
    began = time.process_time()
    without_secrets(f"{part * 200_000}://")
    assert time.process_time() - began < 5


class _Handler(BaseHTTPRequestHandler):
    """Serves the weights to a client that logs in."""

    def do_GET(self) -> None:
        login = "Basic " + base64.b64encode(b"me:CANARY-netrc").decode()
        known = self.headers["Authorization"] == login or self.path.startswith(f"/{SIGNED.partition('#')[0]}")
        self.send_response(200 if known else 403)
        self.end_headers()
        self.wfile.write(WEIGHTS.encode() if known else b"")

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    made = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{made.server_port}"
    made.shutdown()
    made.server_close()


@pytest.mark.exhaustive
def test_a_password_of_netrc_and_a_token_in_an_address_are_neither_printed_nor_stated(
    secretive: Workspace, server: str
) -> None:
    text = (secretive.root / "a/BUILD.toml").read_text()
    mirror = text.partition('urls = ["')[2].partition('"')[0]
    secretive.edit("a/BUILD.toml", mirror, f"{server}/weights.txt?token=CANARY")
    refused = secretive.run("attest", TARGET, HOME="/nonexistent", no_proxy="127.0.0.1")
    assert refused.code == 1
    assert "HTTP 403" in refused.err
    assert "CANARY" not in refused.err
    ended = secretive.run("attest", TARGET, HOME=str(secretive.folder / "home"), no_proxy="127.0.0.1")
    assert ended.code == 0, ended.err
    assert "CANARY" not in ended.out + ended.err
    assert f"{server}/weights.txt" in ended.out
    assert [path for path in findings(secretive.folder) if path.startswith("uploads")] == []
