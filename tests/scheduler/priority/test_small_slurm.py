"""The engines start each job when a small independent version of Slurm's policies does."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from scheduler.node_request import Node, Request
from scheduler.node_request import Partition as Limits
from scheduler.priority import policy as ours
from sil.outcome.replayed_log import PrioritiesAtStart
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.settings.replays import Engine
from sil.trace.facts import Fact, FactColumns
from sil.workload.job_log import JobLog, log_on_nodes
from site_db.jobs.logged import Charged
from site_db.site_file.cluster import SiteNodes
from tests.examples import up_to
from tests.scheduler.priority import small_slurm as small
from tests.sil.runs.test_policies_on_nodes import starts_of

CORES, N_NODES, N_USERS, PERIOD_S = 4, 3, 5, 60.0
QUALITIES = ("normal", "high")
PARTITIONS = {"p": [0, 1, 2], "q": [1, 2]}


class Case(NamedTuple):
    site: small.Site
    jobs: list[small.Job]


def limits(*names: str) -> st.SearchStrategy[small.Limits]:
    """Few of these limits."""
    values: dict[str, list[float]] = {
        "cpu": [6, 8],
        "node": [1, 2],
        "jobs": [1, 2],
        "submitted": [2, 4],
        "wall": [600.0],
    }
    some = {name: st.sampled_from(values[name]) for name in names}
    return st.one_of(st.just({}), st.just({}), st.fixed_dictionaries({}, optional=some))


SHARES = st.sampled_from([1, 1, 3, 7])


@st.composite
def cases(draw: st.DrawFn, most_jobs: int = 25) -> Case:
    both, counts = limits("cpu", "node", "jobs", "submitted"), limits("jobs", "submitted")

    def member(name: str, parent: small.Member, **more: Any) -> small.Member:
        job = draw(limits("cpu", "wall"))
        of_all: Any = {"group": draw(both), "own": draw(counts), "job": job}
        return small.Member(name, parent, usage=0.0, **of_all, **more)

    root = small.Member("root", None)
    a, b = (member(name, root, shares=draw(SHARES)) for name in "ab")
    c = member("c", a, shares=draw(st.sampled_from([1, 3, None])))
    users = [
        member(
            f"user-{n}",
            draw(st.sampled_from([a, b, c])),
            is_user=True,
            shares=draw(st.sampled_from([1, 3, None])),
        )
        for n in range(N_USERS)
    ]
    qualities = {
        name: small.Quality(
            draw(st.sampled_from([0, 5])), draw(both), draw(both), draw(both), draw(limits("cpu", "wall")),
            draw(st.sampled_from([1.0, 2.0])),
        )
        for name in (*QUALITIES, "of q")
    }  # fmt: skip
    tiers, factors = st.sampled_from([1, 1, 2]), st.sampled_from([1, 4])
    partitions = {
        name: small.Partition(nodes, draw(tiers), draw(factors), draw(st.sampled_from(["", "of q"])))
        for name, nodes in PARTITIONS.items()
    }
    weights = {
        name: draw(st.sampled_from([0.0, 0.0, 997.0, 5003.0]))
        for name in ("age", "fair_share", "size", "partition", "qos")
    }
    half_life_s = draw(st.sampled_from([200.0, 1e9]))
    site = small.Site(
        N_NODES, CORES, [root, a, b, c, *users], qualities, partitions, weights, half_life_s, 500.0, PERIOD_S,
        draw(st.booleans()),
    )  # fmt: skip
    jobs, at_s = list[small.Job](), 0.0
    for number in range(1, draw(st.integers(1, most_jobs)) + 1):
        at_s += draw(st.sampled_from([0, 0, 7, 41, 60, 300]))
        run_s = draw(st.sampled_from([13.0, 60.0, 101.0, 709.0]))
        user = draw(st.integers(0, N_USERS))  # the last is in no account
        who = users[user] if user < N_USERS else None
        within = draw(st.sampled_from(sorted(PARTITIONS)))
        n_nodes = draw(st.integers(1, len(PARTITIONS[within])))
        jobs.append(
            small.Job(
                number, at_s, run_s, run_s * draw(st.sampled_from([1, 3])), f"user-{user}", who,
                draw(st.sampled_from(QUALITIES)), within, n_nodes, draw(st.integers(1, CORES)),
            )
        )  # fmt: skip
    return Case(site, jobs)


def resource_limits(of: small.Limits) -> ours.ResourceLimits:
    tres: dict[str, float] = {name: of[name] for name in ("cpu", "node") if name in of}
    counts: Any = {key: of.get(name) for key, name in (("running", "jobs"), ("submitted", "submitted"))}
    return ours.ResourceLimits(tres, wall_s=of.get("wall"), **counts)


def inherited(one: small.Member, what: str) -> small.Limits:
    """The limits of an association with those that it has from above, as a dump is read."""
    found: small.Limits = {}
    for each in one.accounts:
        found = {**getattr(each, what), **found}
    return found


def policy_of(site: small.Site) -> ours.SitePolicy:
    tree = tuple(
        ours.Association(
            one.parent.name if one.is_user else one.name,
            one.name if one.is_user else "",
            one.parent.name,
            ours.PARENT if one.shares is None else one.shares,
            group=resource_limits(one.group),
            own=resource_limits(inherited(one, "own")),
            job=resource_limits(inherited(one, "job")),
        )
        for one in site.members
        if one.parent is not None
    )
    qualities = {
        name: ours.QualityOfService(
            name,
            each.priority,
            group=resource_limits(each.group),
            of_user=resource_limits(each.user),
            of_account=resource_limits(each.account),
            job=resource_limits(each.job),
            usage_factor=each.usage_factor,
        )
        for name, each in site.qualities.items()
    }
    named: Any = {{"size": "job_size"}.get(name, name): weight for name, weight in site.weights.items()}
    weights = ours.Weights(**named)
    how = ours.Multifactor(weights, site.half_life_s, site.max_age_s, site.period_s, site.fair_tree)
    partitions = {
        name: ours.PartitionPolicy(each.tier, each.job_factor, each.quality)
        for name, each in site.partitions.items()
    }
    return ours.SitePolicy(how, tree, qualities, partitions, ("limits",))


def log_of(case: Case) -> JobLog:
    requests = list(dict.fromkeys((job.n_nodes, job.cores, job.partition) for job in case.jobs))
    rows = [
        (job.number, job.arrival_s, job.run_s, job.cpus, job.limit_s, int(job.user[5:]),
         requests.index((job.n_nodes, job.cores, job.partition)), QUALITIES.index(job.quality))
        for job in case.jobs
    ]  # fmt: skip
    nodes = {
        f"n{n}": Node(case.site.cores, 1, partitions=frozenset(x for x, of in PARTITIONS.items() if n in of))
        for n in range(case.site.n_nodes)
    }
    cluster = SiteNodes(nodes, {x: Limits(x) for x in PARTITIONS}, {}, policy=policy_of(case.site))
    asked = [Request(n, cores, partitions=frozenset({within})) for n, cores, within in requests]
    return log_on_nodes("x", rows, cluster, asked, charged=tuple(Charged("", name) for name in QUALITIES))


@pytest.mark.parametrize(("scheduler", "backfills"), [("fcfs", False), ("easy", True)])
@pytest.mark.parametrize("engine", [Engine.COMPILED, pytest.param(Engine.HARNESS, marks=pytest.mark.long)])
@settings(max_examples=up_to(1000, part=40), deadline=None)
@given(case=cases())
def test_each_job_starts_when_it_does_in_a_small_version_of_slurms_policies(
    scheduler: str, backfills: bool, engine: Engine, case: Case
) -> None:
    log = log_of(case)
    facts = Replay(log, engine=engine).facts(resolve(scheduler), Path("printed"))
    refused = {job for event, job in facts.select("event", "job").iter_rows() if event == Fact.JOB_REFUSED}
    try:
        small.SmallSlurm(case.site, case.jobs, backfills).replay()
    except small.Ambiguous:
        reject()
    assert refused == {job.number for job in case.jobs if job.is_refused}
    expected = {job.number: job.start_s for job in case.jobs if not job.is_refused}
    assert starts_of(facts) == expected
    priorities = PrioritiesAtStart(log)
    priorities.add(FactColumns(facts))
    if expected:
        found = priorities.of(pl.DataFrame({"job_id": [*expected]}))["priority"].to_list()
        assert found == [-job.order[1] for job in case.jobs if not job.is_refused]
