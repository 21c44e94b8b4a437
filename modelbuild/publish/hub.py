"""Publish to a hub of models by huggingface_hub: all files, documents, a model card and manifest.json in one commit."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import modelbuild
from modelbuild.errors import ModelbuildError
from modelbuild.publish.content import Content, Published, PublishError
from modelbuild.publish.hub_address import HubAddress
from modelbuild.publish.manifest import MANIFEST_FILE, check_names, digest_of, manifest_of, written
from modelbuild.publish.model_card import CARD, MARK, model_card
from modelbuild.remote.messages import missing_extra


def publish_hub(content: Content, address: HubAddress, replace: bool, say: Callable[[str], None]) -> Published:
    """Commit the files that the branch lacks, and set the tag of a release. Raises PublishError for a hub that cannot
    be used, and for other content there, unless replacing."""
    check_names(content)
    try:
        from huggingface_hub import HfApi
        from huggingface_hub.utils import disable_progress_bars, logging
    except ImportError:
        raise missing_extra("huggingface_hub", "publishing to a hub", "huggingface") from None
    disable_progress_bars()
    logging.set_verbosity_error()
    api = HfApi(library_name="modelbuild", library_version=modelbuild.__version__)
    with _in_one_line(address), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _Publication(content, address, api, replace, say).run()


@dataclass(frozen=True, slots=True)
class _Publication:
    content: Content
    address: HubAddress
    api: Any
    replace: bool
    say: Callable[[str], None]

    def run(self) -> Published:
        repository, version = self.address.repository, self.address.version
        manifest = manifest_of(self.content)
        digest = digest_of(manifest)
        tags = {each.name: each.target_commit for each in self.api.list_repo_refs(repository).tags} if version else {}
        head = self.api.repo_info(repository, revision=self.address.branch).sha
        before = self._read(MANIFEST_FILE, head)
        if version in tags:
            tagged = self._read(MANIFEST_FILE, tags[version])
            if tagged == manifest:
                return Published(str(self.address), digest, [], [])
            self._refuse(f"the tag {version} contains", tagged, f"not {digest}; expected a new version")
        elif not version and before not in (None, manifest):
            self._refuse("it contains", before, f"not {digest}; expected another branch")
        uploaded = [file.path for file in self.content.files if file.sha256.encode() not in (before or b"")]
        attached, commit = self._commit(head, before, manifest)
        for line in (*(f"uploaded {path}" for path in uploaded), *(f"attached {name}" for name in attached)):
            self.say(line)
        if version:
            if version in tags:
                self.api.delete_tag(repository, tag=version)
            self.api.create_tag(repository, tag=version, revision=commit)
            self.say(f"tag {version}")
        return Published(str(self.address), digest, uploaded, attached, bool(version))

    def _refuse(self, what: str, found: bytes | None, expected: str) -> None:
        if not self.replace:
            name = "no manifest.json" if found is None else digest_of(found)
            raise PublishError(f"{self.address}: {what} {name}, {expected}, or --replace")

    def _read(self, name: str, commit: str) -> bytes | None:
        """Return a file of a commit; None if there is none."""
        from huggingface_hub.errors import RemoteEntryNotFoundError

        with TemporaryDirectory() as folder:
            try:
                path = self.api.hf_hub_download(self.address.repository, name, revision=commit, local_dir=folder)
                return Path(path).read_bytes()
            except RemoteEntryNotFoundError:
                return None

    def _commit(self, head: str, before: bytes | None, manifest: bytes) -> tuple[list[str], str]:
        """Commit everything; huggingface_hub uploads only files that the branch lacks. Returns the names of the new
        documents, and the commit."""
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        names = set(self.api.list_repo_files(self.address.repository, revision=head))
        documents = {
            each.name: each.data
            for each in self.content.attachments
            if each.name not in names or self.replace or before != manifest
        }
        if before == manifest and not documents:
            return [], head
        added = {file.path: file.source for file in self.content.files} | documents | {MANIFEST_FILE: manifest}
        if CARD not in added:
            added |= self._card(head)
        kept = added.keys() | {each.name for each in self.content.attachments}
        gone = sorted(written(before) & names - kept) if before not in (None, manifest) else []
        made = self.api.create_commit(
            self.address.repository,
            [
                *(CommitOperationAdd(path, source) for path, source in sorted(added.items())),
                *map(CommitOperationDelete, gone),
            ],
            commit_message=" ".join(filter(None, ("Publish", self.content.about.name, self.content.about.version))),
            commit_description=digest_of(manifest),
            revision=self.address.branch,
            parent_commit=head,
        )
        listed = self.api.list_repo_files(self.address.repository, revision=made.oid)
        if ignored := added.keys() - set(listed):
            raise PublishError(f"{self.address}: its .gitignore excludes {min(ignored)}; expected another .gitignore")
        return list(documents), made.oid

    def _card(self, head: str) -> dict[str, bytes]:
        """Return the model card, or nothing if modelbuild did not write the existing card."""
        known = self._read(CARD, head)
        if known is None or MARK.encode() in known:
            return {CARD: model_card(self.content)}
        self.say(f"kept {CARD}, which modelbuild did not write")
        return {}


@contextmanager
def _in_one_line(address: HubAddress) -> Iterator[None]:
    """Raise PublishError, without secrets, instead of the errors of huggingface_hub and of its HTTP client."""
    from huggingface_hub import errors, get_token

    token = get_token()
    try:
        yield
    except ModelbuildError:
        raise
    except errors.RevisionNotFoundError:
        raise PublishError(f"{address}: there is no branch {address.branch}; expected one that exists") from None
    except errors.RepositoryNotFoundError:
        known = "this token may not read it" if token else "it needs a token, in HF_TOKEN or by `hf auth login`"
        message = f"there is no such repository, or {known}; `hf repos create {address.repository}` makes one"
        raise PublishError(f"{address}: {message}") from None
    except Exception as error:  # the HTTP client's errors and the library's have no common base
        cause = error.__cause__ if isinstance(error, RuntimeError) and error.__cause__ else error
        status = getattr(getattr(cause, "response", None), "status_code", None)
        text = getattr(cause, "server_message", None) or str(cause) or type(cause).__name__
        line = " ".join(re.sub(r"\?\S+", "", text).split()).replace(token or "\0", "(secret)")
        hint = " (expected a token that may write, in HF_TOKEN or by `hf auth login`)" if status in (401, 403) else ""
        raise PublishError(f"{address}: {f'HTTP {status}: ' if status else ''}{line[:300]}{hint}") from None
