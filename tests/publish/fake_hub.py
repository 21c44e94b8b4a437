"""A fake of the hub's HTTP API, as far as huggingface_hub uses it to publish: repositories in memory, on 127.0.0.1.

It is no hub: commits are dictionaries, and a file of more than LARGE bytes is stored by its SHA-256, as with Git LFS.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

TOKEN = "hf_CANARYtoken"
LARGE = 1000
NOTHING = "nothing"


@dataclass
class Repository:
    """Commits (files by path) by id, and the commit of each branch and tag."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=lambda: {"0" * 40: {".gitattributes": b""}})
    branches: dict[str, str] = field(default_factory=lambda: {"main": "0" * 40})
    tags: dict[str, str] = field(default_factory=dict)

    def find(self, revision: str) -> str | None:
        known = {**self.branches, **self.tags, **{commit: commit for commit in self.commits}}
        return known.get(revision)

    def files(self, revision: str = "main") -> dict[str, bytes]:
        commit = self.find(revision)
        assert commit is not None
        return self.commits[commit]


class FakeHub:
    """The server: `url` is for HF_ENDPOINT. `fails` is a part of a path whose requests get HTTP 500, and `breaks` one
    whose connections end; `seen` has the method and path of each request."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {"team/net": Repository()}
        self.objects: dict[str, bytes] = {}
        self.seen: list[str] = []
        self.fails = self.breaks = NOTHING
        self.moved: str | None = None
        hub = self

        class Handler(_Handler):
            fake = hub

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @property
    def uploads(self) -> list[str]:
        return [each for each in self.seen if each.startswith("PUT ") or "/commit/" in each]


@contextmanager
def fake_hub() -> Iterator[FakeHub]:
    hub = FakeHub()
    thread = threading.Thread(target=hub.server.serve_forever, daemon=True)
    thread.start()
    yield hub
    hub.server.shutdown()
    hub.server.server_close()
    thread.join()


class _Handler(BaseHTTPRequestHandler):
    fake: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def do_any(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        path = unquote(urlsplit(self.path).path)
        self.fake.seen.append(f"{self.command} {path}")
        if self.fake.breaks in path:
            self.close_connection = True
            return
        if self.fake.fails in path:
            return self.answer(500, {"error": f"no space, {self.headers.get('Authorization')}"})
        if path == "/api/validate-yaml":
            return self.answer(200, {"errors": [], "warnings": []})
        if self.command == "PUT":
            self.fake.objects[path.rpartition("/")[2]] = body
            return self.answer(200, {})
        self.route(path, body)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_any

    def route(self, path: str, body: bytes) -> None:
        parts = path.removeprefix("/api/models").strip("/").split("/")
        name = "/".join(parts[:2]).removesuffix(".git")
        repository = self.fake.repositories.get(name)
        authorized = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        if repository is None or not authorized:
            # Hubs answer alike for a repository that is not there, and one that may not be seen.
            code = 404 if authorized else 401
            return self.answer(code, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
        verb, rest = (parts[2], "/".join(parts[3:])) if len(parts) > 2 else ("", "")
        if verb == "info":
            return self.objects(json.loads(body))
        if verb == "refs":
            listed = {
                kind: [{"name": n, "ref": f"refs/{n}", "targetCommit": c} for n, c in found.items()]
                for kind, found in (("branches", repository.branches), ("tags", repository.tags))
            }
            return self.answer(200, {**listed, "converts": []})
        if verb == "tag" and self.command == "DELETE":
            del repository.tags[rest]
            return self.answer(200, {})
        revision = rest.partition("/")[0] if verb == "resolve" else rest
        commit = repository.find(revision)
        if commit is None:
            return self.answer(404, {"error": "Revision not found"}, {"X-Error-Code": "RevisionNotFound"})
        files = repository.commits[commit]
        if verb == "revision":
            return self.answer(200, {"id": name, "sha": commit, "siblings": []})
        if verb == "tree":
            return self.answer(200, [_entry(each, data) for each, data in files.items()])
        if verb == "resolve":
            return self.file(files.get(rest.partition("/")[2]), commit)
        if verb == "tag":
            repository.tags[json.loads(body)["tag"]] = commit
            return self.answer(200, {})
        if verb == "preupload":
            return self.answer(200, {"files": [self.mode(each, files) for each in json.loads(body)["files"]]})
        assert verb == "commit", path
        self.commit(name, repository, revision, body)

    def mode(self, file: dict[str, Any], files: dict[str, bytes]) -> dict[str, Any]:
        ignored = file["path"] in files.get(".gitignore", b"").decode().split()
        return {
            "path": file["path"],
            "uploadMode": "lfs" if file["size"] > LARGE else "regular",
            "shouldIgnore": ignored,
        }

    def objects(self, batch: dict[str, Any]) -> None:
        def one(each: dict[str, Any]) -> dict[str, Any]:
            if each["oid"] in self.fake.objects:
                return each
            return {**each, "actions": {"upload": {"href": f"{self.fake.url}/objects/{each['oid']}?signature=CANARY"}}}

        self.answer(200, {"transfer": "basic", "objects": [one(each) for each in batch["objects"]]})

    def commit(self, name: str, repository: Repository, branch: str, body: bytes) -> None:
        lines = [json.loads(line) for line in body.splitlines()]
        header = next(line["value"] for line in lines if line["key"] == "header")
        if self.fake.moved:
            repository.branches[branch], self.fake.moved = self.fake.moved, None
        parent = repository.branches[branch]
        if header.get("parentCommit") != parent:
            return self.answer(412, {"error": "A commit has happened since. Please refresh and try again."})
        files = dict(repository.commits[parent])
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.fake.objects[value["oid"]]
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        oid = hashlib.sha1(body).hexdigest()
        repository.commits[oid] = files
        repository.branches[branch] = oid
        self.answer(200, {"commitUrl": f"{self.fake.url}/{name}/commit/{oid}", "commitOid": oid})

    def file(self, data: bytes | None, commit: str) -> None:
        if data is None:
            return self.answer(404, {"error": "Entry not found"}, {"X-Error-Code": "EntryNotFound"})
        self.send_response(200)
        self.send_header("X-Repo-Commit", commit)
        self.send_header("ETag", f'"{hashlib.sha1(data).hexdigest()}"')
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def answer(self, code: int, value: Any, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _entry(path: str, data: bytes) -> dict[str, Any]:
    oid = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
    entry: dict[str, Any] = {"type": "file", "path": path, "size": len(data), "oid": oid}
    if len(data) > LARGE:
        entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
    return entry
