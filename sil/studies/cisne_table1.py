"""Table 1 of Hanzich et al. 2006: deviation of predicted turnaround by policy, local load and method."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from math import inf

import altair as alt
import numpy as np
import polars as pl

from scheduler.prediction.forecast import Predictor
from scheduler.prediction.look_ahead import PolicyAware
from sil.outcome.figures import PALETTE, WIDTH
from sil.outcome.node_figures import timeline
from sil.outcome.statistics import Interval, interval
from sil.outcome.trace import Fact
from sil.studies.cisne import (
    AWARE,
    BESIDE,
    BLIND,
    LOADS,
    METHOD,
    MIXED,
    POLICIES,
    Case,
    Deviations,
    cluster_of,
    jobs_of,
    run,
    run_all,
)
from sil.studies.findings import Drawing, Findings, OnProgress
from sil.studies.ledger import (
    Claim,
    Verdict,
    all_or_partly_positive,
    all_positive,
    counted,
    less,
    most_positive,
    positive,
    shown,
    some_positive,
)

MPL, CPU = ("mpl", "mpl"), ("cpu", "cpu")
PAIRS = {"MPL": MPL, "CPU": CPU}
PAPER = {
    "Norm+BF": ((144.33, 99.67), (58.67, 59.67), (46.33, 45.00)),
    "Unif+BF": ((69.67, 63.33), (55.00, 31.33), (54.00, 46.67)),
    "Basic": ((6.33, 23.00), (14.00, 18.67), (34.33, 8.67)),
    "Normal": ((23.00, 15.33), (20.50, 21.33), (16.67, 28.33)),
    "Uniform": ((12.67, 8.67), (22.00, 21.67), (25.33, 18.33)),
}
"""Percent, (MPL-MPL, CPU-CPU) for each load."""
BACKFILLING = ("Norm+BF", "Unif+BF")
IN_ORDER = {"Norm+BF": "Normal", "Unif+BF": "Uniform"}
CELLS = tuple(product(POLICIES, LOADS))
CPU_LIMITS = (2.0, 1.5, 1.2)
"""Of the summed CPU requirements on a node, for which the paper gives no number."""
LEAST_SEEDS = 40
REACHED_PERCENT = 12.0
ALMOST_ALWAYS_PERCENT = 75.0
NEVER_PERCENT = 5.0
LIMIT_MS = 4.0


def study(seeds: int, workers: int, on_progress: OnProgress) -> Findings:
    """The paper's table is about three runs per cell; at least LEAST_SEEDS are made here."""
    seeds = max(seeds, LEAST_SEEDS)
    cases = [
        *(Case(policy, load, k) for k in range(seeds) for policy in POLICIES | BESIDE for load in LOADS),
        *(Case(*cell, k, limit) for k in range(seeds) for cell in CELLS for limit in CPU_LIMITS),
    ]
    rows = run_all(cases, workers, on_progress)
    by_limit = {limit: Deviations(rows.filter(pl.col("most_cpu") == limit)) for limit in (inf, *CPU_LIMITS)}
    found = by_limit[inf]
    return Findings(
        name="cisne-table1",
        title="CISNE, Table 1: turnaround deviation by policy and local load",
        source="Hanzich et al. 2006, section 4.1",
        method=f"{METHOD} {seeds} seeds; 95 % intervals.",
        claims=[
            *_claims_about_policies(found),
            *_claims_about_methods(found),
            *_claims_about_cost(found),
            _claim_about_limits(by_limit),
        ],
        drawings=[_heat_map(found), _biases(found), *_drawings_of_one_run()],
        tables={
            "Deviation (%), the paper's beside ours (blind)": _table(found),
            "Bias (%) and jobs predicted too late (%), CPU-CPU": _bias_table(found),
            "The runs themselves": _run_table(found),
            "If the CPU requirements on a node may not add up to more than a limit": _limit_table(by_limit),
        },
    )


