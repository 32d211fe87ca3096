"""The experiments of Hanzich et al. 2006: turnaround predicted on a cluster whose nodes are shared."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf
from typing import Any

import numpy as np
import polars as pl

from scheduler.model import Job, JobId
from scheduler.time_shared.policies import Method, NodeSelection, Selection
from scheduler.time_shared.prediction.forecast import Forecast, Predictor
from scheduler.time_shared.prediction.look_ahead import Blind, PolicyAware
from scheduler.time_shared.scheduler import Loras
from scheduler.time_shared.system import SharedNodes
from sil.outcome.statistics import Sample
from sil.runs.on_time_shared import (
    SharedCluster,
    SharedRun,
    built_in_characterisations,
    run_on_shared_nodes,
)
from sil.runs.random_streams import stream
from sil.studies.collins_george.site_runs import StudyFailed
from sil.studies.run_options import Course
from sil.trace.facts import Fact
from sil.workers.parallel import done_by

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


@dataclass(frozen=True)
class Composition:
    """A policy of the paper: LoRaS as it is composed, and the parallel MPL that a node may have."""

    selection: Selection
    node_selection: NodeSelection
    most_jobs: int = 4

    def scheduler(self) -> Loras:
        return Loras("fcfs", self.selection, self.node_selection)


POLICIES = {
    "Norm+BF": Composition(Selection.EASY, NodeSelection.NORMAL),
    "Unif+BF": Composition(Selection.EASY, NodeSelection.UNIFORM),
    "Basic": Composition(Selection.JUST_FIRST, NodeSelection.NORMAL, 1),
    "Normal": Composition(Selection.JUST_FIRST, NodeSelection.NORMAL),
    "Uniform": Composition(Selection.JUST_FIRST, NodeSelection.UNIFORM),
}
MIXED = "Uniform or mixed"
BESIDE = {MIXED: Composition(Selection.JUST_FIRST, NodeSelection.UNIFORM_ELSE_NORMAL)}
"""Uniform that rather mixes sets than waits."""

METHOD = (
    "30 jobs {CG.B, IS.B, MG.B, BT.A} on 2, 4 or 8 of 16 nodes with 512 MB, Poisson arrivals 15 s apart, as "
    "many of each benchmark and size as 30 allows. Which NPB class the paper ran is not said; what the jobs "
    "need is computed, not measured (the site cisne-2006). Local users on a share of the nodes: 15 % "
    "CPU in bursts, 35 % memory. The true cluster is a fluid model (DESIGN.md); the scheduler and the "
    "predictor are the real ones, and see what monitors report. A prediction is made for every job that is "
    "not done whenever one arrives; deviation is |P - R| / R of the turnaround, of the first prediction for "
    "a job where nothing else is said. 'Blind' drains the queue in order, which seems to be what the paper "
    "did; 'aware' follows the live policy. Both are the same for policies that do not backfill. All policies "
    "and methods meet the same jobs, users and luck, so differences are paired."
)


def jobs_of(replication: int, n_jobs: int = JOBS) -> list[Job]:
    """The jobs of one seed, the same for every policy and load."""
    luck = stream(SEED, replication, "workload")
    names = luck.permutation([BENCHMARKS[i % len(BENCHMARKS)] for i in range(n_jobs)]).tolist()
    sizes = luck.permutation([SIZES[i % len(SIZES)] for i in range(n_jobs)]).tolist()
    arrivals_s = np.cumsum(luck.exponential(MEAN_INTER_ARRIVAL_S, n_jobs)).tolist()
    return [
        Job(JobId(i), name, arrival_s, n_tasks=tasks)
        for i, (name, tasks, arrival_s) in enumerate(zip(names, sizes, arrivals_s, strict=True))
    ]


def shortest_exe_s() -> float:
    """The shortest execution time in isolation of all the jobs."""
    known = built_in_characterisations()
    return min(known.of(name, tasks).exe_s for name, tasks in product(BENCHMARKS, SIZES))


@dataclass(frozen=True)
class Case:
    policy: str
    load: float
    replication: int
    most_cpu: float = inf


def run_all(cases: Sequence[Case], course: Course) -> pl.DataFrame:
    """A row per case, predictor and moment (`when`: the first prediction for a job, the last, or all).

    Columns: policy, load, most_cpu, replication; mode, remaining, cpu_time, when; mean `deviation`, signed
    `bias` and share of jobs `over`-predicted, in percent; and of the run its mean turnaround_s and waiting_s,
    makespan_s, backfilled jobs, stops by CCS, the mean local_slowdown of the nodes' users and the share of
    their time when the contract was tight (%), and the median cost in ms of predicting for one job. Raises
    StudyFailed.
    """
    rows = [row for part in done_by(_carry_out, cases, course) for row in part]
    return pl.DataFrame(rows).sort("replication", maintain_order=True)


def cluster_of(case: Case) -> SharedCluster:
    composition = (POLICIES | BESIDE)[case.policy]
    return SharedCluster().with_local_users(case.load).with_limits(composition.most_jobs, case.most_cpu)


def run(
    cluster: SharedCluster,
    jobs: Sequence[Job],
    scheduler: Loras,
    predictors: dict[str, Predictor],
    replication: int,
) -> SharedRun:
    """One run without a fault. Raises StudyFailed."""
    done = run_on_shared_nodes(
        cluster,
        jobs,
        built_in_characterisations(),
        "loras",
        scheduler,
        predictors,
        SEED,
        replication,
    )
    for fault in done.facts.filter(pl.col("event") == Fact.FAULT).iter_rows(named=True):
        raise StudyFailed(f"the scheduler broke the rule {fault['detail']}: {fault['message']}")
    return done


class _Timed:
    """A predictor, and what it cost."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        self.ms_per_job: list[float] = []

    def predict(self, now_s: float, shared: SharedNodes) -> list[Forecast]:
        began = time.perf_counter()
        made = self._predictor.predict(now_s, shared)
        self.ms_per_job.append(1e3 * (time.perf_counter() - began) / len(made))
        return made


