"""The future work of Hanzich et al. 2006: predictions that learn from past runs, or from past errors."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, pairwise, product
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from scheduler.core.arrays import Floats2
from scheduler.model import Job
from scheduler.time_shared.core.tables import BY_HISTORY, Jobs, Methods
from scheduler.time_shared.forecast import (
    COVERAGE,
    Circumstances,
    Error,
    ErrorHistory,
    Forecast,
    Hybrid,
    Predictor,
    WithInterval,
    seen_by,
)
from scheduler.time_shared.loras import Loras
from scheduler.time_shared.predictors import PolicyAware, methods_of
from scheduler.time_shared.problem import SharedNodes
from sil.outcome.statistics import Sample, interval
from sil.report.figures import bars, lines
from sil.report.page import Part
from sil.runs.on_time_shared import built_in_characterisations
from sil.studies.cisne.experiments import LOADS, METHODS, POLICIES, PredictionCase, jobs_of, run_case, scored
from sil.studies.ledger import Claim, Findings, Study
from sil.studies.rules import Estimate, GridSamples, count_of, inside, range_of, table, text, within
from sil.trace.facts import Fact
from sil.trace.held import one_row_per_machine
from sil.workers.runner import Runner

MIN_RUNS = 3
"""Fewest past runs of a kind of job in a state from which its slowdown is known."""


class PastRun(NamedTuple):
    """A completed run: the kind of job (its execution time in isolation and its tasks), the state in which it
    ran, and how long it took, relative to isolation. The state is `mpl`, the number of parallel jobs on that
    of its nodes which had most, as a mean over the run."""

    exe_s: float
    tasks: int
    mpl: float
    slowdown: float


class RunHistory:
    """Past runs under one policy: what comparable ones took, where at least MIN_RUNS are known.

    Runs are comparable if the jobs are of one kind and the states round to the same number of jobs.
    """

    def __init__(self, runs: Iterable[PastRun]) -> None:
        found: dict[tuple[float, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        for run in runs:
            found[run.exe_s, run.tasks][round(run.mpl)].append(run.slowdown)
        self._slower = {
            kind: {mpl: float(np.median(slower)) for mpl, slower in states.items() if len(slower) >= MIN_RUNS}
            for kind, states in found.items()
        }
        self._width = 1 + max((mpl for states in self._slower.values() for mpl in states), default=0)

    def slower(self, jobs: Jobs) -> Floats2:
        """The median slowdown of each job, (rows, MPL); 0 = unknown."""
        table = np.zeros((len(jobs.id), self._width))
        for row, kind in enumerate(zip(jobs.exe_s.tolist(), jobs.tasks.tolist(), strict=True)):
            for mpl, slower in self._slower.get(kind, {}).items():
                table[row, mpl] = slower
        return table


class Historical(PolicyAware):
    """Algorithm 1 with the policy of the live scheduler, where RemainTime is that in isolation (Eq 2) times
    the slowdown of past runs of this kind in this state. Where that is unknown, it is estimated as the CPU
    time is, by Eq 4 or 5.

    Source: the future work of Hanzich et al. 2006, section 5.
    """

    def __init__(self, scheduler: Loras, history: RunHistory, cpu_time: str = "cpu") -> None:
        super().__init__(scheduler, cpu_time, cpu_time)
        self._methods = Methods(BY_HISTORY, methods_of(cpu_time, cpu_time).cpu)
        self._history = history

    def past_slower(self, jobs: Jobs) -> Floats2:
        return self._history.slower(jobs)


PLAIN, CORRECTED, HISTORICAL = "plain", "corrected", "historical"
"""Algorithm 1; its forecasts times the median of its past errors; and Algorithm 1 with RemainTime from past
runs."""
HYBRIDS = (HISTORICAL, CORRECTED)
CELLS = tuple(product(POLICIES, LOADS, METHODS))
STEPS = (1, 2, 5, 10)
"""Numbers of past seeds of the learning curve, besides none and all."""
SLACK_POINTS, BIAS_POINTS = 10.0, 2.0

STUDY = Study("cisne-hybrid", coverage=COVERAGE, bias_points=BIAS_POINTS, slack_points=SLACK_POINTS)

Cell = tuple[str, float, str]
"""Policy, local load, method."""


class Learnt(NamedTuple):
    """What a cell has learnt from this number of seeds."""

    seeds: int
    runs: RunHistory
    errors: ErrorHistory


def study(seeds: int, runner: Runner) -> Findings:
    """Learns from half of the seeds and predicts the other half."""
    runner.total = 2 * seeds * len(POLICIES) * len(LOADS)
    past, future = (
        [PredictionCase(p, load, first + k) for k in range(seeds) for p in POLICIES for load in LOADS]
        for first in (0, seeds)
    )
    steps = [*(k for k in STEPS if k < seeds), seeds]
    errors: dict[Cell, list[list[Error]]] = defaultdict(list)
    runs: dict[tuple[str, float], list[list[PastRun]]] = defaultdict(list)
    for case, (of_runs, found) in zip(past, runner.map(_experience, past), strict=True):
        runs[case.policy, case.load].append(of_runs)
        for method, of_method in found.items():
            errors[case.policy, case.load, method].append(of_method)
    learnt = {
        (policy, load, method): [
            Learnt(
                k,
                RunHistory(chain.from_iterable(runs[policy, load][:k])),
                ErrorHistory(chain.from_iterable(errors[policy, load, method][:k])),
            )
            for k in steps
        ]
        for policy, load, method in CELLS
    }
    cases = [(case, {m: learnt[case.policy, case.load, m] for m in METHODS}) for case in future]
    frame = pl.DataFrame([row for rows in runner.map(_predicted, cases) for row in rows])
    axes = ("policy", "load", "method", "kind", "seeds")
    deviations, shares = GridSamples(frame, *axes), GridSamples(frame.drop_nulls("covered"), *axes)
    covered = {cell: Estimate(shares("covered", *cell, PLAIN, seeds)) for cell in CELLS}

    def by_cell(kind: str, k: int) -> dict[Cell, Sample]:
        return {cell: deviations("deviation", *cell, kind, k) for cell in CELLS}

    unlearnt = dict.fromkeys(((kind, 0) for kind in HYBRIDS), _mean(by_cell(PLAIN, 0)))
    curve = unlearnt | {(kind, k): _mean(by_cell(kind, k)) for kind, k in product(HYBRIDS, steps)}
    return STUDY.findings(
        _claims(by_cell, curve, list(covered.values())),
        _drawings(by_cell, curve, seeds),
        _tables(by_cell, curve, covered, seeds),
        seeds=seeds,
    )


def _mean(of_cells: dict[Cell, Sample]) -> Sample:
    return np.asarray(np.mean([*of_cells.values()], axis=0), dtype=np.float64)


class _Noting:
    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        self.seen: list[tuple[float, Forecast, Circumstances]] = []

    def predict(self, now_s: float, shared: SharedNodes) -> list[Forecast]:
        made = seen_by(self._predictor, now_s, shared)
        self.seen += [(now_s, *one) for one in made]
        return [forecast for forecast, _ in made]


def _aware(case: PredictionCase, method: str) -> PolicyAware:
    return PolicyAware(case.composition.scheduler(), *METHODS[method])


def _experience(case: PredictionCase) -> tuple[list[PastRun], dict[str, list[Error]]]:
    noting = {method: _Noting(_aware(case, method)) for method in METHODS}
    done = run_case(case, dict(noting))
    ended = done.facts.filter(event=Fact.RUN_ENDED)
    ended_s = dict(ended.select("job", "time_s").iter_rows())
    errors = {
        method: [
            Error(circumstances, (ended_s[forecast.job] - made_s) / (forecast.end_s - made_s))
            for made_s, forecast, circumstances in of_method.seen
            if forecast.end_s > made_s
        ]
        for method, of_method in noting.items()
    }
    return past_runs(done.facts, jobs_of(case.replication)), errors


def past_runs(facts: pl.DataFrame, jobs: Sequence[Job]) -> list[PastRun]:
    """The completed runs, each with the parallel jobs on that of its nodes which had most, as a mean over its
    time."""
    known = built_in_characterisations()
    held = facts.filter(event=Fact.RUN_STARTED).select("job", "time_s", "machines")
    ended = facts.filter(event=Fact.RUN_ENDED).select("job", "time_s")
    started_s, ended_s = dict(held.select("job", "time_s").iter_rows()), dict(ended.iter_rows())
    nodes: dict[int, list[int]] = defaultdict(list)
    for job, node in one_row_per_machine(held).select("job", "machines").iter_rows():
        nodes[job].append(int(node))
    jobs_s: dict[int, float] = defaultdict(float)
    for from_s, until_s in pairwise(sorted({*started_s.values(), *ended_s.values()})):
        running = [job for job, at_s in started_s.items() if at_s <= from_s < ended_s[job]]
        on_node = Counter(node for job in running for node in nodes[job])
        for job in running:
            jobs_s[job] += (until_s - from_s) * max(on_node[node] for node in nodes[job])
    made = []
    for job in jobs:
        exe_s, took_s = known.of(job.job_class, job.n_tasks).exe_s, ended_s[job.id] - started_s[job.id]
        made.append(PastRun(exe_s, job.n_tasks, jobs_s[job.id] / took_s, took_s / exe_s))
    return made


def _predicted(learnt: tuple[PredictionCase, dict[str, list[Learnt]]]) -> list[dict[str, Any]]:
    case, by_method = learnt
    predictors: dict[tuple[str, str, int], Predictor] = {}
    for method, steps in by_method.items():
        predictors[PLAIN, method, 0] = _aware(case, method)
        predictors[PLAIN, method, steps[-1].seeds] = WithInterval(_aware(case, method), steps[-1].errors)
        for seeds, runs, errors in steps:
            predictors[CORRECTED, method, seeds] = Hybrid(_aware(case, method), errors)
            _, cpu_time = METHODS[method]
            historical = Historical(case.composition.scheduler(), runs, cpu_time)
            predictors[HISTORICAL, method, seeds] = historical
    of_name = {" ".join(map(str, of)): of for of in predictors}
    scores = scored(run_case(case, {name: predictors[of] for name, of in of_name.items()})).filter("first")
    ended, low, high = (pl.col(name) for name in ("finish_time", "low_s", "high_s"))
    is_inside = ((low <= ended) & (ended <= high)).cast(pl.Float64)
    rows = []
    for (name,), first in scores.group_by("predictor", maintain_order=True):
        kind, method, seeds = of_name[str(name)]
        covered = first.select(100 * is_inside.mean()).item()
        deviation = 100 * float(np.abs(first["deviation"].to_numpy()).mean())
        row = {"policy": case.policy, "load": case.load, "replication": case.replication}
        row |= {"kind": kind, "method": method, "seeds": seeds, "deviation": deviation}
        rows.append(row | {"covered": covered})
    return rows


ByCell = Callable[[str, int], dict[Cell, Sample]]
"""The deviation of a kind of predictor after this number of seeds."""
Curve = dict[tuple[str, int], Sample]
"""The deviation of a hybrid by the number of seeds, as a mean over all cells."""


def _claims(by_cell: ByCell, curve: Curve, covered: list[Estimate]) -> list[Claim]:
    unlearnt, most = by_cell(PLAIN, 0), max(seeds for _, seeds in curve)
    gains, falls, learning = {}, {}, {}
    for kind in HYBRIDS:
        gains[kind] = [Estimate(unlearnt[cell] - x) for cell, x in by_cell(kind, most).items()]
        by_seeds = [x for (of, _), x in curve.items() if of == kind]
        falls[kind] = [Estimate(fewer - more) for fewer, more in pairwise(by_seeds)]
        learning[kind] = ", ".join(text(Estimate(x)) for x in by_seeds)
    nominal = 100 * COVERAGE
    near = [inside(x, nominal - SLACK_POINTS, nominal + SLACK_POINTS) for x in covered]
    overall = Estimate(np.mean([x.values for x in covered], axis=0))
    means = [x.mean for x in covered]
    gain = "; ".join(f"{kind}: {count_of(x)}; gain {range_of(x, 'points')}" for kind, x in gains.items())
    curves = "; ".join(f"{kind}: {means}" for kind, means in learning.items())
    by_cells = f"from {min(means):.0f} to {max(means):.0f} % by cell"
    on_average = within(overall, nominal - BIAS_POINTS, nominal + BIAS_POINTS)
    covering = f"{text(overall, 1)} % of jobs on average; {by_cells}"
    return [
        STUDY.claim("merged", gains.pop(HISTORICAL), gain, beside=gains),
        STUDY.claim("more-and-more", falls.pop(HISTORICAL), curves, beside=falls),
        STUDY.claim("coverage-of-intervals", [*on_average, *near], covering),
    ]


KINDS = (PLAIN, *HYBRIDS)
LEARNING_CURVE = "Learning curve: mean deviation over all cells"


def _tables(
    by_cell: ByCell, curve: Curve, covered: dict[Cell, Estimate], seeds: int
) -> dict[str, pl.DataFrame]:
    learnt, rows = [by_cell(kind, seeds) for kind in KINDS], []
    for policy, load, method in CELLS:
        cell = (policy, load, method)
        deviations = (text(Estimate(of_kind[cell])) for of_kind in learnt)
        rows.append((policy, f"{load:.0%}", method, *deviations, text(covered[cell], 0)))
    steps = sorted({k for _, k in curve})
    means = [(k, *(text(Estimate(curve[kind, k])) for kind in HYBRIDS)) for k in steps]
    title = f"Deviation (%), and share of jobs that end in their {COVERAGE:.0%} interval (%)"
    return {
        title: table(("policy", "local load", "method", *KINDS, "in the interval"), rows),
        f"{LEARNING_CURVE} (%), by the number of past seeds": table(("past seeds", *HYBRIDS), means),
    }


def _drawings(by_cell: ByCell, curve: Curve, seeds: int) -> Iterator[Part]:
    learnt = {kind: by_cell(kind, seeds) for kind in KINDS}
    for method in METHODS:
        rows = [
            (f"{policy}, {load:.0%}", kind, float(learnt[kind][policy, load, method].mean()))
            for policy, load, kind in product(POLICIES, LOADS, KINDS)
        ]
        chart = bars(rows, "Policy, local load", "Mean deviation (%)", "Predictor")
        title = f"{method}-{method}: deviation with and without learning"
        yield Part(title, chart, name=f"hybrid-{method.lower()}")
    points = [(float(k), kind, interval(x)) for (kind, k), x in curve.items()]
    chart = lines(points, "Past seeds", "Mean deviation (%)", "Hybrid", height=220)
    yield Part(LEARNING_CURVE, chart, name="learning-curve")
