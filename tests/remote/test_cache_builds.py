"""Whole builds with a remote cache: shared results, downloads, and the cost of a bad cache."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from modelbuild.actions import Digest
from modelbuild.remote.cache.store import RemoteStore
from modelbuild.remote.messages import message
from modelbuild.store.interface import MissingBlob
from modelbuild.store.local import LocalStore
from modelbuild.workspace.remote_settings import RemoteSettings

RAN = {"//a:made#blobs": "ran", "//a:sums#checksums": "ran"}
CACHED = dict.fromkeys(RAN, "cached")


@pytest.fixture(params=["grpc", "file"])
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the address of an empty cache of each kind that needs no other server."""
    if request.param == "file":
        return f"--remote-cache=file://{tmp_path}/objects"
    return f"--remote-cache={request.getfixturevalue('casd').address}"


@pytest.fixture
def build_grid_cache(tmp_path: Path, build_grid: ModuleType) -> Iterator[str]:
    """Another server's; empty."""
    server = build_grid.BuildGrid(tmp_path / "buildgrid")
    yield f"--remote-cache={server.address}"
    server.kill()


@pytest.mark.exhaustive
def test_two_workspaces_share_every_result_on_build_grid(place: Any, build_grid_cache: str) -> None:
    test_two_workspaces_on_two_paths_share_every_result(place, build_grid_cache)


def test_two_workspaces_on_two_paths_share_every_result(place: Any, cache: str) -> None:
    one, two = place("one"), place("far/away/two")
    assert one.build(cache).statuses == RAN
    assert two.build(cache).statuses == CACHED
    assert two.outputs() == one.outputs()
    assert len(one.outputs()) == 6
    alone = place("alone")
    assert alone.build().statuses == RAN
    assert alone.outputs() == one.outputs()


def test_unneeded_files_are_not_fetched(place: Any, cache: str) -> None:
    one, top, everything, least = place("one"), place("top"), place("everything"), place("least")
    one.build(cache)
    expected = {name: content for name, content in one.outputs().items() if "sums" in name}
    sizes = {}
    for each, download in ((top, "toplevel"), (everything, "all"), (least, "minimal")):
        assert each.build(cache, f"--remote-download={download}", target="//a:sums").statuses == CACHED
        sizes[download] = sum(f.stat().st_size for f in (each.cache / "cas").rglob("*") if f.is_file())
    assert top.outputs() == everything.outputs() == expected
    assert least.outputs() == {}
    assert sizes["minimal"] < sizes["toplevel"] < 2000 < 600_000 < sizes["all"]


def test_a_blob_that_comes_late_is_fetched_for_the_action_that_reads_it(place: Any, cache: str) -> None:
    one, two = place("one"), place("two")
    one.build(cache)
    two.write({"tools/rules/steps/checksums.py": (one.root / "tools/rules/steps/checksums.py").read_text() + "\n"})
    assert two.build(cache).statuses == {"//a:made#blobs": "cached", "//a:sums#checksums": "ran"}
    assert two.outputs() == one.outputs()


def test_blobs_that_the_cache_lost_are_made_again(place: Any, tmp_path: Path) -> None:
    cache = f"--remote-cache=file://{tmp_path}/objects"
    one, two = place("one"), place("two")
    one.build(cache)
    for blob in (tmp_path / "objects/cas").iterdir():
        if blob.stat().st_size > 100_000 or b"seed" in blob.read_bytes():
            blob.unlink()
    two.write({"tools/rules/steps/checksums.py": (one.root / "tools/rules/steps/checksums.py").read_text() + "\n"})
    assert two.build(cache).statuses["//a:sums#checksums"] == "ran"
    assert two.outputs() == one.outputs()


@pytest.mark.parametrize(
    ("option", "variables", "shared"),
    [("never", {"CI": "1"}, False), ("ci-only", {}, False), ("ci-only", {"CI": "true"}, True), ("always", {}, True)],
)
def test_machines_that_upload(place: Any, tmp_path: Path, option: str, variables: dict[str, str], shared: bool) -> None:
    cache = f"--remote-cache=file://{tmp_path}/objects"
    place("one").build(cache, f"--remote-upload={option}", **variables)
    assert place("two").build(cache).statuses == (CACHED if shared else RAN)


def warnings(text: str) -> list[str]:
    return [line for line in text.splitlines() if "remote cache" in line]


@pytest.mark.parametrize("address", ["grpc://127.0.0.1:1", "http://127.0.0.1:1", "file:///proc/nowhere"])
def test_a_cache_that_is_not_there_is_said_once_and_costs_no_build(place: Any, address: str) -> None:
    one = place("one")
    ended = one.build(f"--remote-cache={address}")
    assert ended.statuses == RAN
    (said,) = warnings(ended.err)
    assert address in said


@pytest.mark.parametrize(
    ("method", "fault"),
    [
        ("UpdateActionResult", "PERMISSION_DENIED"),
        ("BatchUpdateBlobs", "RESOURCE_EXHAUSTED"),
        ("FindMissingBlobs", "INTERNAL"),
        ("Write", "cut"),
    ],
)
def test_a_cache_that_takes_nothing_is_said_once(
    place: Any, serve: Callable[..., Any], method: str, fault: str
) -> None:
    server = serve(fault=lambda name: fault if name == method else "")
    ended = place("one").build(f"--remote-cache={server.address}")
    assert ended.statuses == RAN
    assert len(warnings(ended.err)) == 1
    assert "stay here" in ended.err
    assert server.calls[method] <= 6


