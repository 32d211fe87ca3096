"""Log messages of the scheduler package, such as that it compiles code, printed as notes."""

from __future__ import annotations

import logging


class SchedulerNotes(logging.Handler):
    """Loads the console with the first message, which most commands do without."""

    @classmethod
    def show(cls) -> None:
        log = logging.getLogger("scheduler")
        log.setLevel(logging.INFO)
        log.addHandler(cls())

    def emit(self, record: logging.LogRecord) -> None:
        from sil.cli.console import print_note

        print_note(record.getMessage())
