"""Files that are written under a temporary name, and then renamed."""

import os
import shutil
import uuid
from pathlib import Path


def temporary_path(who: str, path: Path) -> Path:
    """
    A hidden name beside a path, which no other call uses. Missing folders are made.

    Raises
    ------
    FileExistsError
        If the path is that of a folder, a pipe, a device or a read-only file.
    """
    if path.exists() and not (path.is_file() and os.access(path, os.W_OK)):
        raise FileExistsError(
            f"{who}: expected a new path, or that of a file that may be written; got {path}. "
            "Choose another path."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.with_name(f".{uuid.uuid4().hex}.part")


def put_in_place(part: Path, path: Path) -> None:
    """Rename a complete file. It takes the place of the file at `path`, with its permissions."""
    if path.exists():
        shutil.copymode(path, part)
    part.replace(path)
