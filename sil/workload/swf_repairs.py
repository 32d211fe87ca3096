"""Repairs of the rows of an SWF log, rule by rule. A strict reading refuses rows that need one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from sil.workload.job_log import LARGEST, LEAST_S, BadLog
from sil.workload.swf_rules import Overrun, Rules, TooLarge
from site_db.jobs.logs.swf_format import FIELDS, HAS_WHOLE, PARTIAL, UNKNOWN, WITHOUT_WHOLE, Status, joined

LINE = "line"
MEMORY_KIB = "memory_kib"


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


def repaired(
    rows: pl.DataFrame, broken: Mapping[str, list[int]], processors: int, rules: Rules, path: Path
) -> tuple[pl.DataFrame, tuple[str, ...], frozenset[int]]:
    """The jobs (columns of `job_log.SCHEMA`, and MEMORY_KIB of each processor, 0 if unknown) of the rows of a
    log (line and FIELDS), a sentence for each repair, and the numbers of the jobs whose runs were cut.

    Raises BadLog if no job is left, and in a strict reading for the first line that needs a repair.
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
        raise BadLog(
            f"{path}, line {min(first.lines)}: {first.wrong}; a strict reading changes nothing (read it "
            f"without --strict, and: {first.done})"
        )
    if not len(steps.rows):
        raise BadLog(f"{path}: none of {len(rows):,} jobs can be used; {'; '.join(map(str, repairs))}")
    memory, used = pl.col("requested_memory"), pl.col("memory")
    jobs = steps.rows.sort("submit", "job").select(
        pl.col("job").cast(pl.Int64),
        pl.col("submit").alias("submit_s"),
        pl.col("run").alias("run_s"),
        pl.col("requested").cast(pl.Int64).alias("processors"),
        pl.col("requested_time").alias("estimate_s"),
        pl.when(pl.col("user") < 0).then(-1).otherwise(pl.col("user")).cast(pl.Int64).alias("user"),
        pl.max_horizontal(0, pl.when(memory > 0).then(memory).otherwise(used)).alias(MEMORY_KIB),
    )
    cut = steps.rows.filter(pl.col(LINE).is_in(steps.cut_lines))["job"].cast(pl.Int64)
    return jobs, tuple(map(str, repairs)), frozenset(cut)


