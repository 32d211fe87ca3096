"""Orders over a line that loses, repeats and reorders what is sent."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.durability.reliable_delivery import Timeouts
from scheduler.model import Job, JobId, RunId
from scheduler.ports import (
    JobArrived,
    MachineAnswered,
    OrderReceived,
    OrderRefused,
    RunEnded,
    RunLost,
    RunPreempted,
    TimePassed,
)
from tests.scheduler.durability.line import Line

QUIET = Timeouts(ping_s=1e9)
"""No pings."""


def test_an_order_is_repeated_after_doubled_waits_until_it_is_answered() -> None:
    line = Line(QUIET)
    line.start(0)
    line.until(500.0)
    assert line.wire.times_s("dispatch") == [0.0, 10.0, 30.0, 70.0, 150.0, 310.0, 470.0]
    line.delivery.handle(OrderReceived(RunId(0)))
    line.until(5_000.0)
    assert len(line.wire.sent) == 7


def test_a_stop_order_replaces_the_order_to_start_that_was_not_answered() -> None:
    line = Line(QUIET)
    line.start(0)
    line.until(35.0)
    line.stop(0)
    line.until(100.0)
    assert line.wire.times_s("dispatch") == [0.0, 10.0, 30.0]
    assert line.wire.times_s("preempt") == [35.0, 45.0, 65.0]


def test_a_stop_order_is_repeated_once_at_a_time_also_if_the_order_to_start_was_just_answered() -> None:
    line = Line(QUIET)
    line.start(0)
    line.until(5.0)
    line.delivery.handle(OrderReceived(RunId(0)))
    line.until(6.0)
    line.stop(0)
    line.until(100.0)
    assert line.wire.times_s("preempt") == [6.0, 16.0, 36.0, 76.0]
    line.delivery.handle(RunPreempted(RunId(0)))
    line.until(5_000.0)
    assert len(line.wire.times_s("preempt")) == 4


def test_a_notice_reaches_the_manager_once_and_is_acknowledged_each_time() -> None:
    line = Line(QUIET)
    line.start(0)
    for _ in range(3):
        line.ends(0)
    assert line.manager.told == [("ended", 0)]
    assert [sent for sent in line.wire.sent if sent[1] == "acknowledge"] == [(0.0, "acknowledge", 0)] * 3


def test_a_run_ends_on_the_clock_of_the_manager_and_takes_as_long_as_its_machine_says() -> None:
    line = Line(QUIET)
    line.start(0)
    line.until(50.0)
    line.delivery.handle(RunEnded(RunId(0), ended_s=900.0, ran_s=7.0))
    assert line.manager.completions == [RunEnded(RunId(0), 50.0, ran_s=7.0)]


def test_a_run_fails_on_the_clock_of_the_manager_and_machines_are_found_down_on_that_of_the_monitor() -> None:
    line = Line(QUIET)
    line.start(0)
    line.start(1, (1,))
    line.until(50.0)
    losses = list[RunLost]()
    line.manager.on_run_lost = losses.append  # type: ignore[method-assign]
    line.delivery.handle(RunLost(RunId(0), 900.0, failed_job=JobId(0)))
    line.delivery.handle(RunLost(RunId(1), 900.0, found_down=(1,)))
    assert losses == [RunLost(RunId(0), 50.0, failed_job=JobId(0)), RunLost(RunId(1), 900.0, found_down=(1,))]


def test_a_run_is_abandoned_when_its_machine_has_not_answered_five_pings() -> None:
    line = Line()
    line.start(0, (1, 2))
    line.delivery.handle(OrderReceived(RunId(0)))
    line.until(359.0)
    assert line.wire.times_s("ping") == [60.0, 120.0, 180.0, 240.0, 300.0]
    assert line.manager.told == []
    line.until(360.0)
    assert line.wire.times_s("abandon") == [360.0]
    assert line.manager.told == [("lost", 0)]
    assert line.manager.up == {1: False, 2: False}


@pytest.mark.parametrize("sign_of_life", ["answer", "receipt", "notice of another run"])
def test_any_sign_of_life_of_the_machine_counts_as_an_answer(sign_of_life: str) -> None:
    line = Line()
    line.start(0)
    line.start(1)
    line.until(330.0)
    match sign_of_life:
        case "answer":
            line.delivery.handle(MachineAnswered(0))
        case "receipt":
            line.delivery.handle(OrderReceived(RunId(0)))
        case _:
            line.ends(1)
    line.until(659.0)
    assert ("lost", 0) not in line.manager.told
    line.until(660.0)
    assert ("lost", 0) in line.manager.told


def test_a_manager_that_was_down_for_a_day_gives_up_no_run() -> None:
    line = Line()
    line.start(0)
    line.until(290.0)
    line.clock.now_s += 86_400.0
    line.delivery.handle(TimePassed())
    assert line.manager.told == []
    line.delivery.handle(MachineAnswered(0))
    line.until(line.clock.now_s + 299.0)
    assert line.manager.told == []


def test_the_machines_of_an_abandoned_run_are_down_until_it_is_over_and_its_end_does_not_count() -> None:
    line = Line()
    line.start(0, (0, 1))
    line.until(400.0)
    line.reads(1, True, 399.0)
    assert line.manager.up == {0: False, 1: False}
    line.ends(0)
    line.ends(0)
    assert line.manager.told == [("lost", 0)]
    assert line.manager.up == {0: True, 1: True}


def test_a_machine_that_failed_while_it_was_held_is_down_after_its_release() -> None:
    line = Line()
    line.start(0, (0, 1))
    line.until(400.0)
    line.reads(1, False, 399.0)
    line.reads(1, True, 10.0)  # overtaken by the reading before
    line.ends(0)
    assert line.manager.up == {0: True, 1: False}


def test_a_machine_with_two_abandoned_runs_is_held_until_both_are_over() -> None:
    line = Line()
    line.start(0, (0, 1))
    line.start(1, (1, 2))
    line.until(400.0)
    line.ends(0)
    assert line.manager.up == {0: True, 1: False, 2: False}
    line.ends(1)
    assert line.manager.up == {0: True, 1: True, 2: True}


def test_a_machine_that_answers_again_is_told_each_time_that_its_run_is_abandoned() -> None:
    line = Line()
    line.start(0)
    line.until(400.0)
    line.wire.sent.clear()
    line.delivery.handle(MachineAnswered(0))
    line.delivery.handle(MachineAnswered(0))
    line.delivery.handle(MachineAnswered(3))  # which has no run
    assert [sent[1:] for sent in line.wire.sent] == [("abandon", 0)] * 2
    line.ends(0)
    line.wire.sent.clear()
    line.delivery.handle(MachineAnswered(0))
    assert not line.wire.sent


def test_machines_are_pinged_only_while_they_lead_runs() -> None:
    line = Line()
    line.start(0, (2, 3))
    line.until(70.0)
    line.ends(0)
    line.until(1_000.0)
    assert [sent for sent in line.wire.sent if sent[1] == "ping"] == [(60.0, "ping", 2)]
    assert line.delivery.wakes_at_s is None
    line.start(1, (2,))
    line.until(1_060.0)
    assert line.wire.times_s("ping") == [60.0, 1_060.0]


def test_the_run_of_a_refused_order_is_lost_and_its_machines_are_down_for_a_while() -> None:
    line = Line(QUIET)
    line.start(0, (1, 3))
    for _ in range(2):
        line.delivery.handle(OrderRefused(RunId(0)))
    assert line.manager.told == [("lost", 0)]
    assert line.manager.up == {1: False, 3: False}
    line.until(10.0)
    assert line.manager.up == {1: True, 3: True}


def test_a_job_that_is_submitted_twice_is_accepted_or_refused_once() -> None:
    line = Line()
    jobs = [Job(JobId(job), "work", arrival_s) for job, arrival_s in enumerate((0.0, 5.0))]
    answers = [line.delivery.handle(JobArrived(job)) for job in (*jobs, *jobs)]
    assert answers == [None, "too late"] * 2
    assert line.manager.told == [("arrived", 0), ("arrived", 1)]


def test_the_manager_is_woken_when_it_asked_for_it_and_not_for_timers_of_the_line() -> None:
    line = Line(QUIET)
    woken_s = list[float]()
    line.manager.on_time_passed = lambda: woken_s.append(line.clock.now_s)  # type: ignore[method-assign]
    line.manager.wakes_at_s = 33.0
    line.start(0)
    line.clock.now_s = 10.0
    line.delivery.handle(TimePassed())
    assert (woken_s, line.delivery.wakes_at_s) == ([], 30.0)
    line.clock.now_s = 33.0
    line.delivery.handle(TimePassed())
    assert woken_s == [33.0]


NOTICES = st.sampled_from(["ended", "preempted", "lost", "refused", "received", "answer"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.integers(0, 3)),
        st.tuples(st.just("stop"), st.integers(0, 9)),
        st.tuples(NOTICES, st.integers(0, 9)),
        st.tuples(st.just("time"), st.sampled_from([1, 10, 60, 400])),
    ),
    max_size=60,
)


@given(STEPS)
def test_whatever_is_lost_or_repeated_each_run_is_over_once_for_the_manager(
    steps: list[tuple[str, int]],
) -> None:
    """Each run gets a notice about its end at last. It is over once: by the first notice that says so, or as
    lost if it was abandoned before. No machine is held when all are over, and nothing more is sent."""
    line = Line()
    starts, over, abandoned = 0, dict[int, str](), set[int]()

    def notice(kind: str, run: int) -> None:
        abandoned.update(about for _, sent, about in line.wire.sent if sent == "abandon")
        told = {"refused": "lost"}.get(kind, kind)
        match kind:
            case "ended":
                line.ends(run)
            case "preempted":
                line.delivery.handle(RunPreempted(RunId(run)))
            case "lost":
                line.delivery.handle(RunLost(RunId(run), line.clock.now_s))
            case "refused":
                line.delivery.handle(OrderRefused(RunId(run)))
        if run < starts:
            over.setdefault(run, "lost" if run in abandoned else told)

    for kind, about in steps:
        match kind:
            case "start":
                line.start(starts, range(about % 3, about + 1))
                starts += 1
            case "stop":
                line.stop(about)
            case "time":
                line.until(line.clock.now_s + about)
            case "received":
                line.delivery.handle(OrderReceived(RunId(about)))
            case "answer":
                line.delivery.handle(MachineAnswered(about % 4))
            case _:
                notice(kind, about)
    for run in range(starts):
        notice("ended", run)
    line.until(line.clock.now_s + 1_000.0)
    told = Counter(line.manager.told)
    assert told == Counter({(kind, run): 1 for run, kind in over.items()})
    assert all(line.manager.up.values())
    assert line.delivery.wakes_at_s is None
