"""First case study of Collins and George 2001: what decisions cost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count, product

import numpy as np
import polars as pl

from scheduler.mapping.greedy import Sjs
from scheduler.mapping.pjs import Pjs
from scheduler.mapping.problem import MappingProblem
from scheduler.mapping.reference import ReferencePjs, ReferenceSjs
from scheduler.ports import Scheduler
from sil.outcome.statistics import Interval, Sample, interval, least_squares
from sil.report.figures import bars, lines
from sil.report.page import Part
from sil.studies.collins_george.site_runs import SEED
from sil.studies.findings import Findings
from sil.studies.grid_samples import GridSamples, table
from sil.studies.ledger import Claim, above, all_positive, below, certain, text, within
from sil.workers.runner import Runner

GRID = (5, 10, 20, 40, 60, 80, 100)
"""Numbers of jobs and of machines for SJS."""
PJS_JOBS = (5, 20, 50, 100, 200, 500, 1000)
CLUSTERS, CLUSTER_SIZE, LOOSE = 5, 4, 20
SHARES = (0, 10, 50, 75, 90, 100)
"""Percent of jobs that can run in parallel."""
CALLS = 2
"""Each decision is timed this often; the least time counts, since interruptions only add."""
IMPLEMENTATIONS = {"ms": "as the paper tells it", "fast_ms": "as used here"}

METHOD = (
    "SJS: 5 to 100 jobs on 5 to 100 machines. PJS: 5 to 1,000 jobs on 40 machines, 20 of them in 5 "
    "clusters of 4; 0 to 100 % of the jobs can run in parallel. Execution times are random; parallel ones "
    "are a third of the others on average. Whole decisions of SJS and PJS as the paper describes them "
    "(`scheduler.mapping.reference`) are timed in one process, the lesser of two calls each; so are the "
    "implementations that this package uses, which return the same schedules. Times depend on the "
    "computer; ratios and growth depend on it less. With 0 % in parallel, PJS equals SJS."
)


def study(seeds: int, runner: Runner) -> Findings:
    """Decisions are timed one after another, whatever the number of workers."""
    done, total = count(1), seeds * (len(GRID) ** 2 + len(PJS_JOBS) * len(SHARES))

    def timed(problem: MappingProblem, by_paper: Scheduler, used: Scheduler) -> tuple[float, float]:
        times_ms = _least_ms(by_paper, problem), _least_ms(used, problem)
        runner.on_progress(next(done), total)
        return times_ms

    sjs_rows = [(*of, *timed(problem, ReferenceSjs(), Sjs())) for of, problem in _sjs_problems(seeds)]
    sjs = table(("jobs", "machines", "replication", *IMPLEMENTATIONS), sjs_rows)
    pjs_rows = [(*of, *timed(problem, ReferencePjs(), Pjs())) for of, problem in _pjs_problems(seeds)]
    pjs = table(("jobs", "share", "replication", "in_parallel", *IMPLEMENTATIONS), pjs_rows)
    means = pjs.group_by("share", maintain_order=True).agg(pl.col(*IMPLEMENTATIONS).mean().round(2))
    shares = pl.format("{} %", "share").alias("possibly parallel")
    by_share = means.select(shares, *IMPLEMENTATIONS).rename(IMPLEMENTATIONS)
    return Findings(
        title="Case study 1: scheduling overhead",
        source="Collins and George 2001, section 5.1",
        method=f"{METHOD} {seeds} random tables each; 95 % intervals.",
        claims=_claims(sjs, pjs),
        drawings=_drawings(sjs, by_share),
        tables={"Mean decision of PJS (ms), over all numbers of jobs": by_share},
    )


def _least_ms(scheduler: Scheduler, problem: MappingProblem) -> float:
    took_s = []
    for _ in range(CALLS):
        began = time.perf_counter()
        scheduler.schedule(problem)
        took_s.append(time.perf_counter() - began)
    return 1e3 * min(took_s)


def _sjs_problems(seeds: int) -> Iterator[tuple[tuple[int, int, int], MappingProblem]]:
    """Each with its jobs, machines and replication."""
    for seed, n, m in product(range(seeds), GRID, GRID):
        rng = np.random.default_rng([SEED, seed, n, m])
        yield (n, m, seed), MappingProblem.from_matrix(rng.uniform(1.0, 100.0, (n, m)))


def _pjs_problems(seeds: int) -> Iterator[tuple[tuple[int, int, int, int], MappingProblem]]:
    """Each with its jobs, share, replication, and the number of jobs that PJS runs in parallel."""
    n_machines = CLUSTERS * CLUSTER_SIZE + LOOSE
    members = np.arange(CLUSTERS * CLUSTER_SIZE).reshape(CLUSTERS, -1).tolist()
    for seed, n in product(range(seeds), PJS_JOBS):
        rng = np.random.default_rng([SEED, seed, n])
        etc_s = rng.uniform(1.0, 100.0, (n, n_machines))
        parallel_s = rng.uniform(1.0, 100.0, (n, CLUSTERS)) / 3.0
        rank = rng.permutation(n)
        for share in SHARES:
            offered_s = np.where((rank < n * share / 100)[:, None], parallel_s, np.inf)
            problem = MappingProblem.from_matrix(np.hstack([etc_s, offered_s]), None, members)
            made = Pjs().schedule(problem).assignments.resources
            yield (n, share, seed, int((made >= n_machines).sum())), problem


def _claims(sjs: pl.DataFrame, pjs: pl.DataFrame) -> list[Claim]:
    logs = np.log(sjs.select("jobs", "machines").to_numpy())
    a, b = least_squares(logs, np.log(sjs["ms"].to_numpy()))[0]
    worst_ms, worst_fast_ms = (max(sjs[column].to_list()) for column in IMPLEMENTATIONS)
    ratio = {share: interval(_ratios(pjs, share)) for share in SHARES if share > 0}
    means = [x.mean for x in ratio.values()]
    slope = _per_parallel_job(pjs)
    return [
        Claim(
            "The overhead of SJS grows with both the number of jobs and the number of machines",
            "Figure 3",
            "fitted to c n^a m^b, both exponents are above 0",
            f"n^({text(a, 2)}) m^({text(b, 2)})",
            all_positive([a, b]),
        ),
        Claim(
            "Up to 100 jobs and machines it grows rather as n m than as n^2 m",
            "O(nm), from memory management",
            "a is nearer to 1 than to 2, b nearer to 1 than to 0",
            f"a = {text(a, 2)}, b = {text(b, 2)}",
            all_positive([below(a, 1.5), above(b, 0.5)]),
        ),
        Claim(
            "The overhead of SJS is modest: below 0.2 s for 100 jobs on 100 machines",
            "below 0.2 s on a 200 MHz UltraSPARC",
            "no decision takes 0.2 s",
            f"at most {worst_ms:.1f} ms (as used here: {worst_fast_ms:.2f} ms)",
            certain(worst_ms < 200),
        ),
        Claim(
            "PJS takes two to three times as long as SJS",
            "2 to 3 times (Figure 4)",
            "for every share the ratio of decision times, averaged over numbers of jobs, is between 2 and 3",
            ", ".join(f"{share} %: {text(x, 2)}" for share, x in ratio.items()),
            all_positive(limit for x in ratio.values() for limit in within(x, 2.0, 3.0)),
        ),
        Claim(
            "The share of possibly parallel jobs has no significant effect on the overhead of PJS",
            "Figure 4",
            "the largest of these ratios is less than 1.25 times the smallest",
            f"{max(means) / min(means):.2f} times",
            certain(max(means) < 1.25 * min(means)),
        ),
        Claim(
            "Each parallel job in the final schedule adds roughly the time of one sequential schedule",
            "section 5.1",
            "the ratio to SJS grows by 0.5 to 1.5 with each job that ran in parallel",
            f"by {text(slope, 2)}",
            all_positive(within(slope, 0.5, 1.5)),
        ),
    ]


def _ratios(pjs: pl.DataFrame, share: int) -> Sample:
    """Decision times averaged over the numbers of jobs, as in Figure 4, over those of SJS (PJS at 0 %)."""
    found = GridSamples(pjs.group_by("share", "replication").agg(pl.col("ms").mean()), "share")
    return found("ms", share) / found("ms", 0)


def _per_parallel_job(pjs: pl.DataFrame) -> Interval:
    sjs = pjs.filter(share=0).select("jobs", "replication", sjs_ms="ms")
    joined = pjs.filter(pl.col("share") > 0).join(sjs, on=["jobs", "replication"])
    ratio = (joined["ms"] / joined["sjs_ms"]).to_numpy()
    return least_squares(joined.select("in_parallel").to_numpy().astype(float), ratio)[0][0]


def _drawings(sjs: pl.DataFrame, by_share: pl.DataFrame) -> list[Part]:
    mean = sjs.group_by("jobs", "machines", maintain_order=True).agg(pl.col("ms").mean())
    points = ((n, str(m), ms) for n, m, ms in mean.iter_rows())
    figure_3 = lines(points, "Number of jobs", "Decision time of SJS (ms)", "Machines")
    rows = by_share.unpivot(list(IMPLEMENTATIONS.values()), index="possibly parallel").iter_rows()
    figure_4 = bars(rows, "Share of jobs that can run in parallel", "Mean decision time (ms)", "PJS")
    return [
        Part("Figure 3: decision time of SJS as the paper describes it", figure_3, name="figure-3"),
        Part(
            "Figure 4: mean decision time of PJS by share of possibly parallel jobs",
            figure_4,
            name="figure-4",
        ),
    ]
