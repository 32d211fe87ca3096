"""Conservative backfilling: who is promised which start, and that promises are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.free_nodes.consumable_problem import Placer
from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.free_nodes.rigid import Conservative
from scheduler.model import JobId, NodeSchedule, RunId
from scheduler.testing.rigid import FreeNodesOutline
from tests.examples import up_to
from tests.scheduler.free_nodes.replaying import RecordsReservations, Row, replayed

NODES = 4


def reserved(*waiting: tuple[int, float], running: Sequence[tuple[int, float]] = ()) -> list[float | None]:
    """When each job is to start, of those that arrive together now, at 0 s; None = it starts at once."""
    asked = FreeNodesOutline(NODES, 0, tuple(running), waiting, 0.0).build(1)
    scheduler = Conservative()
    started = {placement.job for placement in scheduler.schedule(asked).starts}
    promised = scheduler.reserved_s
    return [None if i in started else promised[job.id] for i, job in enumerate(asked.jobs)]


# node 3 |CCCCC    DDD      |    A has two nodes, B needs four after it. C ends just before B begins and
#      2 |CCCCC    DDD      |    starts at once; D would not, and comes after B: at 15 s and not at 0 s.
#      1 |AAAAABBBBDDD      |
#      0 |AAAAABBBBDDD      |    (E, a second like D, comes beside it.)
def test_each_job_reserves_the_earliest_start_that_delays_no_earlier_job() -> None:
    promised = reserved((2, 10.0), (4, 5.0), (2, 10.0), (2, 11.0), (2, 3.0))
    assert promised == [None, 10.0, None, 15.0, 15.0]


def test_every_job_either_starts_now_or_waits_for_its_reservation() -> None:
    asked = FreeNodesOutline(NODES, 0, (), ((4, 5.0), (1, 5.0)), 0.0).build(1)
    schedule = Conservative().schedule(asked)
    assert [placement.job for placement in schedule.starts] == [0]
    assert dict(schedule.wait_reasons) == {1: "it has a reservation for later"}


def test_a_job_gets_its_reservation_on_arrival() -> None:
    scheduler = RecordsReservations()
    rows: list[Row] = [(1, 0.0, 10.0, 4, 10.0), (2, 1.0, 5.0, 4, 5.0), (3, 2.0, 5.0, 2, 5.0)]
    assert replayed(scheduler, rows, NODES) == {1: 0.0, 2: 10.0, 3: 15.0}
    assert scheduler.passes[:3] == [(0.0, {}), (1.0, {2: 10.0}), (2.0, {2: 10.0, 3: 15.0})]


# node 3 |aaaaa|BBBBBBBBBB|          A was believed to run for 20 s and ends after 5: B and then C move
#      2 |aaaaa|BBBBBBBBBB|          to earlier times, in the order of the queue.
#      1 |aaaaa|CCCCCCCCCC|
#      0 |aaaaa|CCCCCCCCCC|DDDD|     D, who needs all four, follows at 15 instead of 30 s.
def test_an_early_end_moves_reservations_earlier_in_queue_order() -> None:
    scheduler = RecordsReservations()
    rows: list[Row] = [
        (1, 0.0, 5.0, 4, 20.0),
        (2, 1.0, 10.0, 2, 10.0),
        (3, 1.0, 10.0, 2, 10.0),
        (4, 1.0, 4.0, 4, 4.0),
    ]
    assert replayed(scheduler, rows, NODES) == {1: 0.0, 2: 5.0, 3: 5.0, 4: 15.0}
    assert scheduler.passes[1:3] == [(1.0, {2: 20.0, 3: 20.0, 4: 30.0}), (5.0, {4: 15.0})]


def test_a_run_that_exceeds_its_estimate_delays_reservations_without_losing_any() -> None:
    """Job 1 says 10 s and takes 35: it is believed to end at 20, then at 40 s."""
    scheduler = RecordsReservations()
    rows: list[Row] = [(1, 0.0, 35.0, 4, 10.0), (2, 1.0, 5.0, 4, 5.0)]
    assert replayed(scheduler, rows, NODES) == {1: 0.0, 2: 35.0}
    assert [promised for _, promised in scheduler.passes[1:]] == [{2: 10.0}, {2: 20.0}, {2: 40.0}, {}]


def test_a_job_without_end_is_reserved_like_others_after_an_early_end() -> None:
    """A custom estimator may return infinity. A job that does not fit beside that one has no reservation."""
    asked = FreeNodesOutline(NODES, 0, ((4, 10.0),), ((4, 5.0), (3, inf), (1, 2.0), (2, 5.0)), 0.0).build(1)
    scheduler = Conservative()
    scheduler.schedule(asked)
    assert [scheduler.reserved_s[job.id] for job in asked.jobs] == [10.0, 15.0, 15.0, inf]
    asked.free_nodes.release(RunId(0), 1.0)
    asked.free_nodes.end(RunId(0), 1.0)
    then = FreeNodesProblem(1.0, asked.free_nodes)
    assert [start.job for start in scheduler.schedule(then).starts] == [0]
    assert [scheduler.reserved_s[job.id] for job in then.jobs[1:]] == [6.0, 6.0, inf]


@st.composite
def rows(draw: st.DrawFn, exact: bool, most_nodes: int = NODES) -> list[Row]:
    """Some jobs; none runs for longer than was said."""
    found = []
    for number in range(1, draw(st.integers(2, 12)) + 1):
        submit_s, run_s = draw(st.integers(0, 25)), draw(st.integers(1, 12))
        estimate_s = run_s if exact else run_s + draw(st.sampled_from([0, 0, 1, 5, 20]))
        size = draw(st.integers(1, most_nodes))
        found.append((number, float(submit_s), float(run_s), size, float(estimate_s)))
    return found


def first_promises(scheduler: RecordsReservations) -> dict[JobId, float]:
    promised: dict[JobId, float] = {}
    for _, reserved_s in scheduler.passes:
        promised = reserved_s | promised
    return promised


def in_plain_words(rows: list[Row]) -> dict[int, float]:
    """In order of arrival, each job takes the earliest seconds in which its nodes are free all the time."""
    held: Counter[int] = Counter()
    starts_s: dict[int, float] = {}
    for number, submit_s, _, size, estimate_s in sorted(rows, key=lambda row: (row[1], row[0])):
        start, length = int(submit_s), int(estimate_s)
        while any(held[second] + size > NODES for second in range(start, start + length)):
            start += 1
        held.update(dict.fromkeys(range(start, start + length), size))
        starts_s[number] = float(start)
    return starts_s


@pytest.mark.parametrize("order", ["default", "archive"])
@given(jobs=rows(exact=True))
@settings(max_examples=up_to(150))
def test_with_exact_estimates_every_job_starts_at_its_first_reservation(order: str, jobs: list[Row]) -> None:
    scheduler = RecordsReservations()
    starts_s = replayed(scheduler, jobs, NODES, order)
    assert starts_s == in_plain_words(jobs)
    for job, promised_s in first_promises(scheduler).items():
        assert starts_s[job] == promised_s


@pytest.mark.parametrize("order", ["default", "archive"])
@given(jobs=rows(exact=False))
@settings(max_examples=up_to(150))
def test_no_job_starts_later_than_any_of_its_reservations(order: str, jobs: list[Row]) -> None:
    scheduler = RecordsReservations()
    starts_s = replayed(scheduler, jobs, NODES, order)
    for job, promised_s in first_promises(scheduler).items():
        assert starts_s[job] <= promised_s
    for (_, before), (_, after) in pairwise(scheduler.passes):
        assert all(after[job] <= before[job] for job in before.keys() & after.keys()), "no job is moved later"


class EveryPassFromTheStart:
    """Keeps or delays each reservation in order of start, then moves each up in order of the queue. It has a
    list of uses instead of a profile."""

    def __init__(self) -> None:
        self.reserved_s: dict[JobId, float] = {}

    def schedule(self, problem: FreeNodesProblem) -> NodeSchedule:
        nodes, now_s = problem.free_nodes, problem.now_s
        jobs = [job.id for job in problem.jobs]
        size = dict(zip(jobs, nodes.waiting.sizes.tolist(), strict=True))
        takes_s = dict(zip(jobs, nodes.waiting.estimates_s.tolist(), strict=True))
        ends_s = np.maximum(nodes.releases.ends_s, np.nextafter(now_s, np.inf)).tolist()
        running = [(-inf, end_s, n) for end_s, n in zip(ends_s, nodes.releases.sizes.tolist(), strict=True)]
        total = nodes.free.n + sum(n for _, _, n in running)
        start_s: dict[JobId, float] = {}

        def earliest_s(job: JobId, from_s: float) -> float:
            others = [(s, s + takes_s[j], size[j]) for j, s in start_s.items() if j != job]
            uses = running + others
            for s in sorted({from_s} | {end for _, end, _ in uses if end > from_s}):
                looks = [s] + [begin for begin, _, _ in uses if s < begin < s + takes_s[job]]
                if all(
                    size[job] + sum(n for begin, end, n in uses if begin <= t < end) <= total for t in looks
                ):
                    return s
            return inf

        kept = {job: self.reserved_s[job] for job in jobs if job in self.reserved_s}
        for job in sorted(kept, key=lambda job: (kept[job], jobs.index(job))):
            start_s[job] = earliest_s(job, max(kept[job], now_s))
        for job in jobs:
            start_s[job] = earliest_s(job, now_s)
        self.reserved_s = {job: start_s[job] for job in jobs if start_s[job] > now_s}
        placer = Placer(problem)
        for i, job in enumerate(jobs):
            if start_s[job] == now_s:
                placer.start(i)
        next_s = min(self.reserved_s.values(), default=inf)
        return placer.schedule("reserved")._replace(ask_again_s=None if next_s == inf else next_s)


@st.composite
def rows_with_any_estimates(draw: st.DrawFn) -> list[Row]:
    """Also too short ones, so that runs exceed them and reservations are delayed."""
    estimates_s = st.integers(1, 20)
    return [
        (*row[:4], float(draw(estimates_s) if draw(st.booleans()) else row[4]))
        for row in draw(rows(exact=False))
    ]


@pytest.mark.parametrize("order", ["default", "archive"])
@given(jobs=rows_with_any_estimates())
@settings(max_examples=up_to(1000, 20), deadline=None)
def test_every_pass_reserves_as_if_it_started_from_nothing(order: str, jobs: list[Row]) -> None:
    by_profile, in_full = RecordsReservations(), RecordsReservations(EveryPassFromTheStart())
    assert replayed(by_profile, jobs, NODES, order) == replayed(in_full, jobs, NODES, order)
    assert by_profile.passes == in_full.passes


@pytest.mark.parametrize("seed", range(2))
def test_long_queues_reserve_as_if_each_pass_started_from_nothing(seed: int) -> None:
    """Many reservations begin exactly when others of the same size end, and move in several passes."""
    n, rng = 150, np.random.default_rng(seed)
    submit_s, runs_s = np.sort(rng.integers(0, 2 * n, n)), rng.integers(1, 12, n)
    sizes, factors = rng.choice([1, 2, 2, 3, 4], n), rng.choice([0.5, 1, 1, 5, 20], n)
    columns = [range(n), submit_s.tolist(), runs_s.tolist(), sizes.tolist(), (runs_s * factors).tolist()]
    jobs: list[Row] = [
        (job, float(at_s), float(run_s), size, estimate_s)
        for job, at_s, run_s, size, estimate_s in zip(*columns, strict=True)
    ]
    by_profile, in_full = RecordsReservations(), RecordsReservations(EveryPassFromTheStart())
    assert replayed(by_profile, jobs, NODES) == replayed(in_full, jobs, NODES)
    assert by_profile.passes == in_full.passes
