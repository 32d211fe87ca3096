"""The columns of Slurm's accounting (`sacct.toml`), the forms and states of their values; a log's header."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_LISTS = tomllib.loads(Path(__file__).with_name("sacct.toml").read_text())
REFUSED: dict[str, str] = (
    dict.fromkeys(_LISTS["unfinished"].split(), "the job has not ended") | _LISTS["refused"]
)
"""All states, with the reason for which a job in it is refused; one that completed is not."""
COMPLETED = frozenset({"COMPLETED"})
RUNNING = "RUNNING"
"""Such a job used its nodes until the log was printed."""
PENDING = "PENDING"
"""Such a job has not started: its times are infinite."""
RAN = frozenset(_LISTS["ran"].split())
"""The states of jobs that used their nodes, for whatever result."""


@lru_cache(1_024)
def state_of(text: str) -> str:
    """The state itself. A text too wide for its column is cut and ends in +: it counts as any of the possible
    states if all are alike."""
    text = text.upper()
    if text.endswith("+"):
        possible = [state for state in REFUSED if state.startswith(text[:-1])]
        if len({REFUSED[state] for state in possible}) == 1:
            return possible[0]
    # Slurm appends the user who cancelled: "CANCELLED by 1234".
    return "CANCELLED" if text.startswith("CANCELLED ") else text


UNKNOWN = ("", "unknown", "none", "n/a", "none assigned")
"""Texts in place of a value, in lower case."""
_UNKNOWN = "|".join(UNKNOWN)
_FORMS = {
    "job": r"\d+(_(\d+|\[[\d,:%.-]*\]?))?(\+\d+)?(\.\w[\w+.-]*)?",
    "state": rf"({'|'.join(REFUSED)})\+?|cancelled by \S+|[a-z_]+\+",
    "time": rf"\d{{4}}-\d\d-\d\d[t ]\d\d:\d\d\S*|\d{{1,12}}{_UNKNOWN}",
    "duration": rf"(\d+-)?\d+(:\d+){{0,2}}(\.\d+)?|unlimited|partition_limit|infinite|invalid{_UNKNOWN}",
    "count": r"-?\d*(\.\d+)?[kmgtpe]?[cn]?\??|n/a|unknown",
    "tres": r"([^\s=,]+=[^\s=,|]*,?)*",
    "exit": r"(\d+:\d+)?",
    "nodes": rf"[\w.,\[\]-]+{_UNKNOWN}",
    "word": r"\S*",
    "name": r".*",
}
"""What values of each kind look like, in any case. Each of them accepts all that Slurm prints: then the true
reading of a row is always among the possible ones."""
_MATCHES = {kind: re.compile(form, re.IGNORECASE | re.DOTALL) for kind, form in _FORMS.items()}

SPELLED: dict[str, str] = {}
"""The columns as Slurm spells them, by their names in lower case."""
_KIND = {"": "name"}
for _kind, _names in _LISTS["columns"].items():
    SPELLED |= {name.lower(): name for name in _names.split()}
    if _kind != "text":
        _KIND |= dict.fromkeys(_names.lower().split(), _kind)

BEGINNINGS = {
    "workdir": re.compile("/|$"),
    "submitline": re.compile(r"(\S*/)?(sbatch|srun|salloc|scrontab)\b|$"),
}
"""How texts of programs usually begin."""


def is_unknown(time: str) -> bool:
    return time == "0" or time.lower() in UNKNOWN


def has_form(kind: str, text: str) -> bool:
    return _MATCHES[kind].fullmatch(text) is not None


def kind_of(column: str) -> str | None:
    """The kind of a column; None for text of users."""
    return _KIND.get(column)


_COLUMNS = (
    "JobID,User,Account,QOS,JobName,Partition,Submit,Eligible,Start,End",
    "ElapsedRaw,Suspended,State,TimelimitRaw,Constraints",
    "ReqTRES,AllocTRES,NodeList",
)
COLUMNS = ",".join(_COLUMNS)
"""All that is used of a job, in columns that every version of Slurm from 20.02 has. Between columns whose
texts users write are others, so that a | in such a text belongs to one of them."""
_OPTIONS = "SLURM_TIME_FORMAT=%s sacct -a -D -P -X -S 2026-01-01 -E now"
COMMAND = " ".join((_OPTIONS, *(f"-o {columns}" for columns in _COLUMNS)))
"""The command that prints accounting, with times in seconds since 1970, which a change of the clock does not
move. No word of it is longer than a line of a terminal: sacct prints the columns of all options -o."""
COMMAND_IN_LINES = " \\\n  ".join((_OPTIONS, *(f"-o {columns}" for columns in _COLUMNS))) + " > sacct.txt"

MIN_KNOWN = 3
"""A line with this many names of columns is a header."""
NUMBERS = ("jobid", "jobidraw")
"""The columns of which one names the job."""
_FIRST_TWO = re.compile(r'\w"?(?P<between>[^\w"]+)"?\w')


@dataclass(frozen=True)
class ColumnLayout:
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
        return sum(name in SPELLED for name in self.columns) >= MIN_KNOWN

    @property
    def may_be_quoted(self) -> bool:
        """Whether programs other than `sacct`, which never quotes, write such files."""
        return self.is_quoted or self.separator in (",", ";", "\t")


def layout_of(line: str) -> ColumnLayout:
    """The columns that a line names, if it is a header."""
    first = _FIRST_TWO.search(line)
    separator = "|" if first is None or "|" in line else first["between"].strip(" ") or " "
    parts = line.split() if separator == " " else line.strip("\r\n").split(separator)
    names = (part.strip().strip('"').lower() for part in parts)
    return ColumnLayout(tuple(_LISTS["squeue"].get(name, name) for name in names), separator, (), '"' in line)


def aligned(header: str, dashes: str) -> ColumnLayout | None:
    """The layout of aligned columns, if the second line has their dashes, and not a row of dashes."""
    if not dashes.strip() or set(dashes) - set("- \r\n"):
        return None
    widths = tuple((match.start(), match.end()) for match in re.finditer("-+", dashes))
    names = (header[begin:end].strip().lower() for begin, end in widths)
    found = ColumnLayout(tuple(map(_uncut, names)), " ", widths)
    return found if found.is_header or not layout_of(header).is_header else None


def _uncut(name: str) -> str:
    longer = [known for known in SPELLED if known.startswith(name)]
    return longer[0] if len(longer) == 1 else name


def is_accounting(lines: Sequence[str]) -> bool:
    """Whether the first lines of a file have the header of accounting, or are rows of it without a header."""
    first = next((line for line in lines if line.strip()), "")
    fields = [field.strip() for field in first.split("|")]
    has_time = any(field and has_form("time", field) for field in fields)
    return layout_of(first).is_header or (has_time and any(has_form("state", field) for field in fields))
