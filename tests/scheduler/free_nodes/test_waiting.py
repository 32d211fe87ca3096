"""The waiting jobs in their tree are a sorted list, however they come and go."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.arrays import MIN_SIZE
from scheduler.free_nodes.identical_nodes import FreeNodes, WaitingJobs
from scheduler.model import Job, JobId, RunId, Start
from tests.examples import up_to


def job(number: int, arrival_s: float = 0.0, n_tasks: int = 1) -> Job:
    return Job(JobId(number), "rigid", arrival_s, n_tasks=n_tasks)


class Queue:
    """Nodes for all jobs, which start at once."""

    def __init__(self) -> None:
        self.nodes = FreeNodes(10_000)
        self.waiting = self.nodes.waiting

    def come(self, new: Job, estimate_s: float = 1.0) -> None:
        self.nodes.wait(new, None, estimate_s)

    def go(self, job: Job) -> None:
        self.nodes.start(RunId(job.id), job.id, Start(0, self.nodes.free.lowest(job.n_tasks), 1.0), 0.0)
        self.nodes.end(RunId(job.id), 0.0)


def in_order(jobs: dict[Job, float]) -> list[Job]:
    return sorted(jobs, key=lambda job: (job.arrival_s, job.id))


def is_the_list(waiting: WaitingJobs, jobs: dict[Job, float]) -> None:
    expected = in_order(jobs)
    assert list(waiting) == expected
    assert len(waiting) == len(expected)
    assert waiting.sizes.tolist() == [job.n_tasks for job in expected]
    assert waiting.estimates_s.tolist() == [jobs[job] for job in expected]
    assert waiting.least_size == min((job.n_tasks for job in expected), default=inf)


@given(st.data())
@settings(max_examples=up_to(40))
def test_waiting_jobs_stay_in_order_of_arrival_then_id(data: st.DataObject) -> None:
    queue, jobs, gone = Queue(), dict[Job, float](), []
    number = 0
    for _ in range(data.draw(st.integers(1, 12), "steps")):
        match data.draw(st.sampled_from(["come", "come", "go", "come again"])):
            case "come":
                for _ in range(data.draw(st.sampled_from([1, 1, 2, 5, 130]), "jobs")):
                    number += 1
                    late_s = data.draw(st.sampled_from([0.0, 0.0, 0.0, 3.0, 50.0]), "out of order by")
                    new = job(number, max(number // 2 - late_s, 0.0), 1 + number * 7 % 11)
                    jobs[new] = float(1 + number * 5 % 13)
                    queue.come(new, jobs[new])
            case "go" if jobs:
                for _ in range(data.draw(st.integers(1, len(jobs)), "so many")):
                    left = data.draw(st.sampled_from(in_order(jobs)), "who")
                    queue.go(left)
                    gone.append((left, jobs.pop(left)))
            case "come again" if gone:
                lost, estimate_s = gone.pop(data.draw(st.integers(0, len(gone) - 1), "again"))
                jobs[lost] = estimate_s
                queue.come(lost, estimate_s)
            case _:
                continue
        is_the_list(queue.waiting, jobs)


def test_a_queue_grows_beyond_its_initial_capacity_without_losing_jobs() -> None:
    queue, jobs = Queue(), {}
    for number in range(4 * MIN_SIZE + 3):
        new = job(number, float(number), 1 + number % 5)
        jobs[new] = 10.0 + number
        queue.come(new, jobs[new])
    is_the_list(queue.waiting, jobs)


def test_a_short_queue_reuses_its_places_indefinitely() -> None:
    """Places of those who have gone are used again."""
    queue = Queue()
    for number in range(3 * MIN_SIZE):
        queue.come(job(number, float(number)))
        if number >= 2:
            queue.go(job(number - 2))
    assert [waits.id for waits in queue.waiting] == [3 * MIN_SIZE - 2, 3 * MIN_SIZE - 1]
    assert queue.nodes.queue.n_slots == MIN_SIZE
    assert queue.nodes.queue.tree.capacity == MIN_SIZE


def test_jobs_are_indexed_by_position_as_in_a_list() -> None:
    queue, jobs = Queue(), [job(number, float(number)) for number in range(5)]
    for each in reversed(jobs):
        queue.come(each, 7.0)
    queue.go(jobs[2])
    waiting = queue.waiting
    assert [waiting[0], waiting[2], waiting[-1]] == [jobs[0], jobs[3], jobs[4]]
    assert list(waiting[1:3]) == [jobs[1], jobs[3]]
    assert waiting.estimate_s(JobId(3)) == 7.0
    with pytest.raises(IndexError):
        waiting[4]