def test_a_read_only_cache_is_read(place: Any, serve: Callable[..., Any]) -> None:
    server = serve()
    place("one").build(f"--remote-cache={server.address}")
    server.updates = False
    assert place("two").build(f"--remote-cache={server.address}").statuses == CACHED


@pytest.mark.parametrize("method", ["GetActionResult", "BatchReadBlobs", "Read"])
def test_a_lying_cache_is_found_out(place: Any, serve: Callable[..., Any], method: str) -> None:
    server = serve()
    one, two = place("one"), place("two")
    one.build(f"--remote-cache={server.address}")
    server.fault = lambda name: "wrong" if name == method else ""
    ended = two.build(f"--remote-cache={server.address}")
    assert two.outputs() == one.outputs()
    assert len(warnings(ended.err)) == 1


def test_a_result_of_an_absurd_size_is_not_fetched(place: Any, serve: Callable[..., Any]) -> None:
    server = serve()
    one, two = place("one"), place("two")
    one.build(f"--remote-cache={server.address}")
    for action, data in server.results.items():
        result = message("ActionResult").FromString(data)
        for file in result.output_files:
            file.digest.size_bytes = 1 << 60
        server.results[action] = result.SerializeToString()
    ended = two.build(f"--remote-cache={server.address}")
    assert ended.statuses["//a:sums#checksums"] == "ran"
    assert two.outputs() == one.outputs()
    (said,) = (line for line in warnings(ended.err) if "room" in line)
    assert f"there is no room here for {1 << 60} bytes" in said
    assert server.calls["Read"] == 0


def test_huge_files_are_not_read_into_memory(local: LocalStore) -> None:
    asked: list[Any] = []
    client: Any = type("Recorder", (), {"fetch": staticmethod(asked.append)})()
    store = RemoteStore(local, client, RemoteSettings(), upload=False)
    for size in (1 << 40, 257 << 20):
        with pytest.raises(MissingBlob):
            store.read_bytes(Digest("0" * 64, size))
    assert asked == []


def test_ctrl_c_does_not_wait_for_uploads(place: Any, serve: Callable[..., Any]) -> None:
    server = serve(fault=lambda name: "slow" if name == "Write" else "")
    server.slow = 20
    one = place("one")
    one.write({"MODELBUILD.toml": f'rules = ["//tools/rules"]\n[remote]\ncache = "{server.address}"\ntimeout = 300\n'})
    build = one.start("build", "//a:all")
    while "waiting for" not in build.err:
        assert not build.over
        time.sleep(0.05)
    assert server.calls["Write"]
    build.send(signal.SIGINT)
    ended = build.wait()
    assert ended.code == 8, ended.err
    assert "Traceback" not in ended.err


def test_results_are_looked_for_many_at_once(place: Any, serve: Callable[..., Any]) -> None:
    one, under_way, most = place("one"), set[int](), [0]
    one.write({"b/BUILD.toml": "".join(f'[[blobs]]\nname = "made{n}"\nsrcs = ["s{n}.txt"]\n' for n in range(12))})
    for number in range(12):
        one.write({f"b/s{number}.txt": f"{number}\n"})
    server = serve()
    own = server.results

    class Counting(dict[str, bytes]):
        def get(self, key: str, default: Any = None) -> Any:
            under_way.add(threading.get_ident())
            most[0] = max(most[0], len(under_way))
            time.sleep(0.5)
            under_way.discard(threading.get_ident())
            return own.get(key, default)

    server.results = Counting()
    one.build(f"--remote-cache={server.address}", "--remote-upload=never", target="//b/...")
    assert most[0] > 4


def test_a_slow_cache_is_given_up(place: Any, serve: Callable[..., Any]) -> None:
    server = serve(fault=lambda name: "slow")
    server.slow = 1.5
    one = place("one")
    one.write({"MODELBUILD.toml": f'rules = ["//tools/rules"]\n[remote]\ncache = "{server.address}"\ntimeout = 1\n'})
    ended = one.build()
    assert ended.statuses == RAN
    assert sum(server.calls.values()) <= 8
    (said,) = warnings(ended.err)
    assert "DEADLINE_EXCEEDED" in said


@pytest.mark.parametrize("source", ["token_file", "token_command", "token_env"])
def test_a_token_is_in_nothing_that_a_build_leaves(place: Any, serve: Callable[..., Any], source: str) -> None:
    server, one = serve(), place("one")
    backwards = [sys.executable, "-c", "print(open('../nekot').read()[::-1])"]
    said = {"token_file": "../token", "token_command": backwards, "token_env": "CACHE_LOGIN"}
    settings = f'[remote]\ncache = "{server.address}"\n{source} = {json.dumps(said[source])}\n'
    one.write({"MODELBUILD.toml": f'rules = ["//tools/rules"]\n{settings}'})
    secret = "hunter2hunter2"
    one.write({"../token": secret if source == "token_file" else ""})
    one.write({"../nekot": secret[::-1]})
    told = ("--profile=trace.json", "--build-event-json=events.json")
    variables = {"CACHE_LOGIN": secret} if source == "token_env" else {}
    ended = one.build(*told, **variables)
    assert ended.statuses == RAN
    assert ("authorization", f"Bearer {secret}") in server.metadata
    assert server.results
    left = [path.read_bytes() for folder in (one.root, one.cache) for path in folder.rglob("*") if path.is_file()]
    left += [ended.out.encode(), ended.err.encode(), *server.blobs.values(), *server.results.values()]
    left.append(one.run("explain", "//a:sums", "--json").out.encode())
    assert (one.root / "trace.json").stat().st_size > 0
    assert (one.root / "events.json").stat().st_size > 0
    assert [data[:200] for data in left if secret.encode() in data] == []
