"""The C++ runtime from Python: libmodelbuild_runtime through its C API (runtime/include/modelbuild/runtime.h)."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from modelbuild_runtime.errors import InputError, ProgramError

HOST = -1
LIBRARY = "libmodelbuild_runtime.so"
_INPUT = 2  # MB_ERROR_INPUT
_PROFILES = 2  # the first MB_API_VERSION with mb_take_profile
_KEYS = 3  # the first with mb_load_options.keys
_THREADS = 4  # the first with mb_load_options.threads
_LOG = logging.getLogger("modelbuild_runtime")
_LEVELS = (logging.DEBUG, logging.INFO, logging.ERROR, logging.CRITICAL)
_INFO = 1  # MB_LOG_INFO
_SINK = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t, ctypes.c_void_p)


class Tensor(ctypes.Structure):
    """mb_tensor"""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("device", ctypes.c_int32),
    )


class LoadOptions(ctypes.Structure):
    """mb_load_options"""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("data", ctypes.POINTER(ctypes.c_char_p)),
        ("data_count", ctypes.c_size_t),
        ("plugins", ctypes.POINTER(ctypes.c_char_p)),
        ("plugin_count", ctypes.c_size_t),
        ("plugin_dirs", ctypes.POINTER(ctypes.c_char_p)),
        ("plugin_dir_count", ctypes.c_size_t),
        ("skip_verify", ctypes.c_int32),
        ("profile", ctypes.c_int32),
        ("keys", ctypes.POINTER(ctypes.c_char_p)),
        ("key_count", ctypes.c_size_t),
        ("threads", ctypes.c_int32),
    )


class RunOptions(ctypes.Structure):
    """mb_run_options"""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("use_stream", ctypes.c_int32),
        ("stream", ctypes.c_void_p),
        ("outputs", ctypes.POINTER(Tensor)),
        ("output_count", ctypes.c_size_t),
        ("cuda_graph", ctypes.c_int32),
    )


class Transfers(ctypes.Structure):
    """mb_transfers"""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("staged_in", "staged_out", "copied_in", "copied_out"))


class GraphCounts(ctypes.Structure):
    """mb_graph_counts"""

    _fields_ = (("recorded", ctypes.c_uint64), ("replayed", ctypes.c_uint64))


def library_file(runtime: Path) -> Path:
    """Return the library at a path: the file itself, or the library in the folder. Raises ProgramError if there is
    none."""
    candidates = (runtime, runtime / LIBRARY, runtime / "lib" / LIBRARY)
    found = next((path for path in candidates if path.is_file()), None)
    if found is None:
        raise ProgramError(f"{runtime}: no {LIBRARY} there; `make runtime` builds it")
    return found.resolve()


_IN_PROCESS: list[Path] = []


def library_in_process() -> Path | None:
    """Return the library that this process loaded; None if it loaded none. A second library is refused, because it
    would share ExecuTorch's library, its log and its registered kernels with the first."""
    return next(iter(_IN_PROCESS), None)


@cache
def _opened(path: Path) -> ctypes.CDLL:
    if first := library_in_process():
        raise ProgramError(f"{path}: this process has another runtime already; expected {first}")
    # A bundle has its own libstdc++, but other libraries in this process expect the machine's libstdc++, if there is
    # one.
    with contextlib.suppress(OSError):
        ctypes.CDLL("libstdc++.so.6")
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ProgramError(f"{path}: cannot be loaded: {error}") from None
    texts = ("mb_last_error", "mb_program_json", "mb_output_name")
    if not all(hasattr(library, name) for name in texts):
        raise ProgramError(f"{path}: is not the C++ runtime; expected {LIBRARY}")
    for name in texts:
        getattr(library, name).restype = ctypes.c_char_p
    library.mb_output_count.restype = ctypes.c_size_t
    library.mb_device_free.argtypes = (ctypes.c_int32, ctypes.c_void_p)
    library.mb_device_allocate.argtypes = (ctypes.c_int32, ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p))
    library.mb_copy.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32)
    library.mb_set_log(_INFO, _log, None)
    _IN_PROCESS.append(path)
    return library


def _log_message(level: int, text: Any, size: int, _user: Any) -> None:
    _LOG.log(_LEVELS[level], "%s", ctypes.string_at(text, size).decode(errors="replace"))


_log = _SINK(_log_message)  # must outlive the library


