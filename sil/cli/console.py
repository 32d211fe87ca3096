"""Shared by all commands: consoles, listings, error messages, exit codes."""

from __future__ import annotations

import os
import re
import sys
import textwrap
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any, NoReturn

import click
from click.exceptions import Exit
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from scheduler.messages import UserError, counted, printable
from sil.experiment.output_folder import failed_access, no_room
from sil.report.listing import Listing, json_text
from sil.workers.executor import Interrupted
from sil.world import SHOW_TRACEBACKS
from sil.world.guard.faults import one_line
from site_db.files.input_errors import of_command

EXIT_FAULT, EXIT_BAD_INPUT, EXIT_INTERRUPTED = 1, 2, 130
"""Exit codes: a scheduler under test broke a rule; a user error; Ctrl-C."""

NO_LIMIT = 100_000
"""The width of a line without limit, in columns."""
MIN_COLUMNS = 2
NARROW_HEADING, NARROW_TEXT = 10, 16


def end_without_output(error: OSError) -> NoReturn:
    """End a command that has no room to write to standard output, with exit code 2. Raises an error that is
    another one."""
    if not no_room(error):
        raise error
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())  # for what is still to be written
    print(f"Error: standard output cannot be written: {error.strerror}; make room there", file=sys.stderr)
    sys.exit(2)