def _claims_about_policies(found: Deviations) -> list[Claim]:
    of = found.of
    order_matters = [
        interval(of(policy, load, pair) - of(IN_ORDER[policy], load, pair))
        for policy, load, pair in product(BACKFILLING, LOADS, PAIRS.values())
    ]
    uniform = [
        interval(of("Normal", load, pair) - of("Uniform", load, pair))
        for load, pair in product(LOADS, PAIRS.values())
    ]
    best = _least(interval(of("Uniform", load, pair)) for load, pair in product(LOADS, PAIRS.values()))
    mixed = [
        interval(of("Normal", load, pair) - of(MIXED, load, pair))
        for load, pair in product(LOADS, PAIRS.values())
    ]
    basic = [
        interval(of("Basic", load, pair) - of(other, load, pair))
        for load, pair, other in product(LOADS, PAIRS.values(), ("Normal", "Uniform"))
    ]
    longer_and_worse = [
        interval(of("Basic", load, pair) - of(other, load, pair))
        for load, pair, other in product(LOADS, PAIRS.values(), ("Normal", "Uniform"))
        if interval(found.of_run("Basic", load, "waiting_s") - found.of_run(other, load, "waiting_s")).low > 0
    ]
    seen = [
        interval(of(policy, load, pair, BLIND) - of(policy, load, pair, AWARE))
        for policy, load, pair in product(BACKFILLING, LOADS, PAIRS.values())
    ]
    over = [
        interval(of(policy, load, pair, BLIND, "over"))
        for policy, load, pair in product(BACKFILLING, LOADS, PAIRS.values())
    ]
    under = [Interval(100 - x.mean, x.half_width) for x in over]
    falls = [
        interval(of(policy, more, pair) - of(policy, fewer, pair))
        for policy, pair in product(BACKFILLING, PAIRS.values())
        for more, fewer in ((0.25, 0.5), (0.5, 1.0))
    ]
    backfilled = [
        interval(found.of_run(policy, more, "backfilled") - found.of_run(policy, fewer, "backfilled"))
        for policy in BACKFILLING
        for more, fewer in ((0.25, 0.5), (0.5, 1.0))
    ]
    gain = [
        interval(found.of_run("Normal", load, "turnaround_s") - found.of_run("Uniform", load, "turnaround_s"))
        for load in LOADS
    ]
    return [
        Claim(
            "Policies that keep the FCFS order are more predictable than backfilling",
            "12 of 12 cells of Table 1",
            "backfilling deviates more in every cell (policy, load, method); partly: in most",
            f"{counted(order_matters)}; {_range(order_matters, 'points')}",
            all_or_partly_positive(order_matters),
        ),
        Claim(
            "Uniform is more predictable than Normal",
            "3 of 6 cells of Table 1",
            "Normal deviates more at every load, by both methods; partly: in most",
            f"{counted(uniform)}; {_range(uniform, 'points')}",
            all_or_partly_positive(uniform),
        ),
        Claim(
            "Policies that distribute resources in a balanced way reach an accuracy of 12 %",
            "12 %; best cell 8.67 %",
            f"the best cell of Uniform is below {REACHED_PERCENT:g} %",
            shown(best, 1, "%"),
            positive(Interval(REACHED_PERCENT - best.mean, best.half_width)),
        ),
        Claim(
            "The reason is that the tasks of a job have the same resources",
            "section 4.1",
            "Uniform that rather mixes sets than waits is more predictable than Normal, too, in every cell",
            f"{counted(mixed)}; {_range(mixed, 'points')}",
            all_or_partly_positive(mixed),
        ),
        Claim(
            "Basic is less predictable than Normal or Uniform in some cases",
            "section 4.1",
            "in some cell Basic deviates more than one of them",
            f"{counted(basic)}; {_range(basic, 'points')}",
            some_positive(basic),
        ),
        Claim(
            "The reason is that the longer the queue, the less accurate the prediction",
            "section 4.1",
            "wherever jobs wait longer under Basic than under another, it deviates more; partly: in most",
            f"{counted(longer_and_worse)}; {_range(longer_and_worse, 'points')}",
            all_or_partly_positive(longer_and_worse),
        ),
        Claim(
            "Backfilling is hard to predict since the order of the queue varies",
            "section 4.1",
            "the predictor that follows the order deviates less than the blind one, in every cell",
            f"{counted(seen)}; {_range(seen, 'points')}",
            all_or_partly_positive(seen),
        ),
        Claim(
            "With backfilling, predictions are almost always pessimistic",
            "section 4.1",
            f"more than {ALMOST_ALWAYS_PERCENT:g} % of jobs end before they are predicted to, in every cell; "
            "partly: in most",
            _range(over, "% of jobs"),
            all_or_partly_positive([less(x, ALMOST_ALWAYS_PERCENT) for x in over]),
        ),
        Claim(
            "In the worst case turnaround is over-estimated, and never under-estimated",
            "section 4.1",
            f"with backfilling, fewer than {NEVER_PERCENT:g} % of jobs end after the time that was "
            "predicted, in every cell; partly: in most",
            _range(under, "% of jobs"),
            all_or_partly_positive([Interval(NEVER_PERCENT - x.mean, x.half_width) for x in under]),
        ),
        Claim(
            "With backfilling, the deviation falls as the local load grows",
            "Table 1",
            "from each load to the next, for both policies, by both methods; partly: in most cases",
            f"{counted(falls)}; {_range(falls, 'points')}",
            all_or_partly_positive(falls),
        ),
        Claim(
            "The reason is that there are fewer opportunities to backfill",
            "section 4.1",
            "fewer jobs overtake others from each load to the next, for both policies",
            f"{counted(backfilled)}; {_range(backfilled, 'jobs of 30')}",
            all_or_partly_positive(backfilled),
        ),
        Claim(
            "That Uniform mixes jobs bound by communication and by computation improves time sharing",
            "section 4",
            "the mean turnaround under Uniform is below that under Normal at every load",
            f"{counted(gain)}; {_range(gain, 's')}",
            all_or_partly_positive(gain),
        ),
    ]


