"""Access to files of others. Those that users give are opened, decompressed, decoded, and bounded in the
memory that they may take; results, whose folder may come from somebody else, are written, and opened again.

The first bytes of a file say whether it is compressed, not its name. What is read counts as it is
decompressed, so that a small file cannot fill the memory. A byte order mark says that a text is UTF-16 or
UTF-32. Readers open a file several times; a pipe, which can be read only once, is kept in memory for them.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shlex
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from errno import EINVAL
from functools import partial
from pathlib import Path
from typing import cast

from scheduler import UserError
from site_db.files.formats import (
    DAMAGED,
    ELSE_LATIN_1,
    AsUtf8,
    compression_of,
    encoding_of,
    unmarked_encoding,
    without_suffix,
)
from site_db.files.input_errors import InvalidFile

VARIABLE = "SIL_INPUT_MEMORY_MB"
"""The environment variable with the limit, in megabytes (10^6 bytes)."""
DEFAULT_MB = 4096
OF_JSON = 24.0
"""The most memory, in bytes, that a byte of JSON takes as objects."""
_MB = 1e6


def most_bytes() -> float:
    """The limit. Raises UserError if the environment variable is not a number above 0."""
    text = os.environ.get(VARIABLE, "").strip() or str(DEFAULT_MB)
    if not (text.isascii() and text.isdigit() and len(text) <= 12 and int(text) > 0):
        raise UserError(
            f"the environment variable {VARIABLE} is '{text}'; expected a whole number of megabytes above 0, "
            f"like {DEFAULT_MB}"
        )
    return int(text) * _MB


class Memory:
    """The memory that `what` takes, by estimate, as it grows."""

    def __init__(self, what: object) -> None:
        self._what = what
        self._taken, self._most = 0.0, most_bytes()

    def take(self, n_bytes: float) -> None:
        """Raise InvalidFile if that is more than there may be."""
        self._taken += n_bytes
        if self._taken > self._most:
            raise InvalidFile(
                f"{self._what}: this takes {amount(self._taken)} of memory or more, by estimate, and inputs "
                f"may take {amount(self._most)}; give less, or a greater number of megabytes in the "
                f"environment variable {VARIABLE}"
            )


def amount(n_bytes: float) -> str:
    """An amount of memory in megabytes, or a greater unit."""
    for unit in ("MB", "GB", "TB", "PB"):
        n_bytes /= 1000 if unit != "MB" else _MB
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
    return f"{n_bytes:,.0f} PB"


LINES = 1024
"""The part of the memory that an input may take which a line may take."""
_BUFFER = 2**17


def read_bytes(path: Path, each: float = 1.0) -> bytes:
    """The content of a file, of which each byte takes `each` bytes when it is parsed. Raises InvalidFile."""
    with _reading(path), _open(path, each) as file:
        return file.read()


def beginning(path: Path, size: int) -> bytes:
    """The first bytes of a file, which say what it is. Raises InvalidFile."""
    with _reading(path), _open(path) as file:
        return file.read(size)


def read_text(path: Path, each: float = 4.0) -> str:
    """The text of a file, with line ends as `\\n`; as `read_bytes`. Raises InvalidFile."""
    data = read_bytes(path, each)
    try:
        # Some editors begin a file with a byte order mark; "-sig" removes it.
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidFile(
            f"{path}, line {line}: the file is not UTF-8 text; {_converted(path, 'LATIN1')}"
        ) from None
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

    Bytes that are not UTF-8 count as Latin-1: one odd job name must not cost a year of jobs.
    Raises InvalidFile if the file cannot be opened or, while lines are consumed, read.
    """
    with _reading(path):
        file = _open(path)
    with io.TextIOWrapper(file, encoding="utf-8-sig", errors=ELSE_LATIN_1) as text:
        yield _lines(text, path)


def digest(path: Path) -> str:
    """The SHA-256 sum of a file as it is, compressed or not. Raises InvalidFile."""
    with _reading(path), io.BufferedReader(_Bounded(_raw(path), path, 1.0), _BUFFER) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def forget_pipes() -> None:
    """Forget pipes: what is read from them afterwards is new."""
    _pipes.clear()


