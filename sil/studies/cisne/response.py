"""The study of how long local users wait while parallel jobs share their nodes."""

from __future__ import annotations

from functools import partial
from itertools import product
from math import inf

from scheduler.time_shared.social_contract import SocialContract
from sil.studies.cisne import coscheduling
from sil.studies.cisne.coscheduling import NORMAL, SPINNING, TASKS, WORKLOADS, jobs_at_once
from sil.studies.cisne.experiments import POLICIES, measures, run
from sil.studies.ledger import Findings, Outcomes, Study
from sil.studies.rules import Estimate, GridSamples, all_positive, below, by_open_limit, text
from sil.workers.runner import Runner
from sil.world.processes.model import NodeModel
from sil.world.time_shared_cluster import MEMORY_MB, TimeSharedCluster

LIMIT_MS = 400.0
STUDY = Study("cisnep-response", limit_ms=LIMIT_MS)
SHARES = (0.25, 0.5, 0.75, 1.0)
MPLS = (1, 2, 3, 4)
PAPERS = PAPERS_MPL, PAPERS_SHARE = 4, 0.5
NO_LIMIT = 1.0
"""The share with which parallel tasks have their usual quantum while a user is there."""
CHOSEN = "interactions of 0.1 s"
USERS: coscheduling.Variants = {
    CHOSEN: NodeModel(),
    "0.05 s": NodeModel(interaction_s=0.05),
    "0.2 s": NodeModel(interaction_s=0.2),
    SPINNING: NodeModel(spin_s=5e-3),
}
TABLES = {
    "response_ms": "Mean response time of local users (ms)",
    "response_95_ms": "What 95 % of the response times do not exceed (ms)",
}


def response(seeds: int, runner: Runner) -> Findings:
    points = list(product(WORKLOADS, MPLS))
    grid = [
        *((*at, share, CHOSEN) for at, share in product(points, SHARES)),
        *product(WORKLOADS, (PAPERS_MPL,), (PAPERS_SHARE, NO_LIMIT), list(USERS)[1:]),
    ]
    found = coscheduling.samples(_run, grid, ("workload", "mpl", "share", "variant"), seeds, runner)
    columns = ("workload", "MPL", *(f"L = {share:g}" for share in SHARES))
    tables = {
        title: coscheduling.texts(columns, points, SHARES, partial(_chosen, found, measure))
        for measure, title in TABLES.items()
    }
    waits = (f"{w}: {text(_chosen(found, 'response_ms', w, *PAPERS), 0)} ms on average" for w in WORKLOADS)
    claims = coscheduling.judged(STUDY, USERS, partial(_cases, found), {"local-users-wait": "; ".join(waits)})
    groups = {f"{w}, MPL {mpl}": (w, mpl) for w, mpl in points}
    names = {f"L = {share:g}": (share,) for share in SHARES}
    axes = "Workload and MPL", "Mean response time (ms)", "Social contract"
    title, mean = "Response time of local users", lambda *at: _chosen(found, "response_ms", *at).mean
    drawing = coscheduling.grouped(title, "response-time", axes, mean, groups, names)
    return STUDY.findings(claims, [drawing], tables, seeds=seeds)


def _run(case: tuple[int, str, int, float, str]) -> dict[str, float]:
    seed, workload, mpl, share, variant = case
    cluster = TimeSharedCluster((MEMORY_MB,) * TASKS, SocialContract(share), in_detail=USERS[variant])
    cluster = cluster.with_local_users(1.0)
    return measures(run(cluster, jobs_at_once(workload, mpl), POLICIES[NORMAL], {}, seed, inf))


def _estimate(found: GridSamples, measure: str, *point: object) -> Estimate:
    """Of the replications in which users were active: the others have no response."""
    values = found(measure, *point)
    return Estimate(values[values > 0.0])


def _chosen(found: GridSamples, measure: str, *point: object) -> Estimate:
    return _estimate(found, measure, *point, CHOSEN)


def _cases(found: GridSamples, variant: str) -> Outcomes:
    """The limit is judged by the value that 95 % do not exceed, and by the mean."""
    strict, lenient = (
        all_positive([below(_estimate(found, of, w, *PAPERS, variant), LIMIT_MS) for w in WORKLOADS], "ms")
        for of in ("response_95_ms", "response_ms")
    )
    without, with_it = (
        [found("response_ms", w, PAPERS_MPL, share, variant) for w in WORKLOADS]
        for share in (NO_LIMIT, PAPERS_SHARE)
    )
    return {
        "local-users-wait": by_open_limit(strict, lenient),
        "contract-matters": [Estimate(more - less) for more, less in zip(without, with_it, strict=True)],
    }