def _claims_about_methods(found: Deviations) -> list[Claim]:
    difference = {
        (policy, load): interval(found.of(policy, load, MPL) - found.of(policy, load, CPU))
        for policy, load in CELLS
    }
    exceptions = {
        cell: Interval(-difference[cell].mean, difference[cell].half_width)
        for cell in (("Normal", 1.0), ("Basic", 0.25))
    }
    over = interval(found.of("Basic", 0.25, CPU, BLIND, "over"))
    bias = interval(found.of("Basic", 0.25, CPU, BLIND, "bias"))
    return [
        Claim(
            "CPU-CPU is more accurate than MPL-MPL in most cases",
            "10 of 15 cells of Table 1",
            "MPL-MPL deviates more in most cells",
            f"{counted(difference.values())}; {_range(list(difference.values()), 'points')}",
            most_positive(list(difference.values())),
        ),
        Claim(
            "An exception is Normal with local load on all nodes",
            "28.33 % by CPU, 16.67 % by MPL",
            "there CPU-CPU deviates more",
            f"by {shown(exceptions['Normal', 1.0], 1, 'points')}",
            positive(exceptions["Normal", 1.0]),
        ),
        Claim(
            "Another exception is Basic with local load on 25 % of the nodes",
            "23.00 % by CPU, 6.33 % by MPL",
            "there CPU-CPU deviates more",
            f"by {shown(exceptions['Basic', 0.25], 1, 'points')}",
            positive(exceptions["Basic", 0.25]),
        ),
        Claim(
            "There, the CPU-CPU prediction is always pessimistic",
            "section 4.1",
            f"its mean is too late, and more than {ALMOST_ALWAYS_PERCENT:g} % of jobs end before",
            f"bias {shown(bias, 1, '%')}; {shown(over, 0, '% of jobs')} end before",
            all_positive([bias, less(over, ALMOST_ALWAYS_PERCENT)]),
        ),
    ]


