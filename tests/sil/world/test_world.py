from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
import time
from collections.abc import Sequence

import numpy as np
import pytest

from scheduler.mapping.etc import EtcMatrix
from scheduler.model import DispatchOrder, InterconnectReading, Job, JobId, MachineReading, RunId, Site
from scheduler.rules import CLUSTER_MEMBERS_FREE, KNOWN_RESOURCE, NO_DOUBLE_BOOKING
from sil.world.actual_runtimes import ActualRuntimes, Empirical, Variation
from sil.world.events import (
    AnyEvent,
    EndDue,
    EventQueue,
    JobArrived,
    MonitorNews,
    RoundDue,
    Rounds,
    SimClock,
    StateChange,
)
from sil.world.failures import Outage, RandomFailures, in_order_of_time, listed_outages
from sil.world.guard.decision_time import TimeLimitExceeded, time_limit
from sil.world.guard.faults import SchedulerFault
from sil.world.machines.execution import DedicatedMachines
from sil.world.monitors import Noisy, SimMonitor, Stale
from tests.builders import site

JOB = Job(JobId(0), "work", 0.0)


def test_simultaneous_events_are_ordered_by_rank_then_by_insertion() -> None:
    events = EventQueue()
    change, ends = StateChange((0,), False), [EndDue(RunId(2)), EndDue(RunId(1))]
    pushed: list[AnyEvent] = [RoundDue(), JobArrived(JOB), change, *ends]
    for event in pushed:
        events.push(5.0, event)
    events.push(4.0, MonitorNews())
    popped = [events.pop()[1] for _ in range(len(events))]
    assert popped == [MonitorNews(), *ends, change, JobArrived(JOB), RoundDue()]


def test_time_never_goes_backwards() -> None:
    events = EventQueue()
    for time_s in (3.0, 3.0):
        events.push(time_s, MonitorNews())
        events.pop()
    events.push(2.999, MonitorNews())
    with pytest.raises(ValueError, match="cannot go back"):
        events.pop()


@pytest.mark.parametrize(
    ("now_s", "last_s", "due_s"), [(0.0, None, 0.0), (0.1, None, 10.0), (10.0, 0.0, 10.0), (10.0, 10.0, 20.0)]
)
def test_rounds_every_quantum_occur_once_at_each_multiple(
    now_s: float, last_s: float | None, due_s: float
) -> None:
    assert Rounds(quantum_s=10.0).due_s(now_s, last_s) == due_s


def test_a_job_that_arrives_at_a_fractional_quantum_boundary_joins_that_round() -> None:
    assert Rounds(quantum_s=0.1).due_s(3 * 0.1, None) == 3 * 0.1


def test_rounds_on_request_are_immediate_but_keep_a_minimum_interval() -> None:
    policy = Rounds(5.0)
    assert policy.due_s(2.0, None) == 2.0
    assert policy.due_s(2.0, 0.0) == 5.0
    assert policy.due_s(9.0, 0.0) == 9.0


def order(run: int, resource: int, *machines: int) -> DispatchOrder:
    return DispatchOrder(RunId(run), JOB, resource, machines, 10.0)


def dedicated(site: Site, slots: Sequence[tuple[int, ...]] = ()) -> DedicatedMachines:
    n = site.n_machines + len(site.clusters)
    mean = EtcMatrix.from_dense(np.full((1, n), 10.0))
    actual = ActualRuntimes(mean, Variation(), np.array([0.5]))
    return DedicatedMachines(site, actual, EventQueue(), slots or [(j,) for j in range(site.n_machines)])


def test_a_machine_runs_one_run_at_a_time() -> None:
    machines = dedicated(site(2))
    machines.start(order(0, 0, 0), 0.0)
    with pytest.raises(SchedulerFault) as caught:
        machines.check(order(1, 0, 0), 7.0)
    assert (caught.value.rule, caught.value.time_s, caught.value.job) == (NO_DOUBLE_BOOKING, 7.0, JOB.id)
    machines.stop(RunId(0), 7.0)
    machines.start(order(1, 0, 0), 7.0)


def test_a_cluster_cannot_start_while_a_member_is_busy() -> None:
    machines = dedicated(site(2, [[0, 1]]))
    machines.start(order(0, 1, 1), 0.0)
    with pytest.raises(SchedulerFault) as caught:
        machines.check(order(1, 2, 0, 1), 0.0)
    assert caught.value.rule == CLUSTER_MEMBERS_FREE


def test_a_run_cannot_use_machines_outside_its_resource() -> None:
    with pytest.raises(SchedulerFault) as caught:
        dedicated(site(3, [[0, 1]])).check(order(1, 3, 0, 2), 0.0)
    assert caught.value.rule == KNOWN_RESOURCE


def test_overlapping_outages_of_one_machine_count_as_one() -> None:
    machines = dedicated(site(1))
    changes = [machines.change(0, up) for up in (False, False, True, True)]
    assert changes == [True, False, False, True]


def test_a_cluster_is_disconnected_only_if_all_its_interconnects_are_down() -> None:
    from scheduler.model import Cluster, Interconnect, Machine

    two = Site(
        "two",
        (Machine("m0", "any"), Machine("m1", "any")),
        (Cluster("c", ("m0", "m1"), ("a", "b")),),
        (Interconnect("a", 1.0, 1.0), Interconnect("b", 1.0, 1.0)),
    )
    machines = dedicated(two)
    machines.start(order(0, 2, 0, 1), 0.0)
    machines.change("a", False)
    assert machines.runs_hit_by("a") == []
    machines.change("b", False)
    assert machines.runs_hit_by("b") == [RunId(0)]
    assert machines.down_for(order(1, 2, 0, 1)) == ("a", "b")
    assert machines.down_for(order(1, 0, 0)) == ()


