"""Several clusters under a meta-scheduler, against closed forms and an independent simulation."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sil
from scheduler.meta_scheduling.policies import ClustersProblem
from scheduler.model import NodeSchedule
from sil.experiment.provenance import describe
from sil.outcome.metrics import faults
from sil.outcome.trace_inspection import sentence
from sil.runs.scenario import DoesNotFit, Scenario, scenario_of
from sil.runs.simulation import RunKey
from sil.runs.under_test import among
from sil.settings.experiment_file import Experiment
from sil.site.site_in_use import SiteSource
from sil.trace.facts import Fact
from site_db import store
from site_db.jobs.records import LIVE, JobRecord, JobState
from site_db.jobs.writer import JobWriter
from site_db.site_file import importing

SITE = """
name = "node"
machine_classes = [{{ name = "cpu" }}]
[[machines]]
names = ["n1"]
machine_class = "cpu"
processors = {cores}
memory_mb = 1000
[[partitions]]
name = "all"
nodes = ["n1"]
[[job_classes]]
name = "small"
request = {{ cores = 1, time_limit_s = 100 }}
sequential_s = {{ cpu = 10 }}
[[job_classes]]
name = "wide"
request = {{ cores = 2, time_limit_s = 70 }}
sequential_s = {{ cpu = 10 }}
"""
SLOW = 20.0
"""The mean seconds between arrivals at a cluster of one core that is half loaded."""


class Random:
    """Each cluster with the same probability."""

    is_random = True

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)

    def schedule(self, problem: ClustersProblem) -> NodeSchedule:
        return problem.sent_to(int(self._random.integers(problem.n_places)))


class Wrong:
    """Breaks a rule at the third job."""

    def __init__(self, how: str) -> None:
        self._how, self._n = how, 0

    def schedule(self, problem: ClustersProblem) -> Any:
        self._n += 1
        if self._n < 3:
            return problem.sent_to(self._n % 2)
        match self._how:
            case "raises":
                raise KeyError("cluster")
            case "none":
                return problem.sent_to()
            case "twice":
                return problem.sent_to(1, 1)
            case "unknown":
                return problem.sent_to(2)
            case "again":
                start = problem.sent_to(0).starts[0]
                return NodeSchedule((start, start))
            case "changes":
                problem.clusters = tuple(each._replace(load_s=0.0) for each in problem.clusters)
                return problem.sent_to(0)
            case "slow":
                while True:
                    time.sleep(0.01)
            case _:
                return None


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Scenario]:
    """Makes scenarios of clusters "a" and "b" of one node each."""
    folder = tmp_path_factory.mktemp("sites")
    in_use = {}

    def make(
        policies: dict[str, Any] | list[str], mean_s: float = SLOW, cores: int = 1, b_cores: int = 0,
        jobs: int = 40, mix: dict[str, float] | None = None, schedulers: tuple[str, str] = ("fcfs", "fcfs"),
        isolated: bool = False, **others: Any,
    ) -> Scenario:  # fmt: skip
        b_cores = b_cores or cores
        for n in (cores, b_cores):
            (folder / f"{n}.toml").write_text(SITE.format(cores=n))
        come = {"kind": "poisson", "jobs_per_quantum": 1, "quantum_s": mean_s}
        clusters = [
            {"name": name, "scheduler": scheduler, "site": f"{n}.toml"}
            for name, scheduler, n in zip("ab", schedulers, (cores, b_cores), strict=True)
        ]
        experiment = Experiment.model_validate(
            {
                "name": "clusters",
                "site": f"{cores}.toml",
                "schedulers": list(policies),
                "clusters": clusters,
                "workload": {"jobs": jobs, "arrivals": come, "mix": mix or {"small": 1.0}},
                "run_times": {"kind": "gamma", "coefficient_of_variation": 1.0},
                "nodes": {"time_limits": "ignored"},
                **others,
            }
        )
        key = cores, b_cores
        if key not in in_use:
            in_use[key] = SiteSource(experiment, folder, None).snapshot(folder / "site.db")
        given = policies if isinstance(policies, dict) else {}
        find = among(given, isolated=isolated)
        return scenario_of(experiment, in_use[key], find)

    return make


class Ran(NamedTuple):
    """A job as the trace has it."""

    submitted_s: float
    start_s: float
    end_s: float
    home: str
    cluster: str
    cores: int


def ran(scenario: Scenario, policy: str, replication: int = 0) -> dict[int, Ran]:
    facts = scenario.run(RunKey(0, replication, policy)).facts
    assert not len(faults(facts)), faults(facts)["message"].to_list()
    at: dict[Fact, dict[int, Any]] = {}
    for fact in (Fact.JOB_ARRIVED, Fact.RUN_STARTED, Fact.RUN_ENDED):
        rows = facts.filter(pl.col("event") == fact).select("job", "time_s", "resource", "tasks")
        at[fact] = {job: rest for job, *rest in rows.iter_rows()}
        assert len(at[fact]) == len(rows), f"a job has two of {fact}"
    homes = scenario.arriving()[1]  # type: ignore[attr-defined]
    return {
        job: Ran(
            at[Fact.JOB_ARRIVED][job][0], start_s, at[Fact.RUN_ENDED][job][0],
            "ab"[next(k for k, here in enumerate(homes) if job in here)], "ab"[resource - 2], tasks,
        )
        for job, (start_s, resource, tasks) in at[Fact.RUN_STARTED].items()
    }  # fmt: skip


class TwoQueues:
    """Both clusters serve their queues in order: a program of its own, with what is known of the jobs."""

    def __init__(self, jobs: dict[int, Ran], cores: dict[str, int], transfer_s: float) -> None:
        self._jobs, self._cores, self._transfer_s = jobs, cores, transfer_s
        self._sent: dict[str, dict[int, float]] = {"a": {}, "b": {}}
        """When each job that has not started is in the queue of a cluster."""
        self._running: dict[str, dict[int, float]] = {"a": {}, "b": {}}
        self._turn = count()

    def starts(self, policy: str) -> dict[int, tuple[float, str]]:
        jobs, starts, order = self._jobs, dict[int, tuple[float, str]](), count()
        events = sorted((job.submitted_s, 1, next(order), n, job.home) for n, job in sorted(jobs.items()))
        while events:
            now_s = events[0][0]
            while events and events[0][0] == now_s:
                _, what, _, n, c = heappop(events)
                if what == 0:
                    del self._running[c][n]
                elif what == 1:
                    for k in self._chosen(policy, n, c, now_s):
                        arrives_s = self._sent[k][n] = now_s + self._late_s(c, k)
                        heappush(events, (arrives_s, 2, next(order), n, k))
            started = True
            while started:  # a job that starts in one cluster may make way in the other
                n_before = len(starts)
                for c in "ab":
                    here = sorted((s, n) for n, s in self._sent[c].items() if s <= now_s)
                    while here and jobs[here[0][1]].cores <= self._free(c):
                        n = here.pop(0)[1]
                        starts[n], self._running[c][n] = (now_s, c), now_s
                        heappush(events, (now_s + jobs[n].end_s - jobs[n].start_s, 0, next(order), n, c))
                        for sent in self._sent.values():
                            sent.pop(n, None)
                started = len(starts) > n_before
        return starts

    def _late_s(self, c: str, k: str) -> float:
        return 0.0 if c == k else self._transfer_s

    def _limit_s(self, n: int) -> float:
        return {1: 100.0, 2: 70.0}[self._jobs[n].cores]

    def _free(self, c: str) -> int:
        return self._cores[c] - sum(self._jobs[n].cores for n in self._running[c])

    def _chosen(self, policy: str, n: int, c: str, now_s: float) -> list[str]:
        fits = [k for k in "ab" if self._jobs[n].cores <= self._cores[k]]
        if policy == "everywhere":
            return fits
        if policy == "round_robin":
            return [fits[next(self._turn) % len(fits)]]

        def cost(k: str) -> float:
            match policy:
                case "home":
                    return k != c
                case "fewest_jobs":
                    return len(self._sent[k]) + len(self._running[k])
                case "least_load":
                    return self._load(k, now_s)
                case _:
                    return self._start_s(n, k, now_s, now_s + self._late_s(c, k))

        return [min(fits, key=lambda k: (cost(k), self._late_s(c, k), k))]

    def _load(self, k: str, now_s: float) -> float:
        waiting = sum(self._jobs[n].cores * self._limit_s(n) for n in self._sent[k])
        left = (
            self._jobs[n].cores * max(0.0, began_s + self._limit_s(n) - now_s)
            for n, began_s in self._running[k].items()
        )
        return (waiting + sum(left)) / self._cores[k]

    def _start_s(self, job: int, k: str, now_s: float, comes_s: float) -> float:
        """First come, first served, if all runs last as long as their limits, or twice as long as so far."""
        ends, idle, time_s = [], self._free(k), now_s
        for n, began_s in self._running[k].items():
            limit_s, ran_s = self._limit_s(n), now_s - began_s
            ends.append((began_s + (limit_s if ran_s < limit_s else 2 * ran_s), self._jobs[n].cores))
        line = sorted([(comes_s, job), *((s, n) for n, s in self._sent[k].items())])
        for arrives_s, n in line[: line.index((comes_s, job)) + 1]:
            time_s = max(time_s, arrives_s)
            while ends and (min(ends)[0] <= time_s or idle < self._jobs[n].cores):
                end_s, cores = min(ends)
                ends.remove((end_s, cores))
                time_s, idle = max(time_s, end_s), idle + cores
            idle -= self._jobs[n].cores
            ends.append((time_s + self._limit_s(n), self._jobs[n].cores))
        return time_s


POLICIES = ["home", "round_robin", "fewest_jobs", "least_load", "earliest_start", "everywhere"]


def assert_agrees(scenario: Scenario, policy: str, cores: dict[str, int], transfer_s: float) -> None:
    jobs = ran(scenario, policy)
    expected = TwoQueues(jobs, cores, transfer_s).starts(policy)
    assert {n: where for n, (_, where) in expected.items()} == {n: job.cluster for n, job in jobs.items()}
    starts_s = {n: job.start_s for n, job in jobs.items()}
    assert {n: at_s for n, (at_s, _) in expected.items()} == pytest.approx(starts_s)


def late(transfer_s: float) -> dict[str, Any]:
    return {"seconds": {"a": {"b": transfer_s}, "b": {"a": transfer_s}}}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("transfer_s", [0.0, 15.0])
def test_jobs_start_when_and_where_an_independent_simulation_starts_them(
    made: Callable[..., Scenario], policy: str, transfer_s: float
) -> None:
    mix = {"small": 2.0, "wide": 1.0}
    scenario = made([policy], 4.0, cores=3, b_cores=1, mix=mix, transfers=late(transfer_s))
    assert_agrees(scenario, policy, {"a": 3, "b": 1}, transfer_s)


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    policy=st.sampled_from(POLICIES),
    cores=st.tuples(st.integers(2, 4), st.integers(1, 4)),
    mean_s=st.floats(1.0, 20.0),
    transfer_s=st.sampled_from([0.0, 3.0, 40.0]),
)
def test_they_do_so_in_any_workload(
    made: Callable[..., Scenario], seed: int, policy: str, cores: tuple[int, int], mean_s: float,
    transfer_s: float,
) -> None:  # fmt: skip
    more = {"mix": {"small": 1.0, "wide": 1.0}, "transfers": late(transfer_s), "seed": seed, "jobs": 25}
    scenario = made([policy], mean_s, cores=cores[0], b_cores=cores[1], **more)
    assert_agrees(scenario, policy, dict(zip("ab", cores, strict=True)), transfer_s)


def mean_wait_s(scenario: Scenario, policy: str, replications: int = 1) -> float:
    found = [ran(scenario, policy, k) for k in range(replications)]
    return float(np.mean([job.start_s - job.submitted_s for jobs in found for job in jobs.values()]))


def test_a_job_runs_once_whatever_requests_are_redundant(made: Callable[..., Scenario]) -> None:
    scenario = made(["everywhere"], 8.0, transfers=late(6.0))
    jobs = ran(scenario, "everywhere")
    assert len(jobs) == 80
    assert {job.cluster for job in jobs.values()} == {"a", "b"}
    facts = scenario.run(RunKey(0, 0, "everywhere")).facts
    moved = facts.filter(pl.col("event") == Fact.JOB_MOVED)
    assert sorted(moved["job"]) == sorted(jobs), "each job left the one queue where it did not start"
    elsewhere = {f"it has started on {name}" for name in "ab"} | {"it has started elsewhere"}
    assert set(moved["detail"]) == elsewhere
    told = sentence(moved.row(0, named=True), ["a/n1", "b/n1", "a", "b"])
    assert told.startswith(f"job {moved['job'][0]} leaves the queue of ")


def test_a_job_that_starts_elsewhere_at_once_has_arrived_before(made: Callable[..., Scenario]) -> None:
    scenario = made(["round_robin"], cores=4, workload={"jobs": 4, "mix": {"small": 1.0}})
    facts = scenario.run(RunKey(0, 0, "round_robin")).facts.with_row_index()
    place = {
        fact: dict(facts.filter(pl.col("event") == fact).select("job", "index").iter_rows())
        for fact in (Fact.JOB_ARRIVED, Fact.RUN_STARTED)
    }
    assert set(place[Fact.RUN_STARTED]) == {*range(8)}
    assert [n for n, at in place[Fact.RUN_STARTED].items() if at < place[Fact.JOB_ARRIVED][n]] == []


def test_policies_differ_in_what_moves_and_runs_are_repeatable(made: Callable[..., Scenario]) -> None:
    scenario = made(["home", "round_robin"])
    home, again = (scenario.run(RunKey(0, 0, "home")).facts for _ in range(2))
    assert home.equals(again)
    assert not len(home.filter(pl.col("event") == Fact.JOB_MOVED))
    assert all(job.home == job.cluster for job in ran(scenario, "home").values())
    alternating = [job.cluster for _, job in sorted(ran(scenario, "round_robin").items())]
    assert alternating == ["a", "b"] * 40


def test_a_cluster_that_keeps_its_jobs_runs_them_as_if_it_were_alone(made: Callable[..., Scenario]) -> None:
    exact = {"kind": "exact"}
    both = {"run_times": exact, "mix": {"small": 1, "wide": 1}, "schedulers": ("easy", "fcfs"), "cores": 3}
    scenario = made(["home"], 4.0, **both)
    apart = [job for job in ran(scenario, "home").values() if job.home == "a"]
    first = next(iter(scenario.members.values()))  # type: ignore[attr-defined]
    alone = first.run(RunKey(0, 0, "easy")).facts
    starts_s = alone.filter(pl.col("event") == Fact.RUN_STARTED)["time_s"].to_list()
    assert sorted(job.start_s for job in apart) == starts_s


def test_random_choice_splits_a_poisson_process(made: Callable[..., Scenario]) -> None:
    """Half of two Poisson processes is one of the same rate, at each of two M/M/1 queues."""
    scenario = made({"random": sil.factory(Random)}, jobs=400)
    jobs = ran(scenario, "random")
    share = np.mean([job.cluster == "a" for job in jobs.values()])
    assert share == pytest.approx(0.5, abs=4 * 0.5 / len(jobs) ** 0.5)
    gaps_s = np.diff([job.submitted_s for job in jobs.values() if job.cluster == "a"])
    assert np.std(gaps_s) / np.mean(gaps_s) == pytest.approx(1.0, abs=0.2)
    lag = np.corrcoef(gaps_s[:-1], gaps_s[1:])[0, 1]
    assert abs(lag) < 4 / len(gaps_s) ** 0.5


@pytest.mark.long
def test_mean_waits_of_two_queues_are_those_of_queueing_theory(made: Callable[..., Scenario]) -> None:
    """Arrivals of rate 0.1/s in all, two servers of rate 0.1/s: each half loaded. Splitting: M/M/1 waits of
    10 s; one queue for both: M/M/2 waits of 10/3 s; the shortest queue: 4.26 s (flow time 1.426 of a service
    time, Flatto and McKean 1977; Adan, Wessels and Zijm 1990), between the two bounds."""
    scenario = made(["home", "fewest_jobs"], SLOW, jobs=3000)
    apart, shortest = (mean_wait_s(scenario, policy, 3) for policy in ("home", "fewest_jobs"))
    assert apart == pytest.approx(10.0, rel=0.12)
    assert 10 / 3 < shortest < apart
    assert shortest == pytest.approx(4.26, rel=0.12)


def test_redundant_requests_to_queues_in_order_are_one_queue_for_both(made: Callable[..., Scenario]) -> None:
    """Each job starts as in M/M/2: on the first server that is free, in order of arrival."""
    jobs = ran(made(["everywhere"], 12.0), "everywhere")
    free_s = [0.0, 0.0]
    for _, job in sorted(jobs.items()):
        k = int(np.argmin(free_s))
        assert job.start_s == pytest.approx(max(free_s[k], job.submitted_s))
        free_s[k] = job.end_s


@pytest.mark.parametrize(
    ("how", "rule", "says"),
    [
        ("raises", "raises-nothing", "KeyError"),
        ("none", "no-job-forgotten", "job 2 is sent to no cluster"),
        ("unknown", "known-nodes", "job 2 is sent to a cluster that is none of 2"),
        ("twice", "one-task-on-each-node", "job 2"),
        ("nothing", "returns-a-schedule", "returned None"),
        ("again", "each-job-once", "job 2"),
        ("changes", "problem-untouched", "changed 'clusters'"),
        ("slow", "returns-in-time", "did not return within 0.2 s"),
    ],
)
@pytest.mark.parametrize("isolated", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_policy_that_breaks_a_rule_is_named_with_rule_job_and_time(
    made: Callable[..., Scenario], how: str, rule: str, says: str, isolated: bool
) -> None:
    given, guard = {"wrong": sil.factory(Wrong, how=how), "home": "home"}, {"decision_limit_s": 0.2}
    scenario = made(given, guard=guard, isolated=isolated)
    facts = scenario.run(RunKey(0, 0, "wrong")).facts
    (fault,) = faults(facts).to_dicts()
    assert (fault["rule"], fault["job"]) == (rule, 2)
    assert says in fault["message"]
    arrived = facts.filter((pl.col("event") == Fact.JOB_ARRIVED) & (pl.col("job") == 2))
    assert fault["time_s"] == arrived["time_s"][0]
    assert len(ran(scenario, "home")) == 80, "another policy goes on"


def test_the_description_of_a_run_has_the_workload_of_each_cluster(made: Callable[..., Scenario]) -> None:
    drawn = "arrivals poisson, classes random"
    assert describe(made(["home"], jobs=7)).workload == f"a: 7 jobs, {drawn}; b: 7 jobs, {drawn}"


def test_what_does_not_fit_several_clusters_is_said_with_its_place(made: Callable[..., Scenario]) -> None:
    with pytest.raises(DoesNotFit, match=r"cluster 'b': .*olb"):
        made(["home"], schedulers=("fcfs", "olb"))
    with pytest.raises(DoesNotFit, match=r"cluster 'b': .*[Ss]lurm"):
        made(["home"], schedulers=("fcfs", "slurm"))
    with pytest.raises(DoesNotFit, match=r"'easy' starts jobs on free nodes .* sends jobs to"):
        made(["easy"])
    with pytest.raises(DoesNotFit, match="outages has no effect with several clusters; leave it out"):
        made(["home"], outages=[{"machine": "n1", "from_s": 0, "to_s": 1}])
    with pytest.raises(ValueError, match=r"transfers.seconds: 'c' is no cluster; expected a, b"):
        made(["home"], transfers={"seconds": {"c": {"a": 1}}})
    with pytest.raises(DoesNotFit, match="there is no job class 'smal'; expected one of small, wide"):
        made(["home"], transfers={"data": {"smal": {"input_mb": 1}}})
    with pytest.raises(ValueError, match=r"cost is one of"):
        made(["ranked(cost=price)"])


LINES = """
[[interconnects]]
name = "wan"
bandwidth_mbit_per_s = {speed}
latency_us = 500_000
[[interconnects]]
name = "{own}"
bandwidth_mbit_per_s = 100_000
[[clusters]]
name = "nodes"
members = ["n1"]
interconnects = ["wan", "{own}"]
"""


@pytest.fixture
def connected(tmp_path: Path) -> Callable[..., Scenario]:
    """Makes scenarios of clusters "a" and "b", whose sites have a line in common, and state where jobs of the
    class "small" have their data."""

    def make(data: str, policy: str = "home", **others: Any) -> Scenario:
        for own, speed in (("a", 800), ("b", 400)):
            site = SITE.format(cores=1).replace('name = "small"', f'name = "small"\ndata = {data}')
            (tmp_path / f"{own}.toml").write_text(site + LINES.format(own=own, speed=speed))
        experiment = Experiment.model_validate(
            {
                "name": "connected", "site": "a.toml", "schedulers": [policy],
                "clusters": [{"name": n, "scheduler": "fcfs", "site": f"{n}.toml"} for n in "ab"],
                "workload": {"jobs": 1, "mix": {"small": 1}},
                **others,
            }
        )  # fmt: skip
        return scenario_of(experiment, SiteSource(experiment, tmp_path, None).snapshot(tmp_path / "site.db"))

    return make


@pytest.mark.parametrize(
    ("data", "transfers", "input_s", "output_s"),
    [
        # 1,000 MB at the slower end of the line that both have, 400 Mbit/s, after half a second
        ("{ input_mb = 1000 }", {}, (0, 20.5, 20.5), (0, 0, 0)),
        ("{ input_mb = 1000, output_mb = 50 }", {}, (0, 20.5, 20.5), (0, 1.5, 1.5)),
        # they are at "b", whoever submits the job
        ("{ input_mb = 1000, output_mb = 50, at = 'b' }", {}, (20.5, 0, 20.5), (1.5, 0, 1.5)),
        ("{ input_mb = 1000, at = 'tapes' }", {}, (0, 20.5, 20.5), (0, 0, 0)),
        ("{ input_mb = 1000 }", {"seconds": {"a": {"b": 2}}}, (0, 22.5, 20.5), (0, 0, 0)),
        ("{ output_mb = 0 }", {"seconds": {"a": {"b": 2}}}, (0, 2, 0), (0, 0, 0)),
        # what the experiment states comes first
        ("{ input_mb = 1000 }", {"bandwidth_mbit_per_s": 80}, (0, 100, 100), (0, 0, 0)),
        ("{ at = 'b' }", {"data": {"small": {"input_mb": 100}}}, (0, 2.5, 2.5), (0, 0, 0)),
    ],
)
def test_data_follow_a_job_over_the_line_that_two_clusters_have_in_common(
    connected: Callable[..., Scenario], data: str, transfers: dict[str, Any],
    input_s: tuple[float, ...], output_s: tuple[float, ...],
) -> None:  # fmt: skip
    """From "a" to itself and to "b", and from "b" to "a"."""
    scenario: Any = connected(data, transfers=transfers)
    job = scenario.arriving()[0][0]
    found = zip(*(scenario.transfers.seconds(job, *way) for way in ("aa", "ab", "ba")), strict=True)
    assert [*found] == [pytest.approx(input_s), pytest.approx(output_s)]
    notes = [note for note in scenario.notes() if "at no cluster here (first: 'small', at 'tapes')" in note]
    assert len(notes) == ("tapes" in data)
    if data == "{ input_mb = 1000, output_mb = 50 }":
        said = "Data of a job: small 1,000 MB in, 50 MB out; 1,000 MB take 20.5 s from one cluster to another"
        assert said in scenario.notes()
        assert said in scenario.model["nodes"]


def test_of_a_site_in_a_database_the_data_of_jobs_are_those_that_were_recorded(
    connected: Callable[..., Scenario], tmp_path: Path
) -> None:
    """An experiment on that site alone does not know them: it is the same when it is resumed later."""
    connected("{}")
    site = importing.read_site_file(tmp_path / "a.toml")
    address = store.parse_address(str(tmp_path / "lab.db"))
    engine = store.create(address)
    with store.changing(engine) as session:
        unknown = tuple(each.model_copy(update={"data": None}) for each in site.job_classes)
        importing.put_site(session, site.model_copy(update={"job_classes": unknown}))
    alone = {"name": "alone", "site": "lab", "schedulers": ["fcfs"], "workload": {"jobs": 1}}
    source = SiteSource(Experiment.model_validate(alone), tmp_path, address)
    before = source.snapshot(tmp_path / "results.db").digest()
    with store.changing(engine) as session:
        job = JobRecord("1", "small", "ann", "day", JobState.DONE, 0.0, "n1", None, 0.0, 9.0, input_mb=1000.0)
        JobWriter(session, site.name).add(session, LIVE, [replace(job, data_at="b")])
    resumed = source.resume(tmp_path / "results.db")
    assert resumed is not None
    assert resumed.digest() == before
    clusters = [{"name": n, "scheduler": "fcfs", "site": "lab.db"} for n in "ab"]
    scenario: Any = connected("{}", clusters=clusters)
    job = scenario.arriving()[0][0]
    found = [scenario.transfers.seconds(job, *way)[0] for way in ("aa", "ab")]
    assert found == [0.08, 0.0]  # by the better line
    engine.dispose()


def test_clusters_of_which_one_lacks_a_job_class_are_refused_with_its_name(
    connected: Callable[..., Scenario], tmp_path: Path
) -> None:
    connected("{}")
    (tmp_path / "c.toml").write_text(
        (tmp_path / "b.toml").read_text().replace('name = "wide"', 'name = "flat"')
    )
    clusters = [{"name": n, "scheduler": "fcfs", "site": f"{n}.toml"} for n in "abc"]
    with pytest.raises(DoesNotFit) as caught:
        connected("{}", clusters=clusters)
    sentence = "cluster 'c': clusters have the same job classes, and not all have 'flat' and 1 more"
    assert caught.value.mistakes == [(("clusters", 2), sentence)]


def test_without_a_line_in_common_data_take_one_gigabit_per_second(made: Callable[..., Scenario]) -> None:
    scenario: Any = made(["home"], transfers={"data": {"small": {"input_mb": 1000}}})
    assert scenario.transfers.seconds(scenario.arriving()[0][0], "a", "b") == (8.0, 0.0)


def test_a_job_waits_at_home_for_data_that_are_elsewhere(connected: Callable[..., Scenario]) -> None:
    scenario = connected("{ input_mb = 1000, at = 'b' }")
    waits_s = {job.home: job.start_s - job.submitted_s for job in ran(scenario, "home").values()}
    assert waits_s == pytest.approx({"a": 20.5, "b": 0.0})
    facts = scenario.run(RunKey(0, 0, "home")).facts
    moved = facts.filter(pl.col("event") == Fact.JOB_MOVED).select("time_s", "detail").rows()
    assert moved == [(0.0, "until its data are here")], "it is in no queue meanwhile"


@pytest.mark.parametrize(("output_mb", "leave"), [(10, True), (50_000, False)])
def test_jobs_leave_a_busy_cluster_unless_their_output_takes_longer_than_the_wait(
    connected: Callable[..., Scenario], output_mb: int, leave: bool
) -> None:
    """Of ten jobs at once, the last waits for 900 s by their limits; 50 GB take 1,000 s back."""
    data, jobs = f"{{ output_mb = {output_mb} }}", {"jobs": 10, "mix": {"small": 1}}
    scenario = connected(data, "shortest_turnaround", workload=jobs)
    busy = {job.cluster for job in ran(scenario, "shortest_turnaround").values() if job.home == "a"}
    assert busy == ({"a", "b"} if leave else {"a"})
