"""The folder that results are written to."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from errno import EDQUOT, EFBIG, ENOSPC, ESTALE
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import TYPE_CHECKING

from scheduler import UserError
from sil.report.listing import file_name
from site_db.files.input_errors import remedy

if TYPE_CHECKING:
    from sil.workers.store import Store

UNFINISHED = "unfinished.db"
"""The results of what is finished, until all is."""


def default_folder(*names: str) -> Path:
    """The folder for results in the current folder: `sil-NAME`, or `sil` with several names."""
    return Path(file_name("-".join(("sil", *names))))


def make_usable(out: Path) -> None:
    """Create a results folder if need be. Raises UserError if it cannot be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UserError(
            f"the folder {out} cannot be written: {error.strerror}"
            f"{remedy('; name another with {}', ('--out', ''))}"
        ) from None


@contextmanager
def alone_in(out: Path) -> Iterator[None]:
    """Lock a results folder against other processes that write to it. Raises UserError."""
    handle = os.open(out, os.O_RDONLY)
    try:
        with suppress(OSError):  # some file systems have no locks
            try:
                flock(handle, LOCK_EX | LOCK_NB)
            except BlockingIOError:
                raise UserError(
                    f"another command is writing results into {out}; repeat this one when that has ended, or "
                    "name another folder with --out"
                ) from None
        yield
    finally:
        os.close(handle)


@contextmanager
def resumable(out: Path, outdated: Iterable[str] = (), name: str = UNFINISHED) -> Iterator[Store]:
    """The store of finished items in a results folder, which is made, and whose `outdated` files go first. It
    is removed when the block ends without an exception, and otherwise left to the next such command. Raises
    UserError."""
    from sil.workers.store import Store  # which commands without results do without

    make_usable(out)
    for old in outdated:
        (out / old).unlink(missing_ok=True)
    with Store(out / name) as store:
        yield store
        store.remove()


def copy_results(results: Path, folder: Path) -> None:
    """Copy results into another folder, without those of an interrupted run. Raises UserError."""
    make_usable(folder)
    if folder.resolve() != results.resolve():
        unfinished = shutil.ignore_patterns(f"{UNFINISHED}*")
        shutil.copytree(results, folder, ignore=unfinished, dirs_exist_ok=True)


def no_room(error: BaseException) -> bool:
    """Whether an error says that there is no room to write."""
    return _number(error) in (ENOSPC, EDQUOT, EFBIG)


def failed_access(error: BaseException) -> str | None:
    """One sentence for the user on a file that cannot be read or written; None for other errors."""
    number = _number(error)
    if no_room(error):
        why = os.strerror(number or ENOSPC)
        return f"the results cannot be written: {why}; make room there, or write them elsewhere"
    if not isinstance(error, OSError) or isinstance(error, _OF_PROCESSES):
        return None
    what = f"{error.filename}: {error.strerror}" if error.filename else " ".join(str(error).split())
    gone = isinstance(error, FileNotFoundError | NotADirectoryError | FileExistsError) or number == ESTALE
    advice = "its folder has changed since the command began; repeat the command" if gone else "name another"
    return f"a file cannot be read or written: {what}; {advice}"


_OF_PROCESSES = (ConnectionError, ChildProcessError, ProcessLookupError, BlockingIOError, TimeoutError)


def _number(error: BaseException) -> int | None:
    found = re.search(r"\(os error (\d+)\)", str(error))  # from libraries in Rust
    return int(found[1]) if found else getattr(error, "errno", None)
