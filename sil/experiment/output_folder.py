"""The folder that results are written to."""

from __future__ import annotations

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
