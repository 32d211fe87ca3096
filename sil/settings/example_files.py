"""Copies of the examples that come with the package."""

from __future__ import annotations

import shutil
from pathlib import Path

from scheduler import UserError
from sil.settings.files import FIXTURES


def copy_examples(folder: Path) -> list[Path]:
    """Copy all examples and the schemas of their files into a folder; the paths of the copies. Files that are
    there and equal stay. Raises UserError, before anything is copied if a file would be replaced."""
    sources = [path for path in sorted(FIXTURES.rglob("*")) if path.is_file()]
    copies = {source: folder / source.relative_to(FIXTURES) for source in sources}
    for source, copy in copies.items():
        if copy.exists() and copy.read_bytes() != source.read_bytes():
            raise UserError(f"{copy} exists and is another file; name another folder, or remove it")
    try:
        for source, copy in copies.items():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
    except OSError as error:
        raise UserError(f"the folder {folder} cannot be written: {error.strerror}") from None
    return list(copies.values())