class _Bounded(io.RawIOBase):
    """A file that is read only up to the memory that an input may take."""

    def __init__(
        self,
        file: io.BufferedIOBase | io.RawIOBase,
        path: Path,
        each: float,
        raw: io.BufferedIOBase | None = None,
    ) -> None:
        """`raw` is the file itself, if `file` is not."""
        self._file, self._each, self._raw = file, each, raw
        self._memory = Memory(path)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        n = self._file.readinto(buffer)
        self._memory.take(self._each * n)
        return int(n)

    def close(self) -> None:
        self._file.close()
        if self._raw is not None:
            self._raw.close()
        super().close()


_pipes: dict[str, bytes] = {}
"""What was read from files that can be read only once."""


def _raw(path: Path) -> io.BufferedReader:
    name = str(path)
    if name not in _pipes:
        mode = path.stat().st_mode
        is_stdin = stat.S_ISCHR(mode) and path.samefile("/dev/stdin")
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISDIR(mode) or is_stdin):
            raise InvalidFile(f"{path}: this is a device or a socket; expected a file or a pipe")
        raw = path.open("rb")
        if stat.S_ISREG(mode):
            return raw
        with io.BufferedReader(_Bounded(raw, path, 1.0), _BUFFER) as pipe:
            _pipes[name] = pipe.read()
    return io.BufferedReader(io.BytesIO(_pipes[name]))


def _open(path: Path, each: float = 1.0) -> io.BufferedReader:
    raw = content = _raw(path)
    compression = compression_of(raw)
    if compression is not None:
        if compression.decompressed is None:
            raw.close()
            raise InvalidFile(f"{path}: {compression.advice(path)}")
        content = io.BufferedReader(cast(io.RawIOBase, compression.decompressed(raw)), _BUFFER)
        if (inside := compression_of(content)) is not None:
            raise InvalidFile(f"{path}: {compression.advice(path, inside)}")
    if (unmarked := unmarked_encoding(content)) is not None:
        raise InvalidFile(f"{path}: the text is in the encoding {unmarked}; {_converted(path, unmarked)}")
    encoding = encoding_of(content)
    file = content if encoding is None else AsUtf8(content, encoding)
    return io.BufferedReader(_Bounded(file, path, each, raw), _BUFFER)


def _converted(path: Path, encoding: str) -> str:
    command = f"iconv -f {encoding} -t UTF-8 {shlex.quote(str(path))}"
    return f"convert it, as with: {command} > utf8-{shlex.quote(without_suffix(path).name)}"


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
    except DAMAGED as error:
        raise _not_decompressed(path, error) from None
    except OSError as error:
        if error.errno is None:
            raise _not_decompressed(path, error) from None
        raise InvalidFile(f"{path}: the file cannot be read: {error.strerror}") from None
    except ValueError:
        if "\0" not in str(path):
            raise
        raise InvalidFile(f"{path}: the file cannot be read: its name has a NUL character") from None


def _not_decompressed(path: Path, error: Exception) -> InvalidFile:
    with _raw(path) as raw:
        compression = compression_of(raw)
    assert compression is not None, error
    if "too much memory" in str(error):
        return InvalidFile(f"{path}: {compression.advice(path)}")
    is_cut = isinstance(error, EOFError) or "truncated" in str(error).lower()
    what = "truncated" if is_cut else "damaged"
    return InvalidFile(f"{path}: the {compression.name} file is {what}; fetch it again")


def no_link(path: Path) -> Path:
    """The path, at which there is no symbolic link and no pipe any more: a folder of results may come from
    another user, and writing there must change no file elsewhere, and not wait for a reader."""
    if path.is_symlink() or path.is_fifo():
        path.unlink()
    return path


def regular(path: Path) -> Path:
    """The path, at which there is no pipe or device, for which a reader would wait without a limit. Raises
    OSError."""
    if path.exists() and not path.is_file():
        raise OSError(EINVAL, "it is not a regular file", str(path))
    return path


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file, compressed if its name ends in .gz; equal data gives equal files. Raises InvalidFile."""
    try:
        path.write_bytes(gzip.compress(data, mtime=0) if path.suffix.lower() == ".gz" else data)
    except OSError as error:
        raise InvalidFile(f"{path}: the file cannot be written: {error.strerror}") from None
