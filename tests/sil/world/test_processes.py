"""Time-shared nodes in detail: the schedule of processes, and what becomes of jobs and users."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from math import log
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from scheduler.coscheduling.core.dynamic_priority import IN_KERNEL, NO_PRIORITY, DynamicPriority
from scheduler.coscheduling.daemon import Coscheduler
from scheduler.model import Job, JobId
from scheduler.time_shared.loras import Loras
from sil.runs.on_time_shared import TimeSharedSystem, built_in_characterisations
from sil.runs.simulation import RunKey
from sil.trace.facts import Fact, RunTables
from sil.world.actual_runtimes import RandomStreams, Variation
from sil.world.processes.core.codes import CFS, LINUX_2_4, SECOND
from sil.world.processes.core.programs import Program, Programs
from sil.world.processes.model import SIZES, CpuScheduler, NodeModel, Traffic, nas_traffic
from sil.world.time_shared_cluster import LocalUsers, TimeSharedCluster
from tests.examples import up_to
from tests.oracles import oracle
from tests.plain_python import in_plain_python
from tests.sil.world.reference_nodes import ReferenceNodes, Tie

NPB = built_in_characterisations()
KINDS = [(name, tasks) for name, sizes in NPB.sizes().items() for tasks in sizes]
MILLISECOND = 1_000_000


class NoDaemons:
    def sampled(self, node: int) -> None: ...

    def delivered(self, message: int) -> None: ...

    def draws(self, node: int) -> Any:
        return np.ones(8)


def nodes(
    n: int,
    policy: int = LINUX_2_4,
    cost: int = 0,
    dynamic: DynamicPriority = NO_PRIORITY,
    paging: float = 0.0,
) -> Programs:
    return Programs(n, policy, (cost, 0), dynamic, NoDaemons(), paging)


def run_all(programs: Programs, jobs: Sequence[tuple[Program, Sequence[int]]]) -> list[int]:
    """When the jobs end."""
    numbers = [programs.begin(program, list(where)) for program, where in jobs]
    ended: dict[int, int] = {}
    while len(ended) < len(jobs):
        now = programs.run(10**15)
        assert programs.ended, "no job can go on"
        ended |= dict.fromkeys(programs.ended, now)
        programs.ended.clear()
        programs.has_news = False
    return [ended[j] for j in numbers]


def computing(seconds: float) -> Program:
    return Program(1, round(seconds * SECOND), 0, 0, 1, 0)


PLACES = [(0,), (1,), (0, 1), (1, 2), (0, 2), (0, 1, 2, 3)]
SmallJob = tuple[int, int, int, tuple[int, ...]]


def small_jobs(seed: int) -> list[SmallJob]:
    """Of times that no two events share, since their order would decide."""
    rng = np.random.default_rng(seed)
    return [
        (
            int(rng.integers(1, 7)),
            int(rng.integers(1_000_000, 400_000_000)),
            int(rng.integers(1_000_000, 90_000_000)),
            PLACES[int(rng.integers(len(PLACES)))],
        )
        for _ in range(int(rng.integers(1, 5)))
    ]


jobs_on_nodes = st.integers(0, 10**9).map(small_jobs)


@given(jobs=jobs_on_nodes, fair=st.booleans(), cost=st.sampled_from([0, 104_729]))
@settings(max_examples=up_to(150), deadline=None)
def test_processes_are_scheduled_as_by_an_independent_reference(
    jobs: list[SmallJob], fair: bool, cost: int
) -> None:
    programs = nodes(4, CFS if fair else LINUX_2_4, cost)
    given_jobs = [(Program(k, cpu, wire, 0, 1, 0), where) for k, cpu, wire, where in jobs]
    try:
        expected = ReferenceNodes(4, jobs, fair, cost).ends()
    except Tie:
        reject()
    assert run_all(programs, given_jobs) == expected


@pytest.mark.parametrize(
    ("policy", "nice", "share"),
    [(LINUX_2_4, 10, 3 / 9), (LINUX_2_4, 19, 1 / 7), (CFS, 10, 110 / 1134), (CFS, 1, 820 / 1844)],
)
def test_two_processes_that_compute_share_a_cpu_by_their_nice_values(
    policy: int, nice: int, share: float
) -> None:
    programs = nodes(1, policy)
    _, second = (programs.begin(computing(1_000), [0]) for _ in range(2))
    (process,) = programs.members[second]
    programs.set_nice(process, nice)
    programs.run(900 * SECOND)
    assert programs.used_by(process) / (900 * SECOND) == pytest.approx(share, rel=0.002)


@given(jobs=jobs_on_nodes, fair=st.booleans(), spins=st.sampled_from([0, 3 * MILLISECOND]))
@settings(max_examples=up_to(60), deadline=None)
def test_what_a_cpu_does_adds_up_to_the_time(jobs: list[SmallJob], fair: bool, spins: int) -> None:
    programs = nodes(4, CFS if fair else LINUX_2_4, 104_729, IN_KERNEL)
    for k, cpu, wire, where in jobs:
        programs.begin(Program(k, cpu, wire, wire // (3 * k), 3_000, spins), list(where))
    programs.run(70 * MILLISECOND)
    rows = [row for members in programs.members.values() for row in members]
    for n in range(4):
        for row in rows:
            if programs.node[row] == n and row != programs.current[n]:
                programs.used_by(row)  # accounts for the node until now
        there = [row for row in rows if programs.node[row] == n]
        did = sum(programs.used[row] + programs.spun[row] for row in there)
        if there:
            assert programs.idle[n] + programs.overhead[n] + did == programs.since[n]


FINE = Program(400, 400 * MILLISECOND, 200 * MILLISECOND, 0, 14_600, 0)


def test_a_task_that_waits_for_one_which_is_not_scheduled_loses_its_time() -> None:
    (alone,) = run_all(nodes(2), [(FINE, (0, 1))])
    fine, _ = run_all(nodes(2, cost=MILLISECOND), [(FINE, (0, 1)), (computing(3.0), (1,))])
    assert alone == 600 * MILLISECOND
    assert fine > 1.5 * alone


def test_packets_let_a_process_preempt_another_one_with_a_higher_priority() -> None:
    def ends(dynamic: DynamicPriority) -> int:
        programs = nodes(2, dynamic=dynamic)
        job = programs.begin(FINE._replace(bytes=60_000), [0, 1])
        programs.begin(computing(30.0), [1])
        programs.set_nice(programs.members[job][1], 10)
        return programs.run(10**15)

    assert ends(IN_KERNEL) < 0.7 * ends(NO_PRIORITY)


def test_spinning_uses_the_cpu_that_others_need() -> None:
    spinning = FINE._replace(spins=5 * MILLISECOND)
    _, other = run_all(nodes(2), [(FINE, (0, 1)), (computing(1.0), (1,))])
    _, beside_spinning = run_all(nodes(2), [(spinning, (0, 1)), (computing(1.0), (1,))])
    assert beside_spinning > other


def test_messages_of_a_node_leave_one_after_the_other() -> None:
    sends = Program(1, 2, SECOND, SECOND // 2, 1, 0)
    assert run_all(nodes(4), [(sends, (0, 1)), (sends, (0, 2))]) == [2 + SECOND, 2 + SECOND + SECOND // 2]


def test_processes_wait_for_the_disk_where_memory_is_short() -> None:
    programs = nodes(1, paging=10.0)
    programs.over[0] = 0.25
    assert run_all(programs, [(computing(1.0), (0,))]) == [round(3.5 * SECOND)]


def test_a_stopped_process_does_nothing_and_then_goes_on() -> None:
    programs = nodes(2)
    job = programs.begin(FINE, [0, 1])
    programs.run(99_500_000)
    programs.stop(programs.members[job][0])
    programs.run(1_099_500_000)
    programs.resume(programs.members[job][0])
    assert programs.run(10**15) == 1_600 * MILLISECOND


def test_a_user_asks_thinks_and_gets_an_answer() -> None:
    programs = nodes(1)
    user = programs.add_user(0, 100 * MILLISECOND)
    programs.set_demand(user, 0.5)
    programs.run(950 * MILLISECOND)
    assert len(programs.responses) == 5
    assert {took for _, took, _ in programs.responses} == {100 * MILLISECOND}
    programs.set_demand(user, 0.0)
    programs.run(2 * SECOND)
    assert len(programs.responses) == 5


# -- in runs -----------------------------------------------------------------------------------------------


def run(model: NodeModel, kinds: Sequence[tuple[str, int]], users: float = 0.0, seed: int = 1) -> RunTables:
    cluster = TimeSharedCluster(
        local_load=LocalUsers(users) if users else None, run_to_run=Variation(), in_detail=model
    )
    jobs = [Job(JobId(i), name, 2.0 * i, n_tasks=tasks) for i, (name, tasks) in enumerate(kinds)]
    done = TimeSharedSystem(cluster, jobs, NPB, RandomStreams(seed)).run(Loras(), {}, RunKey(0, 0, "loras"))
    assert done.facts.filter(event=Fact.FAULT).is_empty()
    return done


def ends(done: RunTables) -> dict[int, float]:
    return dict(done.facts.filter(event=Fact.RUN_ENDED).select("job", "time_s").iter_rows())


@pytest.mark.parametrize(("name", "tasks"), KINDS)
@pytest.mark.parametrize("spin_s", [0.0, 0.005])
def test_a_job_alone_takes_its_isolated_time(name: str, tasks: int, spin_s: float) -> None:
    if (name, tasks) != ("CG.B", 4):  # as many messages as CG.B with 8
        done = run(NodeModel(coscheduler=Coscheduler.KERNEL, spin_s=spin_s), [(name, tasks)])
        assert ends(done) == {0: NPB.of(name, tasks).exe_s}


MIX = [("IS.A", 8), ("MG.A", 8), ("FT.A", 4), ("IS.A", 4), ("CG.A", 8), ("MG.A", 4), ("IS.B", 8), ("FT.A", 8)]


@pytest.mark.parametrize("coscheduler", [Coscheduler.KERNEL, Coscheduler.USER_SPACE])
def test_the_same_seed_gives_the_same_trace(coscheduler: Coscheduler) -> None:
    model = NodeModel(CpuScheduler.CFS, coscheduler)
    one, two, other = (run(model, MIX, 1.0, seed) for seed in (1, 1, 2))
    assert one.facts.equals(two.facts)
    assert one.local_users.equals(two.local_users)
    assert ends(one) != ends(other)


def small_run() -> tuple[dict[int, float], list[tuple[Any, ...]]]:
    done = run(NodeModel(coscheduler=Coscheduler.USER_SPACE), [("IS.A", 8), ("IS.A", 4)], 1.0)
    return ends(done), done.local_users.rows()


@pytest.mark.long
def test_runs_are_equal_in_machine_code_and_plain_python() -> None:
    with in_plain_python() as there:
        assert there.submit(small_run).result() == small_run()


@pytest.mark.long
def test_ccs_stops_jobs_on_all_their_nodes_where_users_need_the_memory_and_continues_them() -> None:
    kinds = [("BT.A", 8), ("IS.B", 2), ("MG.A", 2), ("FT.A", 2), ("MG.B", 2), ("IS.B", 2), ("MG.B", 2)]
    for coscheduler in (Coscheduler.KERNEL, Coscheduler.USER_SPACE, Coscheduler.USER_SPACE_STOPPING):
        done = run(NodeModel(coscheduler=coscheduler), kinds * 3, 1.0, seed=5)
        stopped, continued = (done.facts.filter(event=of) for of in (Fact.RUN_STOPPED, Fact.RUN_CONTINUED))
        assert stopped.height == continued.height > 0
        assert len(ends(done)) == 21


def test_traffic_is_that_of_the_class_of_the_benchmark_or_the_default() -> None:
    model = NodeModel(traffic={"own": {2: Traffic(44, 92.36)}})
    assert model.traffic_of("own", 2, 1.0) == Traffic(44, 92.36)
    assert model.traffic_of("CG.B", 8, 271.76).messages == 76 * 26 * 7
    assert model.traffic_of("CG.B", 6, 1.0) == model.traffic_of("own", 4, 1.0) == Traffic(50, 0.073)
    assert model.traffic_of("CG.X", 8, 1.0) == model.traffic_of("XY.A", 8, 1.0) == Traffic(50, 0.073)


@pytest.mark.parametrize(
    ("name", "tasks", "messages", "n_bytes"),
    [
        # 11 times: log2(8) for the sums of 1,029 buckets, 7 numbers of keys, and 7 times 2^23 keys / 64
        ("IS.A", 8, 11 * (3 + 7 + 7), 11 * (3 * 4116 + 7 * 4 + 7 * 2**19)),
        # 4 x 2 tasks: 16 * 26 products of 2 partial sums, a transposition and 4 numbers; 3,500 of 14,000 rows
        ("CG.A", 8, 16 * 26 * 7, 16 * 26 * (3 * 28_000 + 4 * 8)),
        # 2 x 2 x 2 tasks: 4 times 6 faces of a quarter, three times on 256^3 to 4^3, twice on 2^3
        ("MG.A", 8, 4 * 6 * 23, 4 * 6 * 8 * (3 * sum((2**k) ** 2 // 4 for k in range(2, 9)) + 2)),
        # 7 transpositions among all; 256 * 256 * 128 points of 16 bytes, of which each task has a quarter
        ("FT.A", 4, 7 * 3, 7 * 3 * 16 * 2**23 // 16),
        # 2 x 2 tasks have 2 cells of 32^3: 6 faces of 2 layers, and 3 sweeps there and back; 201 times
        ("BT.A", 4, 201 * 12, 201 * 8 * 1024 * (6 * 10 + 3 * 35)),
        ("SP.A", 4, 401 * 12, 401 * 8 * 1024 * (6 * 10 + 3 * 32)),
        # 2 x 2 tasks: 62 planes up and down to 1 neighbour on average, 5 * 32 numbers; 2 layers of 2 faces
        ("LU.A", 4, 250 * 62 * 2 + 251 * 2, 250 * 62 * 2 * 8 * 160 + 251 * 2 * 8 * 10 * 32 * 64),
    ],
)
def test_the_messages_of_nas_benchmarks_are_as_many_as_counted_by_hand(
    name: str, tasks: int, messages: int, n_bytes: int
) -> None:
    found = nas_traffic(name, tasks)
    assert found is not None
    assert found.messages == messages
    assert found.megabytes == pytest.approx(n_bytes / 1e6)


def test_the_messages_of_nas_benchmarks_agree_with_those_that_others_have_estimated() -> None:
    for job in json.loads(oracle("../fixtures-hints/npb-pentium4.json").read_text())["jobs"]:
        found = nas_traffic(f"{job['benchmark']}.{job['npb_class']}", job["tasks"])
        assert found is not None
        assert job["messages_per_task"] / 4.1 < found.messages < job["messages_per_task"] * 1.3
        assert job["bytes_per_task"] / 3 < 1e6 * found.megabytes < job["bytes_per_task"] * 1.3


OPERATIONS: dict[str, tuple[float, Callable[[float, float], float]]] = {
    "MG": (200e6, lambda n, times: 58 * times * n**3),
    "CG": (95e6, lambda n, times: 2 * times * n * (3 + NONZERO[n] + 25 * (5 + NONZERO[n]) + 3)),
    "FT": (150e6, lambda n, times: n * (14.8157 + 7.19641 * log(n) + times * (5.23518 + 7.21113 * log(n)))),
    "BT": (260e6, lambda n, times: times * (3478.8 * n**3 - 17655.7 * n**2 + 28023.7 * n)),
    "SP": (180e6, lambda n, times: times * (881.174 * n**3 - 4683.91 * n**2 + 11484.5 * n - 19272.4)),
    "LU": (290e6, lambda n, times: times * (1984.77 * n**3 - 10923.3 * n**2 + 27770.9 * n - 144010.0)),
    "IS": (14e6, lambda keys, times: times * keys),
}
"""The rates that the site file states, and the operations as the benchmarks of NPB 2 count them."""
NONZERO = {14_000: 11 * 12, 75_000: 13 * 14}
PROTOCOL = 0.35


@pytest.mark.parametrize(("name", "tasks"), KINDS)
def test_the_site_computes_for_as_long_as_the_benchmarks_operations_take(name: str, tasks: int) -> None:
    of = NPB.of(name, tasks)
    benchmark, problem_class = name.split(".")
    rate, operations = OPERATIONS[benchmark]
    computes_s = of.exe_s * (of.cpu - PROTOCOL) / (1 - PROTOCOL)
    assert computes_s == pytest.approx(
        operations(*SIZES[benchmark][problem_class]) / (rate * tasks), rel=0.01
    )
