"""How files of results are written."""

from __future__ import annotations

from pathlib import Path


def no_link(path: Path) -> Path:
    """The path, at which there is no symbolic link any more: a folder of results may come from somebody else,
    and writing there must change no file elsewhere."""
    if path.is_symlink():
        path.unlink()
    return path
