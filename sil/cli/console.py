"""What all commands share: where they print, how they fail, and with which exit codes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from scheduler.errors import UserError
from sil.experiment.output_folder import no_room, told_of_no_room

EXIT_FAULT = 1
"""A scheduler under test misbehaved."""
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130

out = Console()
err = Console(stderr=True)

MORE_THAN_ANY_TABLE = 1000


@contextmanager
def one_sentence_for_bad_input() -> Iterator[None]:
    """What keeps a command from its work ends it with one sentence and exit code 2, without a traceback."""
    try:
        yield
    except UserError as trouble:
        fail(str(trouble))
    except Exception as error:
        number = no_room(error)
        if number is None:
            raise
        fail(told_of_no_room(number))


def counted(n: int, what: str) -> str:
    """How many there are of something: "1 cluster", "2 job classes"."""
    plural = f"{what}es" if what.endswith("s") else f"{what}s"
    return f"{n:,} {what if n == 1 else plural}"


def natural_width(table: Table) -> int:
    """Columns that a table takes to show all its digits."""
    return Measurement.get(out, out.options.update(max_width=MORE_THAN_ANY_TABLE), table).maximum


def print_whole(table: Table) -> None:
    """Print a table with all its digits, also where the terminal is narrower."""
    Console(width=max(out.width, natural_width(table))).print(table)


def print_fault(sentence: str) -> None:
    """A scheduler under test misbehaved."""
    err.print("[bold red]Fault:[/bold red]", escape(sentence), highlight=False, soft_wrap=True)


def fail(sentence: str) -> NoReturn:
    """End the command with the sentence for a mistake of the user's."""
    err.print("[bold red]Error:[/bold red]", escape(sentence), highlight=False, soft_wrap=True)
    raise typer.Exit(EXIT_BAD_INPUT)


def print_note(sentence: str) -> None:
    """Something that the user should know of; the command goes on."""
    err.print("[bold yellow]Note:[/bold yellow]", escape(sentence), highlight=False, soft_wrap=True)


class SchedulerNotes(logging.Handler):
    """What the scheduler package logs, as notes: that it compiles something, which takes its time."""

    @classmethod
    def show(cls) -> None:
        log = logging.getLogger("scheduler")
        log.setLevel(logging.INFO)
        log.addHandler(cls())

    def emit(self, record: logging.LogRecord) -> None:
        print_note(record.getMessage())
