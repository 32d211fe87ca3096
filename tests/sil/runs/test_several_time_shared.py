"""Time-shared clusters under a meta-scheduler, alone, together and beside nodes of partitions, against closed
forms and an independent simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sil.outcome.metrics import faults
from sil.runs.scenario import Scenario, scenario_of
from sil.runs.simulation import RunKey
from sil.settings.experiment_file import Experiment
from sil.site.site_in_use import SiteSource
from sil.trace.facts import Fact, RunTables

WORK_S = {"lab": {"short": 6.0, "long": 25.0}, "farm": {"short": 9.0, "long": 20.0}}
"""How long jobs of each class run alone, by the kind of site."""
SITE = """
name = "{kind}"
machine_classes = [{{ name = "cpu" }}]
[[machines]]
names = ["n1"]
machine_class = "cpu"
processors = {places}
memory_mb = 4000
{rest}
"""
REST = {
    "farm": '[[partitions]]\nname = "all"\nnodes = ["n1"]\n',
    "lab": '[[clusters]]\nname = "shared"\nmembers = ["n1"]\n'
    "[clusters.social_contract]\nmost_jobs = {places}\nmost_cpu = {places}.0\n",
}
JOB_CLASS = """
[[job_classes]]
name = "{name}"
request = {{ cores = 1, time_limit_s = {farm_s} }}
sequential_s = {{ cpu = {farm_s} }}
in_isolation = [{{ tasks = 1, exe_s = {lab_s}, cpu = 0.5, memory_mb = 10 }}]
"""
BY_MPL = {"cluster": "shared", "sharing": "by_mpl", "predictors": ["aware mpl-mpl"]}


class Place(NamedTuple):
    """A cluster: a node that `places` jobs share, each at the same rate, or of as many cores."""

    name: str
    kind: str
    places: int


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Scenario]:
    folder = tmp_path_factory.mktemp("sites")

    def make(clusters: Sequence[Place], policies: list[str], shared: Any = BY_MPL, **others: Any) -> Scenario:
        tables = []
        for name, kind, places in clusters:
            text = SITE.format(kind=kind, places=places, rest=REST[kind].format(places=places))
            for job_class in ("short", "long"):
                lab_s, farm_s = WORK_S["lab"][job_class], WORK_S["farm"][job_class]
                text += JOB_CLASS.format(name=job_class, lab_s=lab_s, farm_s=farm_s)
            (folder / f"{kind}{places}.toml").write_text(text)
            table = {"name": name, "site": f"{kind}{places}.toml", "scheduler": "fcfs"}
            tables.append(table | ({"scheduler": "normal", "shared_nodes": shared} if kind == "lab" else {}))
        come = {"kind": "poisson", "jobs_per_quantum": 1, "quantum_s": 20}
        experiment = Experiment.model_validate(
            {
                "name": "clusters",
                "site": tables[0]["site"],
                "schedulers": policies,
                "clusters": tables,
                "workload": {"jobs": 30, "arrivals": come, "mix": {"short": 2, "long": 1}},
                **others,
            }
        )
        return scenario_of(experiment, SiteSource(experiment, folder, None).snapshot(folder / "site.db"))

    return make


def ran(scenario: Scenario, policy: str) -> RunTables:
    tables = scenario.run(RunKey(0, 0, policy))
    assert not len(faults(tables.facts)), faults(tables.facts)["message"].to_list()
    return tables


def ends(scenario: Scenario, policy: str) -> dict[int, tuple[float, float, str]]:
    """When each job starts and ends, and where."""
    names = scenario.resources.names
    rows = ran(scenario, policy).facts.select("event", "job", "time_s", "resource")
    started = {job: (s, names[k]) for job, s, k in rows.filter(event=Fact.RUN_STARTED).drop("event").rows()}
    return {
        job: (started[job][0], end_s, started[job][1])
        for _, job, end_s, _ in rows.filter(event=Fact.RUN_ENDED).rows()
    }


class Queue:
    """A cluster in the independent simulation: jobs in order of arrival, `places` of them at a time, at a
    rate that depends on how many run."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.waiting: dict[int, tuple[float, float]] = {}
        """When each job is there, and its work."""
        self.left: dict[int, float] = {}

    def copied(self) -> Queue:
        other = Queue(self.place)
        other.waiting, other.left = dict(self.waiting), dict(self.left)
        return other

    @property
    def rate(self) -> float:
        return 1.0 / max(1, len(self.left)) if self.place.kind == "lab" else 1.0

    def next_s(self, now_s: float) -> float:
        ends_s = [now_s + min(self.left.values()) / self.rate] if self.left else []
        return min([inf, *ends_s, *(at_s for at_s, _ in self.waiting.values() if at_s > now_s)])

    def advance(self, seconds: float) -> list[int]:
        """The jobs that have ended after a time in which nothing else happens."""
        done = seconds * self.rate
        self.left = {job: left - done for job, left in self.left.items()}
        over = [job for job, left in self.left.items() if left < 1e-9]
        for job in over:
            del self.left[job]
        return over

    def startable(self, now_s: float) -> int | None:
        here = sorted((at_s, job) for job, (at_s, _) in self.waiting.items() if at_s <= now_s)
        return here[0][1] if here and len(self.left) < self.place.places else None

    def start(self, job: int) -> None:
        _, self.left[job] = self.waiting.pop(job)

    def forecast(self, job: int, now_s: float, at_s: float, work_s: float) -> tuple[float, float]:
        """Its start and end if nothing else comes. CISNE's predictor has all jobs there at once, and what
        comes later than its start as much later."""
        is_lab, ahead, start_s, time_s = self.place.kind == "lab", self.copied(), inf, now_s
        ahead.waiting[job] = at_s, work_s
        if is_lab:
            ahead.waiting = {n: (now_s - 1e-6 / (1 + at), work) for n, (at, work) in ahead.waiting.items()}
        while True:
            while (first := ahead.startable(time_s)) is not None:
                ahead.start(first)
                start_s = time_s if first == job else start_s
            next_s = ahead.next_s(time_s)
            over, time_s = ahead.advance(next_s - time_s), next_s
            if job in over:
                late_s = max(0.0, at_s - start_s) if is_lab else 0.0
                return start_s + late_s, time_s + late_s


