"""The trace: one row per simulated fact. All results in `sil.outcome` are computed from it.

| column | holds |
|---|---|
| point, replication, scheduler | the run it belongs to; a point is one setting of the experiment's grid |
| time_s | simulated seconds from the start of the experiment |
| event | one of EVENTS |
| job, run | ids; a run is one attempt at a job |
| resource | index of the machine, or n_machines + index of the cluster; index of the machine that changed |
| | state or of the node whose local user came or left; -1 for runs on nodes; with several clusters, |
| | n_machines + index of the cluster for runs, and for jobs that are moved from there |
| machines | the machines that a run holds, or that operators drain, resume or reserve: closed intervals, |
| | from `first` to `last` |
| shares | what a run that starts uses of nodes: on each `node`, some `chunks` and `gpus` (`sil.trace.held`) |
| job_class, queue, user, submitted_by, size | of a job that arrives; submitted_by if it is another user |
| tasks | number of parallel tasks of a job that arrives; number of machines of a run that starts; cores on |
| | nodes of which jobs request parts |
| expected_s | estimated run time of a run that starts or a job that is mapped; promised turnaround; |
| | time since the last checkpoint of a run that is lost or preempted, where jobs have any; |
| | from the arrival of a job to its deadline; simulated duration of a decision, whose time is that of |
| | the request |
| detail | request of a job that arrives (`sil.trace.held`); name of an interconnect; reason of a |
| | refusal or of waiting; planned start of a mapped job; |
| | metadata of a job; rule of a fault; why machines refuse an order; why a monitor's reading is |
| | impossible; that a lost run failed; reason of a drain; name and times of a reservation, |
| | in JSON; why a job is not eligible to run, or was not; to which clusters a job is moved |
| message | a fault in one sentence |
| log_id | the id of the job in its log; only where ids are not the numbers of jobs |
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scheduler.core.arrays import Ints, Ints2
from sil.trace.held import HELD, records_in
from sil.trace.log_ids import LOG_ID
from sil.trace.stream import ParquetStream, Schema

METADATA_KEY = "sil"
TRACE = "trace.parquet"
TIMINGS = "timings.parquet"


class Fact(StrEnum):
    JOB_ARRIVED = "job_arrived"
    JOB_REFUSED = "job_refused"
    JOB_DESCRIBED = "job_described"
    PASSED_OVER = "passed_over"
    JOB_MAPPED = "job_mapped"
    DECISION_CHARGED = "decision_charged"
    RUN_STARTED = "run_started"
    ORDER_OVERTAKEN = "order_overtaken"
    RUN_ENDED = "run_ended"
    RUN_PREEMPTED = "run_preempted"
    RUN_LOST = "run_lost"
    RUN_STOPPED = "run_stopped"
    RUN_CONTINUED = "run_continued"
    LOCAL_USER_CAME = "local_user_came"
    LOCAL_USER_GONE = "local_user_gone"
    PROMISED = "promised"
    READING_REFUSED = "reading_refused"
    MONITOR_SILENT = "monitor_silent"
    MACHINE_DOWN = "machine_down"
    MACHINE_UP = "machine_up"
    INTERCONNECT_DOWN = "interconnect_down"
    INTERCONNECT_UP = "interconnect_up"
    FAULT = "fault"
    ORDER_REFUSED = "order_refused"
    RUN_ABANDONED = "run_abandoned"
    RUN_DISCARDED = "run_discarded"
    MANAGER_DOWN = "manager_down"
    MANAGER_UP = "manager_up"
    NODES_DRAINED = "nodes_drained"
    NODES_RESUMED = "nodes_resumed"
    NODES_RESERVED = "nodes_reserved"
    JOB_INELIGIBLE = "job_ineligible"
    JOB_ELIGIBLE = "job_eligible"
    JOB_MOVED = "job_moved"


FAILED = "its job failed"
"""The detail of RUN_LOST where nothing was down: the job itself failed. Else it has none."""

EVENTS = pl.Enum([fact.value for fact in Fact])
CODES = {fact: code for code, fact in enumerate(Fact)}
"""The physical values of EVENTS."""

RUN_SCHEMA: Schema = {"point": pl.Int32, "replication": pl.Int32, "scheduler": pl.String}
"""The columns that identify one run of the harness."""
RUN = tuple(RUN_SCHEMA)

FACT_SCHEMA: Schema = {
    "time_s": pl.Float64,
    "event": EVENTS,
    "job": pl.Int64,
    "run": pl.Int64,
    "resource": pl.Int32,
    **HELD,
    "job_class": pl.String,
    "queue": pl.String,
    "user": pl.String,
    "submitted_by": pl.String,
    "size": pl.Float64,
    "tasks": pl.Int32,
    "expected_s": pl.Float64,
    "detail": pl.String,
    "message": pl.String,
}
SCHEMA: Schema = {**RUN_SCHEMA, **FACT_SCHEMA}

MEASURED_SCHEMA: Schema = {
    "time_s": pl.Float64,
    "n_jobs": pl.Int64,
    "n_resources": pl.Int64,
    "n_decisions": pl.Int64,
    "wall_s": pl.Float64,
    "cpu_s": pl.Float64,
    "gc_s": pl.Float64,
}
TIMINGS_SCHEMA: Schema = {**RUN_SCHEMA, **MEASURED_SCHEMA}
"""Measured decision times, separate from the trace: one row per decision. Wall and CPU seconds
include those of garbage collection."""


PREDICTIONS_SCHEMA: Schema = {
    **RUN_SCHEMA,
    "made_s": pl.Float64,
    "predictor": pl.String,
    "job": pl.Int64,
    "jobs_there": pl.Int32,
    "start_s": pl.Float64,
    "end_s": pl.Float64,
    "low_s": pl.Float64,
    "high_s": pl.Float64,
}
"""On time-shared nodes: each predictor's prediction for each unfinished job, at each arrival. A running job
has no start; an infinite end means never. `low_s` and `high_s` bound the end, if known."""

LOCAL_USERS_SCHEMA: Schema = {
    **RUN_SCHEMA,
    "node": pl.Int32,
    "slowdown": pl.Float64,
    "tight_share": pl.Float64,
    "response_s": pl.Float64,
    "response_95_s": pl.Float64,
    "late_share": pl.Float64,
}
"""On time-shared nodes: the response of each node to its local users (`LocalResponse`)."""

PERIODS_SCHEMA: Schema = {
    **RUN_SCHEMA,
    "run": pl.Int64,
    "job": pl.Int64,
    "periods": pl.Int64,
    "missed": pl.Int64,
    "mean_tardiness_s": pl.Float64,
    "max_tardiness_s": pl.Float64,
}
"""On time-shared nodes in detail: how the tasks of each run of a periodic job kept its periods."""

SCHEMAS = {
    "facts": SCHEMA,
    "timings": TIMINGS_SCHEMA,
    "predictions": PREDICTIONS_SCHEMA,
    "local_users": LOCAL_USERS_SCHEMA,
    "periods": PERIODS_SCHEMA,
}


class RunTables(NamedTuple):
    """The tables of one run, or of many."""

    facts: pl.DataFrame
    timings: pl.DataFrame
    predictions: pl.DataFrame
    local_users: pl.DataFrame
    periods: pl.DataFrame

    @classmethod
    def of(cls, **tables: pl.DataFrame) -> RunTables:
        """The given tables; the others are empty."""
        return cls(
            **{name: tables.get(name, pl.DataFrame(schema=schema)) for name, schema in SCHEMAS.items()}
        )


def of_run(
    rows: pl.DataFrame, point: int, replication: int, scheduler: str, schema: Schema = SCHEMA
) -> pl.DataFrame:
    """Facts, or rows of another table, as those of one run, with all columns of a trace, or of that table."""
    run = {"point": point, "replication": replication, "scheduler": scheduler}
    named = {name: pl.lit(value).alias(name) for name, value in run.items()}
    return rows.select([named.get(name, pl.col(name)).cast(kind) for name, kind in schema.items()])


def timings_frame(cells: Sequence[float], run: tuple[int, int, str]) -> pl.DataFrame:
    """Measured decisions of one run as rows of timings.parquet; `cells`: MEASURED_SCHEMA's values of each."""
    width = len(MEASURED_SCHEMA)
    columns = [
        pl.Series(name, cells[k::width], kind) for k, (name, kind) in enumerate(MEASURED_SCHEMA.items())
    ]
    return of_run(pl.DataFrame(columns), *run, TIMINGS_SCHEMA)


