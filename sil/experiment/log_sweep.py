"""Sweeps over logs: each scheduler on each slice of some logs, under loads, estimates and settings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from scheduler import UserError
from scheduler.messages import abbreviated, counted
from sil.experiment.output_folder import resumable
from sil.experiment.provenance import code_under_test
from sil.experiment.replay import fastest, without_results
from sil.outcome.comparison import BLOCK, SweepComparison
from sil.outcome.metrics import REPLAY_METRICS
from sil.outcome.replayed_log import Results
from sil.outcome.warm_up import WarmUp
from sil.report.listing import file_name, json_text
from sil.runs.on_log import FEW_JOBS, Replay
from sil.runs.under_test import SlurmProgram, UnderTest
from sil.settings.alternatives import combined, of_replays
from sil.settings.decision_costs import check_decision_cost
from sil.settings.files import code_and_data, scheduler_source
from sil.settings.replays import Asking, Engine, Estimates
from sil.trace.stream import write_csv
from sil.usable import VERSION
from sil.workers.executor import Attempt, Executor, Interrupted, Item, Listener
from sil.workers.runner import Runner, digest
from sil.workers.store import Store
from sil.workload.slices import Slice, SlicedLog
from sil.world.guard.faults import Died
from site_db.files.access import no_link
from site_db.files.input_errors import given

MAX_JOBS_PER_ITEM = 50_000
"""The most replayed jobs in a work item, unless one replay has more: a second or two of work."""
ITEMS = 64
"""The fewest items of a sweep with enough replays, so that workers end at about the same time."""

Row = dict[str, Any]
ASKING = Asking()


@dataclass(frozen=True)
class Alternative:
    """Settings under which a sweep replays its slices: logs that are read under a policy, settings of
    `slurm.conf` for Slurm's controllers, which have policies of their own, and settings of replays."""

    name: str
    logs: tuple[SlicedLog, ...]
    of_slurm: str = ""
    of_replays: Mapping[str, Any] = field(default_factory=dict)

    @property
    def slices(self) -> list[Slice]:
        return [part for sliced in self.logs for part in sliced.slices]

    def of(self, scheduler: UnderTest) -> UnderTest:
        """A scheduler under these settings, which are in its name. Raises UserError if it has others."""
        if not self.name:
            return scheduler
        label = f"{scheduler.label} ({self.name})"
        if not isinstance(scheduler, SlurmProgram):
            return scheduler.named(label)
        if not (self.of_slurm or self.of_replays):
            raise UserError(
                f"'{scheduler.label}' reads its own slurm.conf and the files beside it, and not {self.name}; "
                f"name it once for each slurm.conf instead"
            )
        own = f"{scheduler.program.settings} {self.of_slurm}".strip()
        return replace(scheduler, label=label, program=replace(scheduler.program, settings=own))


def alternatives(
    policies: Iterable[str], settings: Iterable[str] | None, read: Callable[[str, str], tuple[SlicedLog, ...]]
) -> tuple[Alternative, ...]:
    """The present settings, and all combinations of others with {several,values}, under each policy, of which
    the present one is called "": `read` reads the logs under it and settings of slurm.conf."""
    found, read = [], cache(read)
    for policy, text in product(policies, dict.fromkeys(("", *combined(settings)))):
        of_replay, of_slurm = of_replays(text)
        name = " ".join(filter(None, (policy, text)))
        found.append(Alternative(name, read(policy, of_slurm), of_slurm, of_replay))
    return tuple(found)


class SweepReplay(NamedTuple):
    """One replay of a sweep; some of its settings may be others than those of all."""

    slice: Slice
    load: float
    estimates: Estimates
    scheduler: UnderTest
    of_replay: Mapping[str, Any]

    def replay(self, settings: Asking, few_jobs: int) -> Replay:
        """The replay of this case. Raises InvalidFile for an impossible load."""
        log = self.slice.log.with_load(self.load)
        return Replay.of(log, settings, estimates=self.estimates, few_jobs=few_jobs, **self.of_replay)

    def row(self, results: Results) -> Row:
        """The row of this case in the table of the sweep."""
        of_case = {name: value(self) for name, (_, value) in OF_CASE.items()}
        return {**of_case, **results.statistics, "fault": results.fault, "refused": results.refused}