class _Steps:
    """The rules, in order; `rows` is the result, `cut_lines` are the lines of jobs whose runs were cut."""

    def __init__(self, rows: pl.DataFrame, processors: int, rules: Rules, path: Path) -> None:
        self.rows = rows
        self.cut_lines: Sequence[int] = ()
        self._processors = processors
        self._rules = rules
        self._path = path

    def __iter__(self) -> Iterator[_Repair]:
        run, requested, estimate = pl.col("run"), pl.col("requested"), pl.col("requested_time")
        allocated, status = pl.col("allocated"), pl.col("status")
        beyond = {name: ~pl.col(name).is_finite() | (pl.col(name).abs() > LARGEST) for name in FIELDS}
        wrong = f"a number out of range{self._first(beyond)}"
        yield self._left_out(pl.any_horizontal(*beyond.values()), wrong)
        yield from self._without_parts()
        yield self._left_out((status == Status.CANCELLED) & (run <= 0), "cancelled before it started")
        for name in ("run", "submit"):
            yield self._left_out(pl.col(name) == UNKNOWN, f"the {name} time is unknown")
            below = pl.col(name) < 0
            yield self._left_out(below, f"a {name} time below 0{self._first({name: below})}")
        unknown = (requested < 1) & (allocated < 1)
        yield self._left_out(unknown, "the number of processors is unknown")
        wrong, done = "the requested processors are unknown", "those allocated are taken"
        yield self._set("requested", requested < 1, wrong, done, allocated)
        wrong, done = "a number of processors that is not whole", "rounded up"
        yield self._set("requested", requested != requested.floor(), wrong, done, requested.ceil())
        yield self._set("run", run < LEAST_S, "a run time below 1 s", "1 s is taken", pl.lit(LEAST_S))
        wrong, done = "the requested time is unknown", "the run time is taken"
        yield self._set("requested_time", estimate <= 0, wrong, done, run)
        wrong, done = "a requested time below 1 s", "1 s is taken"
        yield self._set("requested_time", estimate < LEAST_S, wrong, done, pl.lit(LEAST_S))
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
        yield _Repair(wrong, "sorted by submit time", self.rows.filter(early)[LINE].to_list())
        yield self._new_numbers()

    def _set(self, name: str, where: pl.Expr, wrong: str, done: str, value: pl.Expr) -> _Repair:
        lines = self.rows.filter(where)[LINE].to_list()
        if lines:
            changed = pl.when(where).then(value).otherwise(pl.col(name))
            self.rows = self.rows.with_columns(changed.alias(name))
        return _Repair(wrong, done, lines)

    def _left_out(self, where: pl.Expr, wrong: str) -> _Repair:
        lines = self.rows.filter(where)[LINE].to_list()
        if lines:
            self.rows = self.rows.filter(~where)
        return _Repair(wrong, "left out", lines)

    def _first(self, wrong: Mapping[str, pl.Expr]) -> str:
        """The first wrong field and its value."""
        line = self.rows.filter(pl.any_horizontal(*wrong.values())).head(1)
        for name, where in wrong.items():
            for value in line.filter(where)[name]:
                return f" (field {FIELDS.index(name) + 1} is {value:g})"
        return ""

    def _without_parts(self) -> Iterator[_Repair]:
        """The rule for partial executions is in `swf_format`."""
        is_part = pl.col("status").is_in([float(status) for status in PARTIAL])
        parts, whole = self.rows.filter(is_part), self.rows.filter(~is_part)
        if not len(parts):
            return
        redundant = parts.join(whole, on="job", how="semi")[LINE].to_list()
        lone = parts.join(whole, on="job", how="anti")
        jobs = [
            (int(some[LINE][0]), *joined(some.select(FIELDS).rows()))
            for _, some in lone.group_by("job", maintain_order=True)
        ]
        schema = {name: whole.schema[name] for name in (LINE, *FIELDS)}
        made = pl.DataFrame(jobs, schema=schema, orient="row").select(whole.columns)
        self.rows = pl.concat([whole, made]).sort(LINE)
        yield _Repair(HAS_WHOLE, "left out", redundant)
        yield _Repair(WITHOUT_WHOLE, "joined", lone[LINE].to_list())

    def _too_large(self) -> _Repair:
        where, n = pl.col("requested") > self._processors, f"{self._processors:,}"
        larger = self.rows.filter(where)
        if not len(larger):
            return _Repair("", "", [])
        line, job, asks = larger.select(LINE, pl.col("job", "requested").cast(pl.Int64)).row(0)
        if self._rules.too_large is TooLarge.STOP:
            raise BadLog(
                f"{self._path}, line {line}: job {job} asks for {asks:,} processors, and the machine has "
                f"{n}; clip such jobs or skip them with --too-large clip or --too-large skip"
            )
        wrong = f"more than the {n} processors of the machine are asked for, as by job {job} ({asks:,})"
        if self._rules.too_large is TooLarge.SKIP:
            return self._left_out(where, wrong)
        return self._set("requested", where, wrong, f"clipped to {n}", pl.lit(float(self._processors)))

    def _new_numbers(self) -> _Repair:
        number = pl.col("job")
        again = number.is_duplicated() & ~number.is_first_distinct()
        odd = (number < 1) | (number != number.floor()) | again
        lines = self.rows.filter(odd)[LINE].to_list()
        if lines:
            unused = number.max().clip(lower_bound=0.0).floor() + odd.cast(pl.Int64).cum_sum()
            self.rows = self.rows.with_columns(job=pl.when(odd).then(unused).otherwise(number))
        return _Repair("an invalid or duplicate job number", "a new number is given", lines)
