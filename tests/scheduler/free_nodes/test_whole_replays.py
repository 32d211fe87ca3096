"""Whole replays, of many small logs, start each job when two simulators of other make do."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.bare_easy import easy_starts
from scheduler.free_nodes.rigid import Backfilling, Ordering, Rigid
from tests.examples import up_to
from tests.scheduler.free_nodes.reference import ReferencePass, Waiting
from tests.scheduler.free_nodes.replaying import Row, replayed


@st.composite
def logs(draw: st.DrawFn) -> tuple[int, list[Row]]:
    """A machine and jobs in order of submission, many at the same instant; none outlives its estimate."""
    processors, longest_s = draw(st.sampled_from([1, 2, 4, 8, 16])), draw(st.sampled_from([2, 5, 20]))
    rng = draw(st.randoms(use_true_random=False))
    jobs: list[Row] = []
    submit_s = 0.0
    for number in range(1, draw(st.integers(1, 50)) + 1):
        submit_s += rng.choice([0, 0, 1, 2, 7])
        run_s = float(rng.randint(1, longest_s))
        estimate_s = run_s + rng.choice([0, 0, 1, longest_s])
        size = rng.choice([1, (processors + 3) // 4, rng.randint(1, processors)])
        jobs.append((number, submit_s, run_s, size, estimate_s))
    return processors, jobs


class InTheArchivesOrder:
    """EASY, or FCFS without backfilling, by the rules of the archive's schedules, word by word.

    At one instant, all runs whose estimates end then release their processors; then jobs arrive, with a pass
    after each; then all runs that end at that time are reported, in order of start, with a pass after each.
    """

    def __init__(self, jobs: Sequence[Row], processors: int, backfilling: str) -> None:
        self.job = {row[0]: row for row in jobs}
        self.backfilling = backfilling
        self.free = processors
        self.queue: list[int] = []
        self.running: list[int] = []
        """In order of start, until their end is reported."""
        self.released: set[int] = set()
        self.start_s: dict[int, float] = {}

    def starts(self) -> dict[int, float]:
        arriving = list(self.job)
        while arriving or self.running:
            self.now_s = min([self.job[i][1] for i in arriving[:1]] + [self.end_s(i) for i in self.running])
            for i in self.running:
                if self.expected_end_s(i) == self.now_s:
                    self.release(i)
            while arriving and self.job[arriving[0]][1] == self.now_s:
                self.queue.append(arriving.pop(0))
                self.look()
            for i in [i for i in self.running if self.end_s(i) == self.now_s]:
                self.running.remove(i)
                self.release(i)
                self.look()
        return self.start_s

    def look(self) -> None:
        """A pass over the queue."""
        free, running = list(range(self.free)), [i for i in self.running if i not in self.released]
        releases = [(self.expected_end_s(i), self.size(i)) for i in running]
        queue = [Waiting(k, self.size(i), self.job[i][4]) for k, i in enumerate(self.queue)]
        started = ReferencePass(self.now_s, free, releases, queue).decide("fcfs", self.backfilling)
        for i in [self.queue[start.job] for start in started]:
            self.start(i)

    def start(self, i: int) -> None:
        self.queue.remove(i)
        self.running.append(i)
        self.start_s[i] = self.now_s
        self.free -= self.size(i)

    def release(self, i: int) -> None:
        if i not in self.released:
            self.released.add(i)
            self.free += self.size(i)

    def size(self, i: int) -> int:
        return self.job[i][3]

    def end_s(self, i: int) -> float:
        return self.start_s[i] + self.job[i][2]

    def expected_end_s(self, i: int) -> float:
        return self.start_s[i] + self.job[i][4]


@pytest.mark.parametrize("backfilling", Backfilling)
@given(log=logs())
@settings(max_examples=up_to(200))
def test_in_archive_order_every_start_equals_the_reference(
    backfilling: str, log: tuple[int, list[Row]]
) -> None:
    processors, jobs = log
    in_words = InTheArchivesOrder(jobs, processors, backfilling).starts()
    assert replayed(Rigid(Ordering.FCFS, backfilling), jobs, processors, "archive") == in_words


@given(log=logs())
@settings(max_examples=up_to(200))
def test_in_default_order_every_start_equals_the_benchmark_easy(log: tuple[int, list[Row]]) -> None:
    processors, jobs = log
    numbers, submit_s, run_s, sizes, estimates_s = (list(column) for column in zip(*jobs, strict=True))
    bare = easy_starts(submit_s, run_s, sizes, estimates_s, processors)
    started = replayed(Rigid(Ordering.FCFS, Backfilling.EASY), jobs, processors)
    assert started == dict(zip(numbers, bare, strict=True))
