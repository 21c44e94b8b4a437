"""Publish to MLflow's registry by its REST API: files as artifacts of a run, then a version of the model with them."""

from __future__ import annotations

import os
import time
import urllib.parse
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from modelbuild.publish.content import Content, Published, PublishError
from modelbuild.publish.hub_address import MlflowAddress
from modelbuild.publish.manifest import MANIFEST_FILE, check_names, digest_of, manifest_of
from modelbuild.remote.messages import missing_extra

# Tags of a model's version.
DIGEST, TARGET, VERSION = "modelbuild.digest", "modelbuild.target", "modelbuild.version"
_API = "/api/2.0/mlflow"
_ARTIFACTS = f"{_API}-artifacts/artifacts"
_SECONDS = 60.0
_RETRIES = 4
_TRANSIENT = (408, 425, 429, 500, 502, 503, 504)


def publish_mlflow(content: Content, address: MlflowAddress, replace: bool, say: Callable[[str], None]) -> Published:
    """Upload the files and register a version of the model, unless there is one of this content. Raises PublishError
    for a server that cannot be used, and for a release's version of other content unless it is to be replaced."""
    check_names(content)
    try:
        server = _Server(address)
    except ImportError:
        raise missing_extra("requests", "publishing to MLflow", "mlflow") from None
    try:
        return _Publication(content, address, server, replace, say).run()
    except KeyError as error:
        raise PublishError(f"{address}: HTTP 200: an answer without {error}; expected one of MLflow") from None


class _Publication:
    def __init__(
        self, content: Content, address: MlflowAddress, server: _Server, replace: bool, say: Callable[[str], None]
    ) -> None:
        self._content = content
        self._address = address
        self._server = server
        self._replace = replace
        self._say = say
        self._manifest = manifest_of(content)
        self._digest = digest_of(self._manifest)

    def run(self) -> Published:
        versions = self._versions()
        known = next((each for each in versions if _tags(each).get(DIGEST) == self._digest), None)
        wanted = self._address.version
        other = next((each for each in versions if wanted and _tags(each).get(VERSION) == wanted), None)
        if other is not None and other is not known and not self._replace:
            found = _tags(other).get(DIGEST, "other content")
            message = f"version {wanted} is {found}, not {self._digest}; expected a new version, or --replace"
            raise PublishError(f"{self._address}: {message}")
        uploaded: list[str] = []
        if known is None:
            known, uploaded, attached = self._publish(create=not versions)
        else:
            attached = self._attach(self._folder(known["source"]), known)
        number = str(known["version"])
        moves = bool(wanted) and _tags(known).get(VERSION) != wanted
        if moves:
            if other is not None:
                self._server.ask("DELETE", "model-versions/delete-tag", self._of(other) | {"key": VERSION})
            self._server.ask("POST", "model-versions/set-tag", self._of(known) | {"key": VERSION, "value": wanted})
            self._say(f"tag {VERSION}={wanted}")
        return Published(f"{self._address}/{number}", self._digest, uploaded, attached, moves)

    def _versions(self) -> list[Mapping[str, Any]]:
        """Return the versions of the model, the newest first; none if there is no such model."""
        found: list[Mapping[str, Any]] = []
        query = {"filter": f"name='{self._address.model}'", "max_results": "200"}
        while True:
            answer = self._server.ask("GET", "model-versions/search", query)
            found += answer.get("model_versions", [])
            if not answer.get("next_page_token"):
                return sorted(found, key=lambda each: int(each["version"]), reverse=True)
            query["page_token"] = answer["next_page_token"]

    def _publish(self, create: bool) -> tuple[Mapping[str, Any], list[str], list[str]]:
        """Upload everything to a new run, and register it. Returns the version, the files and the documents. The run of
        an upload that fails is marked as failed."""
        run = self._run()
        finished = {"run_id": run["run_id"], "status": "FAILED"}
        try:
            folder = self._folder(run["artifact_uri"])
            uploaded = [self._upload(folder, file.path, file.source) for file in self._content.files]
            attached = self._attach(folder, None)
            self._put(folder, MANIFEST_FILE, self._manifest)
            version = self._register(run, create)
            finished["status"] = "FINISHED"
            return version, uploaded, attached
        finally:
            with suppress(PublishError):
                self._server.ask("POST", "runs/update", {**finished, "end_time": int(time.time() * 1000)})

    def _run(self) -> Mapping[str, Any]:
        """Return a new run in the experiment with the model's name."""
        name = self._address.model
        found = self._server.ask(
            "GET", "experiments/get-by-name", {"experiment_name": name}, known="RESOURCE_DOES_NOT_EXIST"
        )
        experiment = found.get("experiment") or self._server.ask("POST", "experiments/create", {"name": name})
        given = {"experiment_id": experiment["experiment_id"], "start_time": int(time.time() * 1000)}
        made = self._server.ask("POST", "runs/create", given | {"tags": self._facts(), "run_name": self._digest[7:19]})
        run: Mapping[str, Any] = made["run"]["info"]
        return run

    def _facts(self) -> list[dict[str, str]]:
        facts = {DIGEST: self._digest, TARGET: self._content.about.target}
        return [{"key": key, "value": value} for key, value in facts.items() if value]

    def _folder(self, source: str) -> str:
        """Return the folder of artifacts that an address of MLflow names."""
        found = urllib.parse.urlsplit(source)
        if found.scheme != "mlflow-artifacts":
            raise PublishError(
                f"{self._address}: its artifacts are not on the server; expected one with --serve-artifacts"
            )
        return found.path.strip("/")

    def _register(self, run: Mapping[str, Any], create: bool) -> Mapping[str, Any]:
        name = {"name": self._address.model}
        if create:
            self._server.ask("POST", "registered-models/create", name, known="RESOURCE_ALREADY_EXISTS")
        given = {"source": run["artifact_uri"], "run_id": run["run_id"], "tags": self._facts()}
        made = self._server.ask("POST", "model-versions/create", name | given)
        version: Mapping[str, Any] = made["model_version"]
        self._say(f"version {version['version']}")
        return version

    def _of(self, version: Mapping[str, Any]) -> dict[str, str]:
        return {"name": self._address.model, "version": str(version["version"])}

    def _attach(self, folder: str, known: Mapping[str, Any] | None) -> list[str]:
        """Upload the documents that the folder of a known version lacks; all for new content."""
        present = set() if known is None or not self._content.attachments else self._server.list(folder)
        attached = []
        for each in self._content.attachments:
            if each.name not in present or self._replace:
                self._put(folder, each.name, each.data)
                self._say(f"attached {each.name}")
                attached.append(each.name)
        return attached

    def _upload(self, folder: str, path: str, source: Path) -> str:
        with source.open("rb") as file:
            # requests sends an empty file in chunks, which MLflow's server refuses.
            self._put(folder, path, file if os.fstat(file.fileno()).st_size else b"")
        self._say(f"uploaded {path}")
        return path

    def _put(self, folder: str, path: str, data: Any) -> None:
        self._server.send("PUT", f"{_ARTIFACTS}/{urllib.parse.quote(f'{folder}/{path}')}", data=data)