def _claims_about_cost(found: Deviations) -> list[Claim]:
    cost = {policy: interval(found.of_run(policy, 0.25, "cost_ms")) for policy in POLICIES}
    worst = max(cost.values(), key=lambda x: x.high)
    of_table = interval(
        np.mean([found.of(policy, load, pair) for policy, load in CELLS for pair in PAIRS.values()], axis=0)
    )
    return [
        Claim(
            "Predicting the turnaround of one application takes less than 4 ms",
            "4 ms on a Pentium IV",
            f"it takes less than {LIMIT_MS:g} ms under every policy",
            f"at most {shown(worst, 4, 'ms')}",
            positive(Interval(LIMIT_MS - worst.mean, worst.half_width)),
        ),
        Claim(
            "That is at least two orders of magnitude below the execution times",
            "minutes",
            "the shortest execution time in isolation is more than 100 times as long",
            f"21 s against {shown(worst, 4, 'ms')}",
            positive(Interval(21e3 / 100 - worst.mean, worst.half_width)),
        ),
        Claim(
            "The time of an estimate does not depend on the state of the cluster",
            "section 1",
            "none: true of Eqs 1 to 9, each for one job; Algorithm 1 grows with the jobs that run and wait",
            "see benchmarks/results",
            Verdict.NOT_TESTABLE,
        ),
        Claim(
            "The analytic estimate of an execution time is wrong by about 41 %",
            "41 %; the mean of Table 1 is 37 %",
            "none: the paper does not say of which predictions that is the mean",
            f"the mean of all cells of Table 1 is {shown(of_table, 1, '%')}",
            Verdict.NOT_TESTABLE,
        ),
        Claim(
            "The parallel MPL of a node never exceeds 4",
            "section 4",
            "so by construction: a run in which it does ends with a fault",
            "no fault in any run",
            Verdict.CALIBRATION,
        ),
        Claim(
            "No placement exceeds the limits of memory and CPU",
            "sections 2 and 4",
            "so by construction: the rules of the manager, checked before a job starts",
            "no fault in any run",
            Verdict.CALIBRATION,
        ),
        Claim(
            "Measuring an application in isolation is better than what users say of it",
            "section 2",
            "none: there are no users' estimates in the experiment",
            "not tried",
            Verdict.NOT_TESTABLE,
        ),
    ]


def _claim_about_limits(by_limit: dict[float, Deviations]) -> Claim:
    distance = {limit: _distance(found) for limit, found in by_limit.items()}
    nearest = min(distance, key=lambda limit: distance[limit].mean)
    return Claim(
        "The CPU requirements of the jobs on a node are limited",
        "no number is given",
        "none: the limit is an input; how far the 30 cells are from the paper's is shown for each",
        "; ".join(f"{_limit(limit)}: {shown(x, 1)} points" for limit, x in distance.items())
        + f". Nearest is {_limit(nearest)}",
        Verdict.CALIBRATION,
    )


def _distance(found: Deviations) -> Interval:
    """Mean distance of all cells from the paper's, in points."""
    cells = [
        np.abs(found.of(policy, load, pair) - paper)
        for policy, (k, load) in product(POLICIES, enumerate(LOADS))
        for pair, paper in zip(PAIRS.values(), PAPER[policy][k], strict=True)
    ]
    return interval(np.mean(cells, axis=0))


def _limit(limit: float) -> str:
    return "no limit" if limit == inf else f"{limit:g} CPU"


