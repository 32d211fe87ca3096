"""The first difference between two runs, and the state before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from sil.trace.facts import RUN, Fact

Row = dict[str, Any]

NEXT = 3
"""Number of facts shown of each run from the first difference on."""
NOT_DECIDED = (Fact.DECISION_CHARGED, Fact.PASSED_OVER, Fact.JOB_MAPPED)
"""Facts that may differ between runs with the same decisions."""

_OVER = (Fact.RUN_ENDED, Fact.RUN_PREEMPTED, Fact.RUN_LOST)


@dataclass(frozen=True)
class Running:
    job: int
    since_s: float
    where: str


@dataclass(frozen=True)
class Divergence:
    """The first `facts` facts of both runs are equal; `one` and `other` follow, empty where a trace ends.

    `waiting` are the jobs that had arrived and were neither refused nor running, in order of arrival;
    `running` are the running jobs, in order of start.
    """

    facts: int
    time_s: float
    waiting: tuple[int, ...]
    running: tuple[Running, ...]
    one: tuple[Row, ...]
    other: tuple[Row, ...]


def divergence(one: pl.DataFrame, other: pl.DataFrame) -> Divergence | None:
    """The first difference between the facts of two runs (columns of a trace); None if they are equal.

    Scheduler names, decision times and wait reasons are ignored.
    """
    sides = [_comparable(frame) for frame in (one, other)]
    n = min(map(len, sides))
    same = pl.all_horizontal(pl.col(name).eq_missing(pl.col(f"{name}_other")) for name in sides[0].columns)
    beside = sides[1].head(n).rename(lambda name: f"{name}_other")
    equal = pl.concat([sides[0].head(n), beside], how="horizontal").select(same.alias("same"))["same"]
    at = n if equal.all() else int(equal.arg_min() or 0)
    if at == len(sides[0]) == len(sides[1]):
        return None
    rests = [tuple(side[at : at + NEXT].iter_rows(named=True)) for side in sides]
    time_s = min(rest[0]["time_s"] for rest in rests if rest)
    waiting, running = _state(sides[0].head(at))
    return Divergence(at, time_s, waiting, running, rests[0], rests[1])


def sentence(fact: Row, places: Sequence[str] = ()) -> str:
    """A fact as a sentence; `places` are the names of resources."""
    job, what, resource = fact["job"], Fact(fact["event"]), fact["resource"]
    where = fact["machines"] if fact["machines"] is not None else resource
    if resource is not None and 0 <= resource < len(places):
        where = places[resource]
    match what:
        case Fact.JOB_ARRIVED:
            asks = f" and requests {fact['tasks']} nodes" if (fact["tasks"] or 1) > 1 else ""
            return f"job {job} arrives{asks}"
        case Fact.RUN_STARTED:
            estimate = "" if fact["expected_s"] is None else f", estimated run time {fact['expected_s']:g} s"
            return f"job {job} starts on {where}{estimate}"
        case Fact.RUN_ENDED:
            return f"job {job} ends"
        case Fact.RUN_STOPPED:
            return f"job {job} is stopped: one of its nodes is short of memory"
        case Fact.RUN_CONTINUED:
            return f"job {job} continues"
        case Fact.RUN_LOST:
            return f"the run of job {job} is lost"
        case Fact.ORDER_OVERTAKEN:
            return f"job {job} does not start on {where}, which is down"
        case Fact.PROMISED:
            return f"job {job} is promised a turnaround of at most {fact['expected_s']:g} s"
        case Fact.RUN_PREEMPTED:
            return f"job {job} is preempted"
        case Fact.JOB_MAPPED:
            return (
                f"job {job} is mapped to {where}, {fact['detail']}, estimated run time "
                f"{fact['expected_s']:g} s"
            )
        case Fact.PASSED_OVER:
            return f"job {job} waits: {fact['detail']}"
        case Fact.JOB_REFUSED:
            return f"job {job} is refused: {fact['detail']}"
        case Fact.FAULT:
            return f"the run ends with a fault ({fact['detail']}): {fact['message']}"
        case _:
            of_job = "" if job is None else f" of job {job}"
            rest = "" if fact["detail"] is None else f" ({fact['detail']})"
            return f"{what.value.replace('_', ' ')}{of_job}{rest}"


def _comparable(frame: pl.DataFrame) -> pl.DataFrame:
    decided = pl.col("event").is_in([fact.value for fact in NOT_DECIDED]).not_()
    return frame.filter(decided).drop(*RUN)


def _state(facts: pl.DataFrame) -> tuple[tuple[int, ...], tuple[Running, ...]]:
    """The waiting and the running jobs after some facts."""
    waiting: dict[int, None] = {}
    running: dict[int, Running] = {}
    for fact in facts.select("time_s", "event", "job", "run", "machines", "resource").iter_rows(named=True):
        job, event = fact["job"], fact["event"]
        if event == Fact.JOB_ARRIVED:
            waiting[job] = None
        elif event == Fact.JOB_REFUSED:
            waiting.pop(job, None)
        elif event == Fact.RUN_STARTED:
            waiting.pop(job, None)
            where = fact["machines"] if fact["machines"] is not None else str(fact["resource"])
            running[fact["run"]] = Running(job, fact["time_s"], where)
        elif event in _OVER:
            running.pop(fact["run"], None)
            if event != Fact.RUN_ENDED:
                waiting[job] = None
    return tuple(waiting), tuple(running.values())


def runs_of(facts: pl.DataFrame) -> Sequence[tuple[int, int, str]]:
    """The runs in a trace: point, replication and scheduler."""
    return facts.select(RUN).unique(maintain_order=True).rows()