def _carry_out(case: Case) -> list[dict[str, Any]]:
    composition = (POLICIES | BESIDE)[case.policy]
    kinds: dict[str, type[PolicyAware]] = {AWARE: PolicyAware, BLIND: Blind}
    timed = {
        f"{mode} {remaining} {cpu_time}": _Timed(kind(composition.scheduler(), remaining, cpu_time))
        for mode, kind in kinds.items()
        for remaining, cpu_time in PAIRS
    }
    jobs = jobs_of(case.replication)
    done = run(cluster_of(case), jobs, composition.scheduler(), dict(timed), case.replication)
    of_run = told_of(done)
    arrived_s = {job.id: job.arrival_s for job in jobs}
    ended = done.facts.filter(pl.col("event") == Fact.RUN_ENDED)
    ended_s = dict(ended.select("job", "time_s").iter_rows())
    rows = []
    for name, deviations in _deviations(done, arrived_s, ended_s).items():
        mode, remaining, cpu_time = name.split()
        cost_ms = float(np.median(timed[name].ms_per_job))
        for when in MOMENTS:
            percent = 100 * np.array(_chosen(deviations, when))
            rows.append(
                {
                    "policy": case.policy,
                    "load": case.load,
                    "most_cpu": case.most_cpu,
                    "replication": case.replication,
                    "mode": mode,
                    "remaining": remaining,
                    "cpu_time": cpu_time,
                    "when": when,
                    "deviation": float(np.abs(percent).mean()),
                    "bias": float(percent.mean()),
                    "over": 100 * float((percent > 0).mean()),
                    "cost_ms": cost_ms,
                    **of_run,
                }
            )
    return rows


def _deviations(
    done: SharedRun, arrived_s: dict[JobId, float], ended_s: dict[int, float]
) -> dict[str, dict[JobId, list[float]]]:
    """Of each predictor, for each job, (P - R) / R in order of time. Raises StudyFailed for `never`."""
    found: dict[str, dict[JobId, list[float]]] = {}
    for prediction in done.predictions:
        job, predicted_s = prediction.forecast.job, prediction.forecast.end_s
        if prediction.forecast.is_never:
            raise StudyFailed(f"job {job} was predicted never to end, and did")
        deviation = (predicted_s - ended_s[job]) / (ended_s[job] - arrived_s[job])
        found.setdefault(prediction.predictor, {}).setdefault(job, []).append(deviation)
    return found


def _chosen(deviations: dict[JobId, list[float]], when: str) -> list[float]:
    match when:
        case "first":
            return [of_job[0] for of_job in deviations.values()]
        case "last":
            return [of_job[-1] for of_job in deviations.values()]
        case _:
            return [deviation for of_job in deviations.values() for deviation in of_job]


def told_of(done: SharedRun) -> dict[str, float]:
    """A run in a few numbers."""
    by_event = {
        fact: done.facts.filter(pl.col("event") == fact).select("job", "time_s").sort("job")
        for fact in (Fact.JOB_ARRIVED, Fact.RUN_STARTED, Fact.RUN_ENDED)
    }
    arrived, started, ended = (by_event[fact]["time_s"].to_numpy() for fact in by_event)
    stops = done.facts.filter(pl.col("event") == Fact.RUN_STOPPED).height
    return {
        "turnaround_s": float((ended - arrived).mean()),
        "waiting_s": float((started - arrived).mean()),
        "makespan_s": float(ended.max()),
        "backfilled": float(sum(1 for _ in _overtaking(started))),
        "stops": float(stops),
        "local_slowdown": _mean([response.slowdown for response in done.local_responses], 1.0),
        "tight": 100 * _mean([response.tight_share for response in done.local_responses], 0.0),
    }


def _mean(values: list[float], of_none: float) -> float:
    return float(np.mean(values)) if values else of_none


def _overtaking(started_s: np.ndarray[Any, np.dtype[np.float64]]) -> Iterator[int]:
    """Jobs, in order of arrival, that start before one that arrived earlier."""
    latest_s = -inf
    for i, start_s in enumerate(started_s.tolist()):
        if start_s < latest_s:
            yield i
        latest_s = max(latest_s, start_s)


class Deviations:
    """Samples, one figure per seed, by policy, load and methods."""

    def __init__(self, rows: pl.DataFrame) -> None:
        self._rows = rows

    def of(
        self,
        policy: str,
        load: float,
        methods: tuple[str, str],
        mode: str = BLIND,
        column: str = "deviation",
        when: str = FIRST,
    ) -> Sample:
        chosen = self._rows.filter(
            (pl.col("policy") == policy)
            & (pl.col("load") == load)
            & (pl.col("remaining") == methods[0])
            & (pl.col("cpu_time") == methods[1])
            & (pl.col("mode") == mode)
            & (pl.col("when") == when)
        )
        return chosen[column].to_numpy()

    def of_run(self, policy: str, load: float, column: str) -> Sample:
        """What does not depend on a predictor."""
        return self.of(policy, load, ("cpu", "cpu"), AWARE, column)
