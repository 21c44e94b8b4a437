"""The client of the Remote Execution API with a real server, and with one that offers more features and breaks off."""

from __future__ import annotations

import hashlib
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from modelbuild.actions import ActionResult, Digest, FileEntry, Tree
from modelbuild.remote.cache.client import Client
from modelbuild.remote.cache.grpc_cache import GrpcCache
from modelbuild.remote.problems import RemoteProblem
from modelbuild.store.interface import MissingBlob
from modelbuild.store.local import LocalStore
from modelbuild.workspace.remote_address import parse_address
from modelbuild.workspace.remote_settings import RemoteSettings, Security


def connect(address: str, **settings: Any) -> GrpcCache:
    return GrpcCache(parse_address(address), RemoteSettings(**settings))


def digest(data: bytes) -> Digest:
    return Digest(hashlib.sha256(data).hexdigest(), len(data))


def blob(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


BUILD_GRID = pytest.param("build_grid", marks=pytest.mark.exhaustive)


@pytest.fixture(params=["casd", "zstd_casd", BUILD_GRID, "zstd", "small batches"])
def cache(request: pytest.FixtureRequest) -> Iterator[GrpcCache]:
    if request.param == "zstd_casd":
        made = connect(request.getfixturevalue(request.param).address)
    elif request.param in ("casd", "build_grid"):
        made = connect(request.getfixturevalue(f"shared_{request.param}").address)
    else:
        serve = request.getfixturevalue("serve")
        made = connect(serve(zstd=request.param == "zstd", batch=20_000 if "small" in request.param else 0).address)
    yield made
    made.close()


def test_blobs_go_up_and_come_down(cache: GrpcCache, tmp_path: Path) -> None:
    small = {digest(data): data for data in (blob(10, 1), blob(5000, 2), bytes(9000), b"")}
    big = blob(3 << 20, 3)
    source = tmp_path / "big"
    source.write_bytes(big)
    assert digest(big) in cache.missing([*small, digest(big)])
    cache.write_small(small)
    cache.write(digest(big), source)
    cache.write(digest(big), source)
    assert cache.missing([*small, digest(big)]) == set()
    assert cache.read_small([*small, digest(b"never there")]) == small
    with (tmp_path / "read").open("wb", buffering=0) as sink:
        cache.read(digest(big), sink)
    assert (tmp_path / "read").read_bytes() == big
    with (tmp_path / "rest").open("wb", buffering=0) as sink:
        sink.write(big[:1_000_000])
        cache.read(digest(big), sink)
    assert (tmp_path / "rest").read_bytes() == big


def test_a_blob_that_is_not_there(cache: GrpcCache, tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb", buffering=0) as sink, pytest.raises(RemoteProblem) as caught:
        cache.read(digest(b"never there either"), sink)
    assert caught.value.kind == "missing"


def test_bytes_that_are_not_their_digest_s_are_not_taken(cache: GrpcCache, tmp_path: Path) -> None:
    source = tmp_path / "x"
    source.write_bytes(blob(1 << 20, 5))
    with pytest.raises(RemoteProblem):
        cache.write(digest(blob(1 << 20, 6)), source)
    with pytest.raises(RemoteProblem):
        cache.write_small({digest(b"one"): b"two"})


def test_a_result_with_all_its_blobs(cache: GrpcCache, local: LocalStore) -> None:
    said: list[str] = []
    client = Client(cache, local, said.append)
    big, one, two = (local.put_bytes(data) for data in (blob(2 << 20, 7), blob(70_000, 8), b"two"))
    tree = Tree((("a/one", FileEntry(one)), ("two", FileEntry(two, True))))
    result = ActionResult((("big", FileEntry(big)), ("tree", tree)), stdout=local.put_bytes(b"said"), seconds=2.5)
    declared = [("big", "file"), ("tree", "tree")]
    key = hashlib.sha256(cache.name.encode()).hexdigest()
    assert client.lookup(key, declared) is None
    client.publish(key, result)
    assert client.lookup(key, declared) == result
    assert client.lookup(key, [("big", "file")]) is None
    assert client.lookup("f" * 64, declared) is None
    assert len(said) == 1
    assert "cannot be right" in said[0]


def test_published_results_reach_an_empty_store(cache: GrpcCache, local: LocalStore, tmp_path: Path) -> None:
    from modelbuild.store.local import open_store

    digests = [local.put_bytes(blob(size, 9)) for size in (3, 100_000, 400_000)]
    Client(cache, local, pytest.fail).upload(digests, {})
    with open_store(tmp_path / "other") as other:
        client = Client(cache, other, pytest.fail)
        client.fetch(digests)
        assert [other.read_bytes(d) for d in digests] == [blob(size, 9) for size in (3, 100_000, 400_000)]
        with pytest.raises(MissingBlob):
            client.fetch([digest(b"nowhere")])


def test_an_upload_that_broke_off_starts_over(serve: Callable[..., Any], local: LocalStore) -> None:
    server = serve()
    broken = iter(["cut"])
    server.fault = lambda method: next(broken, "") if method == "Write" else ""
    wanted = local.put_bytes(blob(2 << 20))
    Client(connect(server.address), local, pytest.fail).upload([wanted], {})
    assert server.blobs[wanted.hash] == blob(2 << 20)
    assert server.calls["Write"] == 2


def test_a_download_goes_on_where_it_broke_off(serve: Callable[..., Any], local: LocalStore) -> None:
    server = serve()
    data = blob(2 << 20)
    server.blobs[digest(data).hash] = data
    broken = iter(["cut"])
    server.fault = lambda method: next(broken, "") if method == "Read" else ""
    Client(connect(server.address), local, pytest.fail).fetch([digest(data)])
    assert local.read_bytes(digest(data)) == data
    assert server.calls["Read"] == 2


def test_blobs_that_were_not_asked_for_are_not_unpacked(serve: Callable[..., Any]) -> None:
    server = serve(zstd=True, fault=lambda method: "more" if method == "BatchReadBlobs" else "")
    server.blobs |= {digest(data).hash: data for data in (b"wanted", bytes(64 << 20))}
    cache = connect(server.address)
    assert cache.read_small([digest(b"wanted")]) == {digest(b"wanted"): b"wanted"}


def test_a_server_that_does_not_answer_costs_many_threads_no_more_than_one(serve: Callable[..., Any]) -> None:
    server = serve(fault=lambda method: "slow")
    server.slow = 1.5
    cache = connect(server.address, timeout=1)
    together = threading.Barrier(12)

    def ask(_: int) -> str:
        together.wait()
        with pytest.raises(RemoteProblem) as caught:
            cache.get_action(digest(b"x"))
        return caught.value.kind

    with ThreadPoolExecutor(12) as pool:
        assert set(pool.map(ask, range(12))) == {"slow"}
    assert server.calls == {"GetCapabilities": 1}


def test_a_dead_line_is_noticed_while_a_stream_is_under_way(shared_casd: Any, proxies: Any, tmp_path: Path) -> None:
    source = tmp_path / "x"
    source.write_bytes(blob(4 << 20, 11))
    wanted = digest(source.read_bytes())
    proxy = proxies.Proxy(shared_casd.port, lambda n: "swallow" if n > 12 else "")
    cache = connect(f"grpc://127.0.0.1:{proxy.port}", timeout=0.5)
    with pytest.raises(RemoteProblem) as caught:
        cache.write(wanted, source)
    assert caught.value.kind == "slow"
    cache.close()
    proxy.close()


def test_compressed_uploads_are_downloaded_uncompressed(
    zstd_casd: Any, casd: Any, local: LocalStore, tmp_path: Path
) -> None:
    from modelbuild.store.local import open_store

    blobs = [local.put_bytes(blob(1000, 20) * repeat) for repeat in (1, 100, 3000)]
    Client(connect(zstd_casd.address), local, pytest.fail).upload(blobs, {})
    for number, address in enumerate((casd.address, zstd_casd.address)):
        with open_store(tmp_path / str(number)) as other:
            Client(connect(address), other, pytest.fail).fetch(blobs)
            assert other.missing(blobs) == set()
    assert {name.rpartition("/")[2]: times for name, times in zstd_casd.packed.items()} == {
        "BatchUpdateBlobs": 2, "BatchReadBlobs": 2, "Write": 1, "Read": 1
    }  # fmt: skip


def test_a_token_goes_with_every_call_and_is_not_shown(serve: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    server = serve(fault=lambda method: "UNAUTHENTICATED" if method == "GetActionResult" else "")
    cache = connect(server.address, security=Security(token_file=tmp_path / "token"))
    cache.missing([digest(b"")])
    assert ("authorization", "Bearer s3cret") in server.metadata
    with pytest.raises(RemoteProblem) as caught:
        cache.get_action(digest(b""))
    assert caught.value.kind == "refused"
    assert "s3cret" not in str(caught.value)
