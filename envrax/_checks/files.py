"""Checks of files that are replaced, and names of files that are not complete yet."""

import os
import stat
import time
import uuid
from contextlib import suppress
from glob import escape
from pathlib import Path

HOUR = 3600.0  # seconds


def require_replaceable(who: str, path: Path) -> int | None:
    """
    The permissions of the file at a path, which the next one gets too; None if there is none.

    Raises
    ------
    FileExistsError
        If the path is that of a folder, a pipe, a device or a read-only file.
    """
    if not path.exists():
        return None
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) and mode & 0o222 and os.access(path, os.W_OK)):
        raise FileExistsError(
            f"{who}: expected a new path, or that of a file that may be written; got {path}, which "
            f"is there with the mode {stat.filemode(mode)}. Choose another path."
        )
    return stat.S_IMODE(mode)


def temporary_path(path: Path) -> Path:
    """
    A hidden name beside a path, which no other call uses.

    Those that killed processes left, and nobody wrote to for an hour, are removed.
    """
    name = os.fsdecode(os.fsencode(path.name)[:200])  # a name has at most 255 bytes
    remove_abandoned(path.parent, f".{escape(name)}.{'?' * 32}.part", HOUR)
    return path.with_name(f".{name}.{uuid.uuid4().hex}.part")


def remove_abandoned(folder: Path, pattern: str, age: float) -> None:
    """Remove the files of this pattern that nobody wrote to for `age` seconds."""
    for left in folder.glob(pattern):
        with suppress(OSError):  # another process has finished, or it is somebody else's
            if left.stat().st_mtime < time.time() - age:
                left.unlink()