@dataclass(frozen=True)
class RunDescription:
    """What was run; stored in the metadata of the trace file."""

    experiment: str
    description: str
    version: str
    scheduler_source: str
    """Hash of the scheduler package's source: the same code under test gives the same hash."""
    seed: int
    replications: int
    schedulers: tuple[str, ...]
    site: str
    machines: tuple[str, ...]
    machine_classes: tuple[str, ...]
    """The class of each machine."""
    clusters: tuple[str, ...]
    job_classes: tuple[str, ...]
    workload: str
    points: tuple[dict[str, Any], ...]
    """The settings of the grid, one per point; one empty point without a grid."""
    shared_cluster: str | None = None
    """The cluster of time-shared nodes; then `machines` are its members, and there are no clusters."""
    runs_known: int = 0
    """Number of the last run in the site's history when the experiment began."""
    nodes: tuple[str, ...] = ()
    """How the nodes of partitions are modelled, in two sentences; empty on other machines."""
    cores: int = 0
    """The cores of all nodes of partitions."""
    gpus: int = 0
    node_cores: tuple[int, ...] = ()
    """The cores of each node of partitions."""
    bounded_slowdown_threshold_s: float = 10.0
    cluster_schedulers: tuple[str, ...] = ()
    """The schedulers of the clusters, if each of several has its own, and is the resource of its runs."""

    @property
    def first_parallel(self) -> int:
        """The first resource on which all jobs are parallel."""
        return self.n_machines + len(self.cluster_schedulers)

    @property
    def capacity(self) -> int:
        """What the tasks of runs use at a time: cores of nodes, else machines."""
        return self.cores or self.n_machines

    @property
    def n_machines(self) -> int:
        return len(self.machines)

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the settings that vary over the points."""
        return tuple(self.points[0])

    def values_of(self, axis: str) -> list[Any]:
        """The values that a setting takes, in order."""
        return list(dict.fromkeys(point[axis] for point in self.points))


def trace_stream(path: Path, description: Mapping[str, object], has_log_ids: bool = False) -> ParquetStream:
    """A trace file to write facts to, with the description of what was run in its metadata; `has_log_ids` if
    facts have the column LOG_ID, too."""
    schema = {**SCHEMA, **({LOG_ID: pl.String} if has_log_ids else {})}
    return ParquetStream(path, schema, {METADATA_KEY: json.dumps(description, sort_keys=True)})


def write_trace(path: Path, facts: pl.DataFrame, description: RunDescription) -> None:
    with trace_stream(path, asdict(description)) as stream:
        stream.write(facts)


NONE = -1
"""Stands for a number that a fact does not have."""

Places = NDArray[np.int64]


class FactColumns:
    """Some columns of facts, in the order of a trace. Arrays are read-only."""

    def __init__(self, table: pl.DataFrame) -> None:
        self._table = table

    def __len__(self) -> int:
        return len(self._table)

    @cached_property
    def time_s(self) -> NDArray[np.float64]:
        return self._table["time_s"].to_numpy()

    @cached_property
    def event(self) -> NDArray[np.integer[Any]]:
        """The kind of each fact, as one of CODES."""
        return self._table["event"].to_physical().to_numpy()

    @cached_property
    def job(self) -> NDArray[np.int64]:
        return self._numbers("job")

    @cached_property
    def run(self) -> NDArray[np.int64]:
        return self._numbers("run")

    @cached_property
    def resource(self) -> NDArray[np.int32]:
        return self._numbers("resource")

    @cached_property
    def tasks(self) -> NDArray[np.int32]:
        return self._numbers("tasks")

    def detail(self, place: int) -> str | None:
        """The detail of the fact in a place."""
        detail: str | None = self._table["detail"][place]
        return detail

    def places(self, fact: Fact) -> Places:
        return np.flatnonzero(self.event == CODES[fact])

    def held(self, name: str, places: Places) -> tuple[Ints, Ints2]:
        """What facts in some places hold (a column of HELD): the k-th has the rows from `ends[k]` on, before
        `ends[k + 1]`. Numbers that are null are NONE."""
        lists = self._table[name]
        n_of_all = lists.list.len().fill_null(0).to_numpy()
        ends = np.concatenate([[0], np.cumsum(n_of_all[places], dtype=np.int64)])
        numbers = records_in(lists).fill_null(NONE).cast(pl.Int64).to_numpy(order="c")
        if ends[-1] != len(numbers):  # other facts hold something, which is rare
            numbers = numbers[np.repeat(np.isin(np.arange(len(self)), places), n_of_all)]
        return ends, numbers

    def frame(self, columns: Sequence[str], places: Places) -> pl.DataFrame:
        """Some columns in some places."""
        return self._table.select(columns)[places]

    def slice(self, begin: int, end: int) -> FactColumns:
        """The facts from `begin` on, before `end`: views of the same arrays."""
        return FactColumns(self._table.slice(begin, end - begin))

    def with_events(self, event: NDArray[np.integer[Any]]) -> FactColumns:
        """These facts with other codes of events."""
        changed = FactColumns(self._table)
        changed.event = event
        return changed

    def part(self, begin: int, end: int) -> FactColumns:
        """As `slice`, with the same events; themselves if that is all."""
        if begin == 0 and end == len(self):
            return self
        return self.slice(begin, end).with_events(self.event[begin:end])

    def followed_by(self, more: FactColumns) -> FactColumns:
        """These facts and more, which have the same columns."""
        return FactColumns(pl.concat([self._table, more._table]))

    def without(self, fact: Fact) -> FactColumns:
        return FactColumns(self._table[np.flatnonzero(self.event != CODES[fact])])

    def _numbers(self, name: str) -> NDArray[Any]:
        return self._table[name].fill_null(NONE).to_numpy()
