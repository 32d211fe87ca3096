"""First case study of Collins and George 2001: what decisions cost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import fmean

import numpy as np
import polars as pl

from scheduler.mapping.pjs import Pjs
from scheduler.mapping.reference import TextbookPjs, TextbookSjs
from scheduler.mapping.sjs import Sjs
from scheduler.ports import Scheduler
from scheduler.problem import SchedulingProblem
from sil.outcome.growth import least_squares
from sil.outcome.statistics import Interval, Sample, interval
from sil.report.figures import bars, series
from sil.studies.collins_george.site_runs import SEED
from sil.studies.findings import Drawing, Findings
from sil.studies.ledger import Claim, Verdict, all_positive, less, settled, shown
from sil.studies.run_options import Course, OnProgress

GRID = (5, 10, 20, 40, 60, 80, 100)
"""Numbers of jobs and of machines for SJS."""
PJS_JOBS = (5, 20, 50, 100, 200, 500, 1000)
CLUSTERS, CLUSTER_SIZE, LOOSE = 5, 4, 20
SHARES = (0, 10, 50, 75, 90, 100)
"""Percent of jobs that can run in parallel."""
CALLS = 2
"""The least time of so many calls counts: what interrupts a computer only adds."""

METHOD = (
    "SJS: 5 to 100 jobs on 5 to 100 machines. PJS: 5 to 1,000 jobs on 40 machines, 20 of them in 5 "
    "clusters of 4; 0 to 100 % of the jobs can run in parallel. Random execution times, those in parallel "
    "a third of the others in the mean. Measured are whole decisions of SJS and PJS as the paper tells "
    "them (`scheduler.mapping.reference`), in one process, each the lesser of two calls; beside them, the "
    "ones that this package uses, which give the same schedules. The times depend on the computer; ratios "
    "and growth do so less. With 0 % in parallel, PJS does what SJS does."
)


def study(seeds: int, course: Course) -> Findings:
    """Decisions are timed one after another, whatever the number of workers."""
    steps = _Steps(course.on_progress, seeds * (len(GRID) ** 2 + len(PJS_JOBS) * len(SHARES)))
    sjs = pl.DataFrame(
        list(_time_sjs(seeds, steps)), schema=["jobs", "machines", "seed", "ms", "fast_ms"], orient="row"
    )
    columns = ["jobs", "share", "seed", "ms", "fast_ms", "in_parallel"]
    pjs = pl.DataFrame(list(_time_pjs(seeds, steps)), schema=columns, orient="row")
    return Findings(
        name="cs1",
        title="Case study 1: scheduling overhead",
        source="Collins and George 2001, section 5.1",
        method=f"{METHOD} {seeds} random tables each; 95 % intervals.",
        claims=_claims(sjs, pjs),
        drawings=[_figure_3(sjs), _figure_4(pjs)],
        tables={"Mean decision of PJS (ms), over all numbers of jobs": _table(pjs)},
    )


class _Steps:
    def __init__(self, on_progress: OnProgress, total: int) -> None:
        self._on_progress, self._total, self._done = on_progress, total, 0

    def next(self) -> None:
        self._done += 1
        self._on_progress(self._done, self._total)


def _least_ms(scheduler: Scheduler, problem: SchedulingProblem) -> float:
    took_s = []
    for _ in range(CALLS):
        began = time.perf_counter()
        scheduler.schedule(problem)
        took_s.append(time.perf_counter() - began)
    return 1e3 * min(took_s)


def _time_sjs(seeds: int, steps: _Steps) -> Iterator[tuple[int, int, int, float, float]]:
    for seed in range(seeds):
        for n in GRID:
            for m in GRID:
                luck = np.random.default_rng([SEED, seed, n, m])
                problem = SchedulingProblem.from_matrix(luck.uniform(1.0, 100.0, (n, m)))
                yield n, m, seed, _least_ms(TextbookSjs(), problem), _least_ms(Sjs(), problem)
                steps.next()


def _time_pjs(seeds: int, steps: _Steps) -> Iterator[tuple[int, int, int, float, float, int]]:
    n_machines = CLUSTERS * CLUSTER_SIZE + LOOSE
    members = np.arange(CLUSTERS * CLUSTER_SIZE).reshape(CLUSTERS, -1).tolist()
    for seed in range(seeds):
        for n in PJS_JOBS:
            luck = np.random.default_rng([SEED, seed, n])
            etc_s = luck.uniform(1.0, 100.0, (n, n_machines))
            parallel_s = luck.uniform(1.0, 100.0, (n, CLUSTERS)) / 3.0
            rank = luck.permutation(n)
            for share in SHARES:
                offered_s = np.where((rank < n * share / 100)[:, None], parallel_s, np.inf)
                problem = SchedulingProblem.from_matrix(np.hstack([etc_s, offered_s]), None, members)
                made = Pjs().schedule(problem).assignments.resources
                ms, fast_ms = _least_ms(TextbookPjs(), problem), _least_ms(Pjs(), problem)
                yield n, share, seed, ms, fast_ms, int((made >= n_machines).sum())
                steps.next()


def _claims(sjs: pl.DataFrame, pjs: pl.DataFrame) -> list[Claim]:
    exponents = _growth(sjs)
    worst_ms = max(sjs["ms"].to_list())
    ratio = {share: interval(_ratios(pjs, share)) for share in SHARES if share > 0}
    means = [x.mean for x in ratio.values()]
    slope = _per_parallel_job(pjs)
    return [
        Claim(
            "The overhead of SJS grows with both the number of jobs and the number of machines",
            "Figure 3",
            "fitted to c n^a m^b, both exponents are above 0",
            f"n^({shown(exponents[0], 2)}) m^({shown(exponents[1], 2)})",
            all_positive(exponents),
        ),
        Claim(
            "Up to 100 jobs and machines it grows rather as n m than as n^2 m",
            "O(nm), from memory management",
            "a is nearer to 1 than to 2, b nearer to 1 than to 0",
            f"a = {shown(exponents[0], 2)}, b = {shown(exponents[1], 2)}",
            all_positive(
                [Interval(1.5 - exponents[0].mean, exponents[0].half_width), less(exponents[1], 0.5)]
            ),
        ),
        Claim(
            "The overhead of SJS is modest: below 0.2 s for 100 jobs on 100 machines",
            "below 0.2 s on a 200 MHz UltraSPARC",
            "no decision takes 0.2 s",
            f"at most {worst_ms:.1f} ms (as used here: {max(sjs['fast_ms'].to_list()):.2f} ms)",
            settled(worst_ms < 200),
        ),
        Claim(
            "PJS takes two to three times as long as SJS",
            "2 to 3 times (Figure 4)",
            "for every share the ratio of the delays, averaged over the numbers of jobs, is between 2 and 3",
            ", ".join(f"{share} %: {shown(x, 2)}" for share, x in ratio.items()),
            _all_between(list(ratio.values()), 2.0, 3.0),
        ),
        Claim(
            "The share of possibly parallel jobs has no significant effect on the overhead of PJS",
            "Figure 4",
            "the largest of these ratios is less than 1.25 times the smallest",
            f"{max(means) / min(means):.2f} times",
            settled(max(means) < 1.25 * min(means)),
        ),
        Claim(
            "Each parallel job in the final schedule adds roughly the time of one sequential schedule",
            "section 5.1",
            "the ratio to SJS grows by 0.5 to 1.5 with each job that ran in parallel",
            f"by {shown(slope, 2)}",
            _all_between([slope], 0.5, 1.5),
        ),
    ]


def _ratios(pjs: pl.DataFrame, share: int) -> Sample:
    """Per seed: delays averaged over the numbers of jobs, as in Figure 4, over those of SJS (PJS at 0 %)."""
    means = pjs.group_by("share", "seed").agg(pl.col("ms").mean()).sort("seed")
    ratios: Sample = (
        means.filter(pl.col("share") == share)["ms"].to_numpy()
        / means.filter(pl.col("share") == 0)["ms"].to_numpy()
    )
    return ratios


def _growth(sjs: pl.DataFrame) -> list[Interval]:
    """Exponents of n and m, by least squares of the logarithms."""
    logs = np.log(sjs.select("jobs", "machines").to_numpy())
    return least_squares(logs, np.log(sjs["ms"].to_numpy()))[0]


def _per_parallel_job(pjs: pl.DataFrame) -> Interval:
    sjs = pjs.filter(pl.col("share") == 0).select("jobs", "seed", sjs_ms="ms")
    joined = pjs.filter(pl.col("share") > 0).join(sjs, on=["jobs", "seed"])
    ratio = (joined["ms"] / joined["sjs_ms"]).to_numpy()
    return least_squares(joined.select("in_parallel").to_numpy().astype(float), ratio)[0][0]


def _all_between(found: list[Interval], low: float, high: float) -> Verdict:
    inside = [less(x, low) for x in found] + [Interval(high - x.mean, x.half_width) for x in found]
    return all_positive(inside)


def _table(pjs: pl.DataFrame) -> pl.DataFrame:
    rows = [
        (
            f"{share} %",
            *(round(fmean(pjs.filter(pl.col("share") == share)[c].to_list()), 2) for c in ("ms", "fast_ms")),
        )
        for share in SHARES
    ]
    return pl.DataFrame(
        rows, schema=["possibly parallel", "as the paper tells it", "as used here"], orient="row"
    )


def _figure_3(sjs: pl.DataFrame) -> Drawing:
    mean = sjs.group_by("jobs", "machines", maintain_order=True).agg(pl.col("ms").mean())
    frame = mean.with_columns(pl.col("machines").cast(pl.String))
    chart = series(
        frame, "jobs", "Number of jobs", "ms", "Scheduling delay of SJS (ms)", "machines", "Machines"
    )
    return Drawing("figure-3", "Figure 3: scheduling delay of SJS as the paper tells it", chart)


def _figure_4(pjs: pl.DataFrame) -> Drawing:
    names = ["as the paper tells it", "as used here"]
    frame = _table(pjs).unpivot(names, index="possibly parallel", variable_name="PJS", value_name="ms")
    chart = bars(
        frame,
        "possibly parallel",
        "Share of jobs that can run in parallel",
        "ms",
        "Mean scheduling delay (ms)",
        "PJS",
        "PJS",
    )
    return Drawing("figure-4", "Figure 4: average overhead of PJS by share of possibly parallel jobs", chart)
