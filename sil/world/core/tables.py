"""Chunks of the compiled loop's facts as tables of a trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scheduler.model import ON_NODES
from sil.trace.facts import CODES, EVENTS, MEASURED_SCHEMA, SCHEMA, Fact
from sil.trace.held import lists, machines_of
from sil.workload.job_log import user_names
from sil.world.core.codes import ARRIVED, CHANGED, DOWN, ENDED, HOLDING, LOST, PREEMPTED, REFUSED, STARTED, UP
from sil.world.core.facts import Facts

_FACTS = (
    *(Fact.JOB_ARRIVED, Fact.RUN_STARTED, Fact.RUN_ENDED, Fact.JOB_REFUSED),
    *(Fact.JOB_INELIGIBLE, Fact.JOB_ELIGIBLE, Fact.RUN_PREEMPTED, Fact.RUN_LOST),
    *(Fact.MACHINE_DOWN, Fact.MACHINE_UP, Fact.RUN_STOPPED, Fact.RUN_CONTINUED),
)
_CODE_OF = np.array([*(CODES[fact] for fact in _FACTS), 0], np.uint8)
"""The code of a fact in a trace, by its code in the loop, of which the last is CHANGED."""


@dataclass(frozen=True)
class JobNames:
    """Of each job in order of arrival: its number, the number of its user, of whom some have names, how many
    tasks; further columns of the fact that it arrives, each with one text for all or one for each; and why
    jobs in some places are refused. Of some changes of nodes, the facts and their details."""

    job: NDArray[np.int64]
    user: NDArray[np.int64]
    users: Mapping[int, str]
    size: NDArray[np.int64]
    on_arrival: Mapping[str, str | pl.Series]
    refusals: Mapping[int, str] = field(default_factory=dict)
    changes: Mapping[int, tuple[Fact, str]] = field(default_factory=dict)


def facts_table(
    facts: Facts, names: JobNames, run: tuple[int, int, str], wanted: Sequence[str] = (*SCHEMA,)
) -> pl.DataFrame:
    """The facts of a chunk as those of a run, with some columns of a trace."""
    n, (point, replication, scheduler) = facts.n, run
    event, job = np.asarray(facts.event)[:n], np.asarray(facts.job)[:n]
    held_end, whole_cores = np.asarray(facts.held_end)[: n + 1], np.asarray(facts.whole_cores)[:n]
    held = np.asarray(facts.held)[: held_end[-1]]
    codes, of_nodes = _CODE_OF[event], np.isin(event, HOLDING)
    details = dict(facts.texts)
    if names.changes and (at := np.flatnonzero(event == CHANGED)).size:
        of_nodes, changes = of_nodes | (event == CHANGED), np.asarray(facts.run)[at].tolist()
        codes[at] = [CODES[names.changes[x][0]] for x in changes]
        details |= {int(place): names.changes[x][1] for place, x in zip(at, changes, strict=True)}
    rows = pl.DataFrame(
        {
            "event": event,
            "place": job,
            "job": names.job[job],
            "user": names.user[job],
            "run": np.asarray(facts.run)[:n],
            "tasks": np.where(whole_cores > 0, whole_cores, names.size[job]),
            "expected_s": np.asarray(facts.expected_s)[:n],
        }
    )
    arrived, started = pl.col("event") == ARRIVED, pl.col("event") == STARTED
    has_run = started | pl.col("event").is_in([*HOLDING, ENDED, LOST])
    may_expect = pl.col("event").is_in([ARRIVED, PREEMPTED, LOST]) & pl.col("expected_s").is_finite()
    users = user_names(rows.filter(arrived)["user"].unique(), names.users)
    columns: dict[str, pl.Expr] = {
        "point": pl.lit(point),
        "replication": pl.lit(replication),
        "scheduler": pl.lit(scheduler),
        "time_s": pl.lit(pl.Series(np.asarray(facts.time_s)[:n])),
        "event": pl.lit(pl.Series(codes)).cat.to(EVENTS),
        "job": pl.when(~pl.col("event").is_in([DOWN, UP, CHANGED])).then("job"),
        "run": pl.when(has_run).then("run"),
        "resource": pl.when(has_run).then(ON_NODES).when(pl.col("event").is_in([DOWN, UP])).then("run"),
        "machines": lists("machines", held_end, held[:, :2], of_nodes),
        "user": _texts(pl.when(arrived).then("user"), users),
        "tasks": pl.when(arrived | started).then("tasks"),
        "expected_s": pl.when(started | may_expect).then("expected_s"),
    }
    if "detail" in names.on_arrival:  # jobs request parts of nodes
        columns["machines"] = lists("machines", *machines_of(held_end, held[:, 0]), of_nodes)
        columns["shares"] = lists("shares", held_end, held, event == STARTED)
    for name, texts in names.on_arrival.items():
        one = pl.lit(texts) if isinstance(texts, str) else pl.lit(texts).gather("place")
        columns[name] = pl.when(arrived).then(one)
    why = _texts(pl.when(pl.col("event") == REFUSED).then("place"), names.refusals)
    columns["detail"] = pl.coalesce(
        _texts(pl.int_range(pl.len()), details), columns.get("detail", pl.lit(None)), why
    )
    return rows.select(columns.get(name, pl.lit(None)).cast(SCHEMA[name]).alias(name) for name in wanted)


def _texts(numbers: pl.Expr, texts: Mapping[int, str]) -> pl.Expr:
    """The text of each number; null where there is none."""
    return numbers.replace_strict(texts, default=None, return_dtype=pl.String) if texts else pl.lit(None)


def decisions_table(facts: Facts, n_nodes: int, wall_s: float) -> pl.DataFrame:
    """The decisions of a chunk, with the columns of MEASURED_SCHEMA: each took the mean of `wall_s`."""
    n = facts.n_decisions
    return pl.DataFrame(
        {
            "time_s": np.asarray(facts.asked_s)[:n],
            "n_jobs": np.asarray(facts.n_waiting)[:n],
            "n_resources": np.full(n, n_nodes),
            "n_decisions": np.asarray(facts.n_started)[:n],
            "wall_s": np.full(n, wall_s / max(n, 1)),
            "cpu_s": pl.repeat(None, n, dtype=pl.Float64, eager=True),
            "gc_s": np.zeros(n),
        },
        schema=MEASURED_SCHEMA,
    )
