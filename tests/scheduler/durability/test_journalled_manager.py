"""Managers that end at any moment and are made again from their journal."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from scheduler import registry
from scheduler.durability.journal import JournalEntry
from scheduler.durability.journalled_manager import JournalledManager, JournalMismatch, dependable
from scheduler.free_nodes.runtime_estimates import UserEstimates
from scheduler.managers.rigid_allocation import free_nodes_manager
from scheduler.model import DispatchOrder, Job, JobId, RunId
from scheduler.ports import JobArrived, MonitorNews, RunEnded, RunLost
from scheduler.resource_manager import OnFreeNodes, Ports, ResourceManager
from tests.one_at_a_time import OneAtATime
from tests.scheduler.durability.line import Kept, Wire
from tests.scheduler.fakes import HandClock, ScriptedMonitor


class Site:
    """Four processors, whose manager can be made anew."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.wire = Wire(self.clock)
        self.ports = OnFreeNodes(self.clock, self.wire, 4, UserEstimates(), ScriptedMonitor())
        self.journal = Kept()


def easy(ports: Ports) -> ResourceManager:
    assert isinstance(ports, OnFreeNodes)
    return free_nodes_manager(ports, registry.named("easy").make(1), memoryless=True)


def job(number: int, n_tasks: int = 1, estimate_s: float = 60.0) -> Job:
    return Job(JobId(number), "work", 0.0, n_tasks=n_tasks, estimate_s=estimate_s)


class OneAfterTheOther(OneAtATime):
    """It looks at the clock when it starts a job."""

    def order(self, job: Job) -> DispatchOrder:
        assert self.ports.clock.now_s >= 0.0
        return super().order(job)._replace(machines=[0])


def test_a_manager_that_is_made_anew_is_in_the_same_state_at_another_time() -> None:
    site = Site()
    before = JournalledManager(site.ports, easy, site.journal)
    for number, (n_tasks, estimate_s) in enumerate(((3, 60.0), (4, 60.0), (1, 30.0), (1, 30.0))):
        site.clock.now_s += 1.0
        before.handle(JobArrived(job(number, n_tasks, estimate_s)))
        before.run_round()
    started = [run for _, _, run in site.wire.sent]
    assert len(started) == 2  # job 1 waits for all processors, and job 3 for one
    site.clock.now_s = 1_000.0
    after = JournalledManager(site.ports, easy, site.journal)
    assert after.why_waiting() == before.why_waiting() != {}
    assert after.wakes_at_s == before.wakes_at_s
    for manager in (before, after):
        del site.wire.sent[:]
        for run in started:
            manager.handle(RunEnded(RunId(run), 1_000.0))
        manager.run_round()
        assert [run for _, kind, run in site.wire.sent if kind == "dispatch"][-1:] == [2]


def test_after_a_restart_the_last_orders_are_sent_again_before_anything_else() -> None:
    site = Site()
    before = JournalledManager(site.ports, OneAfterTheOther, site.journal)
    for number in range(2):
        before.handle(JobArrived(job(number)))
        before.run_round()
    before.handle(RunEnded(RunId(0), 5.0))
    before.run_round()
    assert [run for *_, run in site.wire.sent] == [0, 1]
    after = JournalledManager(site.ports, OneAfterTheOther, site.journal)
    assert len(site.wire.sent) == 2
    after.handle(MonitorNews())
    after.handle(MonitorNews())
    assert [run for *_, run in site.wire.sent] == [0, 1, 1]


def test_orders_leave_once_their_entry_is_durable() -> None:
    site = Site()

    def sees_no_order(entry: JournalEntry) -> None:
        assert len(site.wire.sent) == sum(len(kept.orders) for kept in site.journal.kept)

    site.journal.before_append = sees_no_order
    manager = JournalledManager(site.ports, OneAfterTheOther, site.journal)
    manager.handle(JobArrived(job(0)))
    manager.run_round()
    assert len(site.wire.sent) == 1


def test_a_call_whose_entry_is_not_durable_has_never_happened() -> None:
    site = Site()
    before = JournalledManager(site.ports, OneAfterTheOther, site.journal)
    before.handle(JobArrived(job(0)))

    def fails(entry: JournalEntry) -> None:
        raise OSError("the power is out")

    site.journal.before_append = fails
    with pytest.raises(OSError, match="power"):
        before.run_round()
    assert not site.wire.sent
    site.journal.before_append = lambda entry: None
    after = JournalledManager(site.ports, OneAfterTheOther, site.journal)
    assert after.wants_round
    after.run_round()
    assert [run for *_, run in site.wire.sent] == [0]


def test_a_manager_that_was_restarted_twice_knows_what_it_did_in_between() -> None:
    site = Site()
    for number in range(3):
        manager = JournalledManager(site.ports, OneAfterTheOther, site.journal)
        manager.handle(JobArrived(job(number)))
        manager.run_round()
        manager.handle(RunEnded(RunId(number), 1.0))
    assert sorted({run for *_, run in site.wire.sent}) == [0, 1, 2]


