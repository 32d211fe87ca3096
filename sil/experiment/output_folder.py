"""The folder that results are written to."""

from __future__ import annotations

import os
import re
import shutil
from errno import EDQUOT, EFBIG, ENOSPC
from pathlib import Path

from scheduler import UserError
from sil.report.file_name import file_name
from site_db.files.advice import remedy

UNFINISHED = "unfinished.db"
"""The results of what is finished, until all is."""


def default_folder(*names: str) -> Path:
    """The folder for results in the current folder: `sil-NAME`, with what is between the two."""
    return Path(file_name("-".join(("sil", *names))))


class UnusableFolder(UserError):
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
            f"the folder {out} cannot be written: {error.strerror}"
            f"{remedy('; name another with {}', ('--out', ''))}"
        ) from None


def copy_results(results: Path, folder: Path) -> None:
    """Copy results into another folder, without those of an interrupted run. Raises UnusableFolder."""
    make_usable(folder)
    if folder.resolve() != results.resolve():
        unfinished = shutil.ignore_patterns(f"{UNFINISHED}*")
        shutil.copytree(results, folder, ignore=unfinished, dirs_exist_ok=True)


def no_room(error: Exception) -> int | None:
    """The error number, if there is no room to write."""
    match = re.search(r"\(os error (\d+)\)", str(error))  # from libraries in Rust
    number = int(match[1]) if match else getattr(error, "errno", None)
    return number if number in (ENOSPC, EDQUOT, EFBIG) else None


def no_room_message(number: int) -> str:
    """One sentence for the user."""
    return f"the results cannot be written: {os.strerror(number)}; make room there, or write them elsewhere"