def _load_options(
    data: Sequence[Path],
    verify: bool,
    plugin_dirs: Sequence[Path],
    profile: bool,
    keys: Sequence[Path],
    threads: int = 0,
) -> LoadOptions:
    return LoadOptions(
        ctypes.sizeof(LoadOptions),
        data=_paths(data),
        data_count=len(data),
        plugin_dirs=_paths(plugin_dirs),
        plugin_dir_count=len(plugin_dirs),
        skip_verify=not verify,
        profile=profile,
        keys=_paths(keys) if keys else None,
        key_count=len(keys),
        threads=threads,
    )


def _paths(paths: Sequence[Path]) -> Any:
    return (ctypes.c_char_p * len(paths))(*(os.fsencode(path) for path in paths))


def check(library: ctypes.CDLL, status: int) -> None:
    """Raise the library's last error, as InputError or ProgramError, for a status that is not 0."""
    if status:
        message = library.mb_last_error().decode(errors="replace")
        raise (InputError if status == _INPUT else ProgramError)(message)


class Handle:
    """A program that the library has loaded. Errors are raised as InputError or ProgramError."""

    def __init__(
        self,
        library: Path,
        pte: Path,
        data: Sequence[Path],
        verify: bool = True,
        plugin_dirs: Sequence[Path] = (),
        profile: bool = False,
        keys: Sequence[Path] = (),
        threads: int = 0,
    ) -> None:
        self._library = _opened(library)
        if profile and self._library.mb_api_version() < _PROFILES:
            raise ProgramError(f"{library}: this runtime records no profile; expected a newer one")
        if keys and self._library.mb_api_version() < _KEYS:
            raise ProgramError(f"{library}: this runtime verifies no signatures; expected a newer one")
        if threads and self._library.mb_api_version() < _THREADS:
            raise ProgramError(f"{library}: this runtime has a thread per core; expected a newer one")
        self._program = ctypes.c_void_p()
        self._pte, self._files = pte, (tuple(data), tuple(plugin_dirs), tuple(keys))
        options = _load_options(data, verify, plugin_dirs, profile, keys, threads)
        self._check(
            self._library.mb_load(os.fsencode(pte), ctypes.byref(options), ctypes.byref(self._program)),
        )

    def __del__(self) -> None:
        if getattr(self, "_program", None):
            self._library.mb_unload(self._program)

    def unmet_requirements(self) -> list[str]:
        """Return the program's requirements that this machine does not meet."""
        text = ctypes.c_char_p()
        data, plugin_dirs, keys = self._files
        options = _load_options(data, False, plugin_dirs, False, keys)
        self._check(self._library.mb_check(os.fsencode(self._pte), ctypes.byref(options), ctypes.byref(text)))
        try:
            return (text.value or b"").decode(errors="replace").splitlines()
        finally:
            self._library.mb_free(text)

    def run(self, method: str, inputs: Sequence[Tensor], options: RunOptions) -> None:
        given = (Tensor * len(inputs))(*inputs)
        options.struct_size = ctypes.sizeof(RunOptions)
        count = ctypes.c_size_t(len(inputs))
        self._check(self._library.mb_run(self._program, method.encode(), given, count, ctypes.byref(options)))

    def output(self, index: int) -> Tensor:
        """Return an output of the last run; its memory is valid until the next run."""
        tensor = Tensor()
        self._check(self._library.mb_output(self._program, ctypes.c_size_t(index), ctypes.byref(tensor)))
        return tensor

    def copy(self, to: int, tensor: Tensor, size: int) -> None:
        """Copy a tensor's bytes to host memory, after all work on the default stream."""
        if tensor.device == HOST:
            ctypes.memmove(to, tensor.data, size)
        else:
            self._check(self._library.mb_copy(to, tensor.data, size, tensor.device))

    def transfers(self) -> Transfers:
        found = Transfers()
        self._library.mb_last_transfers(self._program, ctypes.byref(found))
        return found

    def graph_counts(self) -> GraphCounts:
        found = GraphCounts()
        self._library.mb_count_graphs(self._program, ctypes.byref(found))
        return found

    def take_profile(self) -> str:
        """Return the events of the runs since the last call, as JSON, and forget them."""
        text = ctypes.c_char_p()
        self._check(self._library.mb_take_profile(self._program, ctypes.byref(text)))
        try:
            return (text.value or b"").decode()
        finally:
            self._library.mb_free(text)

    def _check(self, status: int) -> None:
        check(self._library, status)
