"""Figure 3 of Hanzich et al. 2006: six pairs of methods, local load on 25 % of the nodes."""

from __future__ import annotations

from itertools import product

from sil.outcome.statistics import interval
from sil.report.figures import bars
from sil.studies.cisne.experiments import LEAST_SEEDS, METHOD, PAIRS, POLICIES, Case, Deviations, run_all
from sil.studies.findings import Drawing, Findings, table
from sil.studies.ledger import (
    Claim,
    all_or_partly_positive,
    below,
    counted,
    most_positive,
    shown,
    some_positive,
)
from sil.workers.runner import Runner

LOAD = 0.25
REMAINING = ("proportional", "mpl", "cpu")


def study(seeds: int, runner: Runner) -> Findings:
    seeds = max(seeds, LEAST_SEEDS)
    cases = [Case(policy, LOAD, seed) for seed in range(seeds) for policy in POLICIES]
    found = Deviations(run_all(cases, runner))
    rows = [
        (policy, *(shown(interval(found.of(policy, LOAD, pair))) for pair in PAIRS)) for policy in POLICIES
    ]
    return Findings(
        name="cisne-fig3",
        title="CISNE, Figure 3: turnaround deviation by method",
        source="Hanzich et al. 2006, section 4.1",
        method=f"{METHOD} {seeds} seeds; 95 % intervals.",
        claims=_claims(found),
        drawings=[_drawing(found, policy) for policy in POLICIES],
        tables={
            f"Deviation (%), local load on {LOAD:.0%} of the nodes, blind": table(
                ("policy", *("-".join(pair) for pair in PAIRS)), rows
            )
        },
    )


def _claims(found: Deviations) -> list[Claim]:
    proportional = [
        interval(found.of(policy, LOAD, ("proportional", by)) - found.of(policy, LOAD, (other, by)))
        for policy, by, other in product(POLICIES, ("mpl", "cpu"), ("mpl", "cpu"))
    ]
    by_cpu = {
        (policy, remaining): interval(
            found.of(policy, LOAD, (remaining, "mpl")) - found.of(policy, LOAD, (remaining, "cpu"))
        )
        for policy, remaining in product(POLICIES, REMAINING)
    }
    basic = {remaining: below(by_cpu["Basic", remaining], 0.0) for remaining in REMAINING}
    return [
        Claim(
            "The proportional estimate of the remaining time performs badly",
            "Figure 3",
            "it deviates more than both others, for every policy and method of CPU time; partly: in most",
            counted(proportional),
            all_or_partly_positive(proportional),
        ),
        Claim(
            "CPU time estimated by CPU is more reliable than by MPL in most cases",
            "Figure 3",
            "by MPL the deviation is larger in most cases (policy, method of the remaining time)",
            counted(by_cpu.values()),
            most_positive(by_cpu.values()),
        ),
        Claim(
            "For Basic it is the other way round",
            "Figure 3",
            "for some method of the remaining time, by CPU the deviation is larger under Basic",
            ", ".join(f"{remaining}: {shown(x)}" for remaining, x in basic.items()) + " points",
            some_positive(basic.values()),
        ),
    ]


def _drawing(found: Deviations, policy: str) -> Drawing:
    rows = [
        (remaining, f"by {cpu_time.upper()}", float(found.of(policy, LOAD, (remaining, cpu_time)).mean()))
        for remaining, cpu_time in PAIRS
    ]
    chart = bars(rows, "Method of the remaining time", "Mean deviation of turnaround (%)", "CPU time used")
    name = policy.lower().replace("+", "-")
    return Drawing(f"figure-3-{name}", f"Figure 3: deviation by method, {policy}", chart)
