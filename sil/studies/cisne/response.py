"""The study of how long local users wait while parallel jobs share their nodes."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import inf
from types import MappingProxyType

from scheduler.time_shared.social_contract import SocialContract
from sil.report.figures import bars
from sil.report.page import Part
from sil.studies.cisne.coscheduling import (
    NORMAL,
    SPINNING,
    TASKS,
    WORKLOADS,
    Variants,
    jobs_at_once,
    samples,
)
from sil.studies.cisne.experiments import POLICIES, measures, run
from sil.studies.ledger import Findings, Study
from sil.studies.rules import (
    Estimate,
    GridSamples,
    RuleOutcome,
    all_positive,
    below,
    by_open_limit,
    table,
    text,
)
from sil.workers.runner import Runner
from sil.world.processes.model import NodeModel
from sil.world.time_shared_cluster import MEMORY_MB, TimeSharedCluster

LIMIT_MS = 400.0
STUDY = Study("cisnep-response", limit_ms=LIMIT_MS)
SHARES = (0.25, 0.5, 0.75, 1.0)
MPLS = (1, 2, 3, 4)
PAPERS_SHARE, PAPERS_MPL = 0.5, 4
NO_LIMIT = 1.0
"""The share with which parallel tasks have their usual quantum while a user is there."""
CHOSEN = "interactions of 0.1 s"
USERS: Variants = MappingProxyType(
    {
        CHOSEN: NodeModel(),
        "0.05 s": NodeModel(interaction_s=0.05),
        "0.2 s": NodeModel(interaction_s=0.2),
        SPINNING: NodeModel(spin_s=5e-3),
    }
)
TABLES = {
    "response_ms": "Mean response time of local users (ms)",
    "response_95_ms": "What 95 % of the response times do not exceed (ms)",
}


def response(seeds: int, runner: Runner) -> Findings:
    grid = [
        *product(WORKLOADS, MPLS, SHARES, (CHOSEN,)),
        *product(WORKLOADS, (PAPERS_MPL,), (PAPERS_SHARE, NO_LIMIT), list(USERS)[1:]),
    ]
    cases = [(seed, *point) for seed in range(seeds) for point in grid]
    found = samples(cases, runner.map(_run, cases), "workload", "mpl", "share", "variant")
    columns = ("workload", "MPL", *(f"L = {share:g}" for share in SHARES))
    tables = {
        title: table(columns, [(*at, *_texts(found, measure, *at)) for at in product(WORKLOADS, MPLS)])
        for measure, title in TABLES.items()
    }
    others = list(USERS)[1:]
    waits = {name: _limit_kept(found, name) for name in USERS}
    matters = {name: _matters(found, name) for name in USERS}
    at_paper = [_estimate(found, "response_ms", w, PAPERS_MPL, PAPERS_SHARE, CHOSEN) for w in WORKLOADS]
    claims = [
        STUDY.claim(
            "local-users-wait",
            waits[CHOSEN],
            "; ".join(f"{w}: {text(x, 0)} ms on average" for w, x in zip(WORKLOADS, at_paper, strict=True)),
            inputs={name: waits[name] for name in others},
        ),
        STUDY.claim("contract-matters", matters[CHOSEN], inputs={name: matters[name] for name in others}),
    ]
    return STUDY.findings(claims, [_chart(found)], tables, seeds=seeds)


def _texts(found: GridSamples, measure: str, workload: str, mpl: int) -> list[str]:
    return [text(_estimate(found, measure, workload, mpl, share, CHOSEN), 0) for share in SHARES]


def _estimate(found: GridSamples, measure: str, *point: object) -> Estimate:
    """Of the replications in which users were active: the others have no response."""
    values = found(measure, *point)
    return Estimate(values[values > 0.0])


def _run(case: tuple[int, str, int, float, str]) -> dict[str, float]:
    seed, workload, mpl, share, variant = case
    cluster = TimeSharedCluster((MEMORY_MB,) * TASKS).with_local_users(1.0).detailed(USERS[variant])
    cluster = replace(cluster, contract=SocialContract(share))
    return measures(run(cluster, jobs_at_once(workload, mpl), POLICIES[NORMAL], {}, seed, inf))


def _limit_kept(found: GridSamples, variant: str) -> RuleOutcome:
    """By the value that 95 % do not exceed, and by the mean."""
    strict, lenient = (
        all_positive(
            [below(_estimate(found, of, w, PAPERS_MPL, PAPERS_SHARE, variant), LIMIT_MS) for w in WORKLOADS],
            "ms",
        )
        for of in ("response_95_ms", "response_ms")
    )
    return by_open_limit(strict, lenient)


def _matters(found: GridSamples, variant: str) -> list[Estimate]:
    without, with_it = (
        {w: found("response_ms", w, PAPERS_MPL, share, variant) for w in WORKLOADS}
        for share in (NO_LIMIT, PAPERS_SHARE)
    )
    return [Estimate(without[w] - with_it[w]) for w in WORKLOADS]


def _chart(found: GridSamples) -> Part:
    rows = [
        (f"{w}, MPL {mpl}", f"L = {share:g}", found.mean("response_ms", w, mpl, share, CHOSEN))
        for w, mpl, share in product(WORKLOADS, MPLS, SHARES)
    ]
    chart = bars(rows, "Workload", "Mean response time (ms)", "Social contract")
    return Part("Response time of local users", chart, name="response-time")