def test_what_is_read_between_calls_is_not_taken_from_the_journal() -> None:
    class Impatient(OneAfterTheOther):
        @property
        def wakes_at_s(self) -> float | None:  # type: ignore[override]
            return self.ports.clock.now_s + 1.0

    site = Site()
    JournalledManager(site.ports, Impatient, site.journal).handle(JobArrived(job(0)))
    after = JournalledManager(site.ports, Impatient, site.journal)
    site.clock.now_s = 7.0
    assert after.wakes_at_s == 8.0


def _other_order(ports: Ports, restarts: Callable[[], int]) -> ResourceManager:
    class Fickle(OneAfterTheOther):
        def order(self, job: Job) -> DispatchOrder:
            return super().order(job)._replace(expected_s=float(restarts()))

    return Fickle(ports)


def _more_reads(ports: Ports, restarts: Callable[[], int]) -> ResourceManager:
    class Curious(OneAfterTheOther):
        def run_round(self) -> None:
            super().run_round()
            for _ in range(restarts()):
                assert ports.clock.now_s == 0.0

    return Curious(ports)


def _more_reads_unnoticed(ports: Ports, restarts: Callable[[], int]) -> ResourceManager:
    class Furtive(OneAfterTheOther):
        def run_round(self) -> None:
            super().run_round()
            for _ in range(restarts()):
                try:
                    assert ports.clock.now_s == 0.0
                except Exception:
                    return

    return Furtive(ports)


def _fewer_reads(ports: Ports, restarts: Callable[[], int]) -> ResourceManager:
    return _more_reads(ports, lambda: 5 - restarts())


@pytest.mark.parametrize("make", [_other_order, _more_reads, _more_reads_unnoticed, _fewer_reads])
def test_a_manager_that_decides_otherwise_when_it_is_made_anew_is_told_where(
    make: Callable[[Ports, Callable[[], int]], ResourceManager],
) -> None:
    site, restarts = Site(), count()

    def made(ports: Ports) -> ResourceManager:
        n = next(restarts)
        return make(ports, lambda: n)

    manager = JournalledManager(site.ports, made, site.journal)
    manager.handle(JobArrived(job(0)))
    manager.run_round()
    with pytest.raises(JournalMismatch, match="run_round had other effects than before the restart"):
        JournalledManager(site.ports, made, site.journal)


def test_an_exception_of_the_manager_itself_is_no_mismatch() -> None:
    site, restarts = Site(), count()

    def made(ports: Ports) -> ResourceManager:
        if next(restarts):
            raise LookupError("lost it")
        return OneAfterTheOther(ports)

    JournalledManager(site.ports, made, site.journal)
    with pytest.raises(LookupError, match="lost it"):
        JournalledManager(site.ports, made, site.journal)


# -- all together --------------------------------------------------------------------------------------------


def test_a_failed_run_that_is_reported_again_to_a_manager_that_was_made_anew_counts_once() -> None:
    site = Site()
    make = dependable(OneAfterTheOther, max_batch_requeue=1, journal=site.journal)
    manager = make(site.ports)
    manager.handle(JobArrived(job(7)))
    manager.run_round()
    loss = RunLost(RunId(0), 3.0, failed_job=JobId(7))
    for _ in range(3):
        manager = make(site.ports)
        manager.handle(loss)
    kinds = [kind for _, kind, _ in site.wire.sent]
    assert "acknowledge" in kinds
    assert "give_up" not in kinds


def test_without_a_journal_nothing_is_kept_and_without_a_limit_jobs_fail_as_often_as_they_do() -> None:
    site = Site()
    manager = dependable(easy)(site.ports)
    manager.handle(JobArrived(job(0)))
    for run in range(20):
        manager.run_round()
        manager.handle(RunLost(RunId(run), 3.0, failed_job=JobId(0)))
    kinds = [kind for _, kind, _ in site.wire.sent]
    assert kinds.count("dispatch") == kinds.count("acknowledge") == 20
    assert "give_up" not in kinds


def test_a_job_is_given_up_once_after_its_last_requeue() -> None:
    site = Site()
    make = dependable(easy, max_batch_requeue=1, journal=site.journal)
    make(site.ports).handle(JobArrived(job(7)))
    for run in range(2):
        make(site.ports).run_round()
        for _ in range(2):  # the second notice is a duplicate, to a manager that was made anew
            make(site.ports).handle(RunLost(RunId(run), 3.0, failed_job=JobId(7)))
    manager = make(site.ports)
    assert not manager.why_waiting()
    kinds = [kind for _, kind, _ in site.wire.sent]
    # The orders of the last call before a restart are sent again.
    assert {kind: kinds.count(kind) for kind in ("give_up", "dispatch")} == {"give_up": 2, "dispatch": 4}
    orders = [order for entry in site.journal.entries() for order in entry.orders]
    assert [method for method, _ in orders].count("give_up") == 1


def test_a_journal_names_only_notices() -> None:
    """Its file may be foreign: no other method of the manager is called."""
    site = Site()
    JournalledManager(site.ports, easy, site.journal)
    site.journal.append(JournalEntry("_something_changed", (), (), ()))
    with pytest.raises(JournalMismatch, match="'_something_changed', which is no notice"):
        JournalledManager(site.ports, easy, site.journal)