def _limit_table(by_limit: dict[float, Deviations]) -> pl.DataFrame:
    rows = [
        (
            _limit(limit),
            policy,
            *(shown(interval(found.of(policy, load, pair)), 1) for load in LOADS for pair in PAIRS.values()),
        )
        for (limit, found), policy in product(by_limit.items(), POLICIES)
    ]
    columns = [f"{name} {load:.0%}" for load in LOADS for name in PAIRS]
    return pl.DataFrame(rows, schema=["limit", "policy", *columns], orient="row")


def _least(found: Iterable[Interval]) -> Interval:
    return min(found, key=lambda x: x.mean)


def _range(found: list[Interval], unit: str) -> str:
    low, high = min(found, key=lambda x: x.mean), max(found, key=lambda x: x.mean)
    return f"from {shown(low, 1)} to {shown(high, 1)} {unit}"


def _table(found: Deviations) -> pl.DataFrame:
    rows = []
    for policy, (k, load) in product(POLICIES, enumerate(LOADS)):
        paper_mpl, paper_cpu = PAPER[policy][k]
        ours = [
            interval(found.of(policy, load, pair, mode)) for mode in (BLIND, AWARE) for pair in (MPL, CPU)
        ]
        rows.append((policy, f"{load:.0%}", paper_mpl, paper_cpu, *(shown(x, 1) for x in ours)))
    columns = ["policy", "local load", "paper MPL", "paper CPU", "MPL", "CPU", "aware MPL", "aware CPU"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def _bias_table(found: Deviations) -> pl.DataFrame:
    rows = []
    for policy, load in CELLS:
        cells = [
            interval(found.of(policy, load, CPU, mode, column))
            for column in ("bias", "over")
            for mode in (BLIND, AWARE)
        ]
        rows.append((policy, f"{load:.0%}", *(shown(x, 1) for x in cells)))
    columns = ["policy", "local load", "bias, blind", "bias, aware", "too late, blind", "too late, aware"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def _run_table(found: Deviations) -> pl.DataFrame:
    columns = {
        "turnaround_s": ("turnaround (s)", 0),
        "waiting_s": ("waiting (s)", 0),
        "makespan_s": ("makespan (s)", 0),
        "backfilled": ("jobs that overtake", 1),
        "stops": ("stops by CCS", 2),
        "local_slowdown": ("slowdown of local users", 3),
        "tight": ("contract tight (% of their time)", 1),
    }
    rows = [
        (
            policy,
            f"{load:.0%}",
            *(
                shown(interval(found.of_run(policy, load, name)), digits)
                for name, (_, digits) in columns.items()
            ),
        )
        for policy, load in product((*POLICIES, *BESIDE), LOADS)
    ]
    titles = [title for title, _ in columns.values()]
    return pl.DataFrame(rows, schema=["policy", "local load", *titles], orient="row")


def _heat_map(found: Deviations) -> Drawing:
    rows = []
    for policy, (k, load) in product(POLICIES, enumerate(LOADS)):
        for (name, pair), paper in zip(PAIRS.items(), PAPER[policy][k], strict=True):
            where = f"{policy}, {load:.0%}"
            rows.append((where, f"paper, {name}", paper))
            rows.append((where, f"blind, {name}", float(found.of(policy, load, pair).mean())))
            rows.append((where, f"aware, {name}", float(found.of(policy, load, pair, AWARE).mean())))
    frame = pl.DataFrame(rows, schema=["cell", "source", "deviation"], orient="row")
    order = [f"{source}, {name}" for name in PAIRS for source in ("paper", "blind", "aware")]
    axes = alt.Chart(frame).encode(
        x=alt.X("source:N", title=None, sort=order, axis=alt.Axis(labelAngle=0, orient="top")),
        y=alt.Y("cell:N", title="Policy, and share of nodes with local users", sort=None),
    )
    scale = alt.Scale(domain=[0, 100], scheme="oranges", clamp=True)
    cells = axes.mark_rect().encode(color=alt.Color("deviation:Q", scale=scale, title="Deviation (%)"))
    ink = alt.condition("datum.deviation > 70", alt.value("white"), alt.value("black"))
    text = axes.mark_text().encode(text=alt.Text("deviation:Q", format=".1f"), color=ink)
    chart = alt.layer(cells, text).properties(width=WIDTH - 160, height=400)
    return Drawing("table-1", "Table 1: mean deviation of predicted turnaround (%)", chart)


def _biases(found: Deviations) -> Drawing:
    rows = [
        (f"{policy}, {load:.0%}", f"{mode}, {name}", float(found.of(policy, load, pair, mode, "bias").mean()))
        for policy, load in CELLS
        for mode in ((BLIND, AWARE) if policy in BACKFILLING else (BLIND,))
        for name, pair in PAIRS.items()
    ]
    frame = pl.DataFrame(rows, schema=["cell", "predictor", "bias"], orient="row")
    names = frame["predictor"].unique(maintain_order=True).to_list()
    scale = alt.Scale(domain=names, range=list(PALETTE[: len(names)]))
    chart = (
        alt.Chart(frame)
        .mark_point(filled=True, size=70, opacity=0.9)
        .encode(
            x=alt.X("bias:Q", title="Mean of (predicted - real) / real turnaround (%); above 0 = too late"),
            y=alt.Y("cell:N", title="Policy, and share of nodes with local users", sort=None),
            color=alt.Color("predictor:N", title="Predictor", scale=scale),
            tooltip=["cell", "predictor", "bias"],
        )
        .properties(width=WIDTH - 160, height=320)
    )
    return Drawing("bias", "Signed mean deviation: do predictions come too late or too early?", chart)


SHOWN, SHOWN_LOAD = "Uniform", 0.5


def _drawings_of_one_run() -> list[Drawing]:
    """A timeline under one policy, and what was predicted under all of them, with the first seed."""
    points, timelines = [], []
    for policy, composition in POLICIES.items():
        case, scheduler = Case(policy, SHOWN_LOAD, 0), composition.scheduler()
        jobs = jobs_of(case.replication)
        predictors: dict[str, Predictor] = {"aware": PolicyAware(scheduler, *CPU)}
        done = run(cluster_of(case), jobs, scheduler, predictors, case.replication)
        ended = done.facts.filter(pl.col("event") == Fact.RUN_ENDED)
        end_s = dict(ended.select("job", "time_s").iter_rows())
        first = {p.forecast.job: p.forecast.end_s for p in reversed(done.predictions)}
        points += [(policy, end_s[job.id] - job.arrival_s, first[job.id] - job.arrival_s) for job in jobs]
        if policy == SHOWN:
            title = f"One run of 30 jobs under {policy}, local users on {SHOWN_LOAD:.0%} of the nodes"
            timelines.append(Drawing("timeline", title, timeline(done.facts, cluster_of(case).n_nodes)))
    frame = pl.DataFrame(points, schema=["policy", "real", "predicted"], orient="row")
    longest_s = max(frame["real"].max(), frame["predicted"].max())  # type: ignore[type-var]
    line = pl.DataFrame({"real": [0.0, longest_s], "predicted": [0.0, longest_s]})
    names = list(POLICIES)
    colour = alt.Scale(domain=names, range=list(PALETTE[: len(names)]))
    chart = alt.layer(
        alt.Chart(line).mark_line(strokeDash=[4, 4], color="#666").encode(x="real:Q", y="predicted:Q"),
        alt.Chart(frame)
        .mark_point(filled=True, size=50)
        .encode(
            x=alt.X("real:Q", title="Real turnaround (s)"),
            y=alt.Y("predicted:Q", title="Turnaround predicted at arrival (s)"),
            color=alt.Color("policy:N", scale=colour, title="Policy"),
            tooltip=["policy", "real", "predicted"],
        ),
    ).properties(width=420, height=420)
    title = f"Predicted against real, CPU-CPU, aware; local users on {SHOWN_LOAD:.0%} of the nodes"
    return [*timelines, Drawing("predicted-against-real", title, chart)]