class Terminal(Console):
    """A console on which all text stands for itself: what it prints may contain names and messages of others,
    so nothing in it is markup, the name of an emoji, or an escape sequence. `styled` makes styles."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        try:
            super().print(*objects, **options)
        except OSError as error:
            end_without_output(error)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)


out = Terminal()
err = Terminal(stderr=True)


def styled(text: str, style: str) -> Text:
    """Text in a style of Rich, like "bold red"."""
    return Text(printable(text), style)


@contextmanager
def one_sentence_for_bad_input() -> Iterator[None]:
    """End the command with one sentence: exit code 2 for a user error, a file that cannot be accessed, or an
    error of the testbed or a library; 130 on Ctrl-C."""
    context = click.get_current_context(silent=True)
    options = {name for option in context.command.params for name in option.opts} if context else set()
    try:
        with of_command(options):
            yield
    except UserError as error:
        _print_traceback()
        fail(str(error))
    except Interrupted as interrupted:
        err.print(f"Interrupted: {interrupted}. Repeat the command to resume.")
        raise Exit(EXIT_INTERRUPTED) from None
    except KeyboardInterrupt:
        err.print("Interrupted.")
        raise Exit(EXIT_INTERRUPTED) from None
    except (Exit, click.Abort, click.BadParameter, BrokenPipeError):
        raise
    except BaseException as error:  # those of Polars are no Exceptions
        if isinstance(error, SystemExit | GeneratorExit):
            raise
        _print_traceback()
        what = f"{type(error).__name__}: {one_line(error)}"  # exit code 1 would blame a scheduler
        unexpected = f"the testbed failed ({what}); no scheduler is to blame; `sil --traceback` shows where"
        fail(failed_access(error) or unexpected)


def _print_traceback() -> None:
    if os.environ.get(SHOW_TRACEBACKS):
        err.print(traceback.format_exc(), soft_wrap=True)


def print_table(*forms: Table) -> None:
    """Print the first form of a table that fits into the terminal, otherwise what fits of the last one: text
    is wrapped between words, and columns at the right are left out, which a sentence says."""
    room, left_out = _line_width(out), []
    table = next((form for form in forms if _measured(form).maximum <= room), forms[-1])
    if _measured(table).maximum > room:
        _wrap(table)
    while len(table.columns) > MIN_COLUMNS and _measured(table).minimum > room:
        left_out.append(" ".join(str(table.columns.pop().header).split()))
    if table.title is not None:
        print_line(styled(str(table.title), "italic"))
        table.title = None
    Terminal(width=min(room, _measured(table).maximum)).print(table)
    if left_out:
        names = f"{left_out[-1]} to {left_out[0]}" if len(left_out) > 1 else left_out[0]
        n = counted(len(left_out), "column")
        print_line(f"The terminal is too narrow for {n}: {names}. --json has all of them.")


def _measured(table: Table) -> Measurement:
    untitled = copy(table)
    untitled.title = None
    return Measurement.get(out, out.options.update(max_width=NO_LIMIT), untitled)


def _wrap(table: Table) -> None:
    """Headings of numbers have several lines, numbers have one, and texts have whole words."""
    for column in table.columns:
        cells, heading = [str(cell) for cell in column.cells], str(column.header)
        widest = max(map(cell_len, cells), default=0)
        if column.justify == "right":
            lines = textwrap.wrap(heading, max(widest, NARROW_HEADING), break_long_words=False)
            column.header, column.no_wrap = "\n".join(lines), True
            column.min_width = max(widest, *map(cell_len, lines), 0)
        else:
            words = " ".join([heading, *cells]).split()
            column.min_width = max(*map(cell_len, words), min(widest, NARROW_TEXT), 0)


def _line_width(terminal: Console) -> int:
    """The width of the terminal, or COLUMNS; lines of files and pipes have no limit."""
    given = os.environ.get("COLUMNS", "")
    if given.isdigit() and int(given) > 0:
        return int(given)
    return terminal.width if terminal.is_terminal else NO_LIMIT


def print_line(*parts: str | Text) -> None:
    """Print a line of text, parts of which may be `styled`; it is broken between words."""
    _print_in_words(
        out, Text.assemble(*(printable(part) if isinstance(part, str) else part for part in parts))
    )


def _print_in_words(terminal: Console, text: Text) -> None:
    """Print without breaking long words, as Rich does: a path could not be copied."""
    room, breaks, begin = _line_width(terminal), [], 0
    for word in re.finditer(r"\S+", text.plain):
        begin = max(begin, text.plain.rfind("\n", 0, word.start()) + 1)
        before = text.plain[begin : word.start()]
        if before.strip() and cell_len(before + word[0]) > room:
            breaks.append(begin := word.start())
    lines = list(text.divide(breaks))
    for line in lines[:-1]:
        line.rstrip()
    terminal.print(Text("\n").join(lines), soft_wrap=True)


def print_json(value: object) -> None:
    """Print machine-readable output; the caller prints nothing else to standard output."""
    try:
        print(json_text(value), flush=True)
    except OSError as error:
        end_without_output(error)


def print_fault(sentence: str) -> None:
    """Report a fault of a scheduler under test."""
    _report(styled("Fault:", "bold red"), sentence)


def print_note(sentence: str) -> None:
    """Print a note; the command continues."""
    _report(styled("Note:", "bold yellow"), sentence)


def fail(sentence: str) -> NoReturn:
    """Report a user error and exit with code 2."""
    _report(styled("Error:", "bold red"), sentence)
    raise Exit(EXIT_BAD_INPUT)


def exit_on_faults(sentences: Iterable[str]) -> None:
    """Report faults of schedulers under test; if there are any, exit with code 1."""
    for sentence in (faults := list(sentences)):
        print_fault(sentence)
    if faults:
        raise Exit(EXIT_FAULT)


def exit_with_fault(sentence: str) -> NoReturn:
    print_fault(sentence)
    raise Exit(EXIT_FAULT)


def _report(label: Text, sentence: str) -> None:
    _print_in_words(err, Text.assemble(label, " ", printable(sentence)))


def as_table(listing: Listing) -> Table:
    """The rows as a table; the title counts the rows that are left out, with a hint how to list them."""
    left_out = listing.most is not None and len(listing.rows) > listing.most
    more = f" (the first {listing.most} of {len(listing.rows):,}{listing.hint})" if left_out else ""
    table = Table(title=listing.title + more)
    for column in listing.columns:
        table.add_column(column.title, justify="right" if column.is_number else "left")
    for row in listing.rows[: listing.most]:
        texts = [(column.show(row), column.warns(row)) for column in listing.columns]
        table.add_row(*(styled(cell, "red") if warns else cell for cell, warns in texts))
    if listing.total is not None:
        table.add_section()
        table.add_row(*(column.show(listing.total) for column in listing.columns))
    return table


def print_listings(listings: Sequence[Listing], as_json: bool = False) -> None:
    """Print all listings as one JSON object, or as tables; of several listings, only those with rows."""
    if as_json:
        totals = {f"{one.name}_total": one.total for one in listings if one.total is not None}
        print_json({one.name: list(one.rows) for one in listings} | totals)
        return
    for one in listings:
        if one.rows or one.total or len(listings) == 1:
            print_table(as_table(one))
