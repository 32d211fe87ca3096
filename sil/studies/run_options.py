"""How a study is carried out, which changes nothing of what it finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

OnProgress = Callable[[int, int], None]
"""Told (done, total) as the runs of a study end."""


def _nobody(done: int, total: int) -> None:
    """Nobody is told."""


@dataclass(frozen=True)
class Course:
    """On how many processes, who is told how far it is, and in which file finished cases are kept (None: they
    are not)."""

    workers: int
    on_progress: OnProgress = _nobody
    kept: Path | None = None

    def part(self, begin: int, total: int) -> Course:
        """For a part of a study of `total` runs, before which `begin` are done."""
        return replace(self, on_progress=lambda done, _: self.on_progress(begin + done, total))
