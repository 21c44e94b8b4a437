"""http_file from a registry: files of published content, by the digest of its manifest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from modelbuild.publish.content import Content
from modelbuild.publish.destination import parse_destination, publish
from modelbuild.publish.manifest import INDEX, descriptor, digest_of, index_of, manifest_of
from modelbuild.publish.uploads import Blob, upload
from modelbuild.registry.address import parse_registry_address
from modelbuild.registry.client import Registry as Client
from modelbuild.step import Step, StepError
from modelbuild_rules.files.steps import http_file
from tests.publish.registry import Registry
from tests.workspace_builder import Workspace

pytestmark = pytest.mark.usefixtures("no_login")

DATA = b"an engine"
SHA256 = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def published(registry: Registry, content: Callable[..., Content]) -> str:
    """Return the address of a manifest with two files."""
    given = content({"net.engine": DATA, "other": b"other"})
    return publish(given, parse_destination(f"oci://{registry.host}/engines"), False, print).address


def download(tmp_path: Path, url: str, sha256: str = SHA256) -> bytes:
    out = tmp_path / "out"
    http_file.run(Step({"urls": [url], "sha256": sha256, "executable": False}, {}, {"file": out}, tmp_path))
    return out.read_bytes()


def put(registry: Registry, name: str, manifest: bytes, media_type: str) -> str:
    """Store a manifest; return its address."""
    address = parse_registry_address(f"oci://{registry.host}/{name}")
    assert address is not None
    digest = digest_of(manifest)
    Client(address, push=True).ask("PUT", f"/manifests/{digest}", {"Content-Type": media_type}, lambda: manifest)
    return str(address.at(digest))


def test_published_content_is_an_input_elsewhere(workspace: Workspace, published: str) -> None:
    target = {"name": "engine", "urls": [published], "sha256": SHA256, "filename": "net.engine"}
    lines = [f"{name} = {json.dumps(value)}" for name, value in target.items()]
    workspace.write({"MODELBUILD.toml": "", "BUILD.toml": "\n".join(["[[http_file]]", *lines, ""])})
    assert len(workspace.ran("//:engine")) == 1
    assert (workspace.root / "modelbuild-out/default/engine/net.engine").read_bytes() == DATA
    # A mirror is in no key.
    workspace.edit("BUILD.toml", "/engines@", "/mirror@")
    assert workspace.ran("//:engine") == set()


def test_downloads_the_file_with_the_digest(tmp_path: Path, published: str) -> None:
    assert download(tmp_path, published) == DATA


def test_a_file_that_the_manifest_lacks(tmp_path: Path, published: str) -> None:
    other = hashlib.sha256(b"other").hexdigest()
    with pytest.raises(StepError) as raised:
        download(tmp_path, published, "0" * 64)
    expected = (
        f"the manifest has no file with the SHA-256 {'0' * 64}; it has net.engine (sha256:{SHA256}), other (sha256:"
    )
    assert f"{expected}{other})" in str(raised.value)


def test_a_manifest_that_is_not_there(tmp_path: Path, published: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_file, "ROUNDS", (0.0,))
    with pytest.raises(StepError, match=r"HTTP 404: manifest unknown"):
        download(tmp_path, f"{published.partition('@')[0]}@sha256:{'0' * 64}")


def test_a_manifest_of_another_kind(tmp_path: Path, registry: Registry, published: str) -> None:
    manifest = registry.get(f"engines/manifests/{published.partition('@')[2]}")
    kind = "application/vnd.oci.image.manifest.v1+json"
    index = index_of([descriptor(kind, manifest)])
    with pytest.raises(
        StepError, match=r"the digest names .*image\.index.*; expected application/vnd\.oci\.image\.manifest"
    ):
        download(tmp_path, put(registry, "engines", index, INDEX))


def test_a_blob_that_was_deleted(
    tmp_path: Path, start_registry: Callable[..., Registry], content: Callable[..., Content]
) -> None:
    registry = start_registry()
    address = publish(
        content({"net.engine": DATA}), parse_destination(f"oci://{registry.host}/net"), False, print
    ).address
    (registry.folder / f"data/docker/registry/v2/blobs/sha256/{SHA256[:2]}/{SHA256}/data").unlink()
    with pytest.raises(StepError, match=r"HTTP 404: blob unknown"):
        download(tmp_path, address)


def test_a_blob_that_was_changed(
    tmp_path: Path, start_registry: Callable[..., Registry], content: Callable[..., Content]
) -> None:
    registry = start_registry()
    address = publish(
        content({"net.engine": DATA}), parse_destination(f"oci://{registry.host}/net"), False, print
    ).address
    (registry.folder / f"data/docker/registry/v2/blobs/sha256/{SHA256[:2]}/{SHA256}/data").write_bytes(b"an Engine")
    with pytest.raises(StepError, match=f"wrong SHA-256: expected {SHA256}"):
        download(tmp_path, address)


def test_a_manifest_in_another_form(tmp_path: Path, registry: Registry, content: Callable[..., Content]) -> None:
    """Files that another tool published, such as oras, with a config of its own."""
    address = parse_registry_address(f"oci://{registry.host}/foreign")
    assert address is not None
    client = Client(address, push=True)
    manifest = json.loads(manifest_of(content({"net.engine": DATA})))
    config = b'{"tool": "another"}'
    for data in (DATA, config):
        upload(client, Blob(digest_of(data), len(data), data))
    manifest["config"] = descriptor("application/vnd.example.config+json", config)
    del manifest["artifactType"], manifest["layers"][0]["annotations"]
    found = put(registry, "foreign", json.dumps(manifest, indent=1).encode(), manifest["mediaType"])
    assert download(tmp_path, found) == DATA


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("oci://host.example/net:1", "does not pin a manifest; expected oci://HOST/NAME@sha256:DIGEST"),
        pytest.param(
            f"oci://host.example/net@sha256:{'0' * 63}", "does not pin a manifest", marks=pytest.mark.exhaustive
        ),
        pytest.param(
            f"oci://host.example/net@sha256:{'0' * 64}",
            "does not end in a file name; expected the attribute 'filename'",
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_an_address_must_pin_a_manifest(workspace: Workspace, url: str, message: str) -> None:
    build = f'[[http_file]]\nname = "x"\nurls = ["{url}"]\nsha256 = "{SHA256}"\n'
    workspace.write({"MODELBUILD.toml": "", "BUILD.toml": build})
    ended = workspace.run("build", "//:x")
    assert (ended.code, ended.err.count("\n")) == (3, 1)
    assert message in ended.err
