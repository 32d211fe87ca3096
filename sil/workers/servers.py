"""How the processes are started that fork or track others: Python starts them as `python -c`, which has the
current folder first on the module path, and makes a socket for them in the folder of temporary files."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import process
from multiprocessing.util import Finalize

SAFE_PATH = "PYTHONSAFEPATH"
OURS = "for the servers of sil"
"""A value of this variable; any that is not empty has an effect."""
LONGEST_FOLDER = 60
"""Letters of a folder for sockets: the names of these have at most 107 with all that follows."""
SHORT_FOLDER = "/tmp"


@contextmanager
def starting() -> Iterator[None]:
    """Within this context, servers can be started."""
    given = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = given or OURS
    _have_short_folder()
    try:
        yield
    finally:
        forget_safe_path()


def forget_safe_path() -> None:
    """A program that a scheduler starts has the environment of the user."""
    if os.environ.get(SAFE_PATH) == OURS:
        del os.environ[SAFE_PATH]


def _have_short_folder() -> None:
    """Python 3.14 does this by itself."""
    settings = process.current_process()._config  # type: ignore[attr-defined]
    if settings.get("tempdir") is not None or len(os.fsencode(tempfile.gettempdir())) <= LONGEST_FOLDER:
        return
    try:
        settings["tempdir"] = folder = tempfile.mkdtemp(prefix="pymp-", dir=SHORT_FOLDER)
    except OSError:
        return
    Finalize(None, shutil.rmtree, args=(folder, True), exitpriority=-100)