PolarsType = pl.DataType | type[pl.DataType]
OF_CASE: Mapping[str, tuple[PolarsType, Callable[[SweepReplay], object]]] = {
    "log": (pl.String, lambda case: case.slice.log.name),
    "slice": (pl.String, lambda case: case.slice.name),
    "jobs": (pl.Int64, lambda case: case.slice.end - case.slice.begin),
    "warm_up_jobs": (pl.Int64, lambda case: case.slice.warm_up_jobs),
    "cool_down_jobs": (pl.Int64, lambda case: case.slice.cool_down_jobs),
    "load": (pl.Float64, lambda case: case.load),
    "estimates": (pl.String, lambda case: case.estimates.value),
    "scheduler": (pl.String, lambda case: case.scheduler.label),
}
"""What columns say of a replay. The slice is as in `sil replay --jobs`, and has `jobs`; the warm-up before
and the cool-down after it are not measured. The load is a factor."""
SCHEMA: Mapping[str, PolarsType] = {
    **{name: kind for name, (kind, _) in OF_CASE.items()},
    **dict.fromkeys(REPLAY_METRICS, pl.Float64),
    **dict.fromkeys(("fault", "refused"), pl.String),
}
"""The columns of the table of a sweep, one row per replay; after a fault, metrics are null."""


@dataclass(frozen=True)
class LogSweep:
    """A grid of replays; the first scheduler under the present settings is the baseline. Raises UserError if
    something is named twice, nothing is named, a load is impossible, slices differ, or the compiled engine is
    asked for and cannot run a scheduler."""

    logs: tuple[SlicedLog, ...]
    schedulers: tuple[UnderTest, ...]
    loads: tuple[float, ...] = (1.0,)
    estimates: tuple[Estimates, ...] = (Estimates.USER,)
    settings: Asking = ASKING
    others: tuple[Alternative, ...] = ()
    """What the schedulers are compared under, besides the present settings."""

    @cached_property
    def compared(self) -> list[tuple[Alternative, UnderTest]]:
        """The schedulers under the present settings and under each alternative, in order."""
        under = Alternative("", self.logs), *self.others
        return [(each, each.of(scheduler)) for scheduler in self.schedulers for each in under]

    @property
    def names(self) -> tuple[str, ...]:
        """The schedulers with their settings, the baseline first."""
        return tuple(scheduler.label for _, scheduler in self.compared)

    def __post_init__(self) -> None:
        named = {
            "log file name": [sliced.log.name for sliced in self.logs],
            "scheduler": list(self.names),
            "load": [f"{load:g}" for load in self.loads],
            "kind of estimates": [estimates.value for estimates in self.estimates],
        }
        for what, names in named.items():
            if not names:
                raise UserError(f"a sweep needs a {what}; give one or more")
            for one, other in pairwise(sorted(names)):
                if one == other:
                    raise UserError(f"the {what} {one} is given twice; give each once")
        for sliced, load in product(self.logs, self.loads):
            sliced.log.with_load(load)
        for scheduler in self.schedulers:
            if (why := scheduler.why_not_in_many("a sweep has many")) is not None:
                raise UserError(why)
        if len({tuple((x.log.name, x.name) for x in each.slices) for each, _ in self.compared}) > 1:
            raise UserError("the slices differ from one setting to the other; give the same logs under each")
        if self.settings.engine is Engine.COMPILED or self.others:
            for (under, scheduler), estimates in product(self.compared, self.estimates):
                how = {"estimates": estimates, **under.of_replays}
                for replay in (Replay.of(sliced.log, self.settings, **how) for sliced in under.logs):
                    check_decision_cost(replay.decision_cost)
                    replay.check([scheduler])

    def cases(self) -> list[SweepReplay]:
        """All replays: by log, slice, load, estimates and scheduler with its settings."""
        n_slices, points = len(self.compared[0][0].slices), [*product(self.loads, self.estimates)]
        return [
            SweepReplay(under.slices[k], *point, scheduler, under.of_replays)
            for k, point in product(range(n_slices), points)
            for under, scheduler in self.compared
        ]

    def digest(self) -> str:
        """A digest that is equal if the same rows would result."""
        slices = [
            (
                part.log.name,
                part.name,
                (part.warm_up_jobs, part.cool_down_jobs),
                part.log.processors,
                sorted(part.log.cut),
                part.log.bound_s,
                part.log.cluster,
                part.log.digest(),
                each.of_replays,
            )
            for each in (Alternative("", self.logs), *self.others)
            for part in each.slices
        ]
        schedulers = [code_under_test(scheduler) for _, scheduler in self.compared]
        return digest(code_and_data(), slices, schedulers, self.loads, self.estimates, self.settings)


