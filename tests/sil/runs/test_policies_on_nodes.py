"""Under random policies, both engines write equal traces, and what runs at a time never exceeds a limit."""

from __future__ import annotations

from collections import Counter

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
from sil.runs.on_log import Replay
from sil.settings.replays import Engine
from sil.trace.facts import Fact
from sil.workload.job_log import JobLog, log_on_nodes
from site_db.jobs.records import Charged
from site_db.site_file.cluster import SiteNodes
from tests.examples import up_to
from tests.sil.runs.test_engines import assert_equal, facts_by

pytestmark = pytest.mark.usefixtures("in_this_process")

N_USERS = 5
NODES = {f"n{k}": Node(cores=8, memory_mib=1000, partitions=frozenset({"p"})) for k in range(4)}
REQUESTS = [
    Request(chunks=chunks, cores=cores, memory_mib=memory_mib, partitions=frozenset({"p"}))
    for chunks in (1, 2, 4)
    for cores in (1, 4, 8)
    for memory_mib in (0, 500)
]
CHARGED = Charged("", "normal"), Charged("a", "high"), Charged("b", "normal"), Charged("", "high")

limits = st.builds(
    ResourceLimits,
    tres=st.sampled_from([{}, {"cpu": 16.0}, {"cpu": 40.0}, {"node": 3.0}, {"mem": 1_500.0}]),
    running=st.sampled_from([None, None, 1, 3]),
)
multifactors = st.builds(
    Multifactor,
    st.builds(
        Weights,
        age=st.sampled_from([0.0, 1_000.0]),
        fair_share=st.sampled_from([0.0, 100_000.0]),
        job_size=st.sampled_from([0.0, 500.0]),
        qos=st.sampled_from([0.0, 2_000.0]),
    ),
    half_life_s=st.sampled_from([3_600.0, 86_400.0]),
    max_age_s=st.just(3_600.0),
    period_s=st.sampled_from([60.0, 300.0]),
    fair_tree=st.booleans(),
)
SHARES = st.sampled_from([1, 1, 2, 10, PARENT])


@st.composite
def policies(draw: st.DrawFn) -> SitePolicy:
    """Two accounts, one below the first, and users in any of them or in the root."""
    accounts = (
        Association("a", shares=draw(SHARES), group=draw(limits)),
        Association("b", shares=3),
        Association("c", parent="a", shares=draw(SHARES), own=draw(limits)),
    )
    within = draw(st.lists(st.sampled_from(["a", "b", "c", "root"]), min_size=N_USERS, max_size=N_USERS))
    users = (
        Association(account, f"user-{k}", account, draw(SHARES), own=draw(limits))
        for k, account in enumerate(within)
    )
    qualities = {
        "normal": QualityOfService("normal", 0, of_user=draw(limits)),
        "high": QualityOfService("high", 10, draw(limits), of_account=draw(limits)),
    }
    return SitePolicy(draw(multifactors), (*accounts, *users), qualities, {}, ("limits",))


@st.composite
def logs(draw: st.DrawFn) -> JobLog:
    rows, now_s = [], 0.0
    for k in range(1, draw(st.integers(1, 40)) + 1):
        now_s += draw(st.sampled_from([0, 5, 60, 300]))
        run_s, request = draw(st.sampled_from([10.0, 100, 700])), draw(st.integers(0, len(REQUESTS) - 1))
        estimate_s = run_s * draw(st.sampled_from([1.0, 1.5, 3]))
        who = draw(st.integers(0, N_USERS - 1)), request, draw(st.integers(0, len(CHARGED) - 1))
        rows.append((k, now_s, float(run_s), REQUESTS[request].cpus, estimate_s, *who))
    cluster = SiteNodes(NODES, {"p": Partition("p")}, {}, policy=draw(policies()))
    return log_on_nodes("random", rows, cluster, REQUESTS, charged=CHARGED)


@settings(max_examples=up_to(500, part=10), deadline=None)
@given(logs(), st.sampled_from(["fcfs", "sjf", "easy", "easy_sjbf", "conservative"]))
def test_both_engines_write_equal_traces_under_random_policies(log: JobLog, scheduler: str) -> None:
    assert_equal(Replay(log), scheduler)


@settings(max_examples=up_to(500, part=10), deadline=None)
@given(logs(), st.sampled_from(["fcfs", "easy", "conservative"]))
def test_what_runs_at_a_time_never_exceeds_the_limits_of_a_qos(log: JobLog, scheduler: str) -> None:
    """Recounted from the facts: the jobs of QOS high, and those of each user with QOS normal."""
    facts = facts_by(Engine.COMPILED, Replay(log), scheduler)
    assert log.cluster is not None
    assert log.cluster.policy is not None
    known = log.cluster.policy.qualities
    asked = {row["job"]: row for row in log.jobs.iter_rows(named=True)}
    used: Counter[tuple[str, str]] = Counter()
    changes = facts.filter(pl.col("event").is_in([Fact.RUN_STARTED, Fact.RUN_ENDED]))
    for job, event in changes.select("job", "event").iter_rows():
        row = asked[job]
        request, qos = REQUESTS[row["request"]], CHARGED[row["charged"]].qos
        amounts = {
            "job": 1,
            "cpu": request.cpus,
            "mem": request.chunks * request.memory_mib,
            "node": request.chunks,
        }
        whose, bounds = (
            (qos, known[qos].group) if qos == "high" else (f"user {row['user']}", known[qos].of_user)
        )
        for what, amount in amounts.items():
            used[whose, what] += amount if event == Fact.RUN_STARTED else -amount
            most = bounds.running if what == "job" else bounds.tres.get(what)
            assert most is None or used[whose, what] <= most
