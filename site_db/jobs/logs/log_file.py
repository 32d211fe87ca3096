"""Log files, plain or compressed with gzip: the one way to open, read and write them."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from site_db.files.given import InvalidFile

GZIP = b"\x1f\x8b"
"""The first bytes of a gzip file."""


class BadLog(InvalidFile):
    """A log cannot be used. The message is one sentence for the user."""


def read_log(path: Path) -> bytes:
    """The decompressed content of a log. Raises BadLog."""
    with _reading(path), _open(path) as file:
        return file.read()


def parts_of_log(path: Path, size: int) -> Iterator[bytes]:
    """The decompressed content in parts of about `size` bytes that end with a line, if one ends in them.
    Raises BadLog."""
    with _reading(path), _open(path) as file:
        rest = b""
        while more := file.read(size):
            end = more.rfind(b"\n") + 1
            if end:
                yield rest + more[:end]
                rest = more[end:]
            else:
                rest += more
        if rest:
            yield rest


@contextmanager
def open_log(path: Path) -> Iterator[Iterable[str]]:
    """The lines of a log, read as they are consumed.

    Bytes that are not UTF-8 become replacement characters: one odd job name must not cost a year of jobs.
    Raises BadLog if the file cannot be opened or, while lines are consumed, read.
    """
    with _reading(path):
        file = _open(path)
    # Some editors begin a file with a byte order mark; "-sig" removes it.
    with io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace") as text:
        yield _lines(text, path)


def write_log(path: Path, data: bytes) -> None:
    """Write a log, compressed if its name ends in .gz; equal data gives equal files. Raises BadLog."""
    try:
        path.write_bytes(gzip.compress(data, mtime=0) if path.suffix.lower() == ".gz" else data)
    except OSError as error:
        raise BadLog(f"{path}: the file cannot be written: {error.strerror}") from None


def printable(line: str) -> str:
    """A line of a log, short and printable, for a message."""
    text = "".join(c if c.isprintable() else "?" for c in line.strip())
    return f"'{text}'" if len(text) <= 60 else f"'{text[:57]}...'"


def _open(path: Path) -> BinaryIO:
    raw = path.open("rb")
    if path.suffix.lower() == ".gz" or raw.peek(len(GZIP)).startswith(GZIP):
        return io.BufferedReader(gzip.GzipFile(fileobj=raw))
    return raw


def _lines(file: Iterable[str], path: Path) -> Iterator[str]:
    # The errors are caught here and not around the caller's block, whose own OSErrors are not the log's.
    with _reading(path):
        yield from file


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise BadLog(f"{path}: there is no such file") from None
    except EOFError:
        raise BadLog(f"{path}: the gzip file is truncated; fetch it again") from None
    except (gzip.BadGzipFile, zlib.error):
        named = path.suffix.lower() == ".gz"
        reason = (
            "the name ends in .gz, but the file is not a gzip file, or" if named else "it is a gzip file, but"
        )
        raise BadLog(f"{path}: {reason} a damaged one") from None
    except OSError as error:
        raise BadLog(f"{path}: the file cannot be read: {error.strerror}") from None
