"""The studies of the paper on CISNE-P: what dynamic coscheduling gains, what it costs in user space, and how
long local users wait while parallel jobs share their nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from math import inf
from typing import Any

import polars as pl

from scheduler.coscheduling.daemon import Coscheduler
from scheduler.model import Job, JobId
from scheduler.time_shared.loras import JobChoice, NodeChoice
from scheduler.time_shared.social_contract import SocialContract
from sil.outcome.statistics import Sample
from sil.report.figures import bars
from sil.report.page import Part
from sil.studies.cisne.experiments import POLICIES, Composition, jobs_of, measures, run
from sil.studies.ledger import Claim, Findings, Outcomes, Study
from sil.studies.rules import Estimate, GridSamples, all_positive, below, by_open_limit, inside, table, text
from sil.workers.runner import Runner
from sil.world.processes.model import NodeModel
from sil.world.time_shared_cluster import MEMORY_MB, TimeSharedCluster

MAX_PERCENT = {"turnaround_s": 10.0, "makespan_s": 30.0}
TITLES = {"turnaround_s": "Mean turnaround", "makespan_s": "Makespan"}
SIMILAR_POINTS = 5.0
DYNAMIC = Study("cisnep-dyn")
USER_SPACE = Study("cisnep-user-space", similar_points=SIMILAR_POINTS)

DEDICATED, SHARED = "dedicated", "non-dedicated"
SHARE_OF_NODES = {DEDICATED: 0.0, SHARED: 0.25}
"""The share of nodes on which there are local users."""
BLOCKING, SPINNING = "blocking", "spinning 5 ms"
WAITS = "CCS, and how processes wait"
Variants = dict[str, NodeModel]
"""Nodes by name; the first are those chosen, the others as admissible."""
Point = tuple[Any, ...]

# Dynamic coscheduling
WORKLOADS = {"B": ("MG.A", "LU.A"), "C": ("SP.A", "CG.A"), "D": ("IS.A", "FT.A")}
MPLS = (2, 3, 4)
TASKS = 8
WITH, WITHOUT = Coscheduler.KERNEL, Coscheduler.KERNEL_WITHOUT_DYN
NODES: Variants = {
    BLOCKING: NodeModel(),
    SPINNING: NodeModel(spin_s=5e-3),
    "caches 0.02 ms": NodeModel(reload_s=20e-6),
    "caches 0.5 ms": NodeModel(reload_s=500e-6),
}

# User space
JOBS = 90
SCHEDULERS = {
    "FCFS-FFIT": Composition(JobChoice.FIRST_FIT, NodeChoice.UNIFORM),
    "SJF-JFIRST": Composition(JobChoice.JUST_FIRST, NodeChoice.UNIFORM, ordering="sjf"),
}
BASIC, NORMAL = "Basic", "Normal"
USER = Coscheduler.USER_SPACE
IN_KERNEL: Variants = {f"kernel, {how}": NODES[how] for how in (BLOCKING, SPINNING)}
IN_USER_SPACE: Variants = {
    f"user space, {BLOCKING}": NodeModel(coscheduler=USER),
    f"user space, {SPINNING}": NodeModel(coscheduler=USER, spin_s=5e-3),
    "user space, period 0.5 s": NodeModel(coscheduler=USER, period_s=0.5),
    "user space, period 1 s": NodeModel(coscheduler=USER, period_s=1.0),
}
ALL = IN_KERNEL | IN_USER_SPACE


def samples(
    carry_out: Callable[[Any], dict[str, float]],
    points: Iterable[Point],
    axes: Sequence[str],
    seeds: int,
    runner: Runner,
) -> GridSamples:
    """What the runs of a study measure, at each point of its grid and for each seed."""
    grid = list(points)
    cases = [(seed, *point) for seed in range(seeds) for point in grid]
    measured = pl.DataFrame(runner.map(carry_out, cases))
    return GridSamples(pl.concat([table(("replication", *axes), cases), measured], how="horizontal"), *axes)


def judged(
    study: Study, variants: Variants, cases: Callable[[str], Outcomes], ours: Mapping[str, str] | None = None
) -> list[Claim]:
    """The claims on nodes of the first variant; the others are inputs as admissible. `ours` is what was found
    of those whose cases do not say it."""
    (chosen, *others), found = variants, {variant: cases(variant) for variant in variants}
    return [
        study.claim(name, of, (ours or {}).get(name), inputs={v: found[v][name] for v in others})
        for name, of in found[chosen].items()
    ]


def texts(
    columns: Sequence[str], points: Iterable[Point], across: Iterable[Any], estimate: Callable[..., Estimate]
) -> pl.DataFrame:
    """A table with a row for each point, and a column for each value of the last axis."""
    return table(columns, [(*at, *(text(estimate(*at, last)) for last in across)) for at in points])


def grouped(
    title: str,
    name: str,
    axes: tuple[str, str, str],
    mean: Callable[..., float],
    groups: Mapping[str, Point],
    bars_of_each: Mapping[str, Point],
) -> Part:
    """A chart of means, with a bar in each group for each value of the last axes; `axes` name x, y, bars."""
    rows = [
        (group, bar, mean(*at, *of))
        for (group, at), (bar, of) in product(groups.items(), bars_of_each.items())
    ]
    return Part(title, bars(rows, *axes), name=name)


# -- Section 3.1: dynamic coscheduling ---------------------------------------------------------------------


def jobs_at_once(workload: str, mpl: int) -> list[Job]:
    """So many jobs of 8 tasks, in turn of each benchmark of the workload."""
    names = WORKLOADS[workload]
    return [Job(JobId(i), names[i % len(names)], 0.0, n_tasks=TASKS) for i in range(mpl)]


def dynamic(seeds: int, runner: Runner) -> Findings:
    points = list(product(WORKLOADS, MPLS, SHARE_OF_NODES))
    grid = [(*at, *of) for at in points for of in product(NODES, (WITH, WITHOUT))]
    axes = ("workload", "MPL", "cluster", "variant", "coscheduler")
    saving = partial(_saving, found := samples(_run_dynamic, grid, axes, seeds, runner))
    saved = texts((*axes[:3], *NODES), points, NODES, lambda *at: Estimate(saving(*at)))
    drawings = [_makespans(found, where) for where in SHARE_OF_NODES]
    tables = {"What DYN saves of the makespan (%)": saved}
    return DYNAMIC.findings(dynamic_claims(saving), drawings, tables, seeds=seeds)


def _run_dynamic(case: tuple[int, str, int, str, str, Coscheduler]) -> dict[str, float]:
    seed, workload, mpl, where, variant, coscheduler = case
    cluster = TimeSharedCluster((MEMORY_MB,) * TASKS).with_local_users(SHARE_OF_NODES[where])
    cluster = replace(cluster, in_detail=replace(NODES[variant], coscheduler=coscheduler))
    return measures(run(cluster, jobs_at_once(workload, mpl), POLICIES[NORMAL], {}, seed, inf))


def _saving(found: GridSamples, *at: object) -> Sample:
    """The saving in percent of the makespan without DYN."""
    return 100 * (1 - found("makespan_s", *at, WITH) / found("makespan_s", *at, WITHOUT))


def dynamic_claims(saving: Callable[..., Sample]) -> list[Claim]:
    return [*judged(DYNAMIC, NODES, partial(_dynamic_cases, saving)), DYNAMIC.without_rule("drawn-by-lot")]


def _dynamic_cases(saving: Callable[..., Sample], variant: str) -> Outcomes:
    saved: dict[Point, Sample] = {at: saving(*at, variant) for at in product(WORKLOADS, MPLS, SHARE_OF_NODES)}
    next_mpl = dict(pairwise(MPLS))
    found = {
        "effective": saved.values(),
        "most-for-d": [saved["D", *at] - of for (w, *at), of in saved.items() if w != "D"],
        "grows-with-mpl": [
            saved[w, next_mpl[mpl], where] - of for (w, mpl, where), of in saved.items() if mpl in next_mpl
        ],
        "less-if-dedicated": [
            of - saved[*at, DEDICATED] for (*at, where), of in saved.items() if where == SHARED
        ],
    }
    return {name: list(map(Estimate, samples)) for name, samples in found.items()}


def _makespans(found: GridSamples, where: str) -> Part:
    groups = {f"{w}, MPL {mpl}": (w, mpl, where) for w, mpl in product(WORKLOADS, MPLS)}
    names = {
        f"{dyn} DYN, {variant}": (variant, how)
        for variant, (dyn, how) in product((BLOCKING, SPINNING), (("with", WITH), ("without", WITHOUT)))
    }
    title, axes = f"Figure 5: makespan, {where} cluster", ("Workload and MPL", "Makespan (s)", WAITS)
    return grouped(title, f"figure-5-{where}", axes, partial(found.mean, "makespan_s"), groups, names)


# -- Section 3.2: the cost of user space -------------------------------------------------------------------


def user_space(seeds: int, runner: Runner) -> Findings:
    points = list(product(SCHEDULERS, SHARE_OF_NODES))
    grid = [
        *((*at, variant) for at, variant in product(points, ALL)),
        *product((BASIC, NORMAL), SHARE_OF_NODES, list(IN_KERNEL)[:1]),
    ]
    found = samples(_run_in_user_space, grid, ("scheduler", "cluster", "variant"), seeds, runner)
    percent = texts(
        ("measure", "scheduler", "cluster", *IN_USER_SPACE),
        [(measure, *at) for measure, at in product(MAX_PERCENT, points)],
        IN_USER_SPACE,
        lambda *at: Estimate(_penalty(found, *at)),
    )
    groups = {", ".join(at): at for at in points}
    shown_bars = {name: (name,) for name in (*IN_KERNEL, *list(IN_USER_SPACE)[:2])}
    drawings = []
    for number, (measure, title) in zip("67", TITLES.items(), strict=True):
        about = f"Figure {number}: {title.lower()}, kernel and user space"
        axes = "Scheduler and cluster", f"{title} (s)", WAITS
        mean = partial(found.mean, measure)
        drawings.append(grouped(about, f"figure-{number}", axes, mean, groups, shown_bars))
    tables = {"What user space costs (%)": percent}
    return USER_SPACE.findings(_user_space_claims(found), drawings, tables, seeds=seeds)


def _run_in_user_space(case: tuple[int, str, str, str]) -> dict[str, float]:
    seed, scheduler, where, variant = case
    cluster = TimeSharedCluster().with_local_users(SHARE_OF_NODES[where])
    cluster = replace(cluster, in_detail=ALL[variant])
    return measures(run(cluster, jobs_of(seed, JOBS), (SCHEDULERS | POLICIES)[scheduler], {}, seed))


def _penalty(found: GridSamples, measure: str, scheduler: str, where: str, variant: str) -> Sample:
    """The percentage by which a measure is larger than in the kernel."""
    blocking, spinning = IN_KERNEL
    of_kernel = found(measure, scheduler, where, spinning if SPINNING in variant else blocking)
    return 100 * (found(measure, scheduler, where, variant) / of_kernel - 1)


def _user_space_claims(found: GridSamples) -> list[Claim]:
    blocking, _ = IN_KERNEL
    shorter = {
        f"{of.removesuffix('_s')} {where}": found(of, BASIC, where, blocking)
        - found(of, NORMAL, where, blocking)
        for where, of in product(SHARE_OF_NODES, MAX_PERCENT)
    }
    ours = ", ".join(f"{what}: by {text(Estimate(x), 0, 's')}" for what, x in shorter.items())
    return [
        *judged(USER_SPACE, IN_USER_SPACE, partial(_user_space_cases, found)),
        USER_SPACE.claim("sharing-helps", map(Estimate, shorter.values()), ours),
        USER_SPACE.without_rule("insignificant", "see the table of what user space costs"),
    ]


def _user_space_cases(found: GridSamples, variant: str) -> Outcomes:
    cost: dict[Point, Sample] = {
        at: _penalty(found, *at, variant) for at in product(MAX_PERCENT, SCHEDULERS, SHARE_OF_NODES)
    }
    turnaround, makespan = MAX_PERCENT
    more = [of - cost[turnaround, *at] for (measure, *at), of in cost.items() if measure == makespan]
    shared = [of - cost[*at, DEDICATED] for (*at, where), of in cost.items() if where == SHARED]
    return {
        "bounded": [below(Estimate(of), MAX_PERCENT[measure]) for (measure, *_), of in cost.items()],
        "makespan-is-sensitive": list(map(Estimate, more)),
        "similar": [inside(Estimate(of), -SIMILAR_POINTS, SIMILAR_POINTS) for of in shared],
    }


# -- Local users ---------------------------------------------------------------------------------------------

LIMIT_MS = 400.0
RESPONSE = Study("cisnep-response", limit_ms=LIMIT_MS)
SHARES = (0.25, 0.5, 0.75, 1.0)
MPLS_OF_RESPONSE = (1, 2, 3, 4)
PAPERS = PAPERS_MPL, PAPERS_SHARE = 4, 0.5
NO_LIMIT = 1.0
"""The share with which parallel tasks have their usual quantum while a user is there."""
CHOSEN = "interactions of 0.1 s"
USERS: Variants = {
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
    points = list(product(WORKLOADS, MPLS_OF_RESPONSE))
    grid = [
        *((*at, share, CHOSEN) for at, share in product(points, SHARES)),
        *product(WORKLOADS, (PAPERS_MPL,), (PAPERS_SHARE, NO_LIMIT), list(USERS)[1:]),
    ]
    found = samples(_run, grid, ("workload", "mpl", "share", "variant"), seeds, runner)
    columns = ("workload", "MPL", *(f"L = {share:g}" for share in SHARES))
    tables = {
        title: texts(columns, points, SHARES, partial(_chosen, found, measure))
        for measure, title in TABLES.items()
    }
    waits = (f"{w}: {text(_chosen(found, 'response_ms', w, *PAPERS), 0)} ms on average" for w in WORKLOADS)
    claims = judged(RESPONSE, USERS, partial(_cases, found), {"local-users-wait": "; ".join(waits)})
    groups = {f"{w}, MPL {mpl}": (w, mpl) for w, mpl in points}
    names = {f"L = {share:g}": (share,) for share in SHARES}
    axes = "Workload and MPL", "Mean response time (ms)", "Social contract"
    title, mean = "Response time of local users", lambda *at: _chosen(found, "response_ms", *at).mean
    drawing = grouped(title, "response-time", axes, mean, groups, names)
    return RESPONSE.findings(claims, [drawing], tables, seeds=seeds)


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
