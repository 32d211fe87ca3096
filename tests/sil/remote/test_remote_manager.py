"""A manager over an unreliable network that may crash and restart, in whole simulations."""

from __future__ import annotations

from collections import Counter
from itertools import count
from math import inf

import numpy as np
import pytest

from scheduler.mapping.etc import EtcMatrix
from scheduler.model import ON_NODES, DispatchOrder, ExecutionRecord, Job
from scheduler.ports import RunEnded
from scheduler.resource_manager import OnMachines, Ports, ResourceManager
from scheduler.rules import KNOWN_NODES, MAKES_PROGRESS
from sil.trace.recorder import TraceRecorder
from sil.world.actual_runtimes import ActualRuntimes, Variation
from sil.world.events import EventQueue, Rounds, SimClock
from sil.world.failures import Outage
from sil.world.guard.faults import KEEPS_ITS_JOURNAL, SchedulerFault
from sil.world.harness import World
from sil.world.machines.execution import DedicatedMachines
from sil.world.monitors import SimMonitor
from sil.world.remote import remote_manager
from sil.world.remote.network import Crashes, ManagerClock, ManagerCrashed, NetworkPartition, Unreliable
from tests.one_at_a_time import OneAtATime
from tests.scheduler.fakes import TableExperience, make_site
from tests.sil.remote.worlds import CrashesAt, Remote, job, times_s, world_of


class Learned:
    """Run times that were reported to the history."""

    def __init__(self) -> None:
        self.ran_s: list[tuple[int, float]] = []

    def estimate_s(self, job: Job) -> float:
        return 100.0

    def outlived_s(self, job: Job, ran_s: float) -> float:
        return 2.0 * ran_s

    def learn(self, job: Job, ran_s: float) -> None:
        self.ran_s.append((job.id, ran_s))


