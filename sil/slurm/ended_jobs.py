"""Jobs that have ended, from the file in which the controller notes them (JobCompType=jobcomp/filetxt)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_ENTRY = re.compile(rb"JobId=(\d+) .*? JobState=(\w+)")


class EndedJob(NamedTuple):
    number: int
    state: str


class EndedJobs:
    """Reads what has been added to the file since it was last read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def new(self) -> Iterator[EndedJob]:
        try:
            if self._path.stat().st_size == self._read:
                return
        except FileNotFoundError:
            return
        with self._path.open("rb") as file:
            file.seek(self._read)
            lines = file.read()
        whole = lines[: lines.rfind(b"\n") + 1]
        self._read += len(whole)
        for entry in _ENTRY.finditer(whole):
            yield EndedJob(int(entry[1]), entry[2].decode())
