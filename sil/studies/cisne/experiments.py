"""The experiments of Hanzich et al. 2006: turnaround prediction on a cluster of time-shared nodes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np
import polars as pl

from scheduler.model import Job, JobId
from scheduler.time_shared.forecast import Forecast, Predictor
from scheduler.time_shared.loras import JobChoice, Loras, Method, NodeChoice
from scheduler.time_shared.predictors import Blind, PolicyAware
from scheduler.time_shared.problem import SharedNodes
from scheduler.time_shared.social_contract import MAX_CPU
from sil.outcome.prediction_errors import score_predictions
from sil.outcome.statistics import Sample
from sil.runs.on_time_shared import TimeSharedSystem, built_in_characterisations
from sil.runs.simulation import RunKey
from sil.studies.rules import GridSamples, StudyFailed
from sil.trace.facts import RUN, Fact, RunTables
from sil.workers.runner import Runner
from sil.world.actual_runtimes import RandomStreams
from sil.world.time_shared_cluster import TimeSharedCluster

SEED = 2006
JOBS = 30
BENCHMARKS = ("CG.B", "IS.B", "MG.B", "BT.A")
SIZES = (2, 4, 8)
MEAN_INTER_ARRIVAL_S = 15.0
LOADS = (0.25, 0.5, 1.0)
AWARE, BLIND = "aware", "blind"
MOMENTS = FIRST, ALL, LAST = "first", "all", "last"
PAIRS = tuple(product(Method, (Method.MPL, Method.CPU)))
"""Methods of the remaining time and of the CPU time used."""
METHODS = {"MPL": ("mpl", "mpl"), "CPU": ("cpu", "cpu")}
"""The pairs of Table 1."""


@dataclass(frozen=True)
class Composition:
    """A policy of the paper: LoRaS as it is composed, and the parallel MPL that a node may have."""

    selection: JobChoice
    node_selection: NodeChoice
    most_jobs: int = 4
    ordering: str = "fcfs"

    def scheduler(self) -> Loras:
        return Loras(self.ordering, self.selection, self.node_selection)


POLICIES = {
    "Norm+BF": Composition(JobChoice.EASY, NodeChoice.NORMAL),
    "Unif+BF": Composition(JobChoice.EASY, NodeChoice.UNIFORM),
    "Basic": Composition(JobChoice.JUST_FIRST, NodeChoice.NORMAL, 1),
    "Normal": Composition(JobChoice.JUST_FIRST, NodeChoice.NORMAL),
    "Uniform": Composition(JobChoice.JUST_FIRST, NodeChoice.UNIFORM),
}
MIXED = "Uniform or mixed"
"""A variant of Uniform that mixes sets rather than wait."""
WITH_MIXED = POLICIES | {MIXED: Composition(JobChoice.JUST_FIRST, NodeChoice.UNIFORM_ELSE_NORMAL)}


def jobs_of(replication: int, n_jobs: int = JOBS) -> list[Job]:
    """The jobs of one replication, the same for every policy and load."""
    rng = RandomStreams(SEED, replication).of("workload")
    names = rng.permutation([BENCHMARKS[i % len(BENCHMARKS)] for i in range(n_jobs)]).tolist()
    sizes = rng.permutation([SIZES[i % len(SIZES)] for i in range(n_jobs)]).tolist()
    arrivals_s = np.cumsum(rng.exponential(MEAN_INTER_ARRIVAL_S, n_jobs)).tolist()
    return [
        Job(JobId(i), name, arrival_s, n_tasks=tasks)
        for i, (name, tasks, arrival_s) in enumerate(zip(names, sizes, arrivals_s, strict=True))
    ]


def shortest_exe_s() -> float:
    """The shortest execution time in isolation of all the jobs."""
    known = built_in_characterisations()
    return min(known.of(name, tasks).exe_s for name, tasks in product(BENCHMARKS, SIZES))


@dataclass(frozen=True)
class PredictionCase:
    policy: str
    load: float
    replication: int
    most_cpu: float = MAX_CPU

    @property
    def composition(self) -> Composition:
        return WITH_MIXED[self.policy]


def run_all(cases: Sequence[PredictionCase], runner: Runner) -> pl.DataFrame:
    """A row per case, predictor and moment (`when`: the first prediction for a job, the last, or all).

    Columns: policy, load, most_cpu, replication; mode, remaining, cpu_time, when; mean `deviation`, signed
    `bias` and share of jobs `over`-predicted, in percent; the median cost_ms of a prediction for one job; and
    the `measures` of the run. Raises StudyFailed.
    """
    rows = [row for part in runner.map(_carry_out, cases) for row in part]
    return pl.DataFrame(rows).sort("replication", maintain_order=True)


def run_case(case: PredictionCase, predictors: Mapping[str, Predictor]) -> RunTables:
    """The run of a case, with predictions by each predictor. Raises StudyFailed for a fault."""
    cluster, jobs = TimeSharedCluster().with_local_users(case.load), jobs_of(case.replication)
    return run(cluster, jobs, case.composition, predictors, case.replication, case.most_cpu)


def run(
    cluster: TimeSharedCluster,
    jobs: Sequence[Job],
    composition: Composition,
    predictors: Mapping[str, Predictor],
    replication: int,
    most_cpu: float = MAX_CPU,
) -> RunTables:
    """One run. Raises StudyFailed for a fault."""
    limited, streams = cluster.with_limits(composition.most_jobs, most_cpu), RandomStreams(SEED, replication)
    nodes = TimeSharedSystem(limited, jobs, built_in_characterisations(), streams)
    done = nodes.run(composition.scheduler(), predictors, RunKey(0, replication, "loras"))
    for fault in done.facts.filter(event=Fact.FAULT).iter_rows(named=True):
        raise StudyFailed(f"the scheduler broke the rule {fault['detail']}: {fault['message']}")
    return done


class _Timed:
    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        self.ms_per_job: list[float] = []

    def predict(self, now_s: float, shared: SharedNodes) -> list[Forecast]:
        began = time.perf_counter()
        made = self._predictor.predict(now_s, shared)
        self.ms_per_job.append(1e3 * (time.perf_counter() - began) / len(made))
        return made


def scored(done: RunTables) -> pl.DataFrame:
    """The predictions for each job, in order of time, with its submission and its end, and their `deviation`,
    (P - R) / R of the turnaround; `first` are the first ones. Raises StudyFailed for `never`."""
    submitted, ended = (
        done.facts.filter(event=fact).select(*RUN, "job", time_s=pl.col("time_s"))
        for fact in (Fact.JOB_ARRIVED, Fact.RUN_ENDED)
    )
    times = submitted.join(ended, on=(*RUN, "job"), suffix="_of_end")
    jobs = times.rename({"job": "job_id", "time_s": "submission_time", "time_s_of_end": "finish_time"})
    found = score_predictions(done.predictions, jobs)
    for job in found.filter(pl.col("end_s").is_infinite())["job"]:
        raise StudyFailed(f"job {job} was predicted never to end, and did")
    return found.with_columns(deviation=(pl.col("end_s") - pl.col("finish_time")) / pl.col("real_s"))


def _carry_out(case: PredictionCase) -> list[dict[str, Any]]:
    kinds: dict[str, type[PolicyAware]] = {AWARE: PolicyAware, BLIND: Blind}
    timed = {
        (mode, *pair): _Timed(kinds[mode](case.composition.scheduler(), *pair))
        for mode, pair in product(kinds, PAIRS)
    }
    done = run_case(case, {" ".join(name): predictor for name, predictor in timed.items()})
    scores, of_run = scored(done), measures(done)
    rows = []
    for name, predictor in timed.items():
        of_name = scores.filter(predictor=" ".join(name))
        last = of_name.unique("job", keep="last", maintain_order=True)
        for when, chosen in {FIRST: of_name.filter("first"), ALL: of_name, LAST: last}.items():
            percent = 100 * chosen["deviation"].to_numpy()
            of_predictor = {
                **dict(zip(("mode", "remaining", "cpu_time"), name, strict=True)),
                "when": when,
                "deviation": float(np.abs(percent).mean()),
                "bias": float(percent.mean()),
                "over": 100 * float((percent > 0).mean()),
                "cost_ms": float(np.median(predictor.ms_per_job)),
            }
            rows.append(asdict(case) | of_predictor | of_run)
    return rows


def measures(done: RunTables) -> dict[str, float]:
    """The measures of a run: mean turnaround_s and waiting_s, makespan_s, the number of jobs that overtake an
    earlier one (`backfilled`), stops by CCS, the mean local_slowdown of the nodes' users, and the share of
    their time in which the contract was tight (%); in detail, the mean of their response times and that of
    the values that 95 % do not exceed (ms)."""
    arrived, started, ended = (
        done.facts.filter(event=fact).sort("job")["time_s"].to_numpy()
        for fact in (Fact.JOB_ARRIVED, Fact.RUN_STARTED, Fact.RUN_ENDED)
    )
    latest_s, users = np.maximum.accumulate(started), done.local_users
    of_users = pl.col("tight_share", "response_s", "response_95_s").mean().fill_null(0.0)
    tight_share, mean_s, p95_s = users.select(of_users).row(0)
    return {
        "turnaround_s": float((ended - arrived).mean()),
        "waiting_s": float((started - arrived).mean()),
        "makespan_s": float(ended.max()),
        "backfilled": float((started < latest_s).sum()),
        "stops": float(done.facts.filter(event=Fact.RUN_STOPPED).height),
        "local_slowdown": float(users["slowdown"].to_numpy().mean()) if len(users) else 1.0,
        "tight": 100 * tight_share,
        "response_ms": 1e3 * mean_s,
        "response_95_ms": 1e3 * p95_s,
    }


class Deviations(GridSamples):
    """Samples by policy, load, methods, predictor and moment."""

    def __init__(self, rows: pl.DataFrame) -> None:
        super().__init__(rows, "policy", "load", "remaining", "cpu_time", "mode", "when")

    def of(
        self,
        policy: str,
        load: float,
        methods: tuple[str, str],
        mode: str = BLIND,
        measure: str = "deviation",
        when: str = FIRST,
    ) -> Sample:
        return self(measure, policy, load, *methods, mode, when)

    def of_run(self, policy: str, load: float, measure: str) -> Sample:
        """A measure that does not depend on a predictor."""
        return self.of(policy, load, METHODS["CPU"], AWARE, measure)
