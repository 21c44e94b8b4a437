"""Publishing to folders, and to S3's protocol as SeaweedFS speaks it."""

from __future__ import annotations

import errno
import json
import os
import random
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import obstore.store
import pytest

from modelbuild.errors import EnvironmentProblem, UsageError
from modelbuild.publish.content import Content, PublishError
from modelbuild.publish.destination import parse_destination, publish
from modelbuild.publish.manifest import digest_of, manifest_of
from modelbuild.publish.places import Folder, ObjectStore, Place

Make = Callable[..., Content]
FILES = {"net.pte": b"program", "net/run.sh": b"run"}
DOCUMENT = {"provenance.intoto": b"{}"}
WEED = Path(sys.prefix, "servers/bin/weed")


def to(address: str, content: Content, replace: bool = False) -> list[str]:
    said: list[str] = []
    publish(content, parse_destination(address), replace, said.append)
    return said


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_gets_files_documents_and_the_manifest(tmp_path: Path, content: Make) -> None:
    given = content(FILES, **DOCUMENT)
    uploads = ["uploaded net.pte", "uploaded net/run.sh", "attached provenance.intoto.json"]
    assert to(f"file://{tmp_path}/a b/1", given) == uploads
    expected = {**FILES, "provenance.intoto.json": b"{}", "manifest.json": manifest_of(given)}
    assert files(tmp_path / "a b/1") == expected
    assert to(f"file://{tmp_path}/a b/1", given) == []


def test_the_digest_is_that_of_a_registry(tmp_path: Path, content: Make) -> None:
    given = content(FILES)
    published = publish(given, parse_destination(f"file://{tmp_path}/net"), False, print)
    assert published.digest == digest_of(manifest_of(given))


def test_replacing_leaves_no_file_of_the_old_content(tmp_path: Path, content: Make) -> None:
    to(f"file://{tmp_path}/net", content(FILES, **{"provenance.intoto": b"1", "sbom.cdx": b"1"}))
    (tmp_path / "net/own").write_bytes(b"of the user")
    other = content({"net.pte": b"2"}, **{"provenance.intoto": b"2"})
    with pytest.raises(PublishError, match="expected another address, or --replace"):
        to(f"file://{tmp_path}/net", other)
    to(f"file://{tmp_path}/net", other, replace=True)
    found = files(tmp_path / "net")
    assert found.pop("own") == b"of the user"
    assert found == {"net.pte": b"2", "provenance.intoto.json": b"2", "manifest.json": manifest_of(other)}


@pytest.mark.parametrize("replaced", [True, False])
def test_a_folder_that_fails_at_any_step_keeps_a_whole_publication_or_none(
    tmp_path: Path, content: Make, monkeypatch: pytest.MonkeyPatch, replaced: bool
) -> None:
    """The same command continues, and a reader finds all old files, all new ones or no manifest.json."""
    old, new = content({**FILES, "gone/x": b"1"}), content({**FILES, "net.pte": b"2"}, **DOCUMENT)
    calls = [0]

    def failing(name: str, step: int) -> Callable[..., object]:
        real = getattr(Folder, name)

        def call(*arguments: object) -> object:
            calls[0] += 1
            if calls[0] > step:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*arguments)

        return call

    for step in range(100):
        folder = tmp_path / str(step)
        address = f"file://{folder}"
        if replaced:
            to(address, old)
        before = files(folder)
        calls[0] = 0
        for name in ("write", "move", "delete"):
            monkeypatch.setattr(Folder, name, failing(name, step))
        try:
            to(address, new, replace=replaced)
        except EnvironmentProblem as problem:
            ended = str(problem)
        else:
            break
        finally:
            monkeypatch.undo()
        assert ended == f"{address}: No space left on device"
        found = files(folder)
        if "manifest.json" in found:
            published = [before] if found["manifest.json"] != manifest_of(new) else [{**FILES, "net.pte": b"2"}]
            assert published[0].items() <= found.items()
        folder.mkdir(exist_ok=True)
        (folder / "own").write_bytes(b"of the user")
        to(address, new, replace=replaced)
        expected = {**FILES, "net.pte": b"2", "provenance.intoto.json": b"{}", "manifest.json": manifest_of(new)}
        assert files(folder) == {**expected, "own": b"of the user"}
        assert {path.name for path in folder.rglob("*") if path.is_dir()} == {"net"}
    assert step > 8