def run_sweep(
    sweep: LogSweep,
    executor: Executor,
    listener: Listener,
    store: Store | None = None,
    printed: Path = Path(),
) -> pl.DataFrame:
    """The table of a sweep (SCHEMA), the same on every executor, and if the sweep is resumed with `store`.

    A scheduler's fault is in the row of its replay; the others go on. Output of schedulers in other processes
    goes into the folder `printed`. Raises what `Runner.run` raises; what is finished when Ctrl-C interrupts
    it is such a table of fewer rows.
    """
    cases, mark = sweep.cases(), sweep.digest()
    batches = list(_batches(cases))
    n_jobs = sum(len(case.slice.log.jobs) for case in cases)
    executor = fastest(executor, sweep.schedulers, len(batches), n_jobs)
    few_jobs = FEW_JOBS if n_jobs < FEW_JOBS else 0  # what is loaded for one replay serves the others
    runner = Runner(executor, store)
    rows: dict[int, Row] = {}
    died: list[int] = []

    def carry_out(parts: Sequence[range]) -> None:
        to_do = {f"{mark}/{part.start}:{part.stop}": part for part in parts}
        items = [
            Item(
                key,
                partial(_carry_out, cases[part.start : part.stop], sweep.settings, few_jobs),
                printed,
                gets_attempt=True,
            )
            for key, part in to_do.items()
        ]

        def finish(item: Item, value: list[Results] | Died) -> None:
            part = to_do[item.key]
            if not isinstance(value, Died):
                with runner.store.reading():  # which may be of other replays
                    found = list(zip(part, value, strict=True))
                rows.update((k, cases[k].row(results)) for k, results in found)
            elif len(part) == 1:
                case = cases[part.start]
                rows[part.start] = case.row(without_results(case.scheduler, value))
            else:
                died.extend(part)
            listener.progressed(len(rows), len(cases))

        runner.run(items, finish, kind=list[Results])

    try:
        carry_out(batches)
        # One of these replays ended the process; alone, it is the one at fault.
        carry_out([range(k, k + 1) for k in sorted(died)])
    except Interrupted:
        raise Interrupted(len(rows), len(cases), _table(rows)) from None
    return _table(rows)


def _table(rows: Mapping[int, Row]) -> pl.DataFrame:
    return pl.DataFrame([rows[k] for k in sorted(rows)], schema=SCHEMA)


def notes(sweep: LogSweep, table: pl.DataFrame) -> list[str]:
    """Sentences on settings between which no result differs, and on the warm-up that is most too short."""
    fine = table.filter(pl.col("fault").is_null()).drop("fault", "refused")
    results = fine.partition_by("scheduler", as_dict=True, include_key=False)
    equal, present = defaultdict[Any, list[str]](list), ""
    for under, scheduler in sweep.compared:
        present = present if under.name else scheduler.label
        if (found := results.get((scheduler.label,))) is not None:
            equal[present, (*found.rows(),)].append(under.name or "the present settings")
    sentences = [
        f"under {scheduler}, the results are the same ({counted(len(rows), 'replay')} each) with "
        f"{abbreviated(names)}: what differs between these has no effect"
        for (scheduler, rows), names in equal.items()
        if len(names) > 1
    ]
    short = [warm_up for warm_up in _warm_ups(sweep, table) if warm_up[1].needed_s > warm_up[1].lasts_s]
    if short:
        name, worst = max(short, key=lambda found: found[1].needed_s / max(found[1].lasts_s, 1.0))
        others = f" (and in {counted(len(short) - 1, 'other row')})" if len(short) > 1 else ""
        remedy = f"give {given('--warm-up-jobs')} {{}} or more".replace("= ", "=")
        most = max(len(sliced.log.jobs) for sliced in sweep.logs)
        sentences.append(f"the warm-up under {name}{others} {worst.too_short(remedy, most)}")
    return sentences


