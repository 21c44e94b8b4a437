"""Publish to a hub of models by huggingface_hub: all files, documents, a model card and manifest.json in one commit."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
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

_MOST = 4 << 20


def publish_hub(content: Content, address: HubAddress, replace: bool, say: Callable[[str], None]) -> Published:
    """Commit the files that the branch lacks, and set the tag of a release. Raises PublishError for a hub that cannot
    be used, and for other content there unless it is to be replaced."""
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
class _Remote:
    """A commit, its files by path, and its manifest.json (None without one)."""

    commit: str
    files: Mapping[str, Any]
    manifest: bytes | None


class _Publication:
    def __init__(
        self, content: Content, address: HubAddress, api: Any, replace: bool, say: Callable[[str], None]
    ) -> None:
        self._content = content
        self._address = address
        self._api = api
        self._replace = replace
        self._say = say
        self._manifest = manifest_of(content)
        self._digest = digest_of(self._manifest)

    def run(self) -> Published:
        tags = self._tags() if self._address.version else {}
        if self._address.version in tags:
            tagged = self._at(tags[self._address.version])
            if tagged.manifest == self._manifest:
                return Published(str(self._address), self._digest, [], [])
            self._refuse(f"the tag {self._address.version} contains", tagged, "a new version")
        head = self._at(self._address.branch)
        if head.manifest not in (None, self._manifest) and not self._address.version:
            self._refuse("it contains", head, "another branch")
        uploaded, attached, commit = self._commit(head)
        moves = bool(self._address.version)
        if moves:
            if self._address.version in tags:
                self._api.delete_tag(self._address.repository, tag=self._address.version)
            self._api.create_tag(self._address.repository, tag=self._address.version, revision=commit)
            self._say(f"tag {self._address.version}")
        return Published(f"{self._address}", self._digest, uploaded, attached, moves)

    def _refuse(self, what: str, remote: _Remote, other: str) -> None:
        if not self._replace:
            found = "no manifest.json" if remote.manifest is None else digest_of(remote.manifest)
            raise PublishError(f"{self._address}: {what} {found}, not {self._digest}; expected {other}, or --replace")

    def _tags(self) -> dict[str, str]:
        refs = self._api.list_repo_refs(self._address.repository)
        return {each.name: each.target_commit for each in refs.tags}

    def _at(self, revision: str) -> _Remote:
        repository = self._address.repository
        commit = self._api.repo_info(repository, revision=revision).sha
        files = self._files(commit)
        known = files.get(MANIFEST_FILE)
        if known is None or known.size > _MOST:
            return _Remote(commit, files, None)
        return _Remote(commit, files, self._read(MANIFEST_FILE, commit))

    def _files(self, commit: str) -> dict[str, Any]:
        listed = self._api.list_repo_tree(self._address.repository, recursive=True, revision=commit)
        return {each.path: each for each in listed if hasattr(each, "blob_id")}

    def _read(self, name: str, commit: str) -> bytes:
        with TemporaryDirectory() as folder:
            path = self._api.hf_hub_download(self._address.repository, name, revision=commit, local_dir=folder)
            return Path(path).read_bytes()

    def _commit(self, head: _Remote) -> tuple[list[str], list[str], str]:
        """Commit what differs. Returns the files, the documents, and the commit."""
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        changed = {file.path: file.source for file in self._content.files if not _is_equal(head, file)}
        present = head.manifest == self._manifest
        documents = {
            each.name: each.data
            for each in self._content.attachments
            if each.name not in head.files or self._replace or not present
        }
        card = self._card(head)
        if not present:
            documents[MANIFEST_FILE] = self._manifest
        kept = {file.path for file in self._content.files} | {each.name for each in self._content.attachments}
        gone = [] if present or head.manifest is None else sorted(written(head.manifest) & head.files.keys() - kept)
        if present and not changed and not documents:
            return [], [], head.commit
        added = {**changed, **documents, **({CARD: card} if card is not None else {})}
        operations: list[Any] = [CommitOperationAdd(path, source) for path, source in sorted(added.items())]
        operations += [CommitOperationDelete(path) for path in gone]
        title = " ".join(filter(None, ("Publish", self._content.about.name, self._content.about.version)))
        made = self._api.create_commit(
            self._address.repository,
            operations,
            commit_message=title,
            commit_description=self._digest,
            revision=self._address.branch,
            parent_commit=head.commit,
        )
        if ignored := added.keys() - self._files(made.oid).keys():
            raise PublishError(f"{self._address}: its .gitignore excludes {min(ignored)}; expected another .gitignore")
        for path in changed:
            self._say(f"uploaded {path}")
        attached = [name for name in documents if name != MANIFEST_FILE]
        for name in attached:
            self._say(f"attached {name}")
        return sorted(changed), attached, made.oid

    def _card(self, head: _Remote) -> bytes | None:
        """Return the model card; None to leave the one that is there, or that is a file of the target."""
        if CARD in (file.path for file in self._content.files):
            return None
        known = head.files.get(CARD)
        if known is not None and (known.size > _MOST or MARK.encode() not in self._read(CARD, head.commit)):
            self._say(f"kept {CARD}, which modelbuild did not write")
            return None
        return model_card(self._content)


def _is_equal(head: _Remote, file: Any) -> bool:
    known = head.files.get(file.path)
    if known is None or known.size != file.size:
        return False
    if known.lfs is not None:
        return bool(known.lfs.sha256 == file.sha256)
    if file.size > _MOST:
        return False
    return bool(known.blob_id == hashlib.sha1(b"blob %d\0" % file.size + file.source.read_bytes()).hexdigest())


@contextmanager
def _in_one_line(address: HubAddress) -> Iterator[None]:
    """Raise PublishError in place of the errors of huggingface_hub and of its HTTP client, without secrets."""
    from huggingface_hub import errors, get_token

    try:
        yield
    except ModelbuildError:
        raise
    except errors.RevisionNotFoundError:
        raise PublishError(f"{address}: there is no branch {address.branch}; expected one that exists") from None
    except errors.RepositoryNotFoundError:
        known = "this token may not read it" if get_token() else "it needs a token, in HF_TOKEN or by `hf auth login`"
        message = f"there is no such repository, or {known}; `hf repos create {address.repository}` makes one"
        raise PublishError(f"{address}: {message}") from None
    except Exception as error:  # those of the HTTP client have no base in common with the library's
        cause = error.__cause__ if isinstance(error, RuntimeError) and error.__cause__ else error
        status = getattr(getattr(cause, "response", None), "status_code", 0)
        hint = ""
        if status in (401, 403):
            known = "the token may not write" if get_token() else "expected a token in HF_TOKEN, or by `hf auth login`"
            hint = f" ({known})"
        text = getattr(cause, "server_message", None) or str(cause) or type(cause).__name__
        line = " ".join(re.sub(r"\?\S+", "", text).split())
        if token := get_token():
            line = line.replace(token, "(secret)")
        raise PublishError(f"{address}: {f'HTTP {status}: ' if status else ''}{line[:300]}{hint}") from None
