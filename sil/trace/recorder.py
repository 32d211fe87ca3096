"""Records the facts of a run as they happen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import polars as pl

from scheduler.model import DispatchOrder, Job
from scheduler.node_set import NodeSet
from sil.trace.facts import EVENTS, FACT_SCHEMA, Fact, of_run

CHUNK = 65_536
"""Number of facts per table of a trace that is written during the run."""

_PLACE = "place"
_OF_A_JOB = ("job_class", "queue", "user", "submitted_by", "size", "tasks")


class _Kind:
    """Facts with the same columns; the first is the position among all facts.

    The cells are stored in one flat list, since the garbage collector would traverse tuples repeatedly.
    """

    def __init__(self, *columns: str, event: Fact | None = None) -> None:
        """`event` if it is the same for all facts and so not among the columns."""
        self.cells: list[Any] = []
        self._columns = (_PLACE, *columns)
        self._event = event

    def table(self) -> pl.DataFrame:
        width = len(self._columns)
        table = pl.DataFrame(
            [
                pl.Series(name, self.cells[k::width], FACT_SCHEMA.get(name, pl.UInt32))
                for k, name in enumerate(self._columns)
            ]
        )
        return table if self._event is None else table.with_columns(event=pl.lit(self._event.value, EVENTS))


class TraceRecorder:
    """Records the facts of one run, in order.

    With `on_chunk`, facts are passed on in tables of at least `CHUNK` rows, at the end of a run; `close`
    passes on the rest. Without it, they are kept for `frame`.
    """

    def __init__(self, on_chunk: Callable[[pl.DataFrame], None] | None = None) -> None:
        self._on_chunk = on_chunk
        self._most = inf if on_chunk is None else CHUNK
        self._n = 0
        """Number of facts that were not passed on."""
        of_a_job = ("time_s", "job", *_OF_A_JOB)
        of_a_start = ("time_s", "job", "run", "resource", "machines", "tasks", "expected_s")
        of_others = (name for name in FACT_SCHEMA if name not in _OF_A_JOB)
        self._kinds = (
            _Kind(*of_a_job, event=Fact.JOB_ARRIVED),
            _Kind(*of_a_start, event=Fact.RUN_STARTED),
            _Kind("time_s", "job", "run", "resource", event=Fact.RUN_ENDED),
            _Kind(*of_others),
        )
        self._arrivals, self._starts, self._ends, self._others = (kind.cells for kind in self._kinds)

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
        self._n = n = self._n + 1
        self._others += (n, time_s, fact.value, job, run, resource, held, expected_s, detail, message)

    def note_arrival(self, time_s: float, job: Job) -> None:
        id_, job_class, _, user, queue, _, size, by, n_tasks, _, _ = job
        self._n = n = self._n + 1
        self._arrivals += (n, time_s, id_, job_class, queue, user, by, size, n_tasks)

    def note_start(self, time_s: float, order: DispatchOrder) -> None:
        run, job, resource, machines, expected_s = order
        held = machines if isinstance(machines, NodeSet) else NodeSet.of(machines)
        self._n = n = self._n + 1
        self._starts += (n, time_s, job.id, run, resource, str(held), held.n, expected_s)

    def note_end(self, time_s: float, order: DispatchOrder) -> None:
        run, job, resource, _, _ = order
        self._n = n = self._n + 1
        self._ends += (n, time_s, job.id, run, resource)
        if n >= self._most:
            self.close()

    def note_reason(self, time_s: float, job: int, why: str) -> None:
        """A job was left waiting."""
        self.note(time_s, Fact.PASSED_OVER, job=job, detail=why)

    def note_mapping(self, time_s: float, job: int, resource: int, start_s: float, takes_s: float) -> None:
        """A job was mapped to a resource, to start there at a time."""
        detail = f"to start at {start_s:.10g} s"
        self.note(time_s, Fact.JOB_MAPPED, job=job, resource=resource, expected_s=takes_s, detail=detail)

    def note_charge(self, asked_s: float, cost_s: float) -> None:
        """A decision was requested at a time and took this long."""
        self.note(asked_s, Fact.DECISION_CHARGED, expected_s=cost_s)

    def note_fault(self, time_s: float, rule: str, message: str, job: int | None) -> None:
        """The scheduler broke a rule, or an invariant is broken."""
        self.note(time_s, Fact.FAULT, job=job, detail=rule, message=message)

    def frame(self, point: int, replication: int, scheduler: str) -> pl.DataFrame:
        """The facts so far, as those of one run."""
        return of_run(self._facts(), point, replication, scheduler)

    def close(self) -> None:
        """Pass on the remaining facts."""
        if self._on_chunk is not None and self._n:
            self._on_chunk(self._facts())
            self._n = 0
            for kind in self._kinds:
                kind.cells.clear()

    def _facts(self) -> pl.DataFrame:
        tables = [kind.table() for kind in self._kinds]
        return pl.concat(tables, how="diagonal").sort(_PLACE)
