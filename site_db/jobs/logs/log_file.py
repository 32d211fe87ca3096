"""Writing logs."""

from __future__ import annotations

import gzip
from pathlib import Path

from site_db.files.given import InvalidFile


def write_log(path: Path, data: bytes) -> None:
    """Write a log, compressed if its name ends in .gz; equal data gives equal files. Raises InvalidFile."""
    try:
        path.write_bytes(gzip.compress(data, mtime=0) if path.suffix.lower() == ".gz" else data)
    except OSError as error:
        raise InvalidFile(f"{path}: the file cannot be written: {error.strerror}") from None
