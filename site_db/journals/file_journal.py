"""A journal in a file."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from scheduler import UserError
from site_db.journals.chained import ChainedJournal

HEAD = b"sil journal\n"
"""The first line. Files that begin otherwise are left alone."""
_LINE = re.compile(rb"([0-9a-f]{8}) (.*)\n")


class FileJournal(ChainedJournal):
    """A file that only grows: a line for each entry, its checksum and its text.

    The last line may be incomplete, since the process or the computer stopped while it was written. Then it
    was not durable, and opening the journal removes it. One process at a time has a journal open; processes
    that it forks keep it open.
    """

    def __init__(self, path: Path) -> None:
        """Open a journal; make one if there is no such file. Raises UserError if it cannot be opened, is
        damaged, or is open already."""
        super().__init__()
        self._shown, self._path = path, path.absolute()
        self._n_incomplete = 0
        """Bytes of an incomplete last line."""
        with self._in_sentences("opened"):
            self._file = FileIO(self._path, "a+")
            try:
                self._lock()
                self._begin()
                self._check()
                self._remove_incomplete()
                os.fsync(self._file)  # a process that was killed may not have come so far
            except BaseException:
                self._file.close()
                raise

    def __str__(self) -> str:
        return str(self._shown)

    def _place(self, number: int) -> str:
        return f"{self}, line {number + 1}"

    def _close(self) -> None:
        self._file.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"{self}: the journal is open already, in this process or another one; end that one first"
            ) from None

    def _begin(self) -> None:
        with self._path.open("rb") as file:
            head = file.read(len(HEAD))
        if head == HEAD:
            return
        if not HEAD.startswith(head):
            raise UserError(f"{self}: this is no journal, which would begin with '{HEAD.decode().strip()}'")
        self._file.truncate(0)
        self._write(HEAD)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)  # which has the file's name
        finally:
            os.close(folder)

    def _remove_incomplete(self) -> None:
        if self._n_incomplete:
            self._file.truncate(self._file.seek(0, os.SEEK_END) - self._n_incomplete)

    def _stored(self) -> Iterator[tuple[int | None, bytes]]:
        with self._in_sentences("read"), self._path.open("rb") as file:
            file.seek(len(HEAD))
            for line in file:
                if not line.endswith(b"\n"):
                    self._n_incomplete = len(line)
                    return
                found = _LINE.fullmatch(line)
                yield (int(found[1], 16), found[2]) if found else (None, line)

    def _store(self, number: int, checksum: int, text: str) -> None:
        with self._in_sentences("written"):
            self._write(f"{checksum:08x} {text}\n".encode("ascii"))

    def _write(self, line: bytes) -> None:
        """Returns when the line is on the disk."""
        rest = memoryview(line)
        while rest:
            rest = rest[self._file.write(rest) :]
        os.fsync(self._file)

    @contextmanager
    def _in_sentences(self, done: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UserError(f"{self}: the journal cannot be {done}: {error.strerror}") from None
