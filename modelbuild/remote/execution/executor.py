"""Run actions on the workers of a Remote Execution API server."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from modelbuild.actions import ActionResult, Digest, Place
from modelbuild.execution.executor import ActionRequest, Outcome
from modelbuild.execution.failure_message import failure_message
from modelbuild.execution.fork_server_client import EndedProcess
from modelbuild.remote.cache.client import Client
from modelbuild.remote.execution.queue_watch import QueueWatch
from modelbuild.remote.execution.remote_action import RemoteAction, SourceChanged, Workers, describe, outputs_of
from modelbuild.remote.execution.service import Execution
from modelbuild.remote.execution.worker_entry import TOOLCHAIN
from modelbuild.remote.problems import RemoteProblem
from modelbuild.store.codec import blobs_of
from modelbuild.store.interface import MissingBlob, Store
from modelbuild.store.local import LocalStore

# The maximum size of a worker's reports and of a step's output.
_MAX_REPORT = 64 << 20


class RemoteExecutor:
    """Runs one action at a time for each calling thread. Raises RemoteProblem if the server, the connection or the
    worker fails, but not the action.

    store        the build's store, which may have to fetch an input first; `local` is the store on this machine
    client       blobs to and from the server's own CAS
    workers      their code and interpreter, and properties of every worker (see platform_properties.py)
    queue        reports actions that wait for a worker
    leave        whether outputs may stay there: the store fetches outputs that are needed here
    """

    def __init__(
        self,
        execution: Execution,
        client: Client,
        store: Store,
        local: LocalStore,
        workers: Workers,
        queue: QueueWatch,
        leave: bool = False,
    ) -> None:
        self._execution = execution
        self._client = client
        self._store = store
        self._local = local
        self._workers = workers
        self._queue = queue
        self._leave = leave
        self._left: set[Digest] = set()  # actions whose outputs stayed on the server
        self._lock = threading.Lock()
        self._closed = False

    def run(self, request: ActionRequest) -> Outcome:
        """Run an action to its end. Raises RemoteProblem; MissingBlob when the store lost an input."""
        try:
            described = describe(request, self._workers)
        except SourceChanged as problem:
            return Outcome(None, str(problem))
        answer = None
        with self._lock:
            lost = described.action in self._left
        # Retries if the server lost an input meanwhile, or answers with a cached failure. An action that it ran before
        # is requested again because the server lost an output.
        for fresh in (lost, True):
            self._send(described)
            try:
                with self._queue.watch(request.action, described.asked) as on_stage:
                    answer = self._execution.execute(described.action, fresh, on_stage)
            except RemoteProblem as problem:
                if problem.kind == "late" and request.limit is not None:
                    return Outcome(None, request.limit.problem)
                if problem.kind != "missing" or fresh:
                    raise
                continue
            if answer.result.exit_code == 0 or not answer.cached_result:
                break
        if self._closed or answer is None:
            return Outcome(None, "interrupted")
        outcome = self._outcome(request, answer.result)
        if outcome.result is not None and self._leave and not lost:
            with self._lock:
                self._left.add(described.action)
        elif outcome.result is not None:
            self._fetch(blobs_of(outcome.result))
        return outcome

    def close(self) -> None:
        """Cancel running actions."""
        with self._lock:
            self._closed = True
        self._queue.close()
        self._execution.close()
        self._client.close()

    def _send(self, described: RemoteAction) -> None:
        wanted = {*described.blobs, *described.inputs}
        absent = self._client.absent(wanted)
        for digest in absent - described.blobs.keys():
            self._keep_input(digest, described.inputs[digest])
        self._client.upload(absent, described.blobs)

    def _keep_input(self, digest: Digest, source: Path | None) -> None:
        """Store an input in the local store."""
        if source is None or not self._local.missing([digest]):
            self._store.blob_path(digest)
            return
        try:
            kept = self._local.put_copy(source, executable=False)
        except FileNotFoundError:
            raise MissingBlob(digest) from None
        if kept != digest:
            raise MissingBlob(digest)

    def _outcome(self, request: ActionRequest, result: Any) -> Outcome:
        worker = result.execution_metadata.worker or "a worker"
        try:
            outputs, reports = outputs_of(request, result, self._client.read_all)
        except (ValueError, KeyError) as error:
            raise RemoteProblem("wrong", f"{worker}: {error}") from None
        texts = self._texts(reports)
        if result.exit_code == TOOLCHAIN:
            raise RemoteProblem("missing", f"{worker} has {self._printed(result)}")
        if result.exit_code not in (0, 1) or "ended" not in texts:
            raise RemoteProblem("down", f"{worker} could not run it: {self._printed(result) or 'no reason given'}")
        try:
            ended = EndedProcess(**json.loads(texts["ended"]))
        except (ValueError, TypeError):
            raise RemoteProblem("wrong", f"{worker} sent no report") from None
        stdout, stderr = (self._kept(texts.get(name, b"")) for name in ("stdout", "stderr"))
        report = texts.get("report", b"").decode(errors="replace")
        try:
            problem = failure_message(request, ended, report)
        except (KeyError, TypeError):
            raise RemoteProblem("wrong", f"{worker} sent no report") from None
        lacking = [output for output in request.action.outputs if output.name not in dict(outputs)]
        if lacking and not problem:
            problem = f"the step did not write its output '{lacking[0].name}' ({lacking[0].path})"
        if problem:
            return Outcome(None, problem, stdout, stderr, place=place_of(result))
        made = ActionResult(outputs, stdout, stderr, ended.seconds, ended.max_rss)
        return Outcome(made, "", stdout, stderr, place=place_of(result))

    def _fetch(self, digests: Collection[Digest]) -> None:
        try:
            self._client.fetch(digests)
        except MissingBlob as error:
            raise RemoteProblem("missing", f"an output is missing: {error.digest}") from None

    def _texts(self, digests: Mapping[str, Digest]) -> dict[str, bytes]:
        """Return the contents of reports by their names."""
        for digest in digests.values():
            if digest.size > _MAX_REPORT:
                raise RemoteProblem("wrong", f"{digest.size} bytes of report")
        found = self._client.read_all(digests.values())
        for digest in digests.values():
            if digest not in found:
                raise RemoteProblem("missing", f"a report is missing: {digest}")
        return {name: found[digest] for name, digest in digests.items()}

    def _kept(self, text: bytes) -> Digest | None:
        return self._local.put_bytes(text) if text else None

    def _printed(self, result: Any) -> str:
        """Return the command's own output, as one line."""
        raw: bytes = result.stderr_raw
        if not raw and result.stderr_digest.size_bytes:
            stderr = Digest(result.stderr_digest.hash, result.stderr_digest.size_bytes)
            raw = self._texts({"stderr": stderr})["stderr"]
        return " ".join(raw.decode(errors="replace").split())[-300:]


def place_of(result: Any) -> Place:
    """Return the worker and durations from an ActionResult of the API."""
    metadata = result.execution_metadata

    def seconds(start: str, end: str) -> float:
        if not (metadata.HasField(f"{start}_timestamp") and metadata.HasField(f"{end}_timestamp")):
            return 0.0
        began, ended = (getattr(metadata, f"{name}_timestamp") for name in (start, end))
        took: float = ended.seconds - began.seconds + (ended.nanos - began.nanos) / 1e9
        return max(0.0, round(took, 3))

    return Place(
        metadata.worker or "a worker",
        seconds("queued", "worker_start"),
        seconds("input_fetch_start", "input_fetch_completed"),
        seconds("execution_start", "execution_completed"),
        seconds("output_upload_start", "output_upload_completed"),
    )
