"""The one way to open files of users: plain or compressed with gzip, and never larger than they may be.

What is read counts as it is decompressed, so that a small file cannot fill the memory (`memory`).
"""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

from site_db.files.given import InvalidFile
from site_db.files.memory import Memory, most_bytes

GZIP = b"\x1f\x8b"
"""The first bytes of a gzip file."""
LINES = 1024
"""A line may take this part of the memory that an input may take."""
_BUFFER = 2**17


def read_bytes(path: Path, each: float = 1.0) -> bytes:
    """The content of a file, of which each byte takes `each` bytes when it is parsed. Raises InvalidFile."""
    with _reading(path), _open(path, each) as file:
        return file.read()


def read_text(path: Path, each: float = 4.0) -> str:
    """The text of a file, with line ends as `\\n`; as `read_bytes`. Raises InvalidFile."""
    data = read_bytes(path, each)
    try:
        # Some editors begin a file with a byte order mark; "-sig" removes it.
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidFile(f"{path}, line {line}: the file is not UTF-8 text") from None
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def parts(path: Path, size: int) -> Iterator[bytes]:
    """The content in parts of about `size` bytes that end with a line, if one ends in them. Raises
    InvalidFile."""
    longest = _longest_line()
    with _reading(path), _open(path) as file:
        rest = b""
        while more := file.read(size):
            end = more.rfind(b"\n") + 1
            if end:
                yield rest + more[:end]
                rest = more[end:]
            else:
                rest += more
                if len(rest) > longest:
                    raise _too_long(path, longest)
        if rest:
            yield rest


@contextmanager
def open_lines(path: Path) -> Iterator[Iterable[str]]:
    """The lines of a file, read as they are consumed.

    Bytes that are not UTF-8 become replacement characters: one odd job name must not cost a year of jobs.
    Raises InvalidFile if the file cannot be opened or, while lines are consumed, read.
    """
    with _reading(path):
        file = _open(path)
    with io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace") as text:
        yield _lines(text, path)


def digest(path: Path) -> str:
    """The SHA-256 sum of a file as it is, compressed or not. Raises InvalidFile."""
    with _reading(path), path.open("rb") as raw:
        return hashlib.file_digest(io.BufferedReader(_Bounded(raw, path, 1.0)), "sha256").hexdigest()


class _Bounded(io.RawIOBase):
    """A file of which no more is read than an input may have."""

    def __init__(self, file: BinaryIO | gzip.GzipFile, path: Path, each: float) -> None:
        self._file, self._each = file, each
        self._memory = Memory(path)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        n = self._file.readinto(buffer)  # type: ignore[union-attr]
        self._memory.take(self._each * n)
        return int(n)

    def close(self) -> None:
        self._file.close()
        super().close()


def _open(path: Path, each: float = 1.0) -> io.BufferedReader:
    raw = path.open("rb")
    is_compressed = path.suffix.lower() == ".gz" or raw.peek(len(GZIP)).startswith(GZIP)
    file: BinaryIO | gzip.GzipFile = raw
    if is_compressed:
        file = gzip.GzipFile(fileobj=raw)
        file.myfileobj = raw  # type: ignore[assignment]  # so that it is closed, too
    return io.BufferedReader(_Bounded(file, path, each), _BUFFER)


def _lines(file: io.TextIOWrapper, path: Path) -> Iterator[str]:
    longest = _longest_line()
    # The errors are caught here and not around the caller's block, whose own OSErrors are not the file's.
    with _reading(path):
        for line in iter(partial(file.readline, longest), ""):
            if len(line) == longest and not line.endswith("\n"):
                raise _too_long(path, longest)
            yield line


def _longest_line() -> int:
    return int(most_bytes() / LINES)


def _too_long(path: Path, longest: int) -> InvalidFile:
    return InvalidFile(f"{path}: a line of it has more than {longest:,} characters; is it of another format?")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise InvalidFile(f"{path}: there is no such file") from None
    except EOFError:
        raise InvalidFile(f"{path}: the gzip file is truncated; fetch it again") from None
    except (gzip.BadGzipFile, zlib.error):
        named = path.suffix.lower() == ".gz"
        reason = (
            "the name ends in .gz, but the file is not a gzip file, or" if named else "it is a gzip file, but"
        )
        raise InvalidFile(f"{path}: {reason} a damaged one") from None
    except OSError as error:
        raise InvalidFile(f"{path}: the file cannot be read: {error.strerror}") from None
    except ValueError:
        if "\0" not in str(path):
            raise
        raise InvalidFile(f"{path}: the file cannot be read: its name has a NUL character") from None
