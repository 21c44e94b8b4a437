"""Convert action results to messages of the Remote Execution API and back, strictly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modelbuild.actions import ActionResult, Digest, FileEntry, Tree, Value
from modelbuild.paths import check_apart, check_path
from modelbuild.remote.messages import message
from modelbuild.remote.problems import RemoteProblem
from modelbuild.store.digests import digest_bytes

# Part of each Action, so that its digest differs from other clients' digests in the same cache.
SALT = b"modelbuild/1"

# Limits for a folder's description, its number of files, and bytes of their paths. A small description can stand for a
# huge folder, because it contains a repeated part only once.
MAX_TREE = 64 << 20
MAX_FILES = 200_000
_MAX_PATHS = 32 << 20
_MAX_DEPTH = 200
_DEEP = "a folder that is too deep"

Blobs = dict[Digest, bytes]


def action_of(key: str) -> tuple[Digest, Blobs]:
    """Return the digest of the Action that represents a key, and the blobs that servers expect for an Action.

    The key covers the action's contents already, so a lookup needs neither a command line nor an input tree.
    """
    blobs: Blobs = {}
    command = keep(message("Command")(arguments=["modelbuild", key]), blobs)
    root = keep(message("Directory")(), blobs)
    action = message("Action")(
        command_digest=to_message(command), input_root_digest=to_message(root), salt=SALT + b"\0" + key.encode()
    )
    return keep(action, blobs), blobs


def encode(result: ActionResult) -> tuple[Any, Blobs]:
    """Return an ActionResult message, and the descriptions of its folders. Output paths are the outputs' names."""
    blobs: Blobs = {}
    made = message("ActionResult")()
    for name, value in result.outputs:
        if isinstance(value, FileEntry):
            made.output_files.add(path=name, digest=to_message(value.digest), is_executable=value.executable)
        else:
            made.output_directories.add(path=name, tree_digest=to_message(keep(tree_message(value, blobs), blobs)))
    for field, digest in (("stdout_digest", result.stdout), ("stderr_digest", result.stderr)):
        if digest is not None:
            getattr(made, field).CopyFrom(to_message(digest))
    made.execution_metadata.virtual_execution_duration.FromNanoseconds(round(result.seconds * 1e9))
    made.execution_metadata.auxiliary_metadata.add().Pack(message("google.protobuf.UInt64Value")(value=result.max_rss))
    return made, blobs


