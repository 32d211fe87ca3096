"""What Hanzich et al. 2006 say of Table 1, claim by claim."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from math import inf

import numpy as np

from sil.outcome.statistics import Interval, interval
from sil.studies.cisne.experiments import AWARE, BLIND, LOADS, MIXED, POLICIES, Deviations, shortest_exe_s
from sil.studies.cisne.table1_cells import BACKFILLING, CELLS, CPU, MPL, PAIRS, PAPER
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

IN_ORDER = {"Norm+BF": "Normal", "Unif+BF": "Uniform"}
REACHED_PERCENT = 12.0
ALMOST_ALWAYS_PERCENT = 75.0
NEVER_PERCENT = 5.0
LIMIT_MS = 4.0


def claims(by_limit: dict[float, Deviations]) -> list[Claim]:
    """`by_limit`: what was found under each limit of the CPU requirements; infinite = none, the headline."""
    found = by_limit[inf]
    return [
        *_claims_about_policies(found),
        *_claims_about_methods(found),
        *_claims_about_cost(found),
        _claim_about_limits(by_limit),
    ]


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
    shortest_s = shortest_exe_s()
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
            f"{shortest_s:.0f} s against {shown(worst, 4, 'ms')}",
            positive(Interval(1e3 * shortest_s / 100 - worst.mean, worst.half_width)),
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
        "no number is given; an earlier prototype came nearest with 1.5 CPU",
        "none: the limit is an input; how far the 30 cells are from the paper's is shown for each",
        "; ".join(f"{limit_title(limit)}: {shown(x, 1)} points" for limit, x in distance.items())
        + f". Nearest is {limit_title(nearest)}",
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


def limit_title(limit: float) -> str:
    return "no limit" if limit == inf else f"{limit:g} CPU"


def _least(found: Iterable[Interval]) -> Interval:
    return min(found, key=lambda x: x.mean)


def _range(found: list[Interval], unit: str) -> str:
    if not found:
        return "in none"
    if not found:
        return "in none"
    low, high = min(found, key=lambda x: x.mean), max(found, key=lambda x: x.mean)
    return f"from {shown(low, 1)} to {shown(high, 1)} {unit}"
