"""A program as text, with a table of its partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from modelbuild.wording import count

_HEAD = ("#", "backend", "nodes", "bytes", "device", "sha256", "contents")
_DIGITS = 12


def lines(facts: Mapping[str, Any], every_node: bool) -> Iterator[str]:
    """Yield the lines. Nodes outside partitions are counted by operator unless `every_node`."""
    yield f"{facts['path']}: {facts['bytes']:,} bytes"
    for data in facts["data"]:
        yield f"with {data['path']}: {data['bytes']:,} bytes"
    yield from _origin(facts["device"], facts["versions"])
    if facts["left"] is not None:
        yield _compared(facts["compared"])
    for library in facts["kernels"]:
        yield f"needs the kernel library {library['library']} for {', '.join(library['operators'])}"
    for method in facts["methods"]:
        yield f"method {method['name']}, {method['planned_bytes']:,} bytes of activations"
        for name in ("input", "output"):
            for port in method[f"{name}s"]:
                yield f"  {name:<6} {port['name']}: {_port(port)}"
        yield from _partitions(method["partitions"])
        if method["operators"]:
            calls = ", ".join(f"{name} {n}" for name, n in method["operators"].items())
            yield f"  kernels outside partitions, calls of each: {calls}"
    if facts["left"] is not None:
        yield from _left(facts["left"], every_node)


def _compared(calls: int | None) -> str:
    """Return whether the program was run and compared with its model when it was built."""
    return f"compared with its model on {count(calls, 'call')}" if calls else "not compared with its model"


def _origin(device: Mapping[str, Any] | None, versions: Mapping[str, str]) -> Iterator[str]:
    """Yield the device that the program was compiled for, and the versions that it was made with, as far as known."""
    if device is not None:
        gpu = " or ".join(device["compute_capabilities"])
        yield f"for {device['os']} on {device['arch']}" + (f" with a GPU of compute capability {gpu}" if gpu else "")
    if versions:
        yield "made with " + ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))


def _partitions(partitions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not partitions:
        yield "  no partitions: kernels compute everything"
        return
    rows = [_HEAD, *(_row(each) for each in partitions)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    for row, partition in zip(rows, [None, *partitions], strict=True):
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        if partition is not None:
            yield from _arguments(partition)


def _row(partition: Mapping[str, Any]) -> tuple[str, ...]:
    id = f" {partition['id']}" if partition["id"] else ""
    blob = partition["blob"] or {"summary": _about(partition["about"])}
    return (
        f"{partition['index']}{id}",
        partition["backend"],
        "" if partition["nodes"] is None else str(partition["nodes"]),
        f"{partition['bytes']:,}" + (f" + {partition['named_bytes']:,}" if partition["named_bytes"] else ""),
        partition["target_device"] or "",
        (partition["sha256"] or "")[:_DIGITS],
        blob.get("problem") or blob["summary"],
    )


def _about(about: Mapping[str, Any] | None) -> str:
    return "; ".join(f"{name} {_shown(value)}" for name, value in (about or {}).items())


def _shown(value: Any) -> str:
    """Return a list of plain values as text, and a list of tables as their count."""
    if not isinstance(value, list):
        return str(value)
    return str(len(value)) if any(isinstance(each, dict) for each in value) else ", ".join(map(str, value))


def _arguments(partition: Mapping[str, Any]) -> Iterator[str]:
    """Yield the arguments of a delegate if its blob names them."""
    blob = partition["blob"] or {}
    names = [("in ", name) for name in blob.get("inputs", ())] + [("out", name) for name in blob.get("outputs", ())]
    if len(names) == len(partition["arguments"]):
        for (way, name), value in zip(names, partition["arguments"], strict=True):
            yield f"       {way} {name}: {_port(value)}"


def _port(port: Mapping[str, Any]) -> str:
    if port["kind"] != "tensor":
        return f"{port['kind']}" + ("" if port["constant"] is None else f" = {port['constant']!r}")
    bounded = "<=" if port.get("bounded") else ""
    sizes = ", ".join(bounded + str(_size(size)) for size in port["shape"])
    where = "" if port["device"] == "cpu" else f" on {port['device']}"
    return f"{port['dtype']}[{sizes}]{where}"


def _size(size: Any) -> str:
    if isinstance(size, int):
        return str(size)
    return f"{size['name']}={size['min']}..{size['max']}" if size["name"] else f"{size['min']}..{size['max']}"


def _left(nodes: Sequence[Mapping[str, Any]], every_node: bool) -> Iterator[str]:
    yield f"outside partitions: {count(len(nodes), 'node')}"
    counts = Counter((node["name"] if every_node else "", node["op"], node["backend"], _why(node)) for node in nodes)
    for (name, op, backend, why), number in sorted(counts.items(), key=lambda item: (-item[1], item[0][1])):
        what = f"{name} ({op})" if name else f"{number} {op}"
        yield f"  {what}, {backend}" + (f": {why}" if why else "")


def _why(node: Mapping[str, Any]) -> str:
    return "; ".join(f"{refused['backend']} refused it: {refused['why']}" for refused in node["refused"])
