"""How accounting begins: the header, and what separates its columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from site_db.jobs.sacct.columns import SPELLED, has_form

FEWEST_KNOWN = 3
"""A line with this many names of columns is a header."""
NUMBERS = ("jobid", "jobidraw")
"""The columns of which one names the job."""
_FIRST_TWO = re.compile(r'\w"?(?P<between>[^\w"]+)"?\w')


@dataclass(frozen=True)
class Layout:
    """What separates the columns of a log; with `widths`, they are aligned, as plain `sacct` prints them, and
    these are the places where each begins and ends."""

    columns: tuple[str, ...]
    separator: str
    widths: tuple[tuple[int, int], ...] = ()
    is_quoted: bool = False

    @property
    def missing(self) -> list[str]:
        """The columns without which no job can be read."""
        lacking = [name for name in ("Start", "End", "State") if name.lower() not in self.columns]
        return lacking if set(NUMBERS) & set(self.columns) else [*lacking, "JobID"]

    @property
    def is_header(self) -> bool:
        return sum(name in SPELLED for name in self.columns) >= FEWEST_KNOWN

    @property
    def may_be_quoted(self) -> bool:
        """Whether programs other than `sacct`, which never quotes, write such files."""
        return self.is_quoted or self.separator in (",", ";", "\t")


def layout_of(line: str) -> Layout:
    """The columns that a line names, if it is a header."""
    first = _FIRST_TWO.search(line)
    separator = "|" if first is None or "|" in line else first["between"].strip(" ") or " "
    parts = line.split() if separator == " " else line.strip("\r\n").split(separator)
    return Layout(tuple(part.strip().strip('"').lower() for part in parts), separator, (), '"' in line)


def aligned(header: str, dashes: str) -> Layout | None:
    """The layout of aligned columns, if the second line has their dashes, and not a row of dashes."""
    if not dashes.strip() or set(dashes) - set("- \r\n"):
        return None
    widths = tuple((match.start(), match.end()) for match in re.finditer("-+", dashes))
    names = (header[begin:end].strip().lower() for begin, end in widths)
    found = Layout(tuple(map(_uncut, names)), " ", widths)
    return found if found.is_header or not layout_of(header).is_header else None


def _uncut(name: str) -> str:
    """A name that is longer than its column is cut off."""
    longer = [known for known in SPELLED if known.startswith(name)]
    return longer[0] if len(longer) == 1 else name


def is_accounting(lines: Sequence[str]) -> bool:
    """Whether the first lines of a file have the header of accounting, or are rows of it without a header."""
    first = next((line for line in lines if line.strip()), "")
    layout = layout_of(first)
    fields = [field.strip() for field in first.split("|")]
    is_row = any(field and has_form("time", field) for field in fields) and any(
        has_form("state", field) for field in fields
    )
    return layout.is_header or is_row