@pytest.fixture(params=["folder", "store"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Return a place of each kind; `to` publishes to it."""
    memory = ObjectStore(obstore.store.MemoryStore(), "")
    found: Place = Folder(tmp_path / "net") if request.param == "folder" else memory
    monkeypatch.setattr("modelbuild.publish.store._open", lambda address: found)
    return found


ADDRESS = "file:///net"  # replaced by `place`


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("path", ["net.pte", "net/run.sh", "provenance.intoto.json", ".modelbuild-publishing.json"])
def test_a_file_of_the_user_is_refused(place: Place, content: Make, path: str, replace: bool) -> None:
    place.write(path, b"mine")
    with pytest.raises(PublishError, match=f"it contains {path}, which modelbuild did not publish; expected another"):
        to(ADDRESS, content(FILES, **DOCUMENT), replace)
    assert place.read(path) == b"mine"
    assert place.read("manifest.json") is None


def test_a_file_of_the_user_is_refused_when_other_content_is_replaced(place: Place, content: Make) -> None:
    old = content({"net.pte": b"1"})
    to(ADDRESS, old)
    place.write("net/run.sh", b"mine")
    with pytest.raises(PublishError, match=r"it contains net/run\.sh, which modelbuild did not publish"):
        to(ADDRESS, content(FILES), replace=True)
    assert [place.read(path) for path in ("manifest.json", "net.pte", "net/run.sh")] == [
        manifest_of(old),
        b"1",
        b"mine",
    ]


@pytest.mark.parametrize(
    "manifest",
    [b"", b"[1]", b"null", b"\xff", b'{"pages": 1}', b'{"layers": [{"annotations": null}]}', b"[" * 100_000,
     b'{"layers": [{"annotations": {"org.opencontainers.image.title": "own"}}]}'],
)  # fmt: skip
@pytest.mark.parametrize("replace", [True, False])
def test_a_manifest_of_another_tool_is_refused(place: Place, content: Make, manifest: bytes, replace: bool) -> None:
    place.write("manifest.json", manifest)
    place.write("own", b"mine")
    with pytest.raises(PublishError, match=r"its manifest\.json is not one that modelbuild wrote; expected another"):
        to(ADDRESS, content(FILES), replace)
    assert (place.read("manifest.json"), place.read("own")) == (manifest, b"mine")
    assert place.read("net.pte") is None


@pytest.mark.parametrize("record", [b"[]", b"{", b'["net.pte"]', b'{".modelbuild-publishing.json": 1}', b"1"])
def test_a_record_of_another_tool_allows_nothing(place: Place, content: Make, record: bytes) -> None:
    place.write(".modelbuild-publishing.json", record)
    place.write("net.pte", b"mine")
    with pytest.raises(PublishError, match="which modelbuild did not publish"):
        to(ADDRESS, content(FILES))
    assert (place.read("net.pte"), place.read(".modelbuild-publishing.json")) == (b"mine", record)


def test_a_store_gets_the_same(place: Place, content: Make) -> None:
    """Also a file where a folder was, and the reverse."""
    for paths in ({"a": b"1", "b/c": b"2"}, {"a/x": b"3", "b": b"4"}):
        given = content(paths, **DOCUMENT)
        to(ADDRESS, given, replace=True)
        assert {path: place.read(path) for path in paths} == paths
        assert place.read("manifest.json") == manifest_of(given)
        assert to(ADDRESS, given) == []
    assert place.read("b/c") is None
    assert place.read(".modelbuild-publishing.json") is None


def test_a_folder_of_staged_files_without_a_record_is_refused(tmp_path: Path, content: Make) -> None:
    folder = tmp_path / "net"
    (folder / ".modelbuild-publishing").mkdir(parents=True)
    (folder / ".modelbuild-publishing/net.pte").write_bytes(b"mine")
    with pytest.raises(PublishError, match=r"it contains \.modelbuild-publishing, which modelbuild did not publish"):
        to(f"file://{folder}", content(FILES))
    assert files(folder) == {".modelbuild-publishing/net.pte": b"mine"}


def test_a_file_with_the_name_of_a_document_is_refused(tmp_path: Path, content: Make) -> None:
    with pytest.raises(UsageError, match=r"the target has a file 'manifest\.json'"):
        to(f"file://{tmp_path}/net", content({"manifest.json": b"{}"}))
    assert not (tmp_path / "net").exists()


def free_port() -> int:
    """Return a free port; so is the one 10,000 above, which SeaweedFS takes for gRPC."""
    for port in random.Random().sample(range(20_000, 50_000), 500):
        with socket.socket() as one, socket.socket() as other:
            try:
                one.bind(("127.0.0.1", port))
                other.bind(("127.0.0.1", port + 10_000))
                return port
            except OSError:
                continue
    raise AssertionError("no free port")


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Start a server with the bucket `models`, to which the environment leads. The value starts it again."""
    if not WEED.is_file():
        pytest.fail(f"{WEED} is not there; 'make test' installs tests/remote/servers.lock there")
    folder = tmp_path / "weed"
    folder.mkdir()
    ports = {name: free_port() for name in ("s3", "master", "volume", "filer")}
    keys = {"accessKey": "somebody", "secretKey": "something"}
    users = [{"name": "us", "credentials": [keys], "actions": ["Admin", "Read", "Write", "List"]}]
    (folder / "s3.json").write_text(json.dumps({"identities": users}))
    options = [f"-{name}.port={port}" for name, port in ports.items()]
    options += ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={folder}", f"-s3.config={folder}/s3.json"]
    options += [
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-master.volumeSizeLimitMB=64",
        "-volume.max=8",
        "-metricsPort=0",
    ]
    bucket = urllib.request.Request(f"http://127.0.0.1:{ports['filer']}/buckets/models/", method="POST")
    running: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        with (folder / "log").open("ab") as log:
            running.append(subprocess.Popen([WEED, "server", "-s3", "-filer", *options], stdout=log, stderr=log))
        until = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(bucket, timeout=10).close()
                socket.create_connection(("127.0.0.1", ports["s3"]), 1).close()
                return
            except OSError as error:
                if isinstance(error, urllib.error.HTTPError) and error.code == 409:
                    return
                assert running[-1].poll() is None, (folder / "log").read_text()[-2000:]
                assert time.monotonic() < until
                time.sleep(0.2)

    def restart() -> None:
        running[-1].kill()
        running[-1].wait()
        start()

    start()
    for name, value in {
        "AWS_ENDPOINT": f"http://127.0.0.1:{ports['s3']}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "something",
        "AWS_REGION": "us-east-1",
        "no_proxy": "127.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)
    yield restart
    running[-1].kill()
    running[-1].wait()


@pytest.mark.exhaustive
def test_an_object_store(s3: Callable[[], None], content: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    big = random.Random(1).randbytes(1 << 20) * 40  # sent in parts
    given = content({**FILES, "big": big}, **DOCUMENT)
    address = "s3://models/team/net/1"
    assert len(to(address, given)) == 4
    assert to(address, given) == []
    store = obstore.store.from_url("s3://models/team/net/1", client_options={"allow_http": True})
    assert bytes(obstore.get(store, "big").bytes()) == big
    assert bytes(obstore.get(store, "manifest.json").bytes()) == manifest_of(given)
    with pytest.raises(PublishError, match="it contains sha256:"):
        to(address, content(FILES))
    to(address, content(FILES), replace=True)
    with pytest.raises(FileNotFoundError):
        obstore.get(store, "big")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "CANARY")
    with pytest.raises(PublishError) as raised:
        to(address, given)
    assert "CANARY" not in str(raised.value)
    assert "\n" not in str(raised.value)
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(PublishError, match=r"^s3://models/team/net/1: "):
        to(address, given)
    assert os.environ["AWS_ALLOW_HTTP"] == "true"
