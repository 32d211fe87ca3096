"""Takes down the facts of a run as they happen; cheaply, since there are three for each job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any

import numpy as np
import polars as pl

from scheduler.model import DispatchOrder, Job
from scheduler.node_set import NodeSet
from sil.outcome.trace import EVENTS, FACT_SCHEMA, Fact, of_run

CHUNK = 65_536
"""Rows of a trace that is written as it goes."""

_ARRIVAL, _START, _END, _OTHER = range(4)
"""Kinds of rows."""

_CELLS = ("event", "job", "run", "resource", "machines", "expected_s", "detail", "message")
"""Of the other facts."""


class TraceRecorder:
    """Takes down the facts of one run, in order.

    With an `on_chunk`, facts are handed on in tables of `CHUNK` rows, and `close` hands on the rest; without
    one, they are kept for `frame`.
    """

    def __init__(self, on_chunk: Callable[[pl.DataFrame], None] | None = None) -> None:
        self._rows: list[tuple[float, int, Any]] = []
        """When, of which kind, and what: the job that arrives, the order of a run, else a value for each of
        _CELLS. They become columns many at a time."""
        self._on_chunk = on_chunk
        self._most_rows = inf if on_chunk is None else CHUNK

    def note(
        self,
        time_s: float,
        fact: Fact,
        *,
        job: int | None = None,
        run: int | None = None,
        resource: int | None = None,
        machines: Sequence[int] | None = None,
        expected_s: float | None = None,
        detail: str | None = None,
        message: str | None = None,
    ) -> None:
        held = None if machines is None else str(NodeSet.of(machines))
        cells = fact.value, job, run, resource, held, expected_s, detail, message
        self._rows.append((time_s, _OTHER, cells))

    def note_arrival(self, time_s: float, job: Job) -> None:
        self._rows.append((time_s, _ARRIVAL, job))

    def note_start(self, time_s: float, order: DispatchOrder) -> None:
        if not isinstance(order.machines, NodeSet):
            order = order._replace(machines=NodeSet.of(order.machines))  # theirs may change
        self._rows.append((time_s, _START, order))

    def note_end(self, time_s: float, order: DispatchOrder) -> None:
        self._rows.append((time_s, _END, order))
        if len(self._rows) >= self._most_rows:
            self.close()

    def note_reason(self, time_s: float, job: int, why: str) -> None:
        """A job was left waiting."""
        self.note(time_s, Fact.PASSED_OVER, job=job, detail=why)

    def note_mapping(self, time_s: float, job: int, resource: int, start_s: float, takes_s: float) -> None:
        """A job was mapped to a resource, to start there at a time."""
        detail = f"to start at {start_s:.10g} s"
        self.note(time_s, Fact.JOB_MAPPED, job=job, resource=resource, expected_s=takes_s, detail=detail)

    def note_charge(self, asked_s: float, cost_s: float) -> None:
        """A decision was asked for at a time, and took so long."""
        self.note(asked_s, Fact.DECISION_CHARGED, expected_s=cost_s)

    def note_fault(self, time_s: float, rule: str, message: str, job: int | None) -> None:
        """The scheduler broke a rule, or an invariant is broken."""
        self.note(time_s, Fact.FAULT, job=job, detail=rule, message=message)

    def frame(self, point: int, replication: int, scheduler: str) -> pl.DataFrame:
        """The facts so far, as those of one run."""
        return of_run(self._facts(), point, replication, scheduler)

    def close(self) -> None:
        """Hand on what is left."""
        if self._on_chunk is not None and self._rows:
            self._on_chunk(self._facts())
            self._rows.clear()

    def _facts(self) -> pl.DataFrame:
        times_s, kinds, subjects = zip(*self._rows, strict=True) if self._rows else ((), (), ())
        kind_of, about = np.array(kinds, dtype=np.int8), np.fromiter(subjects, object, len(subjects))
        places, tables = [], []
        for kind, in_columns in enumerate(_IN_COLUMNS):
            here = np.flatnonzero(kind_of == kind)
            if len(here) or kind == _OTHER:
                places.append(here)
                tables.append(in_columns(about[here].tolist()))
        facts: pl.DataFrame = pl.concat(tables, how="diagonal")[np.argsort(np.concatenate(places))]
        return facts.with_columns(pl.Series("time_s", times_s, pl.Float64)).select(*FACT_SCHEMA)


def _arrivals(jobs: Sequence[Job]) -> pl.DataFrame:
    ids, classes, _, users, queues, _, sizes, by, tasks, _, _ = zip(*jobs, strict=True)
    return _table(
        job=ids, job_class=classes, queue=queues, user=users, submitted_by=by, size=sizes, tasks=tasks
    ).with_columns(event=_always(Fact.JOB_ARRIVED))


def _starts(orders: Sequence[DispatchOrder]) -> pl.DataFrame:
    runs, jobs, resources, held, expected_s = zip(*orders, strict=True)
    return _table(
        job=[job.id for job in jobs],
        run=runs,
        resource=resources,
        machines=[str(nodes) for nodes in held],
        tasks=[len(nodes) for nodes in held],
        expected_s=expected_s,
    ).with_columns(event=_always(Fact.RUN_STARTED))


def _ends(orders: Sequence[DispatchOrder]) -> pl.DataFrame:
    runs, jobs, resources, _, _ = zip(*orders, strict=True)
    return _table(job=[job.id for job in jobs], run=runs, resource=resources).with_columns(
        event=_always(Fact.RUN_ENDED)
    )


def _others(cells: Sequence[tuple[Any, ...]]) -> pl.DataFrame:
    columns = zip(*cells, strict=True) if cells else ([] for _ in _CELLS)
    told = dict(zip(_CELLS, columns, strict=True))
    return _table(**{name: told.get(name, [None] * len(cells)) for name in FACT_SCHEMA})


def _table(**columns: Iterable[Any]) -> pl.DataFrame:
    return pl.DataFrame([pl.Series(name, values, FACT_SCHEMA[name]) for name, values in columns.items()])


def _always(fact: Fact) -> pl.Expr:
    return pl.lit(fact.value, EVENTS)


_IN_COLUMNS: tuple[Callable[[Sequence[Any]], pl.DataFrame], ...] = _arrivals, _starts, _ends, _others
"""For each kind of rows."""
