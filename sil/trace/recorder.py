"""Records the facts of a run as they happen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from math import inf
from typing import Any, TypedDict, Unpack

import polars as pl

from scheduler.model import DispatchOrder, Job, Share
from scheduler.node_request import Node
from scheduler.node_set import NodeSet
from sil.trace.facts import EVENTS, FACT_SCHEMA, Fact, of_run
from sil.trace.held import HELD, column, intervals_in, request_text, shares_in
from sil.trace.stream import ROWS

CHUNK = ROWS
"""The number of facts per table of a trace that is written during the run."""

_POSITION = "position"
ROW = ("time_s", "event", "job", "run", "resource", "machines", "shares", "detail")
"""What invariants read of a fact."""
Row = tuple[Any, ...]
"""A fact with intervals and shares as tuples."""
_NO_FACTS = pl.DataFrame(schema={_POSITION: pl.UInt32, **FACT_SCHEMA})
_OF_A_JOB = ("job_class", "queue", "user", "submitted_by", "size", "tasks")
_OTHERS = ("job", "run", "resource", "machines", "expected_s", "detail", "message")


class Columns(TypedDict, total=False):
    """Columns of a fact; the others are null."""

    job: int | None
    run: int
    resource: int
    machines: Sequence[int]
    expected_s: float | None
    detail: str | None
    message: str


class _Kind:
    """Facts with the same columns; the first is the position among all facts.

    The cells are stored in one flat list, since the garbage collector would traverse tuples repeatedly.
    """

    def __init__(self, *columns: str, event: Fact | None = None) -> None:
        """`event` if it is the same for all facts and so not among the columns."""
        self.cells: list[Any] = []
        self._columns, self._event = (_POSITION, *columns), event

    def column(self, name: str) -> list[Any]:
        """The values of a column; None where the kind has none."""
        width = len(self._columns)
        if name in self._columns:
            return self.cells[self._columns.index(name) :: width]
        same = self._event.value if name == "event" and self._event is not None else None
        return [same] * (len(self.cells) // width)

    def table(self) -> pl.DataFrame:
        columns = [
            column(name, self.column(name))
            if name in HELD
            else pl.Series(name, self.column(name), FACT_SCHEMA.get(name, pl.UInt32))
            for name in self._columns
        ]
        if self._event is not None:
            one = pl.Series("event", [self._event.value], EVENTS)
            columns.append(one.new_from_index(0, len(self.cells) // len(self._columns)))
        return pl.DataFrame(columns)


class TraceRecorder:
    """Records the facts of one run, in order.

    With `on_chunk`, facts are passed on in tables of at least `CHUNK` rows, at the end of a run; `close`
    passes on the rest. Without it, they are kept for `frame`. A run that takes whole ones of `nodes` has as
    many tasks as these have cores, and all their GPUs.
    """

    def __init__(
        self, on_chunk: Callable[[pl.DataFrame], None] | None = None, nodes: Sequence[Node] = ()
    ) -> None:
        self._nodes = nodes
        self._on_chunk = on_chunk
        self._most = inf if on_chunk is None else CHUNK
        self._n = 0
        """The number of facts that were not passed on."""
        of_a_start = "time_s", "job", "run", "resource", "machines", "shares", "tasks", *_OTHERS[4:6]
        self._kinds = (
            _Kind("time_s", "job", *_OF_A_JOB, "expected_s", "detail", event=Fact.JOB_ARRIVED),
            _Kind(*of_a_start, event=Fact.RUN_STARTED),
            _Kind("time_s", "job", "run", "resource", event=Fact.RUN_ENDED),
            _Kind("time_s", "event", *_OTHERS),
        )
        self.is_muted = False
        self._abandoned: list[int] = []
        """Runs that do not count; only without `on_chunk`."""
        cells = (kind.cells for kind in self._kinds)
        self._arrivals, self._starts, self._ends, self._others = cells

    @contextmanager
    def muted(self) -> Iterator[None]:
        """Within this context, no fact is recorded."""
        n, sizes = self._n, [len(kind.cells) for kind in self._kinds]
        self.is_muted = True
        try:
            yield
        finally:
            self.is_muted = False
            self._n = n
            for kind, size in zip(self._kinds, sizes, strict=True):
                del kind.cells[size:]

    def note(self, time_s: float, fact: Fact, **columns: Unpack[Columns]) -> None:
        cells: dict[str, Any] = {**columns}
        if "machines" in cells:
            cells["machines"] = NodeSet.of(cells["machines"]).intervals
        self._n = n = self._n + 1
        self._others += (n, time_s, fact.value, *map(cells.get, _OTHERS))

    def note_arrival(self, time_s: float, job: Job) -> None:
        id_, job_class, _, user, queue, _, size, by, n_tasks, limit_s, _, request, _, _ = job
        self._n = n = self._n + 1
        detail = None if request is None else request_text(request)
        self._arrivals += (n, time_s, id_, job_class, queue, user, by, size, n_tasks, limit_s, detail)

    def note_start(self, time_s: float, order: DispatchOrder) -> None:
        run, job, resource, machines, expected_s, shares = order
        nodes = machines if isinstance(machines, NodeSet) else NodeSet.of(machines)
        n_tasks = nodes.n
        if shares:
            n_tasks = job.n_tasks
            if job.request is not None and job.request.exclusive and self._nodes:
                whole = [self._nodes[share.node] for share in shares]
                n_tasks = round(sum(node.cores for node in whole))
                shares = tuple(
                    Share(node, chunks, (*range(len(has.gpus)),))
                    for (node, chunks, _), has in zip(shares, whole, strict=True)
                )
        self._n = n = self._n + 1
        of_run = time_s, job.id, run, resource, nodes.intervals, shares or None, n_tasks, expected_s
        chosen = job.request is not None and job.request.elsewhere and ",".join(job.request.partitions)
        self._starts += (n, *of_run, chosen or None)

    def note_end(self, time_s: float, order: DispatchOrder) -> None:
        run, job, resource, *_ = order
        self._n = n = self._n + 1
        self._ends += (n, time_s, job.id, run, resource)
        if n >= self._most:
            self.close()

    def note_reason(self, time_s: float, job: int, reason: str) -> None:
        """Record why a job waits."""
        self._n = n = self._n + 1  # as `note`, for facts of which there are very many
        self._others += (n, time_s, Fact.PASSED_OVER.value, job, None, None, None, None, reason, None)

    def note_mapping(self, time_s: float, job: int, resource: int, start_s: float, run_s: float) -> None:
        """Record that a job was mapped to a resource, to start at `start_s` and run for an estimated
        `run_s`."""
        detail = f"to start at {start_s:.10g} s"
        self.note(time_s, Fact.JOB_MAPPED, job=job, resource=resource, expected_s=run_s, detail=detail)

    def note_charge(self, asked_s: float, cost_s: float) -> None:
        """Record that a decision was requested at a time and took this long."""
        self.note(asked_s, Fact.DECISION_CHARGED, expected_s=cost_s)

    def note_abandoned(self, time_s: float, order: DispatchOrder) -> None:
        """Record that the manager gave a run up, which does not count even if it ends, or has ended."""
        self._abandoned.append(order.run)
        self.note(time_s, Fact.RUN_ABANDONED, job=order.job.id, run=order.run, resource=order.resource)

    def note_fault(self, time_s: float, rule: str, message: str, job: int | None) -> None:
        """Record that the scheduler broke a rule, or that an invariant is broken."""
        self.note(time_s, Fact.FAULT, job=job, detail=rule, message=message)

    def frame(self, point: int, replication: int, scheduler: str) -> pl.DataFrame:
        """The facts so far, as those of one run."""
        return of_run(self._facts(), point, replication, scheduler)

    def rows(self) -> list[Row]:
        """The facts so far, in order: the columns of ROW, without the way through a table."""
        names = (_POSITION, *ROW)
        of_kinds = (zip(*map(kind.column, names), strict=True) for kind in self._kinds)
        rows = [row[1:] for row in sorted(chain.from_iterable(of_kinds))]
        abandoned, ended = set(self._abandoned), Fact.RUN_ENDED.value
        return (
            [
                (time_s, Fact.RUN_DISCARDED.value, job, run, *rest)
                if event == ended and run in abandoned
                else (time_s, event, job, run, *rest)
                for time_s, event, job, run, *rest in rows
            ]
            if abandoned
            else rows
        )

    def close(self) -> None:
        """Pass on the remaining facts."""
        if self._on_chunk is not None and self._n:
            self._on_chunk(self._facts())
            self._n = 0
            for kind in self._kinds:
                kind.cells.clear()

    def _facts(self) -> pl.DataFrame:
        tables = [kind.table() for kind in self._kinds if kind.cells]
        facts = pl.concat([_NO_FACTS, *tables], how="diagonal").sort(_POSITION)
        if not self._abandoned:
            return facts
        is_discarded = (pl.col("event") == Fact.RUN_ENDED) & pl.col("run").is_in(self._abandoned)
        discarded = pl.lit(Fact.RUN_DISCARDED.value, EVENTS)
        return facts.with_columns(event=pl.when(is_discarded).then(discarded).otherwise("event"))


def rows_of(facts: pl.DataFrame) -> list[Row]:
    """Facts as rows of ROW."""
    read = {"machines": intervals_in, "shares": shares_in}
    columns = (read.get(name, pl.Series.to_list)(facts[name]) for name in ROW)
    return list(zip(*columns, strict=True))