def _warm_ups(sweep: LogSweep, table: pl.DataFrame) -> Iterator[tuple[str, WarmUp]]:
    """For each scheduler, load and kind of estimates, the mean warm-up of the slices that have one and are
    preceded by more jobs."""
    lasts_s = {
        (part.log.name, part.name): float(
            part.log.jobs["submit_s"][part.warm_up_jobs] - part.log.jobs["submit_s"][0]
        )
        for sliced in sweep.logs
        for part in sliced.slices
        if 0 < part.warm_up_jobs < part.begin
    }
    with_waits = table.drop_nulls(["waiting_time_mean", "utilisation"])
    for (scheduler, *_), rows in with_waits.group_by("scheduler", "load", "estimates", maintain_order=True):
        found = [
            WarmUp(jobs, lasts_s[log, part] / load, wait_s, percent / 100.0)
            for log, part, jobs, load, wait_s, percent in rows.select(
                *BLOCK, "warm_up_jobs", "load", "waiting_time_mean", "utilisation"
            ).iter_rows()
            if (log, part) in lasts_s
        ]
        if found:
            yield str(scheduler), WarmUp.mean(found)


def _batches(cases: Sequence[SweepReplay]) -> Iterator[range]:
    """Replays that follow each other, with a moderate number of jobs. Batches do not depend on the executor,
    so that a sweep can be resumed with other workers."""
    n_jobs = [len(case.slice.log.jobs) for case in cases]
    most = min(MAX_JOBS_PER_ITEM, sum(n_jobs) / ITEMS)
    begin = total = 0
    for k, n in enumerate(n_jobs):
        if k > begin and total + n > most:
            yield range(begin, k)
            begin, total = k, 0
        total += n
    yield range(begin, len(cases))


def _carry_out(
    cases: Sequence[SweepReplay], settings: Asking, few_jobs: int, printed: Path, attempt: Attempt
) -> list[Results]:
    def log_of(case: SweepReplay) -> Path:
        where = (case.scheduler.label, case.slice.log.name, case.slice.name, f"{case.load:g}")
        return printed / f"{file_name('-'.join((*where, case.estimates.value)))}.log"

    return [case.replay(settings, few_jobs).results(case.scheduler, log_of(case), attempt) for case in cases]


TABLE = "sweep.csv"
PARQUET = "sweep.parquet"
SUMMARY = "summary.json"
PRINTED = "printed"


def sweep_into(out: Path, sweep: LogSweep, executor: Executor, listener: Listener) -> SweepComparison:
    """Carry out a sweep, or what is left of an interrupted one, and write its results into `out`.

    Raises UserError and what `run_sweep` raises.
    """
    out = out.absolute()  # a scheduler may change the working directory
    with resumable(out, (TABLE, PARQUET, SUMMARY)) as store:
        table = run_sweep(sweep, executor, listener, store, out / PRINTED)
        comparison = SweepComparison(table)
        write_csv(table, out / TABLE)
        table.write_parquet(out / PARQUET)
        text = json_text(summary(sweep, comparison))
        no_link(out / SUMMARY).write_text(text + "\n", encoding="utf-8")
    return comparison


def summary(sweep: LogSweep, comparison: SweepComparison) -> dict[str, Any]:
    """The content of summary.json."""
    return {
        "logs": [
            {
                "log": sliced.log.name,
                "acknowledge": sliced.log.header.get("acknowledge", ""),
                "part": list(sliced.log.part),
                "jobs": len(sliced.log.jobs),
                "processors": sliced.log.processors,
                "load": sliced.log.load,
                "days": sliced.log.span_s / 86_400.0,
                "repairs": list(sliced.log.notes),
                "slices": [part.name for part in sliced.slices],
                "warm_up_jobs": [part.warm_up_jobs for part in sliced.slices],
                "cool_down_jobs": [part.cool_down_jobs for part in sliced.slices],
            }
            for sliced in sweep.logs
        ],
        "order": sweep.settings.order,
        "seed": sweep.settings.seed,
        "version": VERSION,
        "scheduler_source": scheduler_source(),
        **comparison.as_dict(),
    }
