"""A bot of the Remote Workers API: poll BuildGrid for actions, and run each with buildbox-run.

    bot.py HOST:PORT NAME=VALUE,... BUILDBOX_RUN [OPTION...]

The second argument lists the bot's properties, and is also its name.

The protocol's modules come from BuildGrid's package.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import grpc
from buildgrid._protos.build.bazel.remote.execution.v2 import remote_execution_pb2 as execution
from buildgrid._protos.google.bytestream import bytestream_pb2, bytestream_pb2_grpc
from buildgrid._protos.google.devtools.remoteworkers.v1test2 import bots_pb2, bots_pb2_grpc, worker_pb2

# gRPC's codes.
_DEADLINE_EXCEEDED = 4
_INTERNAL = 13


def main(address: str, properties: str, *runner: str) -> None:
    channel = grpc.insecure_channel(address)
    bots = bots_pb2_grpc.BotsStub(channel)
    worker = worker_pb2.Worker(devices=[worker_pb2.Device(handle="cpu")])
    for each in properties.split(","):
        key, _, value = each.partition("=")
        worker.devices[0].properties.add(key=key, value=value)
    session = bots_pb2.BotSession(bot_id=f"{socket.gethostname()} {properties}", status=bots_pb2.OK, worker=worker)
    session = bots.CreateBotSession(bots_pb2.CreateBotSessionRequest(parent="", bot_session=session), timeout=60)
    while True:
        for lease in session.leases:
            if lease.state == bots_pb2.PENDING:
                lease.state = bots_pb2.ACTIVE
            elif lease.state == bots_pb2.ACTIVE:
                work(channel, address, properties, runner, lease)
            elif lease.state == bots_pb2.CANCELLED:
                lease.state = bots_pb2.COMPLETED
        try:
            request = bots_pb2.UpdateBotSessionRequest(name=session.name, bot_session=session)
            session = bots.UpdateBotSession(request, timeout=30)
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.DEADLINE_EXCEEDED:
                raise


def work(channel: grpc.Channel, address: str, name: str, runner: tuple[str, ...], lease: Any) -> None:
    """Run the lease's action, and put its result into the lease."""
    with tempfile.TemporaryDirectory() as folder:
        action, result = Path(folder, "action"), Path(folder, "result")
        wanted = action_of(channel, lease)
        action.write_bytes(wanted.SerializeToString())
        options = ("--disable-localcas", f"--remote=http://{address}", f"--workspace-path={folder}")
        command = [*runner, *options, f"--action={action}", f"--action-result={result}"]
        began = time.monotonic()
        done = subprocess.run(command, capture_output=True)
        late = wanted.HasField("timeout") and time.monotonic() - began >= wanted.timeout.ToNanoseconds() / 1e9
        ended = execution.ActionResult()
        if done.returncode:
            lease.status.code = _DEADLINE_EXCEEDED if late else _INTERNAL
            lease.status.message = done.stderr[-500:].decode(errors="replace")
        else:
            ended.ParseFromString(result.read_bytes())
            ended.execution_metadata.worker = name
    lease.result.Pack(ended)
    lease.state = bots_pb2.COMPLETED


def action_of(channel: grpc.Channel, lease: Any) -> Any:
    """A lease names its action, or contains it."""
    action = execution.Action()
    if lease.payload.Is(execution.Action.DESCRIPTOR):
        lease.payload.Unpack(action)
        return action
    digest = execution.Digest()
    lease.payload.Unpack(digest)
    name = f"blobs/{digest.hash}/{digest.size_bytes}"
    blobs = bytestream_pb2_grpc.ByteStreamStub(channel).Read(bytestream_pb2.ReadRequest(resource_name=name))
    action.ParseFromString(b"".join(part.data for part in blobs))
    return action


if __name__ == "__main__":
    main(*sys.argv[1:])