def decode(
    found: Any, declared: Iterable[tuple[str, str]], read: Callable[[list[Digest]], Mapping[Digest, bytes]]
) -> ActionResult:
    """Decode a message of encode(). `declared`: name and kind ('file', 'tree') of each output of the action, in order.
    `read` returns checked blobs. Raises RemoteProblem 'wrong' for an invalid message."""
    try:
        if found.exit_code != 0:
            raise ValueError(f"exit code {found.exit_code}")
        trees = {d.path: from_message(d.tree_digest) for d in found.output_directories}
        if any(digest.size > MAX_TREE for digest in trees.values()):
            raise ValueError("the description of a folder is too big")
        blobs = read(list(trees.values()))
        values: dict[str, Value] = {name: tree_value(blobs[digest]) for name, digest in trees.items()}
        values |= {f.path: FileEntry(from_message(f.digest), f.is_executable) for f in found.output_files}
        kinds = [(name, "file" if isinstance(values.get(name), FileEntry) else "tree") for name in values]
        if sorted(kinds) != sorted(declared):
            raise ValueError(f"outputs {sorted(kinds)}; expected {sorted(declared)}")
        metadata = found.execution_metadata
        return ActionResult(
            tuple((name, values[name]) for name, _ in declared),
            _optional(found, "stdout_digest"),
            _optional(found, "stderr_digest"),
            max(0.0, metadata.virtual_execution_duration.ToNanoseconds() / 1e9),
            _max_rss(metadata.auxiliary_metadata),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise RemoteProblem("wrong", f"an action result that cannot be right: {error}") from None


def tree_message(tree: Tree, blobs: Blobs) -> Any:
    """Return a folder as a Tree message: directories sorted by name, without duplicates. Each directory is also added
    to `blobs`: some servers consider a result incomplete without them."""
    made = message("Tree")()
    children: Blobs = {}
    made.root.CopyFrom(directory(tree, children))
    for data in children.values():
        made.children.add().ParseFromString(data)
    blobs |= children
    keep(made.root, blobs)
    return made


def directory(tree: Tree, blobs: Blobs) -> Any:
    """Return a folder as a Directory message; subfolders are added to `blobs`."""
    made = message("Directory")()
    below: dict[str, list[tuple[str, FileEntry]]] = {}
    for path, entry in tree.files:
        name, slash, rest = path.partition("/")
        if slash:
            below.setdefault(name, []).append((rest, entry))
        else:
            made.files.add(name=name, digest=to_message(entry.digest), is_executable=entry.executable)
    made.files.sort(key=lambda node: node.name.encode())
    for name in sorted(below, key=str.encode):
        digest = keep(directory(Tree(tuple(below[name])), blobs), blobs)
        made.directories.add(name=name, digest=to_message(digest))
    return made


def tree_value(data: bytes) -> Tree:
    """Decode a folder from a serialized Tree message. Raises ValueError."""
    from google.protobuf.message import DecodeError

    try:
        tree = message("Tree").FromString(data)
    except DecodeError:
        raise ValueError("the description of a folder is not a Tree") from None
    known = {digest_bytes(child.SerializeToString(deterministic=True)): child for child in tree.children}
    files = sorted(_files(_folder(tree.root, known, {}, 0), ""))
    check_apart(check_path(path) for path, _ in files)
    return Tree(tuple(files))


@dataclass(frozen=True, slots=True)
class _Folder:
    """A directory of a Tree message: its files, its folders that contain files, the number of files and bytes of paths
    in it, and its depth."""

    files: Sequence[tuple[str, FileEntry]]
    folders: Sequence[tuple[str, _Folder]]
    count: int
    size: int
    height: int


def _folder(found: Any, known: Mapping[Digest, Any], done: dict[Digest, _Folder], depth: int) -> _Folder:
    """Convert each directory once, even if repeated. Raises ValueError, also above the limits."""
    if found.symlinks:
        raise ValueError("a folder with a symbolic link")
    if depth == _MAX_DEPTH:
        raise ValueError(_DEEP)
    files = [(_name(n.name), FileEntry(from_message(n.digest), n.is_executable)) for n in found.files]
    folders = []
    for node in found.directories:
        digest = from_message(node.digest)
        if digest not in known:
            raise ValueError(f"a folder without its part {node.name[:80]!r}")
        if digest not in done:
            done[digest] = _folder(known[digest], known, done, depth + 1)
        folders.append((_name(node.name), done[digest]))
    count = len(files) + sum(folder.count for _, folder in folders)
    size = sum(len(name) for name, _ in files)
    size += sum(folder.size + folder.count * (len(name) + 1) for name, folder in folders)
    if count > MAX_FILES or size > _MAX_PATHS:
        raise ValueError("a folder of too many files")
    height = 1 + max((folder.height for _, folder in folders), default=0)
    if height > _MAX_DEPTH:
        raise ValueError(_DEEP)
    return _Folder(files, [(name, folder) for name, folder in folders if folder.count], count, size, height)


def _name(text: str) -> str:
    if "/" in text:
        raise ValueError(f"a file called {text[:80]!r}")
    return check_path(text)


def _files(folder: _Folder, prefix: str) -> Iterator[tuple[str, FileEntry]]:
    for name, entry in folder.files:
        yield prefix + name, entry
    for name, below in folder.folders:
        yield from _files(below, f"{prefix}{name}/")


def keep(made: Any, blobs: Blobs) -> Digest:
    """Serialize a message into `blobs`."""
    data = made.SerializeToString(deterministic=True)
    digest = digest_bytes(data)
    blobs[digest] = data
    return digest


def to_message(digest: Digest) -> Any:
    return message("Digest")(hash=digest.hash, size_bytes=digest.size)


def from_message(found: Any) -> Digest:
    """Raise ValueError for anything but a SHA-256 and a size."""
    if len(found.hash) != 64 or not set(found.hash) <= set("0123456789abcdef") or found.size_bytes < 0:
        raise ValueError(f"{found.hash[:80]!r} is not a SHA-256")
    return Digest(found.hash, found.size_bytes)


def _optional(found: Any, field: str) -> Digest | None:
    return from_message(getattr(found, field)) if found.HasField(field) else None


def _max_rss(notes: Iterable[Any]) -> int:
    number = message("google.protobuf.UInt64Value")()
    return next((number.value for note in notes if note.Unpack(number)), 0)