def simulated(
    submitted: dict[int, tuple[float, str, str]], clusters: Sequence[Place], policy: str, transfer_s: float
) -> dict[int, tuple[float, float, str]]:
    queues, turn = [Queue(place) for place in clusters], count()
    started: dict[int, tuple[float, str]] = {}
    found: dict[int, tuple[float, float, str]] = {}
    to_come, now_s = sorted((at_s, job) for job, (at_s, *_) in submitted.items()), 0.0
    while len(found) < len(submitted):
        next_s = min([*(queue.next_s(now_s) for queue in queues), *(at_s for at_s, _ in to_come[:1])])
        for queue in queues:
            for job in queue.advance(next_s - now_s):
                found[job] = (started[job][0], next_s, queue.place.name)
        now_s = next_s
        while to_come and to_come[0][0] <= now_s:
            _, job = to_come.pop(0)
            _, job_class, home = submitted[job]
            costs = []
            for k, queue in enumerate(queues):
                late_s, work_s = transfer_s * (queue.place.name != home), WORK_S[queue.place.kind][job_class]
                start_s, end_s = queue.forecast(job, now_s, now_s + late_s, work_s)
                work = sum(queue.left.values()) + sum(work_s for _, work_s in queue.waiting.values())
                load = work / (queue.place.places if queue.place.kind == "farm" else 1)
                n_jobs = len(queue.left) + len(queue.waiting)
                cost = {"start": start_s, "end": end_s, "load": load, "jobs": n_jobs, "all": 0.0}[policy]
                costs.append((cost, late_s, k, now_s + late_s, work_s))
            for *_, k, at_s, work_s in sorted(costs)[: None if policy == "all" else 1]:
                queues[k].waiting[job] = at_s, work_s
        while (starts := [q for q in queues if q.startable(now_s) is not None]) and next(turn) >= 0:
            first = starts[0].startable(now_s)
            assert first is not None
            starts[0].start(first)
            started[first] = now_s, starts[0].place.name
            for queue in queues:
                queue.waiting.pop(first, None)
    return found


