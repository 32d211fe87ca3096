"""One hand-worked table per algorithm: worked out on paper, not by the code."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler import registry
from scheduler.mapping.etc import EtcMatrix, ReadyTimes, read_only
from scheduler.mapping.placer import ON_CLUSTERS_ONLY, UNSUITABLE, MappingPlacer
from scheduler.mapping.problem import MappingProblem
from scheduler.model import Job, JobId, Schedule
from scheduler.rules import NO_JOB_FORGOTTEN, in_detail
from tests.builders import INF, placed, problem

#           machine 0  1
HAND_ETC = [[4, 6], [3, 9], [5, 2], [8, 7]]


def schedule(name: str, asked: MappingProblem) -> Schedule:
    return registry.resolve(name).make().schedule(asked)


HAND_WORKED = {
    # 0 -> m0 until 4; 1 -> m1 until 9; 2 -> m0 (ready 4) until 9; 3: both ready at 9, lowest index.
    "olb": {0: (0, 0, 4), 1: (1, 0, 9), 2: (0, 4, 9), 3: (0, 9, 17)},
    "met": {0: (0, 0, 4), 1: (0, 4, 7), 2: (1, 0, 2), 3: (1, 2, 9)},
    # 0 -> m0 (4); 1: m0 7, m1 9 -> m0; 2: m0 12, m1 2 -> m1; 3: m0 15, m1 9 -> m1.
    "mct": {0: (0, 0, 4), 1: (0, 4, 7), 2: (1, 0, 2), 3: (1, 2, 9)},
    # Bests 4, 3, 2, 7: job 2 on m1 (2). Then 4, 3, -, 8: job 1 on m0 (3). Then job 0: m0 7, m1 8 -> m0;
    # job 3: m0 11, m1 9 -> job 0 (7), then job 3: m0 15, m1 9.
    "min_min": {2: (1, 0, 2), 1: (0, 0, 3), 0: (0, 3, 7), 3: (1, 2, 9)},
    # Bests 4, 3, 2, 7: job 3 on m1 (7). Then 0: 4 on m0, 1: 3 on m0, 2: m0 5, m1 9 -> 5: job 2 on m0 (5).
    # Then 0: m0 9, m1 13 -> 9; 1: m0 8, m1 16 -> 8: job 0 (9), then job 1: m0 12, m1 16 -> m0.
    "max_min": {3: (1, 0, 7), 2: (0, 0, 5), 0: (0, 5, 9), 1: (0, 9, 12)},
    # Sufferages 2, 6, 3, 1: job 1 on m0 (3). Then 0: m0 7, m1 6 -> 1; 2: m0 8, m1 2 -> 6; 3: m0 11, m1 7
    # -> 4: job 2 on m1 (2). Then 0: m0 7, m1 8 -> 1; 3: m0 11, m1 9 -> 2: job 3 on m1 (9); job 0 on m0 (7).
    "sufferage": {1: (0, 0, 3), 2: (1, 0, 2), 3: (1, 2, 9), 0: (0, 3, 7)},
}


@pytest.mark.parametrize("name", HAND_WORKED)
def test_jobs_are_mapped_in_this_order_as_worked_out_by_hand(name: str) -> None:
    made = placed(schedule(name, problem(HAND_ETC)))
    assert list(made.items()) == list(HAND_WORKED[name].items())


def test_sjs_is_max_min_if_its_sum_is_smaller() -> None:
    # Min-min: job 0 on m0 (1), then job 1: m0 3, m1 3 -> m0: 1 + 3 = 4. Max-min: job 1 on m0 (2), then job 0:
    # m0 3, m1 1 -> m1: 2 + 1 = 3.
    assert placed(schedule("sjs", problem([[1, 1], [2, 3]]))) == {1: (0, 0, 2), 0: (1, 0, 1)}


def test_best_assignment_selects_an_idle_machine_of_the_preferred_class() -> None:
    etc = EtcMatrix([[9, 1]], [0, 0, 0], [0, 0, 1], ("big", "small"))  # type: ignore[arg-type]
    jobs = [Job(JobId(i), "any", 0.0, preferred=("big", "small")) for i in range(3)]
    times = ReadyTimes(read_only([0.0, 5.0, 0.0]))
    asked = MappingProblem(0.0, tuple(jobs), etc, lambda _: times)
    # Job 0: machine 0 is idle and of the designated class, though slower. Job 1: of the idle ones only the
    # less preferred machine 2 is left. Job 2: nothing is idle; machine 2 is ready first, at 1.
    assert placed(schedule("best_assignment", asked)) == {0: (0, 0, 9), 1: (2, 0, 1), 2: (2, 1, 2)}


@pytest.mark.parametrize("name", ["min_min", "max_min", "sjs", "pjs"])
def test_ready_times_may_be_integers(name: str) -> None:
    etc_s = [[3, 5], [4, 2], [6, 1]]
    jobs = tuple(Job(JobId(i), "any", 0.0) for i in range(3))
    times = ReadyTimes(np.array([7, 9]))  # type: ignore[arg-type]
    asked = MappingProblem(0.0, jobs, EtcMatrix.from_dense(etc_s), lambda _: times)
    assert placed(schedule(name, asked)) == placed(schedule(name, problem(etc_s, ready_s=[7, 9])))


def test_best_assignment_without_preferences_selects_the_fastest_idle_machine() -> None:
    assert placed(schedule("best_assignment", problem([[4, 2], [4, 2]]))) == {0: (1, 0, 2), 1: (0, 0, 4)}


@pytest.mark.parametrize(
    ("etc_s", "ready_s", "expected"),
    [
        # Machines 0, 1 form the cluster, column 2. Alone, job 0 takes 10; in parallel 4: a gain
        # of 6. Job 1 then waits until 4 and ends at 6: the sum is 10 instead of 12.
        ([[10, 10, 4], [2, 2, INF]], None, {0: (2, 0, 4), 1: (0, 4, 6)}),
        # Alone: job 1 on m0 (2), job 0 on m1 (4): 6. With job 0 in parallel (2), job 1 ends at 4: 6 again.
        ([[4, 4, 2], [2, 2, INF]], None, {1: (0, 0, 2), 0: (1, 0, 4)}),
        ([[100, 100, 4]], [3, 8], {0: (2, 8, 12)}),
        ([[INF, INF, 30], [2, 2, INF]], None, {0: (2, 0, 30), 1: (0, 30, 32)}),
    ],
    ids=["if it gains", "not to break even", "when the last member is ready", "where no machine can"],
)
def test_pjs_runs_a_job_on_the_cluster(
    etc_s: list[list[float]], ready_s: list[float] | None, expected: dict[int, tuple[int, float, float]]
) -> None:
    assert placed(schedule("pjs", problem(etc_s, ready_s, [[0, 1]]))) == expected


def test_pjs_keeps_the_sequential_schedule_if_the_cluster_run_would_delay_others() -> None:
    # In parallel job 0 gains 3, but jobs 1 and 2 would each wait 7.
    made = schedule("pjs", problem([[10, 10, 7], [2, 2, INF], [2, 2, INF]], members=[[0, 1]]))
    assert placed(made) == placed(schedule("sjs", problem([[10, 10], [2, 2], [2, 2]])))


def test_pjs_commits_the_most_profitable_pair_first_and_stops_at_the_first_failure() -> None:
    # Gains: job 0 on cluster 0 (machines 0, 1): 20 - 5 = 15, job 1 on cluster 1 (machines 2, 3): 12 - 5 = 7.
    etc_s = [[20, 20, 20, 20, 5, 9], [12, 12, 12, 12, 9, 5]]
    made = schedule("pjs", problem(etc_s, members=[[0, 1], [2, 3]]))
    assert [(a.job, a.resource) for a in made.assignments] == [(0, 4), (1, 5)]


@pytest.mark.parametrize("name", registry.ON_MACHINES)
def test_a_job_without_an_available_machine_waits_with_a_reason(name: str) -> None:
    made = schedule(name, problem([[4, INF], [INF, 5]], ready_s=[0, INF]))
    assert placed(made) == {0: (0, 0, 4)}
    assert list(made.wait_reasons) == [1]


@pytest.mark.parametrize("name", registry.ON_MACHINES)
def test_ties_between_jobs_and_machines_go_to_the_lowest_index(name: str) -> None:
    made = placed(schedule(name, problem([[7, 7, 7]] * 3)))
    if name == "met":  # the fastest machine is always the first
        assert made == {0: (0, 0, 7), 1: (0, 7, 14), 2: (0, 14, 21)}
    else:
        assert made == {0: (0, 0, 7), 1: (1, 0, 7), 2: (2, 0, 7)}


@pytest.mark.parametrize("name", registry.ON_MACHINES)
def test_no_job_starts_before_its_machine_is_ready(name: str) -> None:
    made = schedule(name, problem([[5, 5]] * 4, ready_s=[100, 200], now_s=50))
    assert all(a.start_s >= (100, 200)[a.resource] for a in made.assignments)


# -- what a matrix may be ----------------------------------------------------------------------------------


MAPPED_BY_KERNELS = ("min_min", "max_min", "sjs", "pjs", "pjs_try_next", "optimal", "pjs_optimal")


@pytest.mark.parametrize("name", MAPPED_BY_KERNELS)
@pytest.mark.parametrize("kind", [np.int32, np.int64, np.float32, np.float16])
def test_matrices_of_any_type_and_memory_order_give_the_same_mapping(name: str, kind: type) -> None:
    etc_s = np.random.default_rng(3).integers(1, 50, (12, 5))
    scheduler = registry.resolve(name).make()
    expected = scheduler.schedule(MappingProblem.from_matrix(etc_s.astype(float)))
    for given in (
        etc_s.astype(kind),
        np.asfortranarray(etc_s.astype(kind)),
        etc_s.astype(kind)[:, ::-1][:, ::-1],
    ):
        made = scheduler.schedule(MappingProblem.from_matrix(given))
        assert list(made.assignments) == list(expected.assignments)


@pytest.mark.parametrize("name", MAPPED_BY_KERNELS)
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_without_jobs_or_machines_every_job_is_left_waiting(name: str, shape: tuple[int, int]) -> None:
    made = registry.resolve(name).make().schedule(MappingProblem.from_matrix(np.ones(shape)))
    assert len(made.assignments) == 0
    assert list(made.wait_reasons) == list(range(shape[0]))


@pytest.mark.parametrize("name", MAPPED_BY_KERNELS)
def test_a_job_that_no_machine_can_run_is_left_waiting_and_the_others_are_mapped(name: str) -> None:
    etc_s = [[1.0, np.inf], [np.inf, np.inf], [2.0, 3.0]]
    made = registry.resolve(name).make().schedule(MappingProblem.from_matrix(etc_s))
    assert made.wait_reasons == {1: "no available resource can run it"}
    assert sorted(made.assignments.jobs.tolist()) == [0, 2]


@pytest.mark.parametrize("bad", [np.nan, -1.0, -np.inf])
def test_an_invalid_etc_cell_is_rejected_with_its_position(bad: float) -> None:
    with pytest.raises(ValueError, match=r"ETC cell \(1, 0\) is"):
        MappingProblem.from_matrix([[1.0, 2.0], [bad, 2.0]])


def test_millions_of_jobs_can_be_mapped() -> None:
    etc = EtcMatrix([[3.0, 1.0], [2.0, 5.0]], np.arange(2_000_000) % 2, np.arange(100) % 2)
    made = registry.resolve("sjs").make().schedule(MappingProblem.from_etc(etc))
    assert len(made.assignments) == 2_000_000
    assert np.bincount(made.assignments.jobs, minlength=2_000_000).max() == 1


def test_a_job_that_was_never_placed_is_reported_as_forgotten() -> None:
    asked = problem([[1.0, 2.0], [3.0, 4.0]])
    placer = MappingPlacer(asked)
    placer.place(0, 0)
    violation = asked.violation(placer.schedule())
    assert violation is not None
    assert (violation.rule, violation.message) == (
        NO_JOB_FORGOTTEN,
        "job 1 is neither mapped nor left waiting with a reason",
    )


def test_wait_reasons_name_the_available_resources() -> None:
    down = problem([[1.0, INF, 1.0], [INF, INF, INF], [INF, 1.0, 2.0], [INF, INF, 1.0]], [INF, 0.0], [[1]])
    placer = MappingPlacer(down)
    placer.place(0, 0)
    placer.place(1, 0)
    placer.place(2, 0)
    placer.leave(3, "it may wait for a cheaper hour")
    made = placer.schedule()
    assert down.violation(made) is None
    assert in_detail(made.wait_reasons, 0).startswith(
        ON_CLUSTERS_ONLY + ": its class runs on 1 machine and 1 cluster, of "
    )
    assert in_detail(made.wait_reasons, 1) == "there is no resource on which its class is known to run"
    assert made.wait_reasons[2] == UNSUITABLE
    assert in_detail(made.wait_reasons, 3) == "it may wait for a cheaper hour"
