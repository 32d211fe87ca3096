"""The studies of the paper on CISNE-P: what dynamic coscheduling gains, and what it costs in user space."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from math import inf
from types import MappingProxyType
from typing import Any, Protocol

import polars as pl

from scheduler.coscheduling.daemon import Coscheduler
from scheduler.model import Job, JobId
from scheduler.time_shared.loras import JobChoice, NodeChoice
from sil.outcome.statistics import Sample
from sil.report.figures import bars
from sil.report.page import Part
from sil.studies.cisne.experiments import POLICIES, Composition, jobs_of, measures, run
from sil.studies.ledger import Claim, Findings, Study
from sil.studies.rules import Estimate, GridSamples, below, inside, table, text
from sil.workers.runner import Runner
from sil.world.processes.model import NodeModel
from sil.world.time_shared_cluster import MEMORY_MB, Sharing, TimeSharedCluster

MAX_PERCENT = {"turnaround_s": 10.0, "makespan_s": 30.0}
SIMILAR_POINTS = 5.0
DYNAMIC = Study("cisnep-dyn")
USER_SPACE = Study("cisnep-user-space", similar_points=SIMILAR_POINTS)

DEDICATED, SHARED = "dedicated", "non-dedicated"
SHARE_OF_NODES = {DEDICATED: 0.0, SHARED: 0.25}
"""The share of nodes on which there are local users."""
BLOCKING, SPINNING = "blocking", "spinning 5 ms"
Variants = Mapping[str, NodeModel]
"""Nodes by name; the first are those chosen, the others as admissible."""

# Dynamic coscheduling
WORKLOADS = {"B": ("MG.A", "LU.A"), "C": ("SP.A", "CG.A"), "D": ("IS.A", "FT.A")}
MPLS = (2, 3, 4)
TASKS = 8
WITH, WITHOUT = Coscheduler.KERNEL, Coscheduler.KERNEL_WITHOUT_DYN
NODES: Variants = MappingProxyType(
    {
        BLOCKING: NodeModel(),
        SPINNING: NodeModel(spin_s=5e-3),
        "caches 0.02 ms": NodeModel(reload_s=20e-6),
        "caches 0.5 ms": NodeModel(reload_s=500e-6),
    }
)

# User space
JOBS = 90
SCHEDULERS = {
    "FCFS-FFIT": Composition(JobChoice.FIRST_FIT, NodeChoice.UNIFORM),
    "SJF-JFIRST": Composition(JobChoice.JUST_FIRST, NodeChoice.UNIFORM, ordering="sjf"),
}
BASIC, NORMAL = "Basic", "Normal"
KERNEL, USER = Coscheduler.KERNEL, Coscheduler.USER_SPACE
STOPPING = Coscheduler.USER_SPACE_WITH_STOPS
COSTS: Variants = MappingProxyType(
    {
        BLOCKING: NodeModel(),
        SPINNING: NodeModel(spin_s=5e-3),
        "period 0.5 s": NodeModel(period_s=0.5),
        "period 1 s": NodeModel(period_s=1.0),
    }
)


def samples(
    cases: Sequence[tuple[Any, ...]], measured: Iterable[dict[str, float]], *axes: str
) -> GridSamples:
    """What runs measured; their cases are a seed and a point."""
    labels = table(("replication", *axes), cases)
    return GridSamples(pl.concat([labels, pl.DataFrame(measured)], how="horizontal"), *axes)


def jobs_at_once(workload: str, mpl: int) -> list[Job]:
    """So many jobs of 8 tasks, in turn of each benchmark of the workload."""
    names = WORKLOADS[workload]
    return [Job(JobId(i), names[i % len(names)], 0.0, n_tasks=TASKS) for i in range(mpl)]


# -- Section 3.1: dynamic coscheduling ---------------------------------------------------------------------


class Saving(Protocol):
    def __call__(self, workload: str, mpl: int, where: str, variant: str) -> Sample: ...


def dynamic(seeds: int, runner: Runner) -> Findings:
    grid = list(product(WORKLOADS, MPLS, SHARE_OF_NODES, NODES, (WITH, WITHOUT)))
    cases = [(seed, *point) for seed in range(seeds) for point in grid]
    axes = ("workload", "mpl", "where", "variant", "coscheduler")
    found = samples(cases, runner.map(_run_dynamic, cases), *axes)
    columns = ("workload", "MPL", "cluster", *NODES)
    points = list(product(WORKLOADS, MPLS, SHARE_OF_NODES))
    rows = [(*at, *(text(Estimate(_saving(found, *at, name))) for name in NODES)) for at in points]
    tables = {
        "What DYN saves of the makespan (%)": table(columns, rows),
        "The fluid model: its makespan against that in detail (%), and its loss for the same one": (
            table((*columns[:3], *FLUID), [(*at, *_of_fluid(found, *at)) for at in points])
        ),
    }
    drawings = [_makespans(found, where) for where in SHARE_OF_NODES]
    return DYNAMIC.findings(dynamic_claims(partial(_saving, found)), drawings, tables, seeds=seeds)


FLUID = tuple(
    f"{what}, {name}" for name in (BLOCKING, SPINNING) for what in ("makespan", "loss", "loss without DYN")
)


def _of_fluid(found: GridSamples, *at: object) -> Iterator[str]:
    for name in (BLOCKING, SPINNING):
        yield text(Estimate(found("gap", *at, name, WITH)))
        for how in (WITH, WITHOUT):
            yield text(Estimate(found("loss", *at, name, how)), 2)


def _run_dynamic(case: tuple[int, str, int, str, str, Coscheduler]) -> dict[str, float]:
    seed, workload, mpl, where, variant, coscheduler = case
    jobs = jobs_at_once(workload, mpl)
    cluster = TimeSharedCluster((MEMORY_MB,) * TASKS).with_local_users(SHARE_OF_NODES[where])
    detailed = cluster.detailed(replace(NODES[variant], coscheduler=coscheduler))
    found = measures(run(detailed, jobs, POLICIES[NORMAL], {}, seed, inf))

    def makespan_s(loss: float) -> float:
        fluid = cluster.with_sharing(Sharing(coscheduling_loss=loss))
        return measures(run(fluid, jobs, POLICIES[NORMAL], {}, seed, inf))["makespan_s"]

    wanted_s = found["makespan_s"]
    return found | {"loss": loss_for(makespan_s, wanted_s), "gap": 100 * (makespan_s(0.0) / wanted_s - 1)}


MAX_LOSS = 4.0
HALVINGS = 8


def loss_for(makespan_s: Callable[[float], float], wanted_s: float) -> float:
    """The loss of communication with which a makespan of the fluid model is the wanted one: from 0, if even
    none is too much, to MAX_LOSS."""
    low, high = 0.0, MAX_LOSS
    if makespan_s(low) >= wanted_s:
        return low
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if makespan_s(middle) < wanted_s else (low, middle)
    return (low + high) / 2


def _saving(found: GridSamples, workload: str, mpl: int, where: str, variant: str) -> Sample:
    """The saving in percent of the makespan without DYN."""
    with_it, without = (found("makespan_s", workload, mpl, where, variant, how) for how in (WITH, WITHOUT))
    return 100 * (1 - with_it / without)


def dynamic_claims(saving: Saving) -> list[Claim]:
    chosen, *others = (_dynamic_cases(partial(saving, variant=variant)) for variant in NODES)
    names = list(NODES)[1:]
    return [
        *(
            DYNAMIC.claim(
                name,
                cases,
                inputs={of: other[name] for of, other in zip(names, others, strict=True)},
            )
            for name, cases in chosen.items()
        ),
        DYNAMIC.without_rule("drawn-by-lot"),
    ]


def _dynamic_cases(saving: Any) -> dict[str, list[Estimate]]:
    points = list(product(MPLS, SHARE_OF_NODES))
    found = {
        "effective": [saving(w, *point) for w, point in product(WORKLOADS, points)],
        "most-for-d": [saving("D", *at) - saving(other, *at) for other, at in product("BC", points)],
        "grows-with-mpl": [
            saving(w, more, where) - saving(w, fewer, where)
            for w, (fewer, more), where in product(WORKLOADS, pairwise(MPLS), SHARE_OF_NODES)
        ],
        "less-if-dedicated": [
            saving(w, mpl, SHARED) - saving(w, mpl, DEDICATED) for w, mpl in product(WORKLOADS, MPLS)
        ],
    }
    return {name: [Estimate(sample) for sample in cases] for name, cases in found.items()}


def _makespans(found: GridSamples, where: str) -> Part:
    rows = [
        (f"{w}, MPL {mpl}", f"{how.value}, {variant}", found.mean("makespan_s", w, mpl, where, variant, how))
        for w, mpl, variant, how in product(WORKLOADS, MPLS, (BLOCKING, SPINNING), (WITH, WITHOUT))
    ]
    chart = bars(rows, "Workload", "Makespan (s)", "Coscheduler and messages")
    return Part(f"Figure 5: makespan, {where} cluster", chart, name=f"figure-5-{where}")


# -- Section 3.2: the cost of user space -------------------------------------------------------------------


def user_space(seeds: int, runner: Runner) -> Findings:
    grid = [
        *product(SCHEDULERS, SHARE_OF_NODES, (BLOCKING, SPINNING), (KERNEL,)),
        *product(SCHEDULERS, SHARE_OF_NODES, COSTS, (USER,)),
        *product(("FCFS-FFIT",), SHARE_OF_NODES, (BLOCKING,), (STOPPING,)),
        *product((BASIC, NORMAL), SHARE_OF_NODES, (BLOCKING,), (KERNEL,)),
    ]
    cases = [(seed, *point) for seed in range(seeds) for point in grid]
    axes = ("scheduler", "where", "variant", "coscheduler")
    found = samples(cases, runner.map(_run_in_user_space, cases), *axes)
    shown = {variant: (variant, USER) for variant in COSTS} | {"DYN also stops": (BLOCKING, STOPPING)}
    rows = [
        (
            name,
            where,
            label,
            *(text(Estimate(_penalty(found, of, name, where, *variant))) for of in MAX_PERCENT),
        )
        for name, where, (label, variant) in product(SCHEDULERS, SHARE_OF_NODES, shown.items())
        if variant[1] is USER or name == "FCFS-FFIT"
    ]
    columns = ("scheduler", "cluster", "variant", "turnaround", "makespan")
    drawings = [
        _kernel_and_user_space(found, "6", "turnaround_s", "Mean turnaround"),
        _kernel_and_user_space(found, "7", "makespan_s", "Makespan"),
    ]
    tables = {"What user space costs (%)": table(columns, rows)}
    return USER_SPACE.findings(_user_space_claims(found), drawings, tables, seeds=seeds)


def _run_in_user_space(case: tuple[int, str, str, str, Coscheduler]) -> dict[str, float]:
    seed, scheduler, where, variant, coscheduler = case
    cluster = TimeSharedCluster().with_local_users(SHARE_OF_NODES[where])
    detailed = cluster.detailed(replace(COSTS[variant], coscheduler=coscheduler))
    return measures(run(detailed, jobs_of(seed, JOBS), (SCHEDULERS | POLICIES)[scheduler], {}, seed))


def _penalty(
    found: GridSamples, measure: str, scheduler: str, where: str, variant: str, how: Coscheduler = USER
) -> Sample:
    """The percentage by which a measure is larger than in the kernel."""
    in_kernel = SPINNING if variant == SPINNING else BLOCKING
    of_kernel = found(measure, scheduler, where, in_kernel, KERNEL)
    return 100 * (found(measure, scheduler, where, variant, how) / of_kernel - 1)


def _user_space_claims(found: GridSamples) -> list[Claim]:
    chosen, *others = (_user_space_cases(found, variant) for variant in COSTS)
    names = list(COSTS)[1:]
    shorter = {
        f"{measure.removesuffix('_s')} {where}": Estimate(
            found(measure, BASIC, where, BLOCKING, KERNEL) - found(measure, NORMAL, where, BLOCKING, KERNEL)
        )
        for where, measure in product(SHARE_OF_NODES, MAX_PERCENT)
    }
    return [
        *(
            USER_SPACE.claim(
                name, cases, inputs={of: other[name] for of, other in zip(names, others, strict=True)}
            )
            for name, cases in chosen.items()
        ),
        USER_SPACE.claim(
            "sharing-helps",
            shorter.values(),
            ", ".join(f"{what}: by {text(x, 0, 's')}" for what, x in shorter.items()),
        ),
        USER_SPACE.without_rule("insignificant", "see the table of what user space costs"),
    ]


def _user_space_cases(found: GridSamples, variant: str) -> dict[str, list[Estimate]]:
    def penalty(measure: str, name: str, where: str) -> Sample:
        return _penalty(found, measure, name, where, variant)

    points = list(product(SCHEDULERS, SHARE_OF_NODES))
    turnaround, makespan = MAX_PERCENT
    return {
        "bounded": [
            below(Estimate(penalty(measure, *at)), most)
            for measure, most in MAX_PERCENT.items()
            for at in points
        ],
        "makespan-is-sensitive": [
            Estimate(penalty(makespan, *at) - penalty(turnaround, *at)) for at in points
        ],
        "similar": [
            inside(
                Estimate(penalty(measure, name, SHARED) - penalty(measure, name, DEDICATED)),
                -SIMILAR_POINTS,
                SIMILAR_POINTS,
            )
            for name, measure in product(SCHEDULERS, MAX_PERCENT)
        ],
    }


def _kernel_and_user_space(found: GridSamples, number: str, measure: str, title: str) -> Part:
    rows = [
        (f"{name}, {where}", f"{how.value}, {variant}", found.mean(measure, name, where, variant, how))
        for name, where, variant, how in product(
            SCHEDULERS, SHARE_OF_NODES, (BLOCKING, SPINNING), (KERNEL, USER)
        )
    ]
    chart = bars(rows, "Scheduler and cluster", f"{title} (s)", "Coscheduler and messages")
    title = f"Figure {number}: {title.lower()}, kernel and user space"
    return Part(title, chart, name=f"figure-{number}")