def actual_runtimes(spread: Variation, quantile_levels: list[float]) -> ActualRuntimes:
    mean = EtcMatrix(np.array([[100.0, 50.0]]), np.array([0]), np.array([0, 1]))
    return ActualRuntimes(mean, spread, np.array(quantile_levels))


def test_a_run_on_half_of_the_members_takes_twice_as_long() -> None:
    assert actual_runtimes(Variation(), [0.3]).run_s(JOB, 1, 0.5) == 100.0


def test_a_job_has_the_same_run_time_quantile_on_every_resource() -> None:
    times = actual_runtimes(Variation("lognormal", 0.5), [0.9])
    assert times.run_s(JOB, 0, 1.0) / 100.0 == pytest.approx(times.run_s(JOB, 1, 1.0) / 50.0)
    assert times.run_s(JOB, 0, 1.0) > 100.0


@pytest.mark.parametrize("spread", [Variation("lognormal", 0.4), Variation("gamma", 0.4)])
def test_run_times_have_the_given_mean_and_variation(spread: Variation) -> None:
    quantiles = (np.arange(20_000) + 0.5) / 20_000
    factors = np.array([spread.factor(q) for q in quantiles])
    assert factors.mean() == pytest.approx(1.0, abs=0.005)
    assert factors.std() == pytest.approx(0.4, abs=0.01)
    assert (np.diff(factors) >= 0).all()


def test_empirical_run_times_are_the_given_ratios_scaled_to_mean_one() -> None:
    spread = Empirical(iter((3.0, 1.0, 2.0)))  # can be read only once
    assert [spread.factor(q) for q in (0.0, 0.2, 0.5, 0.999)] == [0.5, 0.5, 1.0, 1.5]


def test_a_stale_monitor_delivers_readings_after_its_delay() -> None:
    clock = SimClock()
    monitor = SimMonitor(clock, [Stale(30.0)])
    assert monitor.observe((2,), False) == [30.0]
    assert monitor.news() == []
    clock.now_s = 30.0
    assert monitor.news() == [MachineReading(2, False, 0.0)]
    assert monitor.news() == []


def test_a_noisy_monitor_reports_the_opposite_and_then_corrects_itself() -> None:
    clock = SimClock()
    always = Noisy(1.0, 60.0, np.random.default_rng(0))
    monitor = SimMonitor(clock, [always, Stale(5.0)])
    assert monitor.observe(("lan",), False) == [5.0, 65.0]
    clock.now_s = 5.0
    assert monitor.news() == [InterconnectReading("lan", True, 0.0)]
    clock.now_s = 65.0
    assert monitor.news() == [InterconnectReading("lan", False, 0.0)]


def test_listed_outages_are_sorted_by_time() -> None:
    changes = listed_outages([Outage(0, 50.0, 60.0), Outage("lan", 10.0, 55.0)])
    assert [(time_s, change.subjects, change.up) for time_s, change in changes] == [
        (10.0, ("lan",), False),
        (50.0, (0,), False),
        (55.0, ("lan",), True),
        (60.0, (0,), True),
    ]


def test_random_failures_are_endless_sorted_and_alternate_on_each_machine() -> None:
    changes = list(
        itertools.islice(
            RandomFailures(100.0, 10.0).changes([(0,), (1,), (2,)], np.random.default_rng(1)), 600
        )
    )
    times_s = [time_s for time_s, _ in changes]
    assert times_s == sorted(times_s)
    for machine in range(3):
        states = [change.up for _, change in changes if change.subjects == (machine,)]
        assert states == [k % 2 == 1 for k in range(len(states))]
    assert times_s[-1] / 100 == pytest.approx(110.0, rel=0.25)  # 600 changes are 100 cycles per machine


def test_several_outage_sources_merge_into_one_stream() -> None:
    a, b = listed_outages([Outage(0, 1.0, 9.0)]), listed_outages([Outage(1, 2.0, 3.0)])
    assert [time_s for time_s, _ in in_order_of_time(a, b)] == [1.0, 2.0, 3.0, 9.0]


def test_a_time_limit_ends_a_sleeping_call_and_not_a_quick_one() -> None:
    with time_limit(60.0):
        pass
    began = time.monotonic()
    with pytest.raises(TimeLimitExceeded), time_limit(0.1):
        time.sleep(600.0)
    assert time.monotonic() - began < 300.0


SLOW_TO_END = """
import time
from sil.world.guard.decision_time import time_limit

class Slow:
    def __del__(self):
        time.sleep(1.0)

slow = Slow()
with time_limit(0.5):
    pass
"""


def test_a_timer_left_running_does_not_kill_an_exiting_process() -> None:
    assert subprocess.run([sys.executable, "-c", SLOW_TO_END], timeout=60).returncode == 0


def test_a_time_limit_ends_a_call_that_catches_every_exception() -> None:
    def stubborn() -> None:
        with contextlib.suppress(BaseException):
            time.sleep(0.5)

    with pytest.raises(TimeLimitExceeded), time_limit(0.05):
        stubborn()
