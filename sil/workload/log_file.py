"""The bytes of a log, plain or packed with gzip."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from sil.workload.job_log import BadLog

GZIP = b"\x1f\x8b"
"""With which a gzip file begins."""


def read_bytes(path: Path) -> bytes:
    """Unpacked, whatever its name says. Raises BadLog for a file that cannot be read, or is damaged."""
    is_named_so = path.suffix.lower() == ".gz"
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if is_named_so or data.startswith(GZIP) else data
    except FileNotFoundError:
        raise BadLog(f"{path}: there is no such file") from None
    except EOFError:
        raise BadLog(f"{path}: the gzip file was cut off: its end is missing; fetch it again") from None
    except (gzip.BadGzipFile, zlib.error):
        why = "the name ends in .gz, but it is no gzip file, or" if is_named_so else "it is a gzip file, and"
        raise BadLog(f"{path}: {why} a damaged one") from None
    except OSError as error:
        raise BadLog(f"{path}: the file cannot be read: {error.strerror}") from None


def write_bytes(path: Path, data: bytes) -> None:
    """Packed where the name ends in .gz; the same data gives the same file. Raises BadLog."""
    try:
        path.write_bytes(gzip.compress(data, mtime=0) if path.suffix.lower() == ".gz" else data)
    except OSError as error:
        raise BadLog(f"{path}: the file cannot be written: {error.strerror}") from None


def shown(line: str) -> str:
    """A line, short and harmless enough to stand in a message."""
    text = "".join(c if c.isprintable() else "?" for c in line.strip())
    return f"'{text}'" if len(text) <= 60 else f"'{text[:57]}...'"
