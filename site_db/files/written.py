"""Files of results, which may come from somebody else, and logs: how they are written, and opened again."""

from __future__ import annotations

import gzip
from errno import EINVAL
from pathlib import Path

from site_db.files.input_errors import InvalidFile


def no_link(path: Path) -> Path:
    """The path, at which there is no symbolic link and no pipe any more: a folder of results may come from
    somebody else, and writing there must change no file elsewhere, and not wait for a reader."""
    if path.is_symlink() or path.is_fifo():
        path.unlink()
    return path


def regular(path: Path) -> Path:
    """The path, at which there is no pipe or device, for which a reader would wait without a limit. Raises
    OSError."""
    if path.exists() and not path.is_file():
        raise OSError(EINVAL, "it is not a regular file", str(path))
    return path


def write_log(path: Path, data: bytes) -> None:
    """Write a log, compressed if its name ends in .gz; equal data gives equal files. Raises InvalidFile."""
    try:
        path.write_bytes(gzip.compress(data, mtime=0) if path.suffix.lower() == ".gz" else data)
    except OSError as error:
        raise InvalidFile(f"{path}: the file cannot be written: {error.strerror}") from None
