"""Read the outputs that a device sends: a tar archive, no byte of which is trusted."""

from __future__ import annotations

import re
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from modelbuild.devices.problems import JobProblem, cut

# Names that programs write. Excludes characters with a special meaning for a terminal or a file system.
_NAME = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9_.+-]{0,150}")
MOST_FILES = 10_000
_DEEPEST = 8


def unpack(archive: IO[bytes], folder: Path, most: int, note: Callable[[str], None]) -> int:
    """Write the files of a device's archive into an empty folder, at most `most` bytes. Returns the number of files;
    `note` gets one line if there are links or other special files, which are skipped.

    Raises JobProblem for an archive that cannot be read, for a name that leaves the folder or occurs twice, and for
    more files or bytes than allowed.
    """
    count = total = 0
    special: list[str] = []
    try:
        with tarfile.open(fileobj=archive, mode="r:") as found:
            for entry in found:
                name = entry.name.removeprefix("./")
                if entry.isdir() and name in (".", ""):
                    continue
                count += 1
                if count > MOST_FILES:
                    raise JobProblem(f"the device sent more than {MOST_FILES} files; expected the outputs of the job")
                parts = name.rstrip("/").split("/")
                if len(parts) > _DEEPEST or not all(_NAME.fullmatch(part) for part in parts):
                    raise JobProblem(f"the device sent a file called '{cut(name)[:80]}'; expected a plain name")
                path = folder.joinpath(*parts)
                if entry.isdir():
                    path.mkdir(parents=True, exist_ok=True)
                elif not entry.isreg() or entry.sparse is not None:
                    special.append(name)
                else:
                    total += entry.size
                    if entry.size < 0 or total > most:
                        raise JobProblem(f"the device sent outputs of more than {most} bytes; expected less")
                    _write(found, entry, path)
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise JobProblem(f"the device sent no readable outputs ({cut(str(error))})") from error
    except (FileExistsError, NotADirectoryError) as error:
        raise JobProblem(f"the device sent '{cut(Path(error.filename or '').name)}' twice; expected it once") from error
    if special:
        note(f"outputs that are no plain files were skipped: {len(special)}, such as {special[0]}")
    return count


def _write(archive: tarfile.TarFile, entry: tarfile.TarInfo, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    source = archive.extractfile(entry)
    assert source is not None
    with source, path.open("xb") as file:
        shutil.copyfileobj(source, file)
    if path.stat().st_size != entry.size:
        raise JobProblem("the device sent a part of its outputs; expected all")
