"""Imported first by a server that forks workers and starts before the command has compiled anything: the
server says that it compiles, as the command would. Its workers are silent, or each of them would say it."""

from __future__ import annotations

import logging
import os

_notes = logging.StreamHandler()
_notes.setFormatter(logging.Formatter("Note: %(message)s"))
_log = logging.getLogger("scheduler.compiled")
_log.setLevel(logging.INFO)
_log.addHandler(_notes)
os.register_at_fork(after_in_child=lambda: _log.removeHandler(_notes))
