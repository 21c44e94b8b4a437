"""Publish to a registry: blobs first, then the manifest, its referrers, and the tag last."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from modelbuild.publish.content import Attachment, Content, Published, PublishError
from modelbuild.publish.manifest import (
    EMPTY,
    INDEX,
    MANIFEST,
    TITLE,
    Descriptor,
    descriptor,
    digest_of,
    index_of,
    manifest_of,
    referrer_of,
)
from modelbuild.publish.uploads import Blob, upload
from modelbuild.registry.address import RegistryAddress
from modelbuild.registry.client import Registry, RegistryAnswer, RegistryProblem

_ACCEPT = {"Accept": f"{MANIFEST}, {INDEX}"}


def publish_oci(content: Content, address: RegistryAddress, replace: bool, say: Callable[[str], None]) -> Published:
    """Upload the blobs that the registry lacks, and move the tag. Raises PublishError, also for a tag of another
    digest, unless replacing."""
    try:
        return _Publication(content, address, replace, say).run()
    except RegistryProblem as problem:
        raise PublishError(f"{address}: {problem}") from None


class _Publication:
    def __init__(self, content: Content, address: RegistryAddress, replace: bool, say: Callable[[str], None]) -> None:
        self._content = content
        self._address = address
        self._replace = replace
        self._say = say
        self._registry = Registry(address, push=True)
        self._manifest = manifest_of(content)
        self._digest = digest_of(self._manifest)

    def run(self) -> Published:
        tagged = self._check_tag()
        present = tagged or self._find(self._digest) is not None
        uploaded = [] if present else self._upload_files()
        attached = self._attach()
        moves = bool(self._address.tag) and not tagged
        if moves:
            self._check_tag()  # another publisher may have moved it meanwhile
            self._put(self._address.tag, self._manifest)
            self._say(f"tag {self._address.tag}")
        return Published(f"{self._address}@{self._digest}", self._digest, uploaded, attached, moves)

    def _check_tag(self) -> bool:
        """Return whether the content has the tag. Raises PublishError if other content has it."""
        found = self._find(self._address.tag) if self._address.tag else None
        if found is None or digest_of(found.body) == self._digest:
            return found is not None
        if not self._replace:
            message = f"the tag names {digest_of(found.body)}, not {self._digest}; expected a new tag, or --replace"
            raise PublishError(f"{self._address}: {message}")
        return False

    def _find(self, reference: str) -> RegistryAnswer | None:
        """Return a manifest by its tag or digest; None if there is none."""
        try:
            return self._registry.ask("GET", f"/manifests/{reference}", _ACCEPT)
        except RegistryProblem as problem:
            if problem.status == 404:
                return None
            raise

    def _upload_files(self) -> list[str]:
        done = []
        for file in self._content.files:
            if upload(self._registry, Blob(f"sha256:{file.sha256}", file.size, file.source)):
                self._say(f"uploaded {file.path}")
                done.append(file.path)
        self._upload_bytes(EMPTY)
        self._put(self._digest, self._manifest)
        return done

    def _upload_bytes(self, data: bytes) -> None:
        upload(self._registry, Blob(digest_of(data), len(data), data))

    def _put(self, reference: str, manifest: bytes, media_type: str = MANIFEST) -> RegistryAnswer:
        headers = {"Content-Type": media_type}
        return self._registry.ask("PUT", f"/manifests/{reference}", headers, lambda: manifest)

    def _attach(self) -> list[str]:
        """Upload the attachments that the content lacks, as referrers; when replacing, also attachments that differ."""
        attached = []
        subject = descriptor(MANIFEST, self._manifest)
        known = self._referrers() if self._content.attachments else []
        digests = {each.get("digest") for each in known}
        titles = {_kind_and_title(each) for each in known}
        for attachment in self._content.attachments:
            manifest = referrer_of(attachment, subject)
            has_another = (attachment.kind, attachment.name) in titles
            if digest_of(manifest) in digests or (has_another and not self._replace):
                continue
            self._upload_bytes(attachment.data)
            self._upload_bytes(EMPTY)
            answer = self._put(digest_of(manifest), manifest)
            if not answer.headers.get("OCI-Subject"):
                self._list_referrer(attachment, manifest)
            self._say(f"attached {attachment.name}")
            attached.append(attachment.name)
        return attached

    def _referrers(self) -> list[Descriptor]:
        """Return the referrers of the manifest, from the registry's list or, before 1.1, from the index with the tag
        that stands for it."""
        try:
            return _manifests(self._registry.ask("GET", f"/referrers/{self._digest}").body)
        except RegistryProblem as problem:
            if problem.status not in (400, 404, 405):
                raise
        found = self._find(self._list_tag)
        return _manifests(found.body) if found is not None else []

    @property
    def _list_tag(self) -> str:
        return self._digest.replace(":", "-")

    def _list_referrer(self, attachment: Attachment, manifest: bytes) -> None:
        found = self._find(self._list_tag)
        listed = _manifests(found.body) if found is not None else []
        new = {
            **descriptor(MANIFEST, manifest),
            "artifactType": attachment.kind,
            "annotations": {TITLE: attachment.name},
        }
        if new["digest"] not in {each.get("digest") for each in listed}:
            self._put(self._list_tag, index_of([*listed, new]), INDEX)


def _manifests(index: bytes) -> list[Descriptor]:
    try:
        found: Any = json.loads(index)["manifests"]
        return [each for each in found or () if isinstance(each, Mapping)]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise RegistryProblem("the registry sent a list of referrers that cannot be read") from None


def _kind_and_title(referrer: Descriptor) -> tuple[str, str]:
    annotations = referrer.get("annotations")
    title = annotations.get(TITLE, "") if isinstance(annotations, Mapping) else ""
    return str(referrer.get("artifactType", "")), str(title)
