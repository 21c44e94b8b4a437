"""Publishing to a real registry: what is uploaded, in which order, and what is there afterwards."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from types import ModuleType

import pytest

from modelbuild.publish import uploads
from modelbuild.publish.content import Content, PublishError
from modelbuild.publish.destination import parse_destination, publish
from modelbuild.publish.manifest import manifest_of
from tests.publish.registry import Registry

pytestmark = pytest.mark.usefixtures("no_login", "attempts")

Make = Callable[..., Content]
FILES = {"net.pte": b"program", "net/run.sh": b"run", "net/lib/x.so": b"library"}


def to(registry: Registry, name: str, content: Content, replace: bool = False, port: int = 0) -> list[str]:
    """Publish, and return the lines about uploads."""
    said: list[str] = []
    host = f"127.0.0.1:{port}" if port else registry.host
    publish(content, parse_destination(f"oci://{host}/{name}"), replace, said.append)
    return said


def test_each_file_is_a_layer_with_its_path(registry: Registry, content: Make) -> None:
    assert to(registry, "layers:1", content(FILES))[-1] == "tag 1"
    manifest = registry.manifest("layers", "1")
    titles = {each["annotations"]["org.opencontainers.image.title"]: each for each in manifest["layers"]}
    assert sorted(titles) == sorted(FILES)
    for path, data in FILES.items():
        assert titles[path]["digest"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
        assert registry.get(f"layers/blobs/{titles[path]['digest']}") == data
    assert manifest["artifactType"] == "application/vnd.modelbuild.target.v1"


def test_equal_content_has_equal_manifests(content: Make) -> None:
    backwards = dict(reversed(FILES.items()))
    assert manifest_of(content(FILES)) == manifest_of(content(backwards))
    assert manifest_of(content(FILES)) != manifest_of(content({**FILES, "net.pte": b"another"}))


def test_the_same_content_twice_uploads_nothing(registry: Registry, content: Make) -> None:
    given = content(FILES, provenance=b"{}")
    assert len(to(registry, "twice:1", given)) == 5
    assert to(registry, "twice:1", given) == []
    assert to(registry, "twice:2", given) == ["tag 2"]
    other = content({**FILES, "net.pte": b"another"})
    assert to(registry, "twice:3", other) == ["uploaded net.pte", "tag 3"]


def test_documents_are_referrers(registry: Registry, content: Make) -> None:
    given = content(FILES, provenance=b'{"a": 1}', sbom=b'{"b": 1}')
    to(registry, "referrers:1", given)
    digest = "sha256:" + hashlib.sha256(manifest_of(given)).hexdigest()
    index = registry.manifest("referrers", digest.replace(":", "-"))
    kinds = {each["artifactType"]: each for each in index["manifests"]}
    assert sorted(kinds) == ["application/x-provenance", "application/x-sbom"]
    manifest = registry.manifest("referrers", kinds["application/x-sbom"]["digest"])
    assert manifest["subject"]["digest"] == digest
    assert registry.get(f"referrers/blobs/{manifest['layers'][0]['digest']}") == b'{"b": 1}'


def test_a_document_that_differs_is_attached_only_when_replacing(registry: Registry, content: Make) -> None:
    to(registry, "documents:1", content(FILES, provenance=b"1"))
    assert to(registry, "documents:1", content(FILES, provenance=b"2")) == []
    assert to(registry, "documents:1", content(FILES, provenance=b"2"), replace=True) == ["attached provenance.json"]
    assert to(registry, "documents:1", content(FILES, sbom=b"2")) == ["attached sbom.json"]


def test_a_tag_of_other_content_moves_only_when_replacing(registry: Registry, content: Make) -> None:
    first, second = content(FILES), content({"net.pte": b"2"})
    to(registry, "moved:1", first)
    with pytest.raises(
        PublishError, match=r"the tag names sha256:\w+, not sha256:\w+; expected a new tag, or --replace"
    ):
        to(registry, "moved:1", second)
    assert len(registry.manifest("moved", "1")["layers"]) == 3
    to(registry, "moved:1", second, replace=True)
    assert len(registry.manifest("moved", "1")["layers"]) == 1


def test_a_tag_that_moves_during_the_upload_stays(
    registry: Registry, content: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def upload_slowly(*arguments: object) -> bool:
        monkeypatch.undo()
        to(registry, "race:1", content({"other": b"other"}))
        return True

    given = content(FILES)
    monkeypatch.setattr("modelbuild.publish.oci.upload", upload_slowly)
    with pytest.raises(PublishError):
        to(registry, "race:1", given)


def test_without_a_tag_only_the_digest_is_published(registry: Registry, content: Make) -> None:
    given = content(FILES)
    to(registry, "untagged", given)
    assert registry.tags("untagged") == []
    assert registry.manifest("untagged", "sha256:" + hashlib.sha256(manifest_of(given)).hexdigest()) is not None


@pytest.mark.parametrize("fault", ["reset", "close"])
def test_a_broken_upload_goes_on(
    registry: Registry, proxies: ModuleType, content: Make, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr(uploads, "CHUNK", 1 << 20)
    data = random.Random(1).randbytes(3 << 20)
    given = content({"net.pte": data, "small": b"1"}, provenance=b"{}")
    broken = {40, 90, 91}
    proxy = proxies.Proxy(registry.port, lambda n: fault if n in broken else "")
    to(registry, f"broken-{fault}:1", given, port=proxy.port)
    proxy.close()
    assert proxy.passed > max(broken)
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    assert registry.get(f"broken-{fault}/blobs/{digest}") == data


@pytest.mark.parametrize("pieces", [3, 12, 20, 30])
def test_a_registry_that_goes_down_has_nothing_half_published(
    registry: Registry, proxies: ModuleType, content: Make, pieces: int
) -> None:
    given = content({"a": b"a" * 100_000, "b": b"b", "c": b"c"}, provenance=b"{}")
    name = f"down-{pieces}"
    proxy = proxies.Proxy(registry.port, lambda n: "close" if n > pieces else "")
    with pytest.raises(PublishError, match=rf"^oci://127.0.0.1:{proxy.port}/{name}:1: "):
        to(registry, f"{name}:1", given, port=proxy.port)
    proxy.close()
    assert "1" not in registry.tags(name)
    assert to(registry, f"{name}:1", given)[-1] == "tag 1"
    for layer in registry.manifest(name, "1")["layers"]:
        assert registry.get(f"{name}/blobs/{layer['digest']}") is not None


def test_a_registry_that_is_killed_gets_the_rest_later(
    start_registry: Callable[..., Registry], content: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = start_registry()
    given = content({"a": b"a", "b": b"b"})
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        registry.kill()

    with pytest.raises(PublishError, match="Connection refused"):
        publish(given, parse_destination(f"oci://{registry.host}/net:1"), False, say)
    assert said == ["uploaded a"]
    registry.start()
    assert registry.tags("net") == []
    assert to(registry, "net:1", given) == ["uploaded b", "tag 1"]


def test_a_list_of_referrers_that_is_damaged_is_one_line(registry: Registry, content: Make) -> None:
    given = content(FILES, provenance=b"{}")
    to(registry, "damaged:1", content(FILES))
    digest = hashlib.sha256(manifest_of(given)).hexdigest()
    other = json.loads(manifest_of(content({"x": b"x"})))
    to(registry, f"damaged:sha256-{digest}", content({"x": b"x"}))
    assert "manifests" not in other
    with pytest.raises(PublishError, match="a list of referrers that cannot be read"):
        to(registry, "damaged:1", given)
