"""docker-registry, the registry of the OCI distribution project, on a free port of 127.0.0.1."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("docker-registry", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
_CONFIG = """
version: 0.1
log: {{level: warn}}
storage: {{filesystem: {{rootdirectory: {folder}/data}}, delete: {{enabled: true}}}}
http: {{addr: "127.0.0.1:{port}"}}
{auth}
"""
# bcrypt of `canary-secret`, since the program reads no other kind.
USER, PASSWORD = "me", "canary-secret"
_HASH = "$2b$04$abcdefghijklmnopqrstuu8eMT1gtBhVcNqXW136wdnmHwzCZvF5e"


class Registry:
    """A registry with its contents in a folder. `login`: it demands USER and PASSWORD."""

    def __init__(self, folder: Path, login: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        auth = ""
        self._headers = {}
        if login:
            (folder / "htpasswd").write_text(f"{USER}:{_HASH}\n")
            auth = f"auth: {{htpasswd: {{realm: test, path: {folder}/htpasswd}}}}"
            self._headers["Authorization"] = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        (folder / "config.yml").write_text(_CONFIG.format(folder=folder, port=self.port, auth=auth))
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        assert PROGRAM is not None
        with (self.folder / "log").open("ab") as log:
            command = [PROGRAM, "serve", str(self.folder / "config.yml")]
            # Without a session, it sends traces nowhere.
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, "OTEL_TRACES_EXPORTER": "none"}
            )
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert self.process.poll() is None, (self.folder / "log").read_text()
                time.sleep(0.02)
        raise AssertionError("the registry does not listen")

    def kill(self) -> None:
        """End it as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def get(self, path: str) -> Any:
        """Return an answer of the API as bytes; None if there is none."""
        accept = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json"
        request = urllib.request.Request(f"http://{self.host}/v2/{path}", headers={"Accept": accept, **self._headers})
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 404:
                    return None
                raise

    def manifest(self, name: str, reference: str) -> Any:
        """Return a manifest; None if there is none."""
        found = self.get(f"{name}/manifests/{reference}")
        return None if found is None else json.loads(found)

    def tags(self, name: str) -> list[str]:
        found = self.get(f"{name}/tags/list")
        return [] if found is None else sorted(json.loads(found)["tags"] or ())
