"""First case study of Collins and George 2001: what decisions cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count, permutations, product
from math import log

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scheduler.mapping.greedy import Sjs
from scheduler.mapping.pjs import Pjs, is_better
from scheduler.mapping.placer import mapped
from scheduler.mapping.problem import MappingProblem
from scheduler.model import Assignment, Assignments, Schedule
from scheduler.ports import AnyScheduler
from sil.outcome.statistics import Sample, least_squares
from sil.report.figures import bars, lines
from sil.report.page import Part
from sil.studies.collins_george.site_runs import AS_BUILT_IN, SEED, factors
from sil.studies.ledger import SLIGHT_PERCENT, Claim, Findings, Study, judged_on_sites
from sil.studies.rules import (
    Estimate,
    GridSamples,
    RuleOutcome,
    above,
    all_positive,
    below,
    by_open_limit,
    table,
    text,
    within,
)
from sil.workers.runner import Runner

Floats = NDArray[np.float64]


class ReferenceSjs:
    """SJS as published, with the schedules of `sjs`: every step computes every completion. O(n^2 m)."""

    def schedule(self, problem: MappingProblem) -> Schedule:
        jobs = np.arange(problem.n_jobs)
        rows = _duplex(problem.machine_etc_s, problem.ready_times.machine_s, jobs)
        return mapped(problem, Assignments.of(rows))


class ReferencePjs:
    """PJS as published, with the schedules of `pjs`: every trial maps all sequential jobs by SJS."""

    def schedule(self, problem: MappingProblem) -> Schedule:
        etc_s, parallel_s = problem.machine_etc_s, problem.cluster_etc_s
        members = [list(machines) for machines in problem.ready_times.members]
        ready_s = problem.ready_times.machine_s.copy()
        jobs = np.arange(problem.n_jobs)
        committed: list[Assignment] = []
        best = Assignments.of(_duplex(etc_s, ready_s, jobs))
        while True:
            cluster_s = np.array([ready_s[machines].max() if machines else np.inf for machines in members])
            pair = _most_profitable(etc_s[jobs], parallel_s[jobs], ready_s, cluster_s)
            if pair is None:
                return mapped(problem, best)
            i, c = int(jobs[pair[0]]), pair[1]
            start_s = float(cluster_s[c])
            committed.append(Assignment(i, len(ready_s) + c, start_s, start_s + float(parallel_s[i, c])))
            ready_s[members[c]] = committed[-1].completion_s
            jobs = jobs[jobs != i]
            trial = Assignments.of([*committed, *_duplex(etc_s, ready_s, jobs)])
            if not is_better(trial, best):
                return mapped(problem, best)
            best = trial


def _duplex(etc_s: Floats, ready_s: Floats, jobs: NDArray[np.int64]) -> list[Assignment]:
    min_min, max_min = (greedy(etc_s, ready_s, jobs, sign) for sign in (1.0, -1.0))
    return max_min if _sum_s(max_min) < _sum_s(min_min) else min_min


def _sum_s(rows: list[Assignment]) -> float:
    return float(np.array([row.completion_s for row in rows]).sum())


def greedy(etc_s: Floats, ready_s: Floats, jobs: NDArray[np.int64], sign: float) -> list[Assignment]:
    """Min-min if `sign` is 1, Max-min if it is -1: jobs by best completion, least or largest first."""
    ready_s, left_s = ready_s.copy(), etc_s[jobs]
    rows: list[Assignment] = []
    while left_s.size:
        completion_s = ready_s + left_s
        best = completion_s.argmin(axis=1)
        best_s = completion_s[np.arange(len(best)), best]
        row = int(np.where(np.isfinite(best_s), sign * best_s, np.inf).argmin())
        if not np.isfinite(best_s[row]):
            break
        j = int(best[row])
        rows.append(Assignment(int(jobs[row]), j, float(ready_s[j]), float(best_s[row])))
        ready_s[j] = best_s[row]
        jobs, left_s = np.delete(jobs, row), np.delete(left_s, row, axis=0)
    return rows


def _most_profitable(
    etc_s: Floats, parallel_s: Floats, ready_s: Floats, cluster_s: Floats
) -> tuple[int, int] | None:
    if not parallel_s.size:
        return None
    sequential_s = (ready_s + etc_s).min(axis=1, initial=np.inf)
    on_cluster_s = cluster_s + parallel_s
    gain_s = np.full_like(on_cluster_s, -np.inf)
    np.subtract(sequential_s[:, None], on_cluster_s, out=gain_s, where=np.isfinite(on_cluster_s))
    row, c = np.unravel_index(gain_s.argmax(), gain_s.shape)
    return (int(row), int(c)) if gain_s[row, c] > 0.0 else None


GROWTH = log(2) / log(100 / 5)
"""The least exponent by which a time at least doubles from 5 to 100 jobs or machines."""
MODEST_MS = 200.0
LIGHT_RATIO, EQUAL_RATIO = 1 + SLIGHT_PERCENT / 100, 1.25
JOB_S = 200.0
"""Mean time of a job in the paper: 10,000 s for 50 jobs in Figure 5b."""
THOUSAND_MS = 1e3 * JOB_S / 100
STUDY = Study(
    "cs1",
    growth=GROWTH,
    modest_ms=MODEST_MS,
    thousand_s=THOUSAND_MS / 1e3,
    job_s=JOB_S,
    light_ratio=LIGHT_RATIO,
    equal_ratio=EQUAL_RATIO,
)

GRID = (5, 10, 20, 40, 60, 80, 100)
"""Numbers of jobs and of machines for SJS."""
PJS_JOBS = (5, 20, 50, 100, 200, 500, 1000)
CLUSTERS, CLUSTER_SIZE, LOOSE = 5, 4, 20
SHARES = (0, 10, 50, 75, 90, 100)
"""Percent of jobs that can run in parallel."""
CALLS = 3
"""Each decision is timed this often; the least time counts, since interruptions only add."""
SHIPPED, TEXTBOOK = "as shipped", "as in the paper"
SJS: dict[str, Callable[[], AnyScheduler]] = {SHIPPED: Sjs, TEXTBOOK: ReferenceSjs}
PJS: dict[str, Callable[[], AnyScheduler]] = {SHIPPED: Pjs, TEXTBOOK: ReferencePjs}

Times = tuple[pl.DataFrame, pl.DataFrame]
"""The times of SJS (jobs, machines, replication) and of PJS (jobs, share, replication, in_parallel), and a
column of milliseconds for each version."""
Found = tuple[str, list[Estimate] | RuleOutcome]
"""What was found as text, and the cases of the rule."""


def study(seeds: int, runner: Runner, sites: int = 0) -> Findings:
    """Decisions are timed one after another, whatever the number of workers. The claims are also judged on
    `sites` perturbed sites."""
    per_site = seeds * (len(GRID) ** 2 + len(PJS_JOBS) * len(SHARES))
    done, total = count(1), (1 + sites) * per_site

    def timed(site: int, versions: Sequence[str]) -> Times:
        def took(problem: MappingProblem, made: dict[str, Callable[[], AnyScheduler]]) -> list[float]:
            times_ms = [_least_ms(made[version](), problem) for version in versions]
            runner.on_progress(next(done), total)
            return times_ms

        sjs = [(*of, *took(problem, SJS)) for of, problem in _sjs_problems(seeds, site)]
        pjs = [(*of, *took(problem, PJS)) for of, problem in _pjs_problems(seeds, site)]
        return (
            table(("jobs", "machines", "replication", *versions), sjs),
            table(("jobs", "share", "replication", "in_parallel", *versions), pjs),
        )

    sjs, pjs = built_in = timed(AS_BUILT_IN, (SHIPPED, TEXTBOOK))
    means = pjs.group_by("share", maintain_order=True).agg(pl.col(SHIPPED, TEXTBOOK).mean().round(2))
    shares = pl.format("{} %", "share").alias("possibly parallel")
    by_share = means.select(shares, SHIPPED, TEXTBOOK)
    claims = judged_on_sites(lambda k: _claims(built_in if k == AS_BUILT_IN else timed(k, (SHIPPED,))), sites)
    tables = {"Mean decision of PJS (ms), over all numbers of jobs": by_share}
    return STUDY.findings(claims, _drawings(sjs, by_share), tables, seeds=seeds)


def _least_ms(scheduler: AnyScheduler, problem: MappingProblem) -> float:
    took_s = []
    for _ in range(CALLS):
        began = time.perf_counter()
        scheduler.schedule(problem)
        took_s.append(time.perf_counter() - began)
    return 1e3 * min(took_s)


def _sjs_problems(seeds: int, site: int) -> Iterator[tuple[tuple[int, int, int], MappingProblem]]:
    """Each with its jobs, machines and replication."""
    slower = factors(site, "machines", GRID[-1])
    for seed, n, m in product(range(seeds), GRID, GRID):
        rng = np.random.default_rng([SEED, seed, n, m])
        yield (n, m, seed), MappingProblem.from_matrix(rng.uniform(1.0, 100.0, (n, m)) * slower[:m])


def _pjs_problems(seeds: int, site: int) -> Iterator[tuple[tuple[int, int, int, int], MappingProblem]]:
    """Each with its jobs, share, replication, and the number of jobs that PJS runs in parallel."""
    n_machines = CLUSTERS * CLUSTER_SIZE + LOOSE
    members = np.arange(CLUSTERS * CLUSTER_SIZE).reshape(CLUSTERS, -1).tolist()
    slower, clusters_slower = factors(site, "machines", n_machines), factors(site, "clusters", CLUSTERS)
    for seed, n in product(range(seeds), PJS_JOBS):
        rng = np.random.default_rng([SEED, seed, n])
        etc_s = rng.uniform(1.0, 100.0, (n, n_machines)) * slower
        parallel_s = rng.uniform(1.0, 100.0, (n, CLUSTERS)) / 3.0 * clusters_slower
        rank = rng.permutation(n)
        for share in SHARES:
            offered_s = np.where((rank < n * share / 100)[:, None], parallel_s, np.inf)
            problem = MappingProblem.from_matrix(np.hstack([etc_s, offered_s]), None, members)
            made = Pjs().schedule(problem).assignments.resources
            yield (n, share, seed, int((made >= n_machines).sum())), problem


def _claims(times: Times) -> list[Claim]:
    sjs, pjs = times

    def exponents(version: str) -> list[Estimate]:
        """The exponents of the numbers of jobs and of machines."""
        logs = sjs.with_columns(pl.col("jobs", "machines", version).log())
        return _slopes(logs, ["jobs", "machines"], version)

    def growth(version: str) -> Found:
        a, b = exponents(version)
        return f"n^({text(a, 2)}) m^({text(b, 2)})", [above(a, GROWTH), above(b, GROWTH)]

    def as_nm(version: str) -> Found:
        a, b = exponents(version)
        return f"a = {text(a, 2)}, b = {text(b, 2)}", [below(a, 1.5), above(b, 0.5)]

    def ratio(version: str, share: int) -> Sample:
        """Decision times averaged over the numbers of jobs, as in Figure 4, over those of PJS at 0 %."""
        found = GridSamples(pjs.group_by("share", "replication").agg(pl.col(version).mean()), "share")
        return found(version, share) / found(version, 0)

    def ratios(version: str, least: float = 2.0, most: float = 3.0) -> Found:
        found = {share: Estimate(ratio(version, share)) for share in SHARES if share > 0}
        listed = ", ".join(f"{share} %: {text(x, 2)}" for share, x in found.items())
        return listed, [y for x in found.values() for y in within(x, least, most)]

    def spread(version: str) -> Found:
        found = {share: ratio(version, share) for share in SHARES if share > 0}
        between = [Estimate(found[one] / found[other]) for one, other in permutations(found, 2)]
        widest = max(between, key=lambda x: x.mean)
        limits = (LIGHT_RATIO, EQUAL_RATIO)
        strict, lenient = (all_positive([below(x, at) for x in between], "times") for at in limits)
        return f"{text(widest, 2)} times", by_open_limit(strict, lenient)

    def per_job(version: str) -> Found:
        of_sjs = pjs.filter(share=0).select("jobs", "replication", sjs_ms=version)
        joined = pjs.filter(pl.col("share") > 0).join(of_sjs, on=["jobs", "replication"])
        times_sjs = joined.with_columns(ratio=pl.col(version) / pl.col("sjs_ms"))
        (slope,) = _slopes(times_sjs, ["in_parallel"], "ratio")
        return f"by {text(slope, 2)}", within(slope, 0.5, 1.5)

    measures: dict[str, Callable[[str], Found]] = {
        "grows": growth,
        "as-nm": as_nm,
        "modest": partial(_longest, sjs, MODEST_MS, 2),
        "two-to-three": ratios,
        "share-has-no-effect": spread,
        "one-schedule-per-job": per_job,
        "thousand-jobs": partial(_longest, pjs.filter(jobs=PJS_JOBS[-1]), THOUSAND_MS, 1),
    }
    claims = []
    for name, measure in measures.items():
        found = {version: measure(version) for version in (SHIPPED, TEXTBOOK) if version in sjs.columns}
        ours = "; ".join(f"{version}: {said}" for version, (said, _) in found.items())
        beside = {version: cases for version, (_, cases) in found.items()}
        shipped = beside.pop(SHIPPED)
        if name == "two-to-three":
            beside["3 to 4 times as long"] = ratios(SHIPPED, 3.0, 4.0)[1]
        claims.append(STUDY.claim(name, shipped, ours, beside))
    return claims


def _longest(times: pl.DataFrame, most_ms: float, digits: int, version: str) -> Found:
    by_replication = times.group_by("replication").agg(pl.col(version).max()).sort("replication")
    found = Estimate(by_replication[version].to_numpy())
    return text(found, digits, "ms"), [below(found, most_ms)]


def _slopes(times: pl.DataFrame, variables: list[str], value: str) -> list[Estimate]:
    slopes = []
    for _, found in times.sort("replication").group_by("replication", maintain_order=True):
        x = found.select(variables).to_numpy().astype(float)
        slopes.append([slope.mean for slope in least_squares(x, found[value].to_numpy())[0]])
    return [Estimate(of_each) for of_each in np.array(slopes).T]


def _drawings(sjs: pl.DataFrame, by_share: pl.DataFrame) -> list[Part]:
    mean = sjs.group_by("jobs", "machines", maintain_order=True).agg(pl.col(SHIPPED).mean())
    points = ((n, str(m), ms) for n, m, ms in mean.iter_rows())
    figure_3 = lines(points, "Number of jobs", "Decision time of SJS (ms)", "Machines")
    rows = by_share.unpivot([SHIPPED, TEXTBOOK], index="possibly parallel").iter_rows()
    figure_4 = bars(rows, "Share of jobs that can run in parallel", "Mean decision time (ms)", "PJS")
    title = "Figure 4: mean decision time of PJS by share of possibly parallel jobs"
    return [
        Part("Figure 3: decision time of SJS as shipped", figure_3, name="figure-3"),
        Part(title, figure_4, name="figure-4"),
    ]
