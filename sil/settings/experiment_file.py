"""The experiment file."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, ValidationError, model_validator

from scheduler.managers.queues import Unkept
from sil.settings.faults import ClockJumpTable, CrashesTable, FailuresTable, GuardTable, MessagesTable
from sil.settings.log_tables import HistoryTable, LogTable, check_sizes
from sil.settings.notional import Notional
from sil.settings.replays import Estimates, Expiry
from sil.settings.time_shared_table import Factors, SharedNodesTable
from site_db.files import toml_file
from site_db.files.input_errors import InvalidFile
from site_db.files.toml_file import Count, MistakeAt, NotNegative, Period, Positive, Table
from site_db.site_file.tables import DataTable, QueueTable

Shares = dict[str, Positive]
GridValue = int | float | str | tuple[str, ...]
Files = str | tuple[str, ...]
"""The name of a file, or of several; relative ones start at the folder of the file that names them."""


class AtOnceTable(Table):
    kind: Literal["at_once"] = "at_once"


class PoissonTable(Table):
    kind: Literal["poisson"]
    jobs_per_quantum: Positive
    quantum_s: Period = 10.0


class WorkloadTable(Table):
    """The arriving jobs. Without `mix`, every job class of the site has the same share."""

    jobs: Count
    arrivals: AtOnceTable | PoissonTable = Field(default=AtOnceTable(), discriminator="kind")
    order: Literal["random", "shuffled", "cyclic"] = "random"
    queue_order: Literal["random", "blocks"] = "random"
    mix: Shares = Field(default_factory=dict)
    queues: Shares = Field(default_factory=dict)
    users: Shares = Field(default_factory=lambda: {"anyone": 1.0})
    sizes: dict[str, Annotated[tuple[Positive, ...], Field(min_length=1)]] = Field(default_factory=dict)


def check_one_workload(*tables: Table | None) -> None:
    """Raise ValueError unless the jobs are described by just one table."""
    if sum(table is not None for table in tables) != 1:
        raise ValueError("the arriving jobs are those of one of the tables [workload], [history] and [log]")


class EveryQuantumTable(Table):
    kind: Literal["every_quantum"]
    quantum_s: Period = 10.0


class OnRequestTable(Table):
    kind: Literal["on_request"] = "on_request"
    least_distance_s: NotNegative = 0.0


class ExactTable(Table):
    kind: Literal["exact"] = "exact"


class VariationTable(Table):
    kind: Literal["normal", "lognormal", "gamma"]
    coefficient_of_variation: Positive


class EmpiricalTable(Table):
    kind: Literal["empirical"]
    ratios: Annotated[tuple[Positive, ...], Field(min_length=1)]


class MonitorsTable(Table):
    """Errors of the monitors: readings that are late, or wrong and corrected later."""

    delay_s: NotNegative = 0.0
    misread_share: float = Field(default=0.0, ge=0, le=1, strict=True)
    corrected_after_s: Positive = 60.0


class OutageTable(Table):
    """A machine or an interconnect is down for a while."""

    machine: str | None = None
    interconnect: str | None = None
    from_s: NotNegative
    to_s: Positive

    @model_validator(mode="after")
    def _is_an_outage(self) -> OutageTable:
        if (self.machine is None) == (self.interconnect is None):
            raise ValueError("an outage names either a machine or an interconnect")
        if self.to_s <= self.from_s:
            raise ValueError(
                f"an outage ends after it begins, not at {self.to_s:g} s from {self.from_s:g} s on"
            )
        return self


class PreemptionTable(Table):
    """Limits of preemption."""

    raised_after: Count | None = None
    least_gain_s: NotNegative = 0.0
    gain: Literal["net", "own"] = "net"


class ExperienceTable(Table):
    """`none`: the site's history stays as it is. `run`: each run learns from its own completions."""

    learning: Literal["none", "run"] = "none"


class MemberTable(Table):
    """One of several clusters, with its own scheduler and users. What it does not state is as the experiment
    has it; its `workload` is what is submitted there. A site may be in a database: `site.db#SITE`."""

    name: str
    scheduler: str
    site: str | None = None
    workload: WorkloadTable | None = None
    shared_nodes: SharedNodesTable | None = None


class TransfersTable(Table):
    """How long the data of a job take from one cluster to another: `seconds` from one to the other, by their
    names, and the megabytes at `bandwidth_mbit_per_s`: without, that of the interconnects that both have,
    else 1 Gbit/s. The `data` of a job, by its class, are those of the site unless they are given here."""

    seconds: dict[str, dict[str, NotNegative]] = Field(default_factory=dict)
    data: dict[str, DataTable] = Field(default_factory=dict)
    bandwidth_mbit_per_s: Positive | None = None


