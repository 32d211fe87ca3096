"""Under random policies both engines write equal traces and keep all limits."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.node_request import Node, Partition, Request
from scheduler.priority.policy import (
    PARENT,
    Association,
    Multifactor,
    QualityOfService,
    ResourceLimits,
    SitePolicy,
    Weights,
)
from sil.outcome.jobs import JOBS, read_whole_jobs_csv
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.settings.replays import Engine
from sil.trace.facts import TRACE, Fact
from sil.trace.reading import read_facts
from sil.workload.job_log import JobLog, log_on_nodes
from site_db.jobs.logged import Charged
from site_db.site_file.cluster import SiteNodes
from tests.examples import up_to

CPUS, N_NODES, N_USERS, PERIOD_S, HALF_LIFE_S = 8, 4, 6, 60.0, 3_600.0
REQUESTS = [Request(chunks=n, cores=cores) for n in (1, 2, 4) for cores in (1, 4, 8)]
CHARGED = (Charged("", "normal"), Charged("", "high"))


class Case(NamedTuple):
    policy: SitePolicy
    log: JobLog


def _limits(tres: dict[str, float], running: int | None, submitted: int | None) -> ResourceLimits:
    return ResourceLimits(tres, running, submitted)


NONE = st.just(dict[str, float]())
CPUS_OR_NODES = st.sampled_from(
    [{}, {}, {"cpu": 8.0}, {"cpu": 16.0}, {"node": 1.0}, {"cpu": 24.0, "node": 2.0}]
)
LIMITS = st.builds(_limits, CPUS_OR_NODES, st.sampled_from([None, 1, 3]), st.none())
SUBMITTED = st.builds(_limits, NONE, st.sampled_from([None, 2]), st.sampled_from([None, 3]))


MINUTES = st.fixed_dictionaries(
    {},
    optional={
        "minutes": st.sampled_from([{"cpu": 60.0}, {"wall": 20.0}, {"billing": 200.0, "node": 30.0}]),
        "minutes_to_run": st.sampled_from([{"cpu": 100.0}, {"node": 40.0}]),
    },
)


@st.composite
def cases(draw: st.DrawFn, weights: st.SearchStrategy[Weights], most_jobs: int = 40) -> Case:
    shares = st.sampled_from([1, 1, 2, 5])
    accounts = [
        Association("a", shares=draw(shares), group=draw(LIMITS)),
        Association("b", shares=draw(shares)),
        Association("c", parent="a", shares=draw(st.sampled_from([1, PARENT]))),
    ]
    users = [
        Association(draw(st.sampled_from("abc")), f"user-{n}", shares=draw(shares), own=draw(SUBMITTED))
        for n in range(N_USERS)
    ]
    qualities = {
        "normal": QualityOfService("normal", of_user=draw(LIMITS)),
        "high": QualityOfService("high", 10, group=draw(LIMITS), of_account=draw(LIMITS), usage_factor=2.0),
    }
    how = Multifactor(draw(weights), HALF_LIFE_S, 7_200.0, PERIOD_S, draw(st.booleans()))
    policy = SitePolicy(how, (*accounts, *users), qualities, {}, ("limits",))
    job = st.tuples(
        st.sampled_from([0, 5, 60, 300]),
        st.sampled_from([10, 100, 700]),
        st.sampled_from([1.0, 3.0]),
        st.integers(0, N_USERS),  # the last is in no account
        st.integers(0, len(REQUESTS) - 1),
        st.integers(0, len(CHARGED) - 1),
    )
    rows, at_s = list[tuple[float, ...]](), 0.0
    for number, (later_s, run_s, factor, user, which, whom) in enumerate(
        draw(st.lists(job, min_size=1, max_size=most_jobs)), start=1
    ):
        at_s += later_s
        cpus = REQUESTS[which].cpus
        rows.append((number, at_s, float(run_s), cpus, run_s * factor, user, which, whom))
    nodes = {f"n{n}": Node(CPUS, 1, partitions=frozenset({"p"})) for n in range(N_NODES)}
    cluster = SiteNodes(nodes, {"p": Partition("p")}, {}, policy=policy)
    return Case(policy, log_on_nodes("random", rows, cluster, REQUESTS, charged=CHARGED))


WEIGHTS = st.builds(
    Weights,
    age=st.sampled_from([0.0, 1000.0]),
    fair_share=st.sampled_from([0.0, 10_000.0]),
    job_size=st.sampled_from([0.0, 500.0]),
    qos=st.sampled_from([0.0, 2_000.0]),
)


def replayed(log: JobLog, scheduler: str, engine: Engine, folder: Path) -> pl.DataFrame:
    return Replay(log, engine=engine).facts(resolve(scheduler), folder / "printed")


@pytest.mark.parametrize("scheduler", ["fcfs", "sjf", "easy", "easy_sjbf", "conservative", "slurm_backfill"])
@settings(max_examples=up_to(250, part=10), deadline=None)
@given(
    case=cases(WEIGHTS),
    minutes=st.lists(MINUTES, min_size=3, max_size=3),
    safe=st.sampled_from([(), ("safe",)]),
)
def test_both_engines_write_the_same_trace(
    tmp_path_factory: pytest.TempPathFactory,
    scheduler: str,
    case: Case,
    minutes: list[dict[str, dict[str, float]]],
    safe: tuple[str, ...],
) -> None:
    """Also with limits of TRES-minutes of an account, of a QOS and of its users."""
    folder, policy = tmp_path_factory.getbasetemp(), case.policy
    first, *others = policy.associations
    high = policy.qualities["high"]
    group, of_group, of_user = (
        replace(limits, minutes=more.get("minutes", {}), minutes_to_run=more.get("minutes_to_run", {}))
        for limits, more in zip((first.group, high.group, high.of_user), minutes, strict=True)
    )
    high = replace(high, group=of_group, of_user=replace(of_user, minutes={}))
    assert case.log.cluster is not None
    policy = replace(
        policy,
        associations=(replace(first, group=group), *others),
        qualities={**policy.qualities, "high": high},
        enforces=("limits", *safe),
    )
    case = Case(policy, replace(case.log, cluster=replace(case.log.cluster, policy=policy)))
    compiled, harness = (
        replayed(case.log, scheduler, engine, folder) for engine in (Engine.COMPILED, Engine.HARNESS)
    )
    assert compiled.equals(harness)


class Recount:
    """What waits and runs, by limit: each is counted anew."""

    def __init__(self, case: Case) -> None:
        self.policy = case.policy
        self.users = {each.user: each for each in case.policy.associations if each.user}
        self.accounts = {each.account: each for each in case.policy.associations if not each.user}
        self.used = Counter[tuple[str, tuple[str, str]]]()
        self.on = defaultdict[tuple[str, str], Counter[int]](Counter)
        """By scope, the runs on each node."""

    def above(self, row: Mapping[str, float]) -> list[Association]:
        mine = self.users.get(f"user-{row['user']:.0f}")
        found = [] if mine is None else [mine]
        while found and (name := found[-1].account if found[-1].user else found[-1].parent) != "root":
            found.append(self.accounts[name])
        return found

    def scopes(self, row: Mapping[str, float]) -> dict[tuple[str, str], tuple[str, ResourceLimits]]:
        """The limits of a job by kind and scope."""
        above, quality = self.above(row), self.policy.qualities[CHARGED[int(row["charged"])].qos]
        account = above[0].account if above else ""
        found = {
            ("Grp", quality.name): ("", quality.group),
            ("PerUser", f"{quality.name} {row['user']:.0f}"): ("", quality.of_user),
            ("PerAccount", f"{quality.name} {account}"): ("", quality.of_account),
        }
        for each in above:
            if not each.user:
                found["Grp", f"account {each.account}"] = ("of qos", each.group)
        if above:
            found["own", above[0].user] = ("of qos", above[0].own)
        return found

    def bounds(self, row: Mapping[str, float]) -> list[tuple[tuple[str, str], str, float]]:
        """The limits that count: those of a QOS take the place of those of accounts for the same."""
        scopes, found = self.scopes(row), list[tuple[tuple[str, str], str, float]]()
        quality = self.policy.qualities[CHARGED[int(row["charged"])].qos]
        for key, (whose, limits) in scopes.items():
            of_qos = quality.group.tres if whose and key[0] == "Grp" else {}
            has_jobs = whose and (
                (key[0] == "Grp" and quality.group.running is not None)
                or (key[0] == "own" and {quality.of_user.running, quality.of_account.running} != {None})
            )
            found += [(key, what, most) for what, most in limits.tres.items() if what not in of_qos]
            if limits.running is not None and not has_jobs:
                found.append((key, "jobs", limits.running))
            if limits.submitted is not None:
                found.append((key, "submitted", limits.submitted))
        return found

    def after(self, row: Mapping[str, Any], what: str, key: tuple[str, str]) -> float:
        """What would be used with a job, which is on its nodes if it has started."""
        if what == "node":
            return len({n for n, runs in self.on[key].items() if runs} | {*row["on"]})
        return self.used[what, key] + (row["processors"] if what == "cpu" else 1)

    def fits(self, row: Mapping[str, Any], submitted: bool) -> bool:
        """Whether a job keeps to its limits, beside those that are counted."""
        return all(
            self.after(row, what, key) <= most
            for key, what, most in self.bounds(row)
            if (what == "submitted") == submitted
        )

    def may_start(self, row: Mapping[str, Any]) -> bool:
        """Whether a job keeps to its limits alone."""
        amounts = {"cpu": row["processors"], "node": REQUESTS[int(row["request"])].chunks}
        bounds = ((most, what) for _, what, most in self.bounds(row) if what != "submitted")
        return all(amounts.get(what, 1) <= most for most, what in bounds)

    def count(self, row: Mapping[str, Any], sign: int, *whats: str) -> None:
        for key in self.scopes(row):
            for what in whats:
                self.used[what, key] += sign * (int(row["processors"]) if what == "cpu" else 1)
            if "cpu" in whats:
                self.on[key].update({n: sign * runs for n, runs in row["on"].items()})

    def check(self, log: JobLog, facts: pl.DataFrame) -> None:
        """Follow a trace: no start exceeds a limit, and those are refused that would."""
        rows, waiting = {row["job"]: row for row in log.jobs.to_dicts()}, set[int]()
        known = pl.col("event").is_in([Fact.JOB_ARRIVED, Fact.RUN_STARTED, Fact.RUN_ENDED, Fact.JOB_REFUSED])
        refused = {*facts.filter(pl.col("event") == Fact.JOB_REFUSED)["job"]}
        for event, job, shares in facts.filter(known).select("event", "job", "shares").iter_rows():
            row = rows[job]
            if event == Fact.JOB_ARRIVED:
                allowed = self.may_start(row) and self.fits(row, submitted=True)
                assert allowed == (job not in refused)
                if allowed:
                    waiting.add(job)
                    self.count(row, 1, "submitted")
            elif event == Fact.RUN_STARTED:
                waiting.remove(job)
                row["on"] = Counter(share["node"] for share in shares)
                assert self.fits(row, submitted=False), f"job {job} starts beyond a limit"
                self.count(row, 1, "cpu", "jobs")
            elif event == Fact.RUN_ENDED:
                self.count(row, -1, "cpu", "jobs", "submitted")
        assert not waiting
        assert not any(self.used.values())


def starts_of(facts: pl.DataFrame) -> dict[int, float]:
    started = facts.filter(pl.col("event") == Fact.RUN_STARTED)
    return dict(zip(started["job"].to_list(), started["time_s"].to_list(), strict=True))


@settings(max_examples=up_to(500, part=10), deadline=None)
@given(case=cases(WEIGHTS))
def test_no_limit_is_ever_exceeded(tmp_path_factory: pytest.TempPathFactory, case: Case) -> None:
    facts = replayed(case.log, "easy", Engine.COMPILED, tmp_path_factory.getbasetemp())
    Recount(case).check(case.log, facts)


def long_case(n_jobs: int, n_users: int = 200) -> Case:
    """A log at a load of about 0.9, with priorities, fair share and limits of each kind."""
    rng = np.random.default_rng(7)
    accounts = [Association(f"a{k}", shares=k + 1, group=ResourceLimits({"cpu": 20})) for k in range(5)]
    own = ResourceLimits(running=3, submitted=25)
    users = [Association(f"a{n % 5}", f"user-{n}", shares=1 + n % 3, own=own) for n in range(n_users)]
    qualities = {
        "normal": QualityOfService("normal", of_user=ResourceLimits({"cpu": 16})),
        "high": QualityOfService("high", 10, group=ResourceLimits(running=6), usage_factor=2.0),
    }
    how = Multifactor(Weights(1000.0, 0.0, 10_000.0, 500.0, 0.0, 2_000.0), 86_400.0, 86_400.0)
    policy = SitePolicy(how, (*accounts, *users), qualities, {}, ("limits",))
    which, run_s = rng.integers(0, len(REQUESTS), n_jobs), rng.integers(10, 3_600, n_jobs)
    work = sum(REQUESTS[k].cpus * s for k, s in zip(which.tolist(), run_s.tolist(), strict=True))
    at_s = np.cumsum(rng.exponential(work / (0.9 * CPUS * N_NODES * n_jobs), n_jobs)).round()
    columns = (
        np.arange(1, n_jobs + 1), at_s, run_s, [REQUESTS[k].cpus for k in which],
        run_s * rng.integers(1, 4, n_jobs), rng.zipf(1.3, n_jobs) % n_users, which,
        rng.integers(0, 2, n_jobs),
    )  # fmt: skip
    rows = [tuple(row) for row in np.array(columns).T.tolist()]
    nodes = {f"n{n}": Node(CPUS, 1, partitions=frozenset({"p"})) for n in range(N_NODES)}
    cluster = SiteNodes(nodes, {"p": Partition("p")}, {}, policy=policy)
    return Case(policy, log_on_nodes("long", rows, cluster, REQUESTS, charged=CHARGED))


@pytest.mark.parametrize("n_jobs", [6_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_a_long_log_with_priorities_fair_share_and_limits_keeps_its_invariants(
    n_jobs: int, tmp_path: Path
) -> None:
    case = long_case(n_jobs)
    Replay(case.log, engine=Engine.COMPILED).run(resolve("easy"), tmp_path)  # which checks the trace
    facts = read_facts(tmp_path / TRACE)
    assert len(starts_of(facts)) > 0.7 * n_jobs
    Recount(case).check(case.log, facts)


def test_of_jobs_that_wait_the_one_with_the_highest_priority_starts_first(tmp_path: Path) -> None:
    users = [Association("a", f"user-{n}") for n in range(3)]
    qualities = {name: QualityOfService(name, n) for n, name in enumerate(("normal", "high"))}
    policy = SitePolicy(
        Multifactor(Weights(fair_share=1_000, qos=10_000), period_s=PERIOD_S),
        (Association("a"), *users),
        qualities,
    )
    nodes = {"n0": Node(CPUS, 1)}
    rows = [
        (1, 0.0, 1000.0, 8, 1000.0, 0, 2, 0),  # user-0 has used something when it ends
        (2, 1.0, 100.0, 8, 100.0, 0, 2, 0),
        (3, 2.0, 100.0, 8, 100.0, 1, 2, 0),
        (4, 3.0, 100.0, 8, 100.0, 0, 2, 1),  # of the high QOS
    ]
    log = log_on_nodes("x", rows, SiteNodes(nodes, {}, {}, policy=policy), REQUESTS, charged=CHARGED)
    starts = starts_of(replayed(log, "fcfs", Engine.COMPILED, tmp_path))
    assert sorted(starts, key=lambda job: starts[job]) == [1, 4, 3, 2]
    for engine in (Engine.COMPILED, Engine.HARNESS):
        Replay(log, engine=engine).run(resolve("fcfs"), tmp_path)
        jobs = read_whole_jobs_csv(tmp_path / JOBS)
        found = jobs.select("priority", "priority_fair_share", "priority_qos").rows()
        third = pytest.approx(1000 / 3)
        assert found == [(1_000, 1_000, 0), (333, third, 0), (1_000, 1_000, 0), (10_333, third, 10_000)]
