"""The fields of rows of accounting whose texts contain the separator, or ends of lines.

All ways to give the fields to the columns are followed at once: a set of columns is an integer with a bit
for each. A column of text holds any number of fields, each other column holds one, which has its form
(`columns`). The true way is always among those that are possible, so that what all of them agree on
is right. The work is proportional to the length of a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate

from site_db.jobs.logged import Refused
from site_db.jobs.sacct.columns import BEGINNINGS, NUMBERS, SPELLED, has_form, kind_of

LISTS = ("word", "nodes", "tres")
"""The kinds of columns whose values may be lists with commas, which commas between columns split."""
LONGEST_SHORT = 64
"""The longest texts whose columns are remembered, in characters: most fields of a log occur in many rows."""
Lines = Sequence[Sequence[str]]
"""The fields of each line of a row."""

NO_READING = "the fields of its lines do not fit the columns, whatever texts have the surplus"


class Readings:
    """How the fields of rows may belong to `columns`, of which `used` have to be certain."""

    def __init__(self, columns: Sequence[str], used: frozenset[str], separator: str) -> None:
        self.columns = columns
        self._between = separator if separator.isprintable() else " "
        self._separator = {"\t": "tab", " ": "blank"}.get(separator, separator)
        self._kind_of = [(place, kind) for place, c in enumerate(columns) if (kind := kind_of(c)) is not None]
        of_kinds = {kind: [place for place, one in self._kind_of if one == kind] for _, kind in self._kind_of}
        self._kinds = [(kind, _bits(places)) for kind, places in of_kinds.items()]
        self.every = (1 << len(columns)) - 1
        self.free = self.every & ~_bits(place for place, _ in self._kind_of)
        """The columns with texts of users."""
        self.used = _bits(place for place, column in enumerate(columns) if column in used)
        self._lists = sum(bits for kind, bits in self._kinds if kind in LISTS) if separator == "," else 0
        self.number = next(columns.index(name) for name in NUMBERS if name in columns)
        """The place of the column that names the job."""
        self._last = 1 << (len(columns) - 1)
        self.last_text = self.free & self._last
        """The last column if it is a text, else none."""
        self._short = lru_cache(16_384)(self._of_text)

    def names(self, columns: int) -> list[str]:
        return [name for place, name in enumerate(self.columns) if columns >> place & 1]

    def fits(self, fields: Sequence[str]) -> bool:
        """Whether each of the fields, one for each column, has the form of its column."""
        return all(has_form(kind, fields[place].strip()) for place, kind in self._kind_of)

    def begins(self, fields: Sequence[str]) -> bool:
        """Whether a line is like the beginning of a row, which may be cut off in its last field."""
        return len(fields) > 1 and bool(self._at_the_last(fields, 1))

    def after(self, fields: Sequence[str], may_be: int = 1) -> tuple[int, bool]:
        """The columns in whose texts a row may go on in the next line, and whether it may be complete, if the
        first field of this line is in one of the columns `may_be`."""
        may_be = self._at_the_last(fields, may_be)
        return may_be & self.free, bool(may_be & self._fitting(fields[-1]) & self._last)

    def reached(self, may_be: int, fields: Sequence[str] | None) -> int:
        """The columns that differ if a row that began in a line before, without the number of its job, has
        these fields; none if it cannot have them."""
        may_be &= ((1 << self.number) - 1) & self.free
        may_have = fields is None or self.after(fields, may_be)[1]
        return (1 << may_be.bit_length()) - 1 if may_have else 0

    def _at_the_last(self, fields: Sequence[str], may_be: int) -> int:
        """The columns that the last field may be in."""
        for field in fields[:-1]:
            may_be = self._next(may_be, self._fitting(field))
            if not may_be:
                break
        return may_be

    def _next(self, here: int, fitting: int, may_begin: int = -1) -> int:
        """The columns that a field may be in if the one before it in its line, which is `fitting` for some
        columns, may be `here`; it `may_begin` some. A text or a list goes on in its column."""
        there = here & fitting
        return there << 1 & self.every & may_begin | there & self._lists | here & self.free

    def may_differ(self, lines: Lines) -> bool:
        """Whether there are ways to read a row that differ in what is used of it."""
        return bool(_unsure(self._possible(lines, False)) & self.used)

    def found(self, lines: Lines) -> tuple[dict[str, str], list[str]]:
        """The fields of a row by column (empty where they are not known, in columns that are not used), and
        what is repaired. Raises Refused if there is no way to read the row, or more than one."""
        possible = self._possible(lines, False)
        if not possible:
            raise Refused(NO_READING)
        unsure = _unsure(possible)
        if unsure & self.used:
            raise Refused(
                f"more fields than the header, which may be texts of {self._named(unsure)}; not guessed"
            )
        likely = self._possible(lines, True) if unsure else possible
        if likely and not _unsure(likely):
            possible, unsure = likely, 0
        texts: dict[int, str] = {}
        repaired, k, between = unsure, 0, ""
        for line in lines:
            for field in line:
                columns = possible[k]
                if not columns & unsure:
                    repaired |= columns if columns in texts else 0
                    texts[columns] = f"{texts[columns]}{between}{field}" if columns in texts else field
                k, between = k + 1, self._between
            between = " "
        where = self._named(repaired)
        repairs = [f"a {self._separator} inside {where}"] if k - len(lines) >= len(self.columns) else []
        repairs += [f"an end of a line inside {where}"] if len(lines) > 1 else []
        return {name: texts.get(1 << n, "").strip() for n, name in enumerate(self.columns)}, repairs

    def _possible(self, lines: Lines, likely: bool) -> list[int]:
        """The columns that each field may be in; empty if there is no way. Only `likely` ways count, or
        all."""
        fields = [field for line in lines for field in line]
        ends = {end - 1 for end in accumulate(map(len, lines))}
        fitting = [self._fitting(field) for field in fields]
        begins = [self._begun(field.strip()) if likely else -1 for field in fields]
        forward = [1]
        for k in range(len(fields) - 1):
            at_an_end = forward[k] & self.free
            forward.append(at_an_end if k in ends else self._next(forward[k], fitting[k], begins[k + 1]))
        possible = [0] * len(fields)
        back = self._last & fitting[-1]
        for k in range(len(fields) - 1, -1, -1):
            possible[k] = forward[k] & back
            if k:
                there = (back & begins[k]) >> 1 | back & self._lists
                on = 0 if k - 1 in ends else there & fitting[k - 1]
                back = on | back & self.free
        return possible if possible[0] else []

    def _fitting(self, field: str) -> int:
        """The columns that may have this field as all that they have."""
        text = field.strip()
        return self._short(text) if len(text) <= LONGEST_SHORT else self._of_text(text)

    def _begun(self, text: str) -> int:
        """The columns that may well begin with this text."""
        places = ((place, BEGINNINGS[name]) for place, name in enumerate(self.columns) if name in BEGINNINGS)
        return ~_bits(place for place, usual in places if not usual.match(text))

    def _of_text(self, text: str) -> int:
        fitting = self.free
        for kind, columns in self._kinds:
            if has_form(kind, text):
                fitting |= columns
        return fitting

    def _named(self, columns: int) -> str:
        return " or ".join(SPELLED.get(name, name) for name in self.names(columns))


def _bits(places: Iterable[int]) -> int:
    return sum(1 << place for place in places)


def _unsure(possible: Sequence[int]) -> int:
    """All columns of those fields that may be in several."""
    unsure = 0
    for columns in possible:
        unsure |= columns if columns & (columns - 1) else 0
    return unsure