POLICIES = {
    "earliest_start": "start",
    "shortest_turnaround": "end",
    "least_load": "load",
    "fewest_jobs": "jobs",
    "everywhere": "all",
}
MIXTURES = {
    "two shared": (Place("a", "lab", 3), Place("b", "lab", 2)),
    "mixed": (Place("a", "lab", 3), Place("b", "farm", 2)),
    "three": (Place("a", "farm", 1), Place("b", "lab", 2), Place("c", "farm", 1)),
}


def assert_agrees(scenario: Scenario, clusters: Sequence[Place], policy: str, transfer_s: float) -> None:
    homes = scenario.arriving()  # type: ignore[attr-defined]
    submitted = {
        job.id: (
            job.arrival_s,
            job.job_class,
            clusters[next(k for k, at in enumerate(homes[1]) if job.id in at)].name,
        )
        for job in homes[0]
    }
    expected, there = simulated(submitted, clusters, POLICIES[policy], transfer_s), ends(scenario, policy)
    assert {n: where for n, (*_, where) in expected.items()} == {n: where for n, (*_, where) in there.items()}
    for n, times in enumerate(("starts", "ends")):
        found = {job: of[n] for job, of in there.items()}
        assert {job: of[n] for job, of in expected.items()} == pytest.approx(found, abs=1e-6), times


def late(clusters: Sequence[Place], transfer_s: float) -> dict[str, Any]:
    names = [place.name for place in clusters]
    return {"seconds": {x: {y: transfer_s for y in names if y != x} for x in names}}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("mixture", MIXTURES)
def test_jobs_run_where_and_when_an_independent_simulation_has_them(
    made: Callable[..., Scenario], policy: str, mixture: str
) -> None:
    clusters = MIXTURES[mixture]
    scenario = made(clusters, [policy], transfers=late(clusters, 7.0))
    assert_agrees(scenario, clusters, policy, 7.0)


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    policy=st.sampled_from([*POLICIES]),
    kinds=st.lists(st.tuples(st.sampled_from(["lab", "farm"]), st.integers(1, 4)), min_size=1, max_size=3),
    transfer_s=st.sampled_from([0.0, 3.0, 40.0]),
    mean_s=st.floats(5.0, 40.0),
)
def test_they_do_so_in_any_workload(
    made: Callable[..., Scenario], seed: int, policy: str, kinds: list[tuple[str, int]], transfer_s: float,
    mean_s: float,
) -> None:  # fmt: skip
    clusters = [Place(name, *kind) for name, kind in zip("abc", kinds, strict=False)]
    come = {"kind": "poisson", "jobs_per_quantum": 1, "quantum_s": mean_s}
    workload = {"jobs": 25, "arrivals": come, "mix": {"short": 1, "long": 1}}
    scenario = made(clusters, [policy], transfers=late(clusters, transfer_s), seed=seed, workload=workload)
    assert_agrees(scenario, clusters, policy, transfer_s)