class RunSettings(Table):
    """The settings of runs that experiments and plans have in common.

    * `policy`: On nodes, as in replays: files that state priorities, fair share and limits of Slurm.
    * `policy_settings`: Settings of the policy's slurm.conf that are others than there, like
      PriorityWeightFairshare=0.
    * `events`: On nodes, as in replays: files of drains, outages, reservations, dependencies and holds.
    * `queues`: Instead of the queues of the site.
    * `planned_starts`: What becomes of planned runs when machines are free sooner than was planned.
    * `checkpoint_interval_s`: Jobs save what they have done after this much work, and restart from there when
      their run was lost or preempted. Default: they restart from the beginning.
    * `checkpoint_cost_s`: Time that a checkpoint takes, which lengthens run times and estimates.
    * `max_batch_requeue`: How often a job is requeued after runs that failed; then it is given up.
    * `bounded_slowdown_threshold_s`: Shorter run times count as this in bounded slowdowns.
    * `clusters`: Several clusters; then `schedulers` are policies of the meta-scheduler over them; in a plan,
      today's: `home`, if there is none.
    * `transfers`: Between clusters.
    """

    seed: int = Field(default=1, ge=0, strict=True)
    schedulers: tuple[str, ...] = Field(min_length=1)
    rounds: EveryQuantumTable | OnRequestTable = Field(default=OnRequestTable(), discriminator="kind")
    run_times: ExactTable | VariationTable | EmpiricalTable = Field(
        default=ExactTable(), discriminator="kind"
    )
    queues: tuple[QueueTable, ...] = ()
    policy: Files = ()
    policy_settings: Files = ()
    events: Files = ()
    planned_starts: Literal["earliest", "kept"] = "earliest"
    preemption: PreemptionTable = PreemptionTable()
    experience: ExperienceTable = ExperienceTable()
    failures: FailuresTable | None = None
    checkpoint_interval_s: Period | None = None
    checkpoint_cost_s: NotNegative = 0.0
    max_batch_requeue: Annotated[int, Field(ge=0, le=100, strict=True)] = 5
    messages: MessagesTable | None = None
    crashes: CrashesTable | None = None
    clock_jumps: tuple[ClockJumpTable, ...] = ()
    bounded_slowdown_threshold_s: Positive = 10.0
    guard: GuardTable = GuardTable()
    clusters: tuple[MemberTable, ...] = ()
    transfers: TransfersTable = TransfersTable()

    @model_validator(mode="after")
    def _names_clusters(self) -> Self:
        names = [each.name for each in self.clusters]
        for k, name in enumerate(names):
            if name in names[:k]:
                text = f"clusters have different names, not {', '.join(names)}"
                raise MistakeAt(("clusters", k, "name"), text)
        table, few = self.transfers, ", ".join(names) or "none"
        named = [
            ("seconds", *way) for a, of in table.seconds.items() for way in ((a,), *((a, b) for b in of))
        ]
        named += [("data", job_class, data.at) for job_class, data in table.data.items() if data.at]
        for key, *place in named:
            if place[-1] not in names:
                text = f"transfers.{key}: '{place[-1]}' is no cluster; expected {few}"
                raise MistakeAt(("transfers", key, *place), text)
        return self

    @model_validator(mode="after")
    def _has_what_settings_apply_to(self) -> Self:
        limit = RunSettings.model_fields["max_batch_requeue"].default
        if self.max_batch_requeue != limit and not (self.failures and self.failures.jobs):
            raise ValueError(
                "max_batch_requeue has no effect where no job fails (failures.jobs); leave it out"
            )
        if self.checkpoint_cost_s and self.checkpoint_interval_s is None:
            raise ValueError("checkpoint_cost_s has no effect without checkpoint_interval_s; give both")
        return self


def changed_keys(settings: RunSettings, keys: Iterable[str]) -> list[str]:
    """The keys, like "guard.reasons", whose values are not the default."""
    required: dict[str, Any] = {"schedulers": (), "workload": WorkloadTable(jobs=1)}
    default = type(settings).model_construct(**required)
    return [key for key in keys if attrgetter(key)(settings) != attrgetter(key)(default)]


class NodesTable(Table):
    """On nodes of partitions: the run-time estimates for schedulers, and whether jobs end at their time
    limits. With `deadlines`, each job has one: its submission, plus its estimate times a factor drawn from
    this range; with the `expiry` deadline, it is removed from the queue when it cannot keep it any more. If
    a forecast on its arrival says that it, or a job that was admitted before, would miss its deadline, it is
    admitted all the same, without its deadline, or not (`unkept`)."""

    estimates: Estimates = Estimates.USER
    time_limits: Literal["enforced", "ignored"] = "enforced"
    deadlines: Factors | None = None
    expiry: Expiry = Expiry.NEVER
    unkept: Unkept = Unkept.ACCEPTED


