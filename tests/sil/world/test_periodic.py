"""Periodic jobs on detailed nodes: what a reservation keeps, up to the bound, and what is missed without."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.coscheduling.daemon import Coscheduler
from scheduler.coscheduling.ports import ReservedShare
from scheduler.model import Job, JobId
from scheduler.time_shared.loras import Loras
from scheduler.time_shared.social_contract import Requirement, SocialContract
from sil.runs.on_time_shared import TimeSharedSystem
from sil.runs.simulation import RunKey
from sil.site.time_shared_cluster import Characterisations
from sil.trace.facts import Fact, RunTables
from sil.world.actual_runtimes import RandomStreams, Variation
from sil.world.processes.core.codes import CFS, LINUX_2_4, SECOND
from sil.world.processes.core.programs import Program, Programs
from sil.world.processes.model import CpuScheduler, NodeModel, Periodic
from sil.world.time_shared_cluster import LocalUsers, TimeSharedCluster
from tests.examples import up_to
from tests.sil.world.test_processes import MILLISECOND, computing, nodes

Tasks = Sequence[tuple[int, int]]
"""The period and the computing of each, in milliseconds."""


def lateness(programs: Programs, tasks: Tasks, until_ms: int, reserved: bool) -> list[int]:
    """Of each period of each task on node 0, which computes a microsecond less, and then takes a message."""
    jobs = []
    for period, computes in tasks:
        n = until_ms // period
        steps = Program(n, n * (computes * MILLISECOND - 1_000), 0, 0, 1, 0, period * MILLISECOND, 1)
        jobs.append(programs.begin(steps, [0]))
        if reserved:
            programs.reserve(programs.members[jobs[-1]][0], computes / period, period / 1_000)
    programs.run(10 * until_ms * MILLISECOND)
    while programs.ended and programs.has_news:
        programs.has_news = False
        programs.run(10 * until_ms * MILLISECOND)
    return [late for job in jobs for late in programs.lateness[job]]


task = st.sampled_from([20, 30, 40, 60, 120]).flatmap(
    lambda period: st.tuples(st.just(period), st.integers(1, period))
)


def earliest_deadline_first(tasks: Tasks, until_ms: int) -> list[int]:
    """The same, millisecond by millisecond."""
    pending = [[0, 0] for _ in tasks]  # the period and what has been computed of it
    late: list[list[int]] = [[] for _ in tasks]
    for now in range(10 * until_ms):
        ready = [
            i
            for i, (period, _) in enumerate(tasks)
            if pending[i][0] < until_ms // period and pending[i][0] * period <= now
        ]
        if not ready:
            continue
        i = min(ready, key=lambda i: ((pending[i][0] + 1) * tasks[i][0], i))
        pending[i][1] += 1
        if pending[i][1] == tasks[i][1]:
            late[i].append(max(0, now + 1 - (pending[i][0] + 1) * tasks[i][0]))
            pending[i] = [pending[i][0] + 1, 0]
    return [each for of_task in late for each in of_task]


@given(tasks=st.lists(task, min_size=1, max_size=4), policy=st.sampled_from([LINUX_2_4, CFS]))
@settings(max_examples=up_to(100), deadline=None)
def test_reserved_shares_are_kept_beside_any_load_up_to_one_cpu(tasks: Tasks, policy: int) -> None:
    """Liu and Layland's bound of earliest deadline first."""
    left = 120 - sum(computes * 120 // period for period, computes in tasks)
    tasks = [*tasks, (120, left)] if left > 0 else tasks  # what is feasible fills the CPU, nearly
    programs, until_ms = nodes(1, policy), lcm(*(period for period, _ in tasks))
    for _ in range(3):
        programs.begin(computing(100.0), [0])
    late = lateness(programs, tasks, until_ms, reserved=True)
    if sum(computes / period for period, computes in tasks) <= 1.0:
        assert set(late) == {0}
        assert set(earliest_deadline_first(tasks, until_ms)) == {0}


def test_more_than_one_cpu_cannot_be_kept_and_less_is_missed_without_a_reservation() -> None:
    full, more = [(40, 20), (60, 30)], [(40, 20), (60, 31)]
    assert set(lateness(nodes(1), full, 1_200, reserved=True)) == {0}
    assert max(lateness(nodes(1), more, 1_200, reserved=True)) > 0
    assert max(earliest_deadline_first(more, 1_200)) > 0
    programs = nodes(1)
    for _ in range(3):
        programs.begin(computing(100.0), [0])
    assert max(lateness(programs, [(100, 40)], 1_200, reserved=False)) > 10 * MILLISECOND


def test_a_process_gets_no_more_than_its_reservation_before_others() -> None:
    """It then competes with another one that computes, half of what is left."""
    programs = nodes(1, CFS)
    greedy, _ = (programs.begin(computing(1_000), [0]) for _ in range(2))
    (process,) = programs.members[greedy]
    programs.reserve(process, 0.3, 0.5)
    programs.run(100 * SECOND)
    assert programs.used_by(process) / (100 * SECOND) == pytest.approx(0.5, abs=0.01), "a fair share is more"
    programs.begin(computing(1_000), [0])
    programs.begin(computing(1_000), [0])
    before = programs.used_by(process)
    programs.run(200 * SECOND)
    assert 0.3 <= (programs.used_by(process) - before) / (100 * SECOND) < 0.31


# -- in runs -----------------------------------------------------------------------------------------------

KNOWN = Characterisations(
    {("video", 1): Requirement(1, 0.9, 20.0, 5.0), ("hog", 1): Requirement(1, 1.0, 20.0, 25.0)}
)
KNOWN_TWO = Characterisations({("video", 2): Requirement(2, 0.9, 20.0, 5.0), ("hog", 1): KNOWN.of("hog", 1)})


def run(
    coscheduler: Coscheduler, reserved: bool, kinds: Sequence[str], users: float = 0.0, share: float = 0.3
) -> RunTables:
    periodic = {"video": Periodic(0.5, share, reserved)}
    cluster = TimeSharedCluster(
        (512.0,) * 2,
        SocialContract(0.5, most_jobs=4, most_cpu=4.0),
        LocalUsers(users) if users else None,
        run_to_run=Variation(),
        in_detail=NodeModel(CpuScheduler.CFS, coscheduler, periodic=periodic),
    )
    known = KNOWN_TWO if "video" in kinds else KNOWN
    jobs = [Job(JobId(i), name, 0.1 * i, n_tasks=2 if name == "video" else 1) for i, name in enumerate(kinds)]
    system = TimeSharedSystem(cluster, jobs, known, RandomStreams(1))
    done = system.run(Loras(selection="first_fit"), {}, RunKey(0, 0, "loras"))
    assert done.facts.filter(event=Fact.FAULT).is_empty()
    return done


BESIDE_OTHERS = ["hog", "hog", "video", "hog", "hog", "hog", "hog"]


@pytest.mark.parametrize("users", [0.0, 1.0])
def test_a_parallel_job_keeps_its_periods_with_a_reservation_and_misses_them_without(users: float) -> None:
    missed = {}
    for coscheduler in (Coscheduler.KERNEL, Coscheduler.USER_SPACE):
        for reserved in (True, False):
            (row,) = run(coscheduler, reserved, BESIDE_OTHERS, users).periods.iter_rows(named=True)
            assert row["periods"] == 2 * round(5 * 0.9 / (0.3 * 0.5))
            missed[coscheduler, reserved] = row["missed"] / row["periods"]
    assert missed[Coscheduler.KERNEL, True] == 0.0
    assert missed[Coscheduler.USER_SPACE, True] < 0.1
    assert (
        min(missed[coscheduler, False] for coscheduler in Coscheduler if (coscheduler, False) in missed) > 0.5
    )


def test_a_job_waits_for_nodes_whose_reservations_leave_room_and_is_refused_where_none_can() -> None:
    facts = run(Coscheduler.KERNEL, True, ["video", "video"]).facts
    ended, started = (facts.filter(event=of)["time_s"].to_list() for of in (Fact.RUN_ENDED, Fact.RUN_STARTED))
    assert started[1] >= ended[0], "0.3 and 0.3 are more than the 0.5 of the social contract"
    facts = run(Coscheduler.KERNEL, True, ["video"], share=0.6).facts
    (why,) = facts.filter(event=Fact.JOB_REFUSED)["detail"].to_list()
    assert why.startswith("0.6 of a CPU cannot be reserved for each task; the social contract leaves 0.5")


def test_what_is_reserved_is_what_the_job_asks_for() -> None:
    assert Periodic(0.5, 0.3, True).reservation == ReservedShare(0.3, 0.5)
    assert Periodic(0.5, 0.3, False).reservation is None


def test_responses_to_local_users_miss_the_deadline_that_is_theirs() -> None:
    """An interaction takes 100 ms alone, and a CPU-bound job competes on one of the two nodes with users."""
    late: dict[float, list[float]] = {}
    for deadline_s in (0.0999, 0.11, 1e9):
        model = NodeModel(CpuScheduler.CFS, Coscheduler.NONE, response_deadline_s=deadline_s)
        cluster = TimeSharedCluster((512.0,) * 2, local_load=LocalUsers(1.0, mean_cpu=0.5), in_detail=model)
        system = TimeSharedSystem(cluster, [Job(JobId(0), "hog", 0.0)], KNOWN, RandomStreams(1))
        users = system.run(Loras(), {}, RunKey(0, 0, "loras")).local_users
        late[deadline_s] = users.sort("response_s")["late_share"].to_list()
    assert late[0.0999] == [1.0, 1.0], "not even alone"
    assert late[0.11][0] == 0.0 < late[0.11][1], "alone each response is in time, beside the job not"
    assert late[1e9] == [0.0, 0.0]
