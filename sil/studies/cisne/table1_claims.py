"""Table 1 of Hanzich et al. 2006: its cells, and what the paper says of them, claim by claim."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise, product
from math import inf

import numpy as np

from sil.outcome.statistics import Interval, Sample, interval
from sil.studies import ledger
from sil.studies.cisne.experiments import (
    AWARE,
    BLIND,
    LOADS,
    METHODS,
    MIXED,
    POLICIES,
    Deviations,
    shortest_exe_s,
)
from sil.studies.ledger import Claim, Verdict, above, below, count_of, range_of, text

PAPER = {
    "Norm+BF": ((144.33, 99.67), (58.67, 59.67), (46.33, 45.00)),
    "Unif+BF": ((69.67, 63.33), (55.00, 31.33), (54.00, 46.67)),
    "Basic": ((6.33, 23.00), (14.00, 18.67), (34.33, 8.67)),
    "Normal": ((23.00, 15.33), (20.50, 21.33), (16.67, 28.33)),
    "Uniform": ((12.67, 8.67), (22.00, 21.67), (25.33, 18.33)),
}
"""Percent, (MPL-MPL, CPU-CPU) for each load."""
CELLS = tuple(product(POLICIES, LOADS))
POINTS = tuple(product(LOADS, METHODS.values()))
IN_ORDER = {"Norm+BF": "Normal", "Unif+BF": "Uniform"}
"""The policy without backfilling for each one with it."""
BACKFILLED = tuple(product(IN_ORDER, POINTS))
REACHED_PERCENT = 12.0
ALMOST_ALWAYS_PERCENT = 75.0
NEVER_PERCENT = 5.0
LIMIT_MS = 4.0


def claims(by_limit: dict[float, Deviations]) -> list[Claim]:
    """`by_limit`: deviations under each limit of the CPU requirements; infinite = none, the headline."""
    found = by_limit[inf]
    return [
        *_claims_about_policies(found),
        *_claims_about_backfilling(found),
        *_claims_about_methods(found),
        *_claims_about_cost(found),
        _claim_about_limits(by_limit),
    ]


def _compared(
    claim: str,
    paper: str,
    rule: str,
    differences: Iterable[Sample],
    unit: str = "points",
    judge: Callable[[Iterable[Interval]], Verdict] = ledger.all_or_partly_positive,
) -> Claim:
    """A claim that differences are positive."""
    found = [interval(x) for x in differences]
    return Claim(claim, paper, rule, f"{count_of(found)}; {range_of(found, unit)}", judge(found))


def _claims_about_policies(found: Deviations) -> list[Claim]:
    of = found.of
    best = min((interval(of("Uniform", *point)) for point in POINTS), key=lambda x: x.mean)
    cases = list(product(POINTS, ("Normal", "Uniform")))
    waiting_s = partial(found.of_run, measure="waiting_s")
    return [
        _compared(
            "Policies that keep the FCFS order are more predictable than backfilling",
            "12 of 12 cells of Table 1",
            "backfilling deviates more in every cell (policy, load, method); partly: in most",
            (of(policy, *point) - of(IN_ORDER[policy], *point) for policy, point in BACKFILLED),
        ),
        _compared(
            "Uniform is more predictable than Normal",
            "3 of 6 cells of Table 1",
            "Normal deviates more at every load, by both methods; partly: in most",
            (of("Normal", *point) - of("Uniform", *point) for point in POINTS),
        ),
        Claim(
            "Policies that distribute resources in a balanced way reach an accuracy of 12 %",
            "12 %; best cell 8.67 %",
            f"the best cell of Uniform is below {REACHED_PERCENT:g} %",
            text(best, 1, "%"),
            ledger.positive(below(best, REACHED_PERCENT)),
        ),
        _compared(
            "The reason is that the tasks of a job have the same resources",
            "section 4.1",
            "Uniform that mixes sets rather than wait is more predictable than Normal, too, in every cell",
            (of("Normal", *point) - of(MIXED, *point) for point in POINTS),
        ),
        _compared(
            "Basic is less predictable than Normal or Uniform in some cases",
            "section 4.1",
            "in some cell Basic deviates more than one of them",
            (of("Basic", *point) - of(other, *point) for point, other in cases),
            judge=ledger.some_positive,
        ),
        _compared(
            "The reason is that the longer the queue, the less accurate the prediction",
            "section 4.1",
            "wherever jobs wait longer under Basic than under another, it deviates more; partly: in most",
            (
                of("Basic", *point) - of(other, *point)
                for point, other in cases
                if interval(waiting_s("Basic", point[0]) - waiting_s(other, point[0])).low > 0
            ),
        ),
    ]


def _claims_about_backfilling(found: Deviations) -> list[Claim]:
    of = found.of
    backfilled, turnaround_s = (partial(found.of_run, measure=m) for m in ("backfilled", "turnaround_s"))
    over = [interval(of(policy, *point, BLIND, "over")) for policy, point in BACKFILLED]
    under = [below(x, 100) for x in over]
    return [
        _compared(
            "Backfilling is hard to predict since the order of the queue varies",
            "section 4.1",
            "the predictor that follows the order deviates less than the blind one, in every cell",
            (of(policy, *point, BLIND) - of(policy, *point, AWARE) for policy, point in BACKFILLED),
        ),
        Claim(
            "With backfilling, predictions are almost always pessimistic",
            "section 4.1",
            f"more than {ALMOST_ALWAYS_PERCENT:g} % of jobs end before they are predicted to, in every cell; "
            "partly: in most",
            range_of(over, "% of jobs"),
            ledger.all_or_partly_positive(above(x, ALMOST_ALWAYS_PERCENT) for x in over),
        ),
        Claim(
            "In the worst case turnaround is over-estimated, and never under-estimated",
            "section 4.1",
            f"with backfilling, fewer than {NEVER_PERCENT:g} % of jobs end after the predicted time, in "
            "every cell; partly: in most",
            range_of(under, "% of jobs"),
            ledger.all_or_partly_positive(below(x, NEVER_PERCENT) for x in under),
        ),
        _compared(
            "With backfilling, the deviation falls as the local load grows",
            "Table 1",
            "from each load to the next, for both policies, by both methods; partly: in most cases",
            (
                of(policy, less, pair) - of(policy, more, pair)
                for policy, pair, (less, more) in product(IN_ORDER, METHODS.values(), pairwise(LOADS))
            ),
        ),
        _compared(
            "The reason is that there are fewer opportunities to backfill",
            "section 4.1",
            "fewer jobs overtake others from each load to the next, for both policies",
            (
                backfilled(policy, less) - backfilled(policy, more)
                for policy, (less, more) in product(IN_ORDER, pairwise(LOADS))
            ),
            "jobs of 30",
        ),
        _compared(
            "That Uniform mixes jobs bound by communication and by computation improves time sharing",
            "section 4",
            "the mean turnaround under Uniform is below that under Normal at every load",
            (turnaround_s("Normal", load) - turnaround_s("Uniform", load) for load in LOADS),
            "s",
        ),
    ]


def _claims_about_methods(found: Deviations) -> list[Claim]:
    mpl, cpu = METHODS.values()
    differences = {cell: found.of(*cell, mpl) - found.of(*cell, cpu) for cell in CELLS}
    normal, basic = (interval(-differences[cell]) for cell in (("Normal", 1.0), ("Basic", 0.25)))
    over = interval(found.of("Basic", 0.25, cpu, BLIND, "over"))
    bias = interval(found.of("Basic", 0.25, cpu, BLIND, "bias"))
    return [
        _compared(
            "CPU-CPU is more accurate than MPL-MPL in most cases",
            "10 of 15 cells of Table 1",
            "MPL-MPL deviates more in most cells",
            differences.values(),
            judge=ledger.most_positive,
        ),
        Claim(
            "An exception is Normal with local load on all nodes",
            "28.33 % by CPU, 16.67 % by MPL",
            "there CPU-CPU deviates more",
            f"by {text(normal, 1, 'points')}",
            ledger.positive(normal),
        ),
        Claim(
            "Another exception is Basic with local load on 25 % of the nodes",
            "23.00 % by CPU, 6.33 % by MPL",
            "there CPU-CPU deviates more",
            f"by {text(basic, 1, 'points')}",
            ledger.positive(basic),
        ),
        Claim(
            "There, the CPU-CPU prediction is always pessimistic",
            "section 4.1",
            f"its mean is too late, and more than {ALMOST_ALWAYS_PERCENT:g} % of jobs end before",
            f"bias {text(bias, 1, '%')}; {text(over, 0, '% of jobs')} end before",
            ledger.all_positive([bias, above(over, ALMOST_ALWAYS_PERCENT)]),
        ),
    ]


def _claims_about_cost(found: Deviations) -> list[Claim]:
    cost = [interval(found.of_run(policy, 0.25, "cost_ms")) for policy in POLICIES]
    worst = max(cost, key=lambda x: x.high)
    shortest_s = shortest_exe_s()
    cells = [found.of(*cell, pair) for cell, pair in product(CELLS, METHODS.values())]
    of_table = interval(np.mean(cells, axis=0))
    calibration = partial(Claim, ours="no fault in any run", verdict=Verdict.CALIBRATION)
    return [
        Claim(
            "Predicting the turnaround of one application takes less than 4 ms",
            "4 ms on a Pentium IV",
            f"it takes less than {LIMIT_MS:g} ms under every policy",
            f"at most {text(worst, 4, 'ms')}",
            ledger.positive(below(worst, LIMIT_MS)),
        ),
        Claim(
            "That is at least two orders of magnitude below the execution times",
            "minutes",
            "the shortest execution time in isolation is more than 100 times as long",
            f"{shortest_s:.0f} s against {text(worst, 4, 'ms')}",
            ledger.positive(below(worst, 1e3 * shortest_s / 100)),
        ),
        ledger.not_testable(
            "The time of an estimate does not depend on the state of the cluster",
            "section 1",
            "none: true of Eqs 1 to 9, each for one job; Algorithm 1 grows with the jobs that run and wait",
            "see benchmarks/results",
        ),
        ledger.not_testable(
            "The analytic estimate of an execution time is wrong by about 41 %",
            "41 %; the mean of Table 1 is 37 %",
            "none: the paper does not say of which predictions that is the mean",
            f"the mean of all cells of Table 1 is {text(of_table, 1, '%')}",
        ),
        calibration(
            "The parallel MPL of a node never exceeds 4",
            "section 4",
            "so by construction: a run that exceeds it ends with a fault",
        ),
        calibration(
            "No placement exceeds the limits of memory and CPU",
            "sections 2 and 4",
            "so by construction: the manager checks these rules before a job starts",
        ),
        ledger.not_testable(
            "Measuring an application in isolation is better than what users say of it",
            "section 2",
            "none: there are no users' estimates in the experiment",
            "not tried",
        ),
    ]


def _claim_about_limits(by_limit: dict[float, Deviations]) -> Claim:
    distance = {limit: _distance(found) for limit, found in by_limit.items()}
    nearest = min(distance, key=lambda limit: distance[limit].mean)
    listed = "; ".join(f"{limit_title(limit)}: {text(x)} points" for limit, x in distance.items())
    return Claim(
        "The CPU requirements of the jobs on a node are limited",
        "no number is given; an earlier prototype came nearest with 1.5 CPU",
        "none: the limit is an input; how far the 30 cells are from the paper's is shown for each",
        f"{listed}. Nearest is {limit_title(nearest)}",
        Verdict.CALIBRATION,
    )


def _distance(found: Deviations) -> Interval:
    """Mean distance of all cells from the paper's, in points."""
    cells = [
        np.abs(found.of(policy, load, pair) - paper)
        for policy, (k, load) in product(POLICIES, enumerate(LOADS))
        for pair, paper in zip(METHODS.values(), PAPER[policy][k], strict=True)
    ]
    return interval(np.mean(cells, axis=0))


def limit_title(limit: float) -> str:
    return "no limit" if limit == inf else f"{limit:g} CPU"
