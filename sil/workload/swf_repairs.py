"""Repairs of the rows of an SWF log, rule by rule. A strict reading refuses rows that need one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import polars as pl

from sil.trace.log_ids import LOG_ID
from sil.workload.job_log import LARGEST, MIN_S
from sil.workload.settings import Overrun, Rules, TooLarge
from site_db.files.input_errors import InvalidFile, remedy
from site_db.jobs.swf import FIELDS, HAS_WHOLE, PARTIAL, UNKNOWN, WITHOUT_WHOLE, Status, SwfRow, joined

LINE = "line"
CLIP_OR_SKIP = (("--too-large", "clip"), ("--too-large", "skip"))
NEEDED = (
    *("job", "submit", "run", "allocated", "memory", "requested", "requested_time", "requested_memory"),
    *("status", "user", "preceding"),
)
"""The fields of which a job is made. The others are only checked."""


def table_of(rows: Iterable[SwfRow]) -> pl.DataFrame:
    """The rows of a log with what is known about their lines."""
    about = dict(zip(SwfRow._fields, (pl.UInt32, pl.String, pl.String, pl.Float64), strict=False))
    return pl.DataFrame(list(rows), {**about, **dict.fromkeys(FIELDS, pl.Float64)}, orient="row")


@dataclass(frozen=True)
class _Repair:
    """The rows that need a repair: what is wrong, and what is done."""

    wrong: str
    done: str
    lines: Sequence[int]

    def __str__(self) -> str:
        n = len(self.lines)
        where = f"line {self.lines[0]}" if n == 1 else f"{n:,} lines, the first is line {min(self.lines)}"
        return f"{where}: {self.wrong}; {self.done}"


class Repaired(NamedTuple):
    """What a log has after the repairs."""

    jobs: pl.DataFrame
    """Columns of `job_log.SCHEMA`, and LOG_ID, if some jobs are numbered anew."""
    rows: pl.DataFrame
    """The repaired row of each of the jobs: the line, and the fields that were given."""
    notes: tuple[str, ...]
    """A sentence for each repair."""
    cut: frozenset[int]
    """The numbers of the jobs whose runs were cut."""


def repaired(
    rows: pl.DataFrame, broken: Mapping[str, list[int]], processors: int, rules: Rules, path: Path
) -> Repaired:
    """The rows of a log, repaired. They have the line, and FIELDS, or those NEEDED if the others are numbers
    in range; maybe also LOG_ID, the text of the first field.

    Raises InvalidFile if no job is left, and in a strict reading for the first line that needs a repair.
    """
    repairs = [
        _Repair(wrong, "the rest is ignored" if "more than" in wrong else "left out", lines)
        for wrong, lines in broken.items()
        if lines
    ]
    steps = _Steps(rows, processors, rules, path)
    repairs += [repair for repair in steps if repair.lines]
    if rules.strict and repairs:
        first = min(repairs, key=lambda repair: min(repair.lines))
        raise InvalidFile(
            f"{path}, line {min(first.lines)}: {first.wrong}; a strict reading changes nothing "
            f"({remedy('read it without {}, and', ('--strict', True)) or 'otherwise'}: {first.done})"
        )
    if not len(steps.rows):
        raise InvalidFile(f"{path}: none of {len(rows):,} jobs can be used; {'; '.join(map(str, repairs))}")
    in_order = steps.rows if steps.are_in_order else steps.rows.sort("submit", "job")
    jobs = in_order.select(
        pl.col("job").cast(pl.Int64),
        pl.col("submit").alias("submit_s"),
        pl.col("run").alias("run_s"),
        pl.col("requested").cast(pl.Int64).alias("processors"),
        pl.col("requested_time").alias("estimate_s"),
        pl.when(pl.col("user") < 0).then(-1).otherwise(pl.col("user")).cast(pl.Int64).alias("user"),
        **({LOG_ID: pl.col(LOG_ID)} if steps.are_renumbered else {}),
    )
    cut = steps.rows.filter(pl.col(LINE).is_in(steps.cut_lines))["job"] if steps.cut_lines else ()
    return Repaired(jobs, in_order, tuple(map(str, repairs)), frozenset(map(int, cut)))


def memory_kib(rows: pl.DataFrame) -> pl.Series:
    """The memory of each processor: what a job requested, else used, else 0."""
    memory, used = pl.col("requested_memory"), pl.col("memory")
    return rows.select(pl.max_horizontal(0, pl.when(memory > 0).then(memory).otherwise(used))).to_series()


class _Steps:
    """The rules, in order; `rows` is the result, `cut_lines` are the lines of jobs whose runs were cut.

    Most rules find nothing in most logs, so only a rule that finds lines does more than look for them.
    """

    def __init__(self, rows: pl.DataFrame, processors: int, rules: Rules, path: Path) -> None:
        self.rows = rows
        self.cut_lines: Sequence[int] = ()
        self.are_renumbered = False
        """Whether rows have LOG_ID, since it is not the number of each job."""
        self.are_in_order = False
        """Whether the rows are known to be in order of submission, then of job number."""
        self._processors = processors
        self._rules = rules
        self._path = path

    def __iter__(self) -> Iterator[_Repair]:
        run, requested, estimate = pl.col("run"), pl.col("requested"), pl.col("requested_time")
        allocated, status = pl.col("allocated"), pl.col("status")
        # A job's number is replaced instead.
        fields = [name for name in FIELDS if name in self.rows.columns and name != "job"]
        beyond = {name: ~pl.col(name).is_finite() | (pl.col(name).abs() > LARGEST) for name in fields}
        yield self._left_out(pl.any_horizontal(*beyond.values()), "a number out of range", beyond)
        yield from self._without_parts()
        yield self._left_out((status == Status.CANCELLED) & (run <= 0), "cancelled before it started")
        for name in ("run", "submit"):
            yield self._left_out(pl.col(name) == UNKNOWN, f"the {name} time is unknown")
            below = pl.col(name) < 0
            yield self._left_out(below, f"a {name} time below 0", {name: below})
        unknown = (requested < 1) & (allocated < 1)
        yield self._left_out(unknown, "the number of processors is unknown")
        wrong, done = "the requested processors are unknown", "those allocated are taken"
        yield self._set("requested", requested < 1, wrong, done, allocated)
        wrong, done = "a number of processors that is not whole", "rounded up"
        yield self._set("requested", requested != requested.floor(), wrong, done, requested.ceil())
        yield self._set("run", run < MIN_S, "a run time below 1 s", "1 s is taken", pl.lit(MIN_S))
        wrong, done = "the requested time is unknown", "the run time is taken"
        yield self._set("requested_time", estimate <= 0, wrong, done, run)
        wrong, done = "a requested time below 1 s", "1 s is taken"
        yield self._set("requested_time", estimate < MIN_S, wrong, done, pl.lit(MIN_S))
        wrong = "it ran for longer than was requested"
        if self._rules.overrun is Overrun.RAISE:
            done = "the requested time is raised to the run time"
            yield self._set("requested_time", run > estimate, wrong, done, run)
        else:
            cut = self._set("run", run > estimate, wrong, "the run is cut to the requested time", estimate)
            self.cut_lines = cut.lines
            yield cut
        yield self._too_large()
        early = pl.col("submit") < pl.col("submit").cum_max()
        wrong = "submitted before a job on an earlier line"
        sorted_later = self._lines(early)
        yield _Repair(wrong, "sorted by submit time", sorted_later)
        numbers_rise = self.rows.select((pl.col("job").diff() > 0).all()).item()
        renumbered = self._new_numbers(numbers_rise)
        self.are_in_order = numbers_rise and not sorted_later and not renumbered.lines
        yield renumbered

    def _lines(self, where: pl.Expr) -> list[int]:
        return self.rows.select(pl.col(LINE).filter(where)).to_series().to_list()

    def _set(self, name: str, where: pl.Expr, wrong: str, done: str, value: pl.Expr) -> _Repair:
        lines = self._lines(where)
        if lines:
            changed = pl.when(where).then(value).otherwise(pl.col(name))
            self.rows = self.rows.with_columns(changed.alias(name))
        return _Repair(wrong, done, lines)

    def _left_out(
        self, where: pl.Expr, wrong: str, fields: Mapping[str, pl.Expr] = MappingProxyType({})
    ) -> _Repair:
        """The repair of rows that are left out. With `fields`, where each is wrong, the first wrong value is
        named."""
        lines = self._lines(where)
        if lines:
            wrong += self._first(fields) if fields else ""
            self.rows = self.rows.filter(~where)
        return _Repair(wrong, "left out", lines)

    def _first(self, wrong: Mapping[str, pl.Expr]) -> str:
        line = self.rows.filter(pl.any_horizontal(*wrong.values())).head(1)
        for name, where in wrong.items():
            for value in line.filter(where)[name]:
                return f" (field {FIELDS.index(name) + 1} is {value:g})"
        return ""

    def _without_parts(self) -> Iterator[_Repair]:
        """The rule for partial executions is in `swf_format`."""
        is_part = pl.col("status").is_in([float(status) for status in PARTIAL])
        if not self._lines(is_part):
            return
        parts, whole = self.rows.filter(is_part), self.rows.filter(~is_part)
        redundant = parts.join(whole, on="job", how="semi")[LINE].to_list()
        lone = parts.join(whole, on="job", how="anti")
        made = []
        for (_,), some in lone.group_by("job", maintain_order=True):
            of_whole = joined(
                [SwfRow(**row) for row in some.drop(LOG_ID, strict=False).iter_rows(named=True)]
            )
            made.append({**some.row(0, named=True), **of_whole._asdict()})
        new = pl.DataFrame(made, schema=whole.schema)
        self.rows = pl.concat([whole, new]).sort(LINE)
        yield _Repair(HAS_WHOLE, "left out", redundant)
        yield _Repair(WITHOUT_WHOLE, "joined", lone[LINE].to_list())

    def _too_large(self) -> _Repair:
        where, n = pl.col("requested") > self._processors, f"{self._processors:,}"
        if not self._lines(where):
            return _Repair("", "", [])
        first = self.rows.filter(where).head(1)
        line, job, asks = first.select(LINE, pl.col("job", "requested").cast(pl.Int64)).row(0)
        if self._rules.too_large is TooLarge.STOP:
            raise InvalidFile(
                f"{self._path}, line {line}: job {job} asks for {asks:,} processors, and the machine has "
                f"{n}{remedy('; clip such jobs or skip them with {}', *CLIP_OR_SKIP)}"
            )
        wrong = f"more than the {n} processors of the machine are asked for, as by job {job} ({asks:,})"
        if self._rules.too_large is TooLarge.SKIP:
            return self._left_out(where, wrong)
        return self._set("requested", where, wrong, f"clipped to {n}", pl.lit(float(self._processors)))

    def _new_numbers(self, numbers_rise: bool) -> _Repair:
        number = pl.col("job")
        is_possible = number.is_between(1, LARGEST)  # which NaN is not
        odd = ~is_possible | (number != number.floor())
        if not numbers_rise:
            odd |= ~number.is_first_distinct()
        lines = self._lines(odd)
        if lines:
            largest = number.filter(is_possible).max().fill_null(0.0).floor()
            unused = largest + odd.cast(pl.Int64).cum_sum()
            whole = number.cast(pl.Int64, strict=False).cast(pl.String)
            ids = pl.when(number == number.floor()).then(whole).otherwise(number.cast(pl.String))
            if LOG_ID in self.rows.columns:
                ids = pl.when(number.abs() < LARGEST).then(ids).otherwise(LOG_ID)
            numbers = pl.when(odd).then(unused).otherwise(number)
            self.rows = self.rows.with_columns(ids.alias(LOG_ID), numbers.alias("job"))
            self.are_renumbered = True
        return _Repair("an invalid or duplicate job number", "a new number is given", lines)
