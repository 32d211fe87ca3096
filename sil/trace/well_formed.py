"""Whether each fact of a trace has what facts of its kind have.

Whether facts agree with each other is for the invariants (`sil.outcome.invariants`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import polars as pl

from sil.trace.facts import RUN, Fact, RunDescription
from sil.trace.requests import request_of, shares_of

_OF_A_RUN = ("job", "run")
_OF_A_RUN_THAT_ENDS = (*_OF_A_RUN, "resource")
_NEEDED: dict[Fact, tuple[str, ...]] = {
    Fact.JOB_ARRIVED: ("job", "job_class", "queue", "user", "tasks"),
    Fact.JOB_REFUSED: ("job", "detail"),
    Fact.JOB_DESCRIBED: ("job", "detail"),
    Fact.PASSED_OVER: ("job", "detail"),
    Fact.JOB_MAPPED: ("job", "resource", "expected_s", "detail"),
    Fact.DECISION_CHARGED: ("expected_s",),
    Fact.RUN_STARTED: (*_OF_A_RUN_THAT_ENDS, "machines", "tasks", "expected_s"),
    Fact.ORDER_OVERTAKEN: _OF_A_RUN_THAT_ENDS,
    Fact.RUN_ENDED: _OF_A_RUN_THAT_ENDS,
    Fact.RUN_PREEMPTED: _OF_A_RUN_THAT_ENDS,
    Fact.RUN_LOST: _OF_A_RUN_THAT_ENDS,
    Fact.RUN_STOPPED: (*_OF_A_RUN, "machines"),
    Fact.RUN_CONTINUED: (*_OF_A_RUN, "machines"),
    Fact.LOCAL_USER_CAME: ("resource",),
    Fact.LOCAL_USER_GONE: ("resource",),
    Fact.PROMISED: ("job", "expected_s"),
    Fact.READING_REFUSED: ("resource", "detail"),
    Fact.MONITOR_SILENT: ("resource",),
    Fact.MACHINE_DOWN: ("resource",),
    Fact.MACHINE_UP: ("resource",),
    Fact.INTERCONNECT_DOWN: ("detail",),
    Fact.INTERCONNECT_UP: ("detail",),
    Fact.FAULT: ("detail", "message"),
    Fact.ORDER_REFUSED: (*_OF_A_RUN_THAT_ENDS, "detail"),
    Fact.RUN_ABANDONED: _OF_A_RUN_THAT_ENDS,
    Fact.RUN_DISCARDED: _OF_A_RUN_THAT_ENDS,
    Fact.MANAGER_DOWN: (),
    Fact.MANAGER_UP: (),
}
"""Columns that are not null, by kind of fact."""

_MACHINES = r"^(\d{1,9}(-\d{1,9})?( \d{1,9}(-\d{1,9})?)*)?$"
_OF_ALL = (*RUN, "time_s", "event")
_TEXTS: dict[Fact, Callable[[str], object]] = {Fact.JOB_ARRIVED: request_of, Fact.RUN_STARTED: shares_of}
"""How the detail of a fact is read, where it is data."""

Check = tuple[str, pl.Expr]
"""What wrong facts have, and which are wrong."""


def _checks() -> Iterator[Check]:
    for column in _OF_ALL:
        # When a process ended without a word, the time is not known.
        may_lack = pl.col("event") == Fact.FAULT if column == "time_s" else pl.lit(value=False)
        yield f"no {column}", pl.col(column).is_null() & ~may_lack
    for fact, columns in _NEEDED.items():
        for column in columns:
            yield f"no {column}, which each {fact} has", (pl.col("event") == fact) & pl.col(column).is_null()
    yield "a time that is not finite", ~pl.col("time_s").is_finite()
    yield "machines that cannot be read", ~pl.col("machines").str.contains(_MACHINES)


def mistake_in(facts: pl.DataFrame) -> str | None:
    """What the first fact lacks that is not as those of its kind, as a clause; None if there is none."""
    checks = [*_checks(), *(_unreadable(facts, fact, read) for fact, read in _TEXTS.items())]
    are_wrong = facts.select(wrong.any().alias(what) for what, wrong in checks).row(0, named=True)
    firsts = [(_first(facts, wrong), what) for what, wrong in checks if are_wrong[what]]
    if not firsts:
        return None
    number, what = min(firsts)
    return f"fact {number + 1} has {what}"


def mistake_in_runs(facts: pl.DataFrame, description: RunDescription) -> str | None:
    """Which run is missing, or is none of the experiment's, as a clause; None if all are there.

    A scheduler with a fault need not have all of them.
    """
    n_points, n_replications = len(description.points), description.replications
    runs = set(facts.select(RUN).unique().iter_rows())
    faulted = set(facts.filter(pl.col("event") == Fact.FAULT)["scheduler"])
    for point, replication, scheduler in sorted(runs):
        known = 0 <= point < n_points and 0 <= replication < n_replications
        if not known or scheduler not in description.schedulers:
            where = f"at point {point} in replication {replication}"
            return f"it has a run of '{scheduler}' {where}, which the experiment has not"
    for scheduler in description.schedulers:
        n = sum(run[2] == scheduler for run in runs)
        if n != n_points * n_replications and scheduler not in faulted:
            return f"it has {n} runs of '{scheduler}' instead of {n_points * n_replications}"
    return None


def _first(facts: pl.DataFrame, are_wrong: pl.Expr) -> int:
    return int(facts.select(are_wrong.fill_null(False).arg_max()).item())


def _unreadable(facts: pl.DataFrame, fact: Fact, read: Callable[[str], object]) -> Check:
    given = (pl.col("event") == fact) & pl.col("detail").is_not_null()
    bad = []
    for text in facts.filter(given)["detail"].unique():
        try:
            read(text)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            bad.append(text)
    return f"a detail that no {fact} has", given & pl.col("detail").is_in(bad)