class _Server:
    """A server of MLflow. Raises ImportError without requests; methods raise PublishError."""

    def __init__(self, address: MlflowAddress) -> None:
        import requests
        from urllib3.util import Retry

        self._address = address
        self._session = requests.Session()
        self._problem = requests.RequestException
        # A second POST could register a second version.
        retry = Retry(
            _RETRIES, connect=1, backoff_factor=0.2, status_forcelist=_TRANSIENT, allowed_methods=("GET", "PUT"),
            raise_on_status=False,
        )  # fmt: skip
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, requests.adapters.HTTPAdapter(max_retries=retry))
        token, user = os.environ.get("MLFLOW_TRACKING_TOKEN"), os.environ.get("MLFLOW_TRACKING_USERNAME")
        password = os.environ.get("MLFLOW_TRACKING_PASSWORD", "")
        self._known = bool(token or user)
        if user:
            self._session.auth = (user, password)
        elif token:
            self._session.auth = _Bearer(token)

    def ask(self, method: str, name: str, values: Mapping[str, Any], known: str = "") -> dict[str, Any]:
        """Return the JSON that a function of the API returns. `known` is the code of an error that may be."""
        given: dict[str, Any] = {"params": values} if method == "GET" else {"json": values}
        return self.send(method, f"{_API}/{name}", known=known, **given)

    def list(self, folder: str) -> set[str]:
        """Return the names of a folder's files."""
        found = self.send("GET", _ARTIFACTS, params={"path": folder})
        return {str(each["path"]).rpartition("/")[2] for each in found.get("files", ())}

    def send(self, method: str, path: str, known: str = "", **given: Any) -> dict[str, Any]:
        try:
            answer = self._session.request(
                method, f"{self._address.base}{path}", timeout=_SECONDS, allow_redirects=False, **given
            )
        except (self._problem, OSError) as error:
            reason = getattr(error.args[0] if error.args else error, "reason", error)
            raise self._error(f"the server cannot be used: {str(reason).rpartition(': ')[2]}") from None
        try:
            found = answer.json() if answer.content else {}
        except ValueError:
            found = None
        if answer.status_code == 200 and isinstance(found, dict):
            return found
        facts = found if isinstance(found, dict) else {}
        if known and facts.get("error_code") == known:
            return {}
        text = str(facts.get("message") or answer.reason)
        if answer.status_code == 200:
            text += "; expected an answer of MLflow"
        if answer.status_code in (401, 403):
            names = "MLFLOW_TRACKING_USERNAME and _PASSWORD, or MLFLOW_TRACKING_TOKEN"
            text += " (with the configured login)" if self._known else f"; expected a login in {names}"
        elif path.startswith(_ARTIFACTS) and answer.status_code in (404, 405, 501):
            text += "; expected a server with --serve-artifacts"
        raise self._error(f"HTTP {answer.status_code}: {text}")

    def _error(self, text: str) -> PublishError:
        line = " ".join(text.split())[:300]
        for name in ("MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_PASSWORD"):
            if secret := os.environ.get(name):
                line = line.replace(secret, "(secret)")
        return PublishError(f"{self._address}: {line}")


class _Bearer:
    """Authorization by a token, as requests wants it: a class of its own, so that no .netrc replaces the token."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: Any) -> Any:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def _tags(version: Mapping[str, Any]) -> dict[str, str]:
    return {each["key"]: each["value"] for each in version.get("tags") or ()}