# -- crashes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("times", "every"), [(1, 3), (3, 5)])
def test_wherever_the_manager_crashes_each_job_ends_and_is_recorded_once(times: int, every: int) -> None:
    """At one in `every` steps at which something becomes durable or leaves, and so many `times` in a row."""
    jobs, outages = [job(0), job(1, 1.0, size=2), job(2, 2.0)], [Outage(0, 20.0, 50.0)]
    crashes = CrashesAt()
    undisturbed = Remote(world_of(outages=outages), crashes=crashes).run(jobs)
    assert len(times_s(undisturbed, "run_lost")) == 1
    assert crashes.n > 50
    for step in range(0, crashes.n, every):
        learned = Learned()
        crash = CrashesAt(*range(step, step + times), down_s=7.0)
        facts = Remote(world_of(outages=outages), crashes=crash, run_times=learned).run(jobs)
        assert Counter(learned.ran_s) == {(number, 100.0): 1 for number in range(3)}, f"crash at step {step}"
        assert len(times_s(facts, "run_ended")) == 3
        changes = [fact["event"] for fact in facts if fact["event"].startswith("manager")]
        assert changes == ["manager_down", "manager_up"] * (len(changes) // 2) != []


class Records(OneAtATime):
    """Orders the next run in the call in which it records the one before."""

    def on_run_ended(self, completion: RunEnded) -> None:
        assert isinstance(self.ports, OnMachines)
        super().on_run_ended(completion)
        ran_s = completion.run_time_s(0.0)
        self.ports.experience.record(ExecutionRecord(job(completion.run), 0, 1, 0.0, ran_s))
        self.run_round()

    def order(self, job: Job) -> DispatchOrder:
        return super().order(job)._replace(resource=0)


def test_wherever_the_manager_crashes_each_run_on_a_machine_is_recorded_once() -> None:
    site = make_site(1)
    jobs = [job(number) for number in range(3)]
    step, n = -1, 0
    while step < n:
        experience, clock, events = TableExperience(site, {"work": [10.0]}), SimClock(), EventQueue()
        actual = ActualRuntimes(EtcMatrix.from_dense(np.full((3, 1), 10.0)), Variation(), np.zeros(3))
        machines = DedicatedMachines(site, actual, events, [(0,)])
        world = World(clock, events, TraceRecorder(), machines, SimMonitor(clock), Rounds())
        ports = OnMachines(clock, world.dispatcher, site, world.monitor, experience)
        crashes = CrashesAt(step)
        Remote(world, Records, ports=ports, n_machines=1, crashes=crashes).run(jobs)
        assert [(record.job.id, record.run_time_s) for record in experience.records] == [
            (number, 10.0) for number in range(3)
        ], f"crash at step {step}"
        step, n = step + 1, crashes.n
    assert n > 30


def test_a_job_that_is_submitted_while_the_manager_is_down_is_submitted_again() -> None:
    facts = Remote(world_of(), crashes=CrashesAt(4)).run([job(0), job(1, 5.0)])
    (down_s, _), (up_s, _) = (times_s(facts, f"manager_{state}")[0] for state in ("down", "up"))
    assert (down_s, up_s) == (0.0, 30.0)
    assert times_s(facts, "run_started") == [(30.0, 0), (30.0, 1)]


def test_a_job_that_is_refused_when_it_is_submitted_again_is_refused_then() -> None:
    facts = Remote(world_of(), crashes=CrashesAt(4)).run([job(0), job(1, 5.0, size=3)])
    assert times_s(facts, "job_refused") == [(30.0, 1)]


def test_a_job_that_was_refused_is_not_refused_again_after_a_crash() -> None:
    facts = Remote(world_of(), crashes=CrashesAt(12)).run([job(0, 1.0, size=3), job(1, 2.0), job(2, 3.0)])
    assert len(times_s(facts, "manager_up")) == 1
    assert times_s(facts, "job_refused") == [(1.0, 0)]


def test_a_reading_during_which_the_manager_crashes_is_read_again() -> None:
    """Machine 0 fails while it is idle; the next job is not sent there."""
    found = set()
    for step in range(8):
        world = world_of(outages=[Outage(0, 10.0, 1_000.0)])
        facts = Remote(world, crashes=CrashesAt(step, down_s=5.0)).run([job(0, 50.0)])
        assert not times_s(facts, "order_overtaken")
        assert len(times_s(facts, "run_started")) == 1
        found.add(times_s(facts, "manager_down")[0][0])
    assert 10.0 in found


def test_a_manager_that_crashes_while_it_is_made_is_up_when_it_is_made_at_last() -> None:
    facts = Remote(world_of(), crashes=CrashesAt(0, 1, 3)).run([job(0)])
    assert [time_s for time_s, _ in times_s(facts, "manager_down")] == [0.0]
    assert [time_s for time_s, _ in times_s(facts, "manager_up")] == [90.0]
    assert times_s(facts, "run_started") == [(90.0, 0)]


def test_a_manager_that_decides_otherwise_when_it_is_made_again_is_at_fault() -> None:
    made = count()

    def fickle(ports: Ports) -> ResourceManager:
        n = next(made)

        class Fickle(OneAtATime):
            def order(self, job: Job) -> DispatchOrder:
                return super().order(job)._replace(machines=(n % 2,))

        return Fickle(ports)

    remote = Remote(world_of(), fickle, crashes=CrashesAt(8))
    with pytest.raises(SchedulerFault, match="run_round had other effects than before the restart") as found:
        remote.run([job(0)])
    assert found.value.rule == KEEPS_ITS_JOURNAL


def test_crashes_are_as_far_apart_as_their_mean_and_come_within_sixteen_steps_until_they_end() -> None:
    clock = SimClock()
    crashes = Crashes(100.0, 1.0, clock, np.random.default_rng(1), until_s=50_000.0)
    crashed_s, steps = list[float](), set[int]()
    for second in range(60_000):
        clock.now_s = float(second)
        for step in range(16):
            try:
                crashes.strike()
            except ManagerCrashed:
                crashed_s.append(clock.now_s)
                steps.add(step)
                break
    assert np.diff(crashed_s).mean() == pytest.approx(100.0, rel=0.1)
    assert crashed_s[-1] < 50_000.0
    assert steps == {*range(16)}


def test_a_manager_that_was_about_to_crash_does_not_when_faults_are_over() -> None:
    """The next step at which it could comes long after them."""
    clock = SimClock()
    crashes = Crashes(1.0, 1.0, clock, np.random.default_rng(1), until_s=1_000.0)
    clock.now_s = 2_000.0
    for _ in range(100):
        crashes.strike()


# -- messages ------------------------------------------------------------------------------------------------


def test_a_run_that_was_abandoned_counts_for_nothing_when_it_ends() -> None:
    learned = Learned()
    cut = NetworkPartition(frozenset({0}), 10.0, 2_000.0)
    world = world_of(run_s={0: 700.0})
    facts = Remote(world, faults=[cut], run_times=learned).run([job(0)])
    assert times_s(facts, "run_started") == [(0.0, 0), (360.0, 0)]
    assert times_s(facts, "run_abandoned") == [(360.0, 0)]
    assert times_s(facts, "run_discarded") == [(700.0, 0)]
    assert times_s(facts, "run_ended") == [(1_060.0, 0)]
    assert learned.ran_s == [(0, 700.0)]


def test_the_machine_of_an_abandoned_run_is_used_again_once_the_run_is_over() -> None:
    cut = NetworkPartition(frozenset({0}), 10.0, 1_000.0)
    world = world_of(1, run_s={0: 1e6})
    facts = Remote(world, faults=[cut], n_machines=1).run([job(0), job(1, 20.0)])
    assert times_s(facts, "run_abandoned") == [(360.0, 0)]
    # The machine hears the next ping, answers, and gets the order to stop the run.
    assert times_s(facts, "run_preempted") == [(1_020.0, 0)]
    assert times_s(facts, "run_started")[1] == (1_020.0, 0)


def test_lost_orders_and_notices_are_made_good() -> None:
    faults = [Unreliable("lost", np.random.default_rng(3), 0.5, until_s=2_000.0)]
    learned = Learned()
    facts = Remote(world_of(), faults=faults, run_times=learned).run([job(n, 10.0 * n) for n in range(10)])
    assert sorted(learned.ran_s) == [(n, 100.0) for n in range(10)]
    assert times_s(facts, "run_started")[0][0] < times_s(facts, "run_started")[-1][0] - 500.0


# -- clocks --------------------------------------------------------------------------------------------------


class WakesUp(OneAtATime):
    """Starts its first job 100 s after it arrived, by its clock."""

    woken_s: list[float]

    def on_job_arrived(self, job: Job) -> str | None:
        super().on_job_arrived(job)
        self.wants_round = False
        self.wakes_at_s = self.ports.clock.now_s + 100.0
        return None

    def on_time_passed(self) -> None:
        self.wakes_at_s = None
        self.wants_round = True


@pytest.mark.parametrize(
    ("jumps", "starts_s"),
    [
        ([], 100.0),
        ([(40.0, 50.0)], 50.0),
        ([(40.0, 500.0)], 40.0),
        ([(40.0, -30.0)], 130.0),
        ([(40.0, -30.0), (90.0, 0.0)], 100.0),
        ([(40.0, 0.1)], 99.9),
    ],
)
def test_a_manager_wakes_up_by_its_own_clock(jumps: list[tuple[float, float]], starts_s: float) -> None:
    facts = Remote(world_of(), WakesUp, jumps=jumps).run([job(0)])
    assert times_s(facts, "run_started") == [(pytest.approx(starts_s), 0)]


def test_the_clock_of_a_manager_never_goes_back() -> None:
    clock = SimClock()
    shown = ManagerClock(clock, [(10.0, 50.0), (20.0, -5.0), (100.0, 0.0)])
    found = []
    for time_s in (0.0, 9.0, 10.0, 19.0, 20.0, 70.0, 80.0, 100.0):
        clock.now_s = time_s
        found.append(shown.now_s)
    assert found == [0.0, 9.0, 60.0, 69.0, 69.0, 69.0, 75.0, 100.0]


def test_run_times_are_those_of_the_machines_whatever_the_manager_thinks_the_time_is() -> None:
    learned = Learned()
    jumps = [(30.0, 1_000.0), (130.0, -20.0)]
    Remote(world_of(1), jumps=jumps, run_times=learned, n_machines=1).run([job(0), job(1)])
    assert learned.ran_s == [(0, 100.0), (1, 100.0)]


# -- managers that do not come to an end, and wrong orders ---------------------------------------------------


def test_a_conversation_without_an_end_is_a_fault_also_while_a_job_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote_manager, "MAX_MESSAGES_WITHOUT_PROGRESS", 500)

    class WakesForEver(OneAtATime):
        @property
        def wakes_at_s(self) -> float | None:  # type: ignore[override]
            return self.ports.clock.now_s + 1e-6

    with pytest.raises(SchedulerFault, match="500 messages went by and no job arrived or ended") as found:
        Remote(world_of(), WakesForEver).run([job(0)])
    assert found.value.rule == MAKES_PROGRESS


