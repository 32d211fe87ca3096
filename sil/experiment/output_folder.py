"""The folder that results are written to."""

from __future__ import annotations

import re
from pathlib import Path


class UnusableFolder(ValueError):
    """The output folder cannot be written. The message is one sentence for the user."""


def make_usable(out: Path) -> None:
    """Raises UnusableFolder."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UnusableFolder(
            f"the folder {out} cannot be written: {error.strerror}; name another with --out"
        ) from None


def as_file_name(scheduler: str) -> str:
    """A scheduler's name as that of a folder or file."""
    return re.sub(r"[^\w.=,()+-]+", "-", scheduler)