@pytest.mark.parametrize("sharing", ["fluid", "detailed"])
@pytest.mark.parametrize("policy", ["home", "shortest_turnaround"])
def test_one_cluster_under_a_meta_scheduler_is_that_cluster_alone(
    tmp_path: Path, policy: str, sharing: str
) -> None:
    """Every fact, prediction and response to local users: what the meta-scheduler asks changes nothing."""
    shared = {
        "cluster": "laboratory",
        "sharing": sharing,
        "local_users": {"share_of_nodes": 0.5},
        "limits": {"times_alone": (1.0, 4.0), "unkept": "refused"},
    }
    experiment = Experiment.model_validate(
        {
            "name": "one",
            "site": "cisne-2006",
            "schedulers": [policy],
            "clusters": [{"name": "laboratory", "scheduler": "normal_easy"}],
            "workload": {"jobs": 12, "arrivals": {"kind": "poisson", "jobs_per_quantum": 1, "quantum_s": 5}},
            "shared_nodes": shared,
            "failures": {"mean_time_between_failures_s": 900, "mean_time_to_repair_s": 30},
        }
    )
    scenario = scenario_of(experiment, SiteSource(experiment, tmp_path, None).snapshot(tmp_path / "site.db"))
    (member,) = scenario.members.values()  # type: ignore[attr-defined]
    together, alone = ran(scenario, policy), ran(member, "normal_easy")
    assert {Fact.PROMISED, Fact.JOB_REFUSED, Fact.LOCAL_USER_CAME} <= {*alone.facts["event"]}
    for name, table in alone._asdict().items():
        here = getattr(together, name).drop("scheduler", "resource", strict=False)
        if name != "timings":
            assert here.equals(table.drop("scheduler", "resource", strict=False)), name


def test_jobs_that_come_together_share_the_nodes_they_are_sent_to(made: Callable[..., Scenario]) -> None:
    """Eight equal jobs on two nodes that each share among four: all end after four times their work."""
    both = (Place("a", "lab", 4), Place("b", "lab", 4))
    workload = {"jobs": 4, "mix": {"short": 1}, "arrivals": {"kind": "at_once"}}
    for policy in ("home", "fewest_jobs", "shortest_turnaround"):
        found = ends(made(both, [policy], workload=workload), policy)
        assert [round(end_s, 6) for _, end_s, _ in found.values()] == [24.0] * 8, policy


@pytest.mark.long
def test_mean_turnarounds_at_half_load_are_those_of_processor_sharing(made: Callable[..., Scenario]) -> None:
    """M/G/1-PS: twice the mean work, whatever its distribution, where jobs stay; less where they may not."""
    both = (Place("a", "lab", 1000), Place("b", "lab", 1000))
    mean_s = (2 * 6.0 + 25.0) / 3
    come = {"kind": "poisson", "jobs_per_quantum": 1, "quantum_s": 2 * mean_s}
    workload = {"jobs": 4000, "arrivals": come, "mix": {"short": 2, "long": 1}}
    scenario = made(both, ["home", "fewest_jobs"], {**BY_MPL, "predictors": []}, workload=workload)
    apart, shortest = (
        float(np.mean([end_s - submitted[job] for job, (_, end_s, _) in ends(scenario, policy).items()]))
        for policy in ("home", "fewest_jobs")
        for submitted in [{job.id: job.arrival_s for job in scenario.arriving()[0]}]  # type: ignore[attr-defined]
    )
    assert apart == pytest.approx(2 * mean_s, rel=0.08)
    assert mean_s / 0.75 < shortest < 0.85 * apart


def test_a_job_is_due_when_its_user_said_wherever_it_runs(made: Callable[..., Scenario]) -> None:
    """What a cluster promises counts from the submission, also of a job whose data take time to follow."""
    clusters = (Place("a", "lab", 3), Place("b", "lab", 2))
    shared = BY_MPL | {"limits": {"times_alone": (5.0, 9.0), "unkept": "refused"}}
    scenario = made(clusters, ["round_robin"], shared, transfers=late(clusters, 7.0))
    facts = ran(scenario, "round_robin").facts
    jobs, homes = scenario.arriving()  # type: ignore[attr-defined]
    first = next(iter(scenario.members.values()))  # type: ignore[attr-defined]
    limits_s = {job.id: job.limit_s for job in replace(first, submitted=jobs).jobs()}
    promised = dict(facts.filter(pl.col("event") == Fact.PROMISED).select("job", "expected_s").rows())
    assert promised == pytest.approx({job: limits_s[job] for job in promised})
    ran_at = ends(scenario, "round_robin").items()
    n_elsewhere = sum(job in promised and job not in homes["ab".index(where)] for job, (*_, where) in ran_at)
    assert 0 < n_elsewhere < len(promised)