class Experiment(RunSettings):
    """An experiment, as in its file.

    * `notional`: What-if changes of the site.
    """

    name: str
    description: str = ""
    site: str
    replications: Count = 1
    workload: WorkloadTable | None = None
    history: HistoryTable | None = None
    log: LogTable | None = None
    nodes: NodesTable = NodesTable()
    shared_nodes: SharedNodesTable | None = None
    monitors: MonitorsTable = MonitorsTable()
    outages: tuple[OutageTable, ...] = ()
    notional: tuple[Notional, ...] = ()
    grid: dict[str, Annotated[tuple[GridValue, ...], Field(min_length=1)]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _every_point_is_valid(self) -> Experiment:
        workloads = [each.workload or self.workload for each in self.clusters] or [self.workload]
        n_values = [len(values) for values in self.grid.values()]
        for workload in workloads:
            check_one_workload(workload, self.history, self.log)
            drawn = workload or self.history
            n_jobs = None if drawn is None or drawn.jobs is None else drawn.jobs * len(workloads)
            check_sizes(n_jobs, self.replications, n_values, len(self.schedulers))
        if self.shared_nodes is not None and None in workloads:
            raise ValueError("time-shared nodes need a [workload], since logs do not tell what jobs require")
        for key in self.grid.keys() & {"site", "shared_nodes.cluster"}:
            text = f"grid: the nodes are the same at all points; '{key}' cannot vary"
            raise MistakeAt(("grid", key), text)
        for key, values in self.grid.items():
            for value in values:
                self._with({key: value})
        doubled = [name for name in self.schedulers if self.schedulers.count(name) > 1]
        if doubled:
            raise ValueError(f"the scheduler '{doubled[0]}' is listed twice")
        return self

    def of_cluster(self, k: int) -> Experiment:
        """The k-th cluster as an experiment of its own."""
        each, none = self.clusters[k], TransfersTable()
        own = {key: value for key, value in each if value is not None and key not in ("name", "scheduler")}
        alone = {"clusters": (), "transfers": none, "grid": {}, "schedulers": (each.scheduler,)}
        if each.shared_nodes is not None:  # the table `nodes` is for the others
            own["nodes"] = NodesTable()
        return self.model_copy(update=own | alone)

    @property
    def drawn(self) -> WorkloadTable:
        """The table `workload`, where jobs are drawn at random. Raises LookupError if it is another one."""
        if self.workload is None:
            raise LookupError("the jobs of this experiment are those of a log or of a history")
        return self.workload

    @cached_property
    def points(self) -> tuple[dict[str, GridValue], ...]:
        """The settings of the grid, one per point; one empty point without a grid."""
        return tuple(
            dict(zip(self.grid, values, strict=True)) for values in itertools.product(*self.grid.values())
        )

    def at(self, point: int) -> Experiment:
        """The experiment with the settings of one point in place of its grid."""
        return self._with(self.points[point])

    def _with(self, settings: dict[str, GridValue]) -> Experiment:
        data = copy.deepcopy(self.model_dump(exclude={"grid"}))
        for key, value in settings.items():
            table = data
            *path, last = key.split(".")
            for part in path:
                table = table.get(part) if isinstance(table, dict) else None  # type: ignore[assignment]
            if not isinstance(table, dict) or last not in table:
                raise MistakeAt(("grid", key), f"grid: '{key}' is not a setting that can vary")
            table[last] = value
        try:
            return Experiment.model_validate(data)
        except ValidationError as error:
            _, sentence = toml_file.mistakes(error, data, Experiment)[0]
            raise MistakeAt(("grid", *settings), f"grid: {sentence}") from None

    def canonical(self) -> str:
        """The experiment as text that is equal for equal experiments."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True)


def read_experiment(path: Path) -> Experiment:
    """The experiment in a TOML file. Raises InvalidFile with all its mistakes."""
    return toml_file.read(path, Experiment)


Settings = TypeVar("Settings", bound=RunSettings)


def changed(settings: Settings, **replaced: Any) -> Settings:
    """An experiment or a plan with some settings replaced by those that are not None. Of a table, only the
    keys that are given are replaced, unless it becomes one of another kind; mappings from names, like the
    grid, are replaced as a whole. Raises InvalidFile."""
    data = _merged(settings, {key: value for key, value in replaced.items() if value is not None})
    try:
        return type(settings).model_validate(data)
    except ValidationError as error:
        found = toml_file.mistakes(error, data, type(settings))
        raise InvalidFile(*(sentence for _, sentence in found)) from None


def _merged(table: object, value: Any) -> Any:
    if not (isinstance(table, Table) and isinstance(value, dict)):
        return value
    kind = getattr(table, "kind", None)
    if value.get("kind", kind) != kind:
        return value
    return table.model_dump() | {key: _merged(getattr(table, key, None), one) for key, one in value.items()}


def with_notional(experiment: Experiment, **changes: Sequence[str]) -> Experiment:
    """The experiment with more what-if changes of its site, by verb."""
    more = [{verb: text} for verb, texts in changes.items() for text in texts]
    before = [change.model_dump(include=change.given) for change in experiment.notional]
    return changed(experiment, notional=[*before, *more]) if more else experiment
