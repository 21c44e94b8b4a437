"""Values and action results as JSON. Decoding is strict: it rejects anything that encoding cannot produce."""

from __future__ import annotations

import itertools
import json
import math
import re
from typing import Any

from modelbuild.actions import ActionResult, Digest, FileEntry, Tree, Value
from modelbuild.paths import check_apart, check_path

_HASH = re.compile(r"[0-9a-f]{64}\Z")


def encode_value(value: Value) -> list[Any]:
    """Encode a file as ["file", hash, size, executable], a folder as ["tree", [[path, hash, size, executable],
    ...]]."""
    if isinstance(value, FileEntry):
        return ["file", *_file(value)]
    return ["tree", [[path, *_file(entry)] for path, entry in sorted(value.files)]]


def encode_result(result: ActionResult) -> str:
    """Encode a result as one line of JSON."""
    return json.dumps(
        {
            "outputs": [[name, encode_value(value)] for name, value in result.outputs],
            "stdout": _digest(result.stdout),
            "stderr": _digest(result.stderr),
            "seconds": result.seconds,
            "max_rss": result.max_rss,
        },
        separators=(",", ":"),
    )


def decode_result(text: str) -> ActionResult:
    """Decode the text of encode_result. Raises ValueError for anything else, such as a path that leaves its folder."""
    try:
        data = json.loads(text)
        if set(data) != {"outputs", "stdout", "stderr", "seconds", "max_rss"}:
            raise ValueError("not the fields of an action result")
        outputs = tuple((_text(name), _read_value(value)) for name, value in data["outputs"])
        if len({name for name, _ in outputs}) != len(outputs):
            raise ValueError("an output twice")
        return ActionResult(
            outputs=outputs,
            stdout=_read_digest(data["stdout"]),
            stderr=_read_digest(data["stderr"]),
            seconds=_seconds(data["seconds"]),
            max_rss=_size(data["max_rss"]),
        )
    except (TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"not an action result: {error}") from error


def blobs_of(result: ActionResult) -> set[Digest]:
    """Return the digests of all blobs of a result."""
    found = {digest for digest in (result.stdout, result.stderr) if digest is not None}
    for _, value in result.outputs:
        if isinstance(value, FileEntry):
            found.add(value.digest)
        else:
            found.update(entry.digest for _, entry in value.files)
    return found


def _file(entry: FileEntry) -> tuple[str, int, bool]:
    return entry.digest.hash, entry.digest.size, entry.executable


def _digest(digest: Digest | None) -> list[Any] | None:
    return None if digest is None else [digest.hash, digest.size]


def _read_value(data: Any) -> Value:
    kind, *rest = data
    if kind == "file":
        return _read_file(*rest)
    if kind != "tree":
        raise ValueError(f"{kind!r} is neither file nor tree")
    (rows,) = rest
    files = tuple((check_path(path), _read_file(*entry)) for path, *entry in rows)
    paths = [path for path, _ in files]
    if any(a >= b for a, b in itertools.pairwise(paths)):
        raise ValueError("a tree's paths are not sorted, or contain a duplicate")
    check_apart(paths)
    return Tree(files)


def _read_file(hash_: Any, size: Any, executable: Any) -> FileEntry:
    if not isinstance(executable, bool):
        raise ValueError(f"{executable!r} is not a truth value")
    return FileEntry(Digest(_hash(hash_), _size(size)), executable)


def _read_digest(data: Any) -> Digest | None:
    if data is None:
        return None
    hash_, size = data
    return Digest(_hash(hash_), _size(size))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    return value


def _hash(value: object) -> str:
    text = _text(value)
    if not _HASH.match(text):
        raise ValueError(f"{text!r} is not a SHA-256")
    return text


def _size(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a count of bytes")
    return value


def _seconds(value: object) -> float:
    if type(value) not in (int, float) or not math.isfinite(value) or value < 0:  # type: ignore[arg-type, operator]
        raise ValueError(f"{value!r} is not a duration")
    return float(value)  # type: ignore[arg-type]