def test_a_manager_that_never_starts_a_job_is_at_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_manager, "MAX_MESSAGES_WITHOUT_PROGRESS", 500)

    class Waits(OneAtATime):
        def on_time_passed(self) -> None:
            self.wakes_at_s = self.ports.clock.now_s + 60.0

        def run_round(self) -> None:
            self.wants_round = False
            self.on_time_passed()

    with pytest.raises(SchedulerFault, match="500 messages went by"):
        Remote(world_of(), Waits).run([job(0)])


@pytest.mark.parametrize("job_1_s", [0.0, 80_000.0])
def test_pings_during_a_long_run_or_of_a_dead_machine_are_no_endless_conversation(
    job_1_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Job 0 is lost with machine 0, which never comes back; job 1 runs long, or arrives late."""
    monkeypatch.setattr(remote_manager, "MAX_MESSAGES_WITHOUT_PROGRESS", 500)
    world = world_of(run_s={1: 80_000.0}, outages=[Outage(0, 20.0, inf)])
    facts = Remote(world).run([job(0), job(1, job_1_s)])
    assert times_s(facts, "run_ended")[-1][0] >= 80_000.0


@pytest.mark.parametrize("crashes", [None, CrashesAt()])
@pytest.mark.parametrize(
    ("resource", "machines"), [(ON_NODES, (2,)), (ON_NODES, (-1,)), (ON_NODES, (0, 7)), (0, (0,))]
)
def test_an_order_for_what_the_site_does_not_have_is_a_fault(
    resource: int, machines: tuple[int, ...], crashes: CrashesAt | None
) -> None:
    class Elsewhere(OneAtATime):
        def order(self, job: Job) -> DispatchOrder:
            return super().order(job)._replace(resource=resource, machines=machines)

    with pytest.raises(SchedulerFault, match="job 0 was dispatched to resource ") as found:
        Remote(world_of(), Elsewhere, crashes=crashes).run([job(0)])
    assert found.value.rule == KNOWN_NODES


def test_an_order_without_machines_is_rejected_where_it_is_given() -> None:
    class Nowhere(OneAtATime):
        def order(self, job: Job) -> DispatchOrder:
            return super().order(job)._replace(machines=())

    with pytest.raises(ValueError, match="the order for run 0 names no machine"):
        Remote(world_of(), Nowhere).run([job(0)])
