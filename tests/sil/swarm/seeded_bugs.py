"""Bugs of the kind that authors of resource managers and of their networks write. Each replaces one method.

The docstring of a bug says what its author forgot or believed. Its function gets the method that it replaces,
and then that method's arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any
from unittest.mock import patch

from scheduler.durability import journalled_manager, reliable_delivery
from scheduler.durability.journal import JournalEntry
from scheduler.durability.journalled_manager import JournalledManager
from scheduler.durability.reliable_delivery import LONGEST_RETRY, ReliableDelivery
from scheduler.free_nodes.consumable_nodes import ConsumableNodes
from scheduler.managers.availability import Availability, LatestReadings
from scheduler.managers.commitments import Commitments
from scheduler.managers.displacement import Displacement, Stops
from scheduler.managers.mapping_manager import MappingManager
from scheduler.managers.queues import PreemptionPolicy, Starvation
from scheduler.managers.rigid_allocation import RigidAllocation
from scheduler.managers.starting_manager import NodeManager
from scheduler.model import ExecutionRecord
from scheduler.ports import JobArrived, RunEnded, RunLost, RunPreempted
from scheduler.resource_manager import RequeueLimit
from sil.world.remote import remote_manager
from sil.world.remote.agents import Agents
from sil.world.remote.network import ManagerClock
from sil.world.remote.remote_manager import RemoteManager


@dataclass(frozen=True)
class Bug:
    where: type
    method: str
    faulty: Callable[..., Any]
    needs_a_fault: bool
    """Cases without faults do not show it."""

    @property
    def name(self) -> str:
        return self.faulty.__name__.replace("_", " ")

    @contextmanager
    def seeded(self) -> Iterator[None]:
        """Within this context, the method is the faulty one."""
        correct = self.where.__dict__[self.method]
        faulty: Any
        if isinstance(correct, property):
            faulty = property(partial(self.faulty, correct.fget))
        else:
            faulty = lambda *arguments: self.faulty(correct, *arguments)  # noqa: E731
        with patch.object(self.where, self.method, faulty):
            yield


BUGS: list[Bug] = []


def instead_of(
    where: type, method: str, needs_a_fault: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def seed(faulty: Callable[..., Any]) -> Callable[..., Any]:
        BUGS.append(Bug(where, method, faulty, needs_a_fault))
        return faulty

    return seed


breaks_a_policy = partial(instead_of, needs_a_fault=False)


def at_notice(
    where: type, kind: type, needs_a_fault: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The bug concerns one kind of notice."""

    def seed(faulty: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(faulty)
        def handle(correct: Any, self: Any, notice: Any) -> Any:
            return faulty(correct, self, notice) if isinstance(notice, kind) else correct(self, notice)

        return instead_of(where, "handle", needs_a_fault)(handle)

    return seed


# Reliable delivery

_MachineStates: Any = reliable_delivery._MachineStates


@instead_of(ReliableDelivery, "_is_over")
def only_news_are_acknowledged(correct: Any, self: Any, run: Any) -> bool:
    """A repeated notice needs no acknowledgement, since the first one had it."""
    if run in self._open or run in self._abandoned:
        return correct(self, run)
    return False


@instead_of(ReliableDelivery, "dispatch")
def an_order_is_sent_once(correct: Any, self: Any, order: Any) -> None:
    """There is no timer that sends an order again."""
    in_, self._in = self._in, lambda wait_s, due, subject: due == self._retry or in_(wait_s, due, subject)
    correct(self, order)
    del self._in


@instead_of(ReliableDelivery, "preempt")
def a_stop_is_sent_once(correct: Any, self: Any, run: Any) -> None:
    """There is no timer that sends a stop order again."""
    self._in = lambda wait_s, due, subject: None
    correct(self, run)
    del self._in


@instead_of(ReliableDelivery, "_retry")
def retries_end(correct: Any, self: Any, sent: Any) -> None:
    """An order is not sent again after the longest wait: by then, it must have arrived."""
    known = self._open.get(sent[0])
    if known is not None and known.retry_s < LONGEST_RETRY * self._timeouts.retry_s:
        correct(self, sent)


@instead_of(ReliableDelivery, "_retry")
def a_stop_is_forgotten_at_the_retry(correct: Any, self: Any, sent: Any) -> None:
    """What is sent again is the order to start, whatever has been ordered since."""
    known = self._open.get(sent[0])
    with patch.object(self._network, "preempt", lambda run: self._network.dispatch(known.order)):
        correct(self, sent)


@instead_of(ReliableDelivery, "_retry")
def an_order_is_retried_as_another_run(correct: Any, self: Any, sent: Any) -> None:
    """Each message has a new run id, so the agent cannot know that it has the order already."""
    dispatch = self._network.dispatch
    renamed = lambda order: dispatch(order._replace(run=1_000_000 + order.run))  # noqa: E731
    with patch.object(self._network, "dispatch", renamed):
        correct(self, sent)


@instead_of(ReliableDelivery, "_machine_answered")
def lost_pings_add_up(correct: Any, self: Any, machine: int) -> None:
    """An answer cancels one ping, not all of those before it."""
    missed = self._unanswered.get(machine, 0)
    correct(self, machine)
    if machine in self._unanswered:
        self._unanswered[machine] = max(missed - 1, 0)


@instead_of(ReliableDelivery, "_machine_answered")
def abandoned_runs_are_told_to_stop_once(correct: Any, self: Any, machine: int) -> None:
    """The stop order of an abandoned run is not repeated when its machine answers again."""
    if machine in self._unanswered:
        self._unanswered[machine] = 0


@instead_of(ReliableDelivery, "_is_over")
def repeated_notices_are_passed_on(correct: Any, self: Any, run: Any) -> bool:
    """Notices of runs that are over, or abandoned, are passed on."""
    correct(self, run)
    return True


@instead_of(ReliableDelivery, "_lost")
def machines_of_abandoned_runs_are_used(correct: Any, self: Any, order: Any) -> None:
    """The machines of an abandoned run are not held, though it may still run."""
    self._states.hold, hold = lambda machines: None, self._states.hold
    correct(self, order)
    self._states.hold = hold
    for machine in order.machines:
        self._states._held[machine] += 1


@instead_of(ReliableDelivery, "_release")
def machines_stay_held(correct: Any, self: Any, machines: Any) -> None:
    """The manager gets no notice that machines are released."""
    for machine in machines:
        self._states._held[machine] -= 1


@instead_of(_MachineStates, "release")
def one_release_is_enough(correct: Any, self: Any, machines: Any) -> None:
    """The machines held are a set: two reasons to hold one count once."""
    for machine in machines:
        self._held[machine] = min(self._held[machine], 1)
    correct(self, machines)


@instead_of(_MachineStates, "_is_news")
def readings_of_held_machines_are_dropped(correct: Any, self: Any, reading: Any) -> bool:
    """What monitors report of a machine while it is held is forgotten when it is released."""
    return not self._held[reading.machine] and correct(self, reading)


@at_notice(ReliableDelivery, JobArrived, needs_a_fault=False)
def a_submission_may_come_once(correct: Any, self: Any, notice: Any) -> Any:
    """A job is submitted again if the answer was lost, and then it is another job."""
    self._answers.pop(notice.job.id, None)
    return correct(self, notice)


@instead_of(ReliableDelivery, "_time_passed")
def timers_are_due_at_their_instant(correct: Any, self: Any) -> None:
    """A timer whose time has passed already, after a jump of the clock or a restart, is skipped."""
    now_s = self._clock.now_s
    self._timers[:] = [timer for timer in self._timers if timer[0] >= now_s]
    correct(self)


@instead_of(ReliableDelivery, "_ping")
def machines_are_pinged_for_their_first_runs(correct: Any, self: Any, machine: int) -> None:
    """Pings that end when a machine has no runs do not begin again with its next one."""
    if self._led[machine]:
        correct(self, machine)


@at_notice(ReliableDelivery, RunEnded)
def an_end_has_the_time_of_the_machine(correct: Any, self: Any, ended: Any) -> None:
    """Run times are computed as differences of two clocks."""
    if self._is_over(ended.run):
        self._manager.handle(ended._replace(ended_s=self._clock.now_s, ran_s=None))


# Journal and restart


def _unwritten(self: Any, method: str, *arguments: Any) -> Any:
    """A call without an entry in the journal."""
    unsent, self._unsent = self._unsent, ()
    self._send(unsent)
    self._tape.record()
    result = self._done(method, arguments)
    orders, self._orders = self._orders, []
    self._send(orders)
    return result


_NOT_WRITTEN = {
    "readings_are_not_written": (
        "on_monitor_news",
        "Readings of monitors come again, so they need no entry.",
    ),
    "confirmations_are_not_written": ("on_order_received", "That an order has arrived changes nothing."),
    "answers_are_not_written": ("on_answer", "Answers to pings change nothing, so they need no entry."),
    "arrivals_are_not_written": ("on_job_arrived", "A new job has no orders, so it needs no entry."),
    "losses_are_not_written": ("on_run_lost", "The entry for a lost run was forgotten."),
    "rounds_are_not_written": ("run_round", "A round can be computed again, so it needs no entry."),
}
for name, (unwritten, belief) in _NOT_WRITTEN.items():

    def not_written(correct: Any, self: Any, method: str, *arguments: Any, unwritten: str = unwritten) -> Any:
        call = _unwritten if method == unwritten else correct
        return call(self, method, *arguments)

    not_written.__name__, not_written.__doc__ = name, belief
    instead_of(JournalledManager, "_call")(not_written)


@instead_of(JournalledManager, "_call")
def orders_leave_before_the_entry(correct: Any, self: Any, method: str, *arguments: Any) -> Any:
    """Orders are sent as they are given; the entry follows."""
    unsent, self._unsent = self._unsent, ()
    self._send(unsent)
    self._tape.record()
    result = self._done(method, arguments)
    orders, self._orders = tuple(self._orders), []
    self._send(orders)
    self._journal.append(JournalEntry(method, arguments, self._tape.recorded(), orders))
    return result


@instead_of(JournalledManager, "_repeat")
def what_did_not_leave_is_not_sent_again(correct: Any, self: Any, entry: Any) -> None:
    """After a restart, the orders of the last call are taken for sent."""
    correct(self, entry)
    self._unsent = ()


@instead_of(JournalledManager, "__init__")
def the_last_entry_is_not_read(correct: Any, self: Any, ports: Any, make: Any, journal: Any) -> None:
    """The last entry may be incomplete, so it is left out."""

    entries = tuple(journal.entries())
    with patch.object(journal, "entries", lambda: entries[: max(len(entries) - 1, 1)]):
        correct(self, ports, make, journal)


@instead_of(journalled_manager._Taped, "__getattr__")
def readings_are_read_anew(correct: Any, self: Any, name: str) -> Any:
    """Calls are repeated with the readings of now, not with those of then."""
    return self._port.news if name == "news" else correct(self, name)


@instead_of(journalled_manager._Taped, "__getattr__")
def time_is_read_anew(correct: Any, self: Any, name: str) -> Any:
    """Calls are repeated with the time of now, not with that of then."""
    return self._port.now_s if name == "now_s" else correct(self, name)


# Managers


@at_notice(RequeueLimit, RunLost)
def one_run_too_few(correct: Any, self: Any, loss: Any) -> None:
    """The limit counts runs, where requeues are meant."""
    self._most -= 1
    correct(self, loss)
    self._most += 1


@at_notice(RequeueLimit, RunLost)
def what_is_given_up_waits_again(correct: Any, self: Any, loss: Any) -> None:
    """The user of a job gets notice that it is given up, but the manager queues it."""
    handle = self._manager.handle
    with patch.object(self._manager, "handle", lambda _: handle(loss)):
        correct(self, loss)


@instead_of(MappingManager, "_withdraw_job")
def a_job_that_ended_while_it_was_stopped_waits(correct: Any, self: Any, job: Any) -> None:
    """A run may end before the order to stop it arrives; its job is in the queue by then."""


@instead_of(MappingManager, "on_run_lost")
def a_run_lost_while_it_was_stopped_blocks_its_job(correct: Any, self: Any, loss: Any) -> None:
    """The next run of a job waits for the notice that the last one was stopped, but that one was lost."""
    run = self._started.get(loss.run)
    correct(self, loss)
    if run is not None and run.ending:
        self._ending_run_of[run.job.id] = run


@instead_of(MappingManager, "on_run_ended")
def failed_runs_are_recorded(correct: Any, self: Any, completion: Any) -> None:
    """The history gets the run of a job that is given up."""
    correct(self, completion._replace(failed=False))


@instead_of(MappingManager, "on_run_lost")
def lost_runs_are_recorded(correct: Any, self: Any, loss: Any) -> None:
    """The history gets runs that did not end by themselves."""
    run = self._started.get(loss.run)
    correct(self, loss)
    if run is not None:
        ran_s = self._clock.now_s - run.start_s
        self._experience.record(ExecutionRecord(run.job, run.resource, len(run.machines), run.start_s, ran_s))


@instead_of(MappingManager, "_decide")
def jobs_leave_their_queue_when_the_scheduler_is_asked(
    correct: Any, self: Any, queue: Any, jobs: Any, *more: Any
) -> Any:
    """They are mapped then. If its answer is rejected, they are nowhere."""
    waiting = self._waiting[queue.name]
    left = dict(waiting)
    waiting.clear()
    answer = correct(self, queue, jobs, *more)
    waiting.update(left)
    return answer


@instead_of(NodeManager, "on_run_lost")
def a_lost_run_asks_for_no_round(correct: Any, self: Any, loss: Any) -> None:
    """The job of a lost run waits, but no round looks for nodes for it."""
    wanted = self.wants_round
    correct(self, loss)
    self.wants_round = wanted


@instead_of(Stops, "over")
def a_run_that_ends_while_it_is_stopped_is_waited_for(
    correct: Any, self: Any, run: Any, is_stopped: bool
) -> Any:
    """Only a notice that a run was stopped counts; it may have ended, or be lost."""
    return correct(self, run, True) if is_stopped else (None, [])


@instead_of(LatestReadings, "accept")
def the_last_reading_to_arrive_counts(correct: Any, self: Any, subject: Any, measured_s: float) -> bool:
    """Readings arrive in the order in which they were measured."""
    return True


@instead_of(LatestReadings, "accept")
def readings_of_an_instant_are_equal(correct: Any, self: Any, subject: Any, measured_s: float) -> bool:
    """Of two readings with the same time, the second one says nothing new."""
    return self._measured_s.get(subject) != measured_s and correct(self, subject, measured_s)


@instead_of(Availability, "_set")
def a_repaired_interconnect_is_not_noticed(correct: Any, self: Any, subject: Any, up: bool) -> Any:
    """An interconnect that was down stays so."""
    return set() if up and isinstance(subject, str) else correct(self, subject, up)


@instead_of(RigidAllocation, "end")
def run_times_are_learnt_by_the_clock(correct: Any, self: Any, run: Any, completion: Any) -> None:
    """On identical nodes, a run took from its order to the notice of its end."""
    if not isinstance(self.state, ConsumableNodes):
        completion = completion._replace(ran_s=None)
    correct(self, run, completion)


@instead_of(RigidAllocation, "end")
def run_times_of_failures_are_learnt(correct: Any, self: Any, run: Any, completion: Any) -> None:
    """On nodes with resources, the estimator learns from the run of a job that is given up."""
    if isinstance(self.state, ConsumableNodes):
        completion = completion._replace(failed=False)
    correct(self, run, completion)


# Queues and policies: jobs end, but not as the policies say


@breaks_a_policy(MappingManager, "_decide")
def the_newest_job_is_served_first(
    correct: Any, self: Any, queue: Any, jobs: Any, etc: Any, *more: Any
) -> Any:
    """A queue is a stack."""
    jobs = list(reversed(jobs))
    etc = self._experience.estimate(jobs, [len(usable) for usable in self._availability.members()])
    return correct(self, queue, jobs, etc, *more)


@breaks_a_policy(ConsumableNodes, "wait")
def the_newest_job_goes_first_on_nodes(correct: Any, self: Any, job: Any, *rest: Any) -> None:
    """A new job is put in front of those of its queue."""
    correct(self, job._replace(arrival_s=-job.arrival_s), *rest)


@breaks_a_policy(ConsumableNodes, "wait")
def a_lost_job_goes_to_the_end_of_its_queue(correct: Any, self: Any, job: Any, *rest: Any) -> None:
    """A job that waits again is a new one."""
    last_s = max([other.arrival_s for other in self.waiting], default=0.0)
    correct(self, job._replace(arrival_s=max(last_s, job.arrival_s)), *rest)


@breaks_a_policy(MappingManager, "_requeue")
def a_lost_job_arrives_anew(correct: Any, self: Any, run: Any) -> None:
    """A job that waits again has the time of that as its arrival."""
    run.job = run.job._replace(arrival_s=self._clock.now_s)
    correct(self, run)


@breaks_a_policy(RigidAllocation, "_rank_of")
def all_queues_are_one(correct: Any, self: Any, job: Any) -> int:
    """Jobs are served in order of arrival, whatever their queue."""
    return 0


@breaks_a_policy(MappingManager, "__init__")
def low_queues_are_served_first(correct: Any, self: Any, *arguments: Any) -> None:
    """The lowest number is the highest priority."""
    correct(self, *arguments)
    self._queues = tuple(reversed(self._queues))


@breaks_a_policy(Starvation, "note_displaced")
def displacements_count_twice(correct: Any, self: Any, job: Any) -> bool:
    """A displacement counts when it is ordered, and when it is reported."""
    return correct(self, job) | correct(self, job)


@breaks_a_policy(Starvation, "note_displaced")
def jobs_are_raised_one_displacement_late(correct: Any, self: Any, job: Any) -> bool:
    """A job is raised after more displacements than `raised_after`."""
    if self._raised_after is None:
        return correct(self, job)
    self._raised_after += 1
    is_raised = correct(self, job)
    self._raised_after -= 1
    return is_raised


@breaks_a_policy(Starvation, "note_displaced")
def no_job_is_raised(correct: Any, self: Any, job: Any) -> bool:
    """Displacements are counted, and that is all."""
    self._times[job.id] += 1
    return False


@breaks_a_policy(Starvation, "forget")
def raised_jobs_are_forgotten_together(correct: Any, self: Any, job: Any) -> None:
    """When one raised job is complete, all return to their queues."""
    was_raised = job.id in self._raised_to
    correct(self, job)
    if was_raised:
        self._raised_to.clear()


@breaks_a_policy(Starvation, "forget")
def displacements_are_forgotten_together(correct: Any, self: Any, job: Any) -> None:
    """When a job is complete, the displacements of all are forgotten."""
    self._raised_to.pop(job.id, None)
    self._times.clear()


@breaks_a_policy(PreemptionPolicy, "justifies")
def the_least_gain_is_for_all_runs_together(correct: Any, self: Any, n_runs: int, *more: Any) -> bool:
    """The least gain does not depend on how many runs are displaced."""
    return correct(self, min(n_runs, 1), *more)


@breaks_a_policy(PreemptionPolicy, "justifies")
def what_the_displaced_jobs_lose_does_not_count(
    correct: Any, self: Any, n_runs: int, gain_s: float, loss_s: Any
) -> bool:
    """The gain is that of the displacing queue."""
    return correct(self, n_runs, gain_s, lambda: 0.0)


@breaks_a_policy(PreemptionPolicy, "justifies")
def any_gain_is_enough(correct: Any, self: Any, n_runs: int, *more: Any) -> bool:
    """The least gain is not looked at."""
    return correct(self, 0, *more)


@breaks_a_policy(MappingManager, "_start_what_is_first")
def in_every_seventh_round_a_run_is_displaced_for_nothing(correct: Any, self: Any) -> None:
    """Something that was right in an earlier version is still called."""
    correct(self)
    self._n_calls = getattr(self, "_n_calls", 0) + 1
    going_on = [run for run in self._started.values() if not run.ending]
    if self._n_calls % 7 == 0 and going_on:
        self._displace(going_on[0])


@breaks_a_policy(NodeManager, "_give")
def runs_on_nodes_are_displaced_for_nothing(correct: Any, self: Any, orders: Any) -> None:
    """Now and then, the run that began last makes room for no job."""
    correct(self, orders)
    self._n_calls = getattr(self, "_n_calls", 0) + 1
    if self._n_calls % 7 == 0 and self._admission is not None and self._running:
        run = max(self._running)
        if run not in orders:
            self._dispatcher.preempt(run)


@breaks_a_policy(Displacement, "_without_which_fits")
def all_runs_that_may_be_displaced_are(correct: Any, self: Any, i: int, displaced: Any, now_s: float) -> Any:
    """One of them may not be enough, so all have to stop."""
    runs = correct(self, i, displaced, now_s)
    return runs and [run for run in displaced.most_recent_first() if run not in self._stops.job_of]


@breaks_a_policy(RigidAllocation, "reestimate")
def nodes_of_overdue_runs_count_as_free(correct: Any, self: Any, now_s: float) -> None:
    """On nodes with resources, a run that should have ended is expected to end then."""
    if not isinstance(self.state, ConsumableNodes):
        correct(self, now_s)


@breaks_a_policy(Commitments, "overlapping")
def only_planned_runs_are_displaced(correct: Any, self: Any, *arguments: Any) -> Any:
    """What runs already is left alone; the new run waits for it."""
    return [run for run in correct(self, *arguments) if not run.started]


@breaks_a_policy(Commitments, "overlapping")
def all_runs_of_a_displaced_queue_are_displaced(
    correct: Any, self: Any, run: Any, queues: Any, now_s: float
) -> Any:
    """Runs on the machines of a new run are displaced, also those that end before it starts."""
    found = {
        other.id: other
        for j in run.machines
        for other in self._timelines[j]
        if other.queue in queues and not other.ending
    }
    return sorted(found.values(), key=lambda other: other.place_in_line)


@breaks_a_policy(Commitments, "_delay_overdue")
def an_overdue_run_keeps_its_estimate(correct: Any, self: Any, now_s: float) -> Any:
    """A run that should have ended is expected to end then."""
    return []


@breaks_a_policy(NodeManager, "_started")
def a_late_decision_moves_no_estimate(
    correct: Any, self: Any, schedule: Any, jobs: Any, asked_s: float
) -> Any:
    """A run ends when the scheduler said, although it starts later."""
    return correct(self, schedule, jobs, self._clock.now_s)


@breaks_a_policy(Commitments, "start")
def a_late_start_moves_no_estimate(correct: Any, self: Any, run: Any, now_s: float) -> None:
    """A run that starts later than planned ends when planned."""
    with patch.object(type(run), "move", lambda run, start_s: setattr(run, "start_s", start_s)):
        correct(self, run, now_s)


@breaks_a_policy(MappingManager, "_replan")
def schedulers_see_the_first_estimates(correct: Any, self: Any) -> None:
    """The runs in a problem have the completions expected when they started."""
    running = dict(self._running)
    correct(self)
    self._running.update(running)


@breaks_a_policy(MappingManager, "_plan")
def starts_are_not_kept(correct: Any, self: Any, run: Any) -> None:
    """Planned runs start as soon as they can, whatever the policy."""
    correct(self, run)
    run.not_before_s = 0.0


@breaks_a_policy(MappingManager, "_plan")
def planned_runs_are_not_mapped_again(correct: Any, self: Any, run: Any) -> None:
    """What is mapped stays so, whatever the policy."""
    correct(self, run)
    self._to_remap.clear()


@at_notice(ReliableDelivery, JobArrived, needs_a_fault=False)
def eight_answers_are_remembered(correct: Any, self: Any, notice: Any) -> Any:
    """A job that is submitted again is one of the last eight."""
    answer = correct(self, notice)
    while len(self._answers) > 8:
        del self._answers[next(iter(self._answers))]
    return answer


@at_notice(ReliableDelivery, RunEnded, needs_a_fault=False)
def the_answer_for_a_complete_job_is_forgotten(correct: Any, self: Any, completion: Any) -> None:
    """A job that is complete is not submitted again."""
    known = self._open.get(completion.run)
    correct(self, completion)
    if known is not None:
        self._answers.pop(known.order.job.id, None)


# More of delivery and managers


@instead_of(MappingManager, "on_time_passed", needs_a_fault=False)
def a_kept_start_is_forgotten(correct: Any, self: Any) -> None:
    """When a planned start is due, its run is looked at, but not as one with a change."""
    self._start_what_is_first()


@instead_of(ReliableDelivery, "_retry")
def retries_have_no_longest_wait(correct: Any, self: Any, sent: Any) -> None:
    """Each retry waits twice as long as the one before."""
    with patch.object(reliable_delivery, "LONGEST_RETRY", 1e6):
        correct(self, sent)


@instead_of(Availability, "_set")
def interconnects_do_not_matter(correct: Any, self: Any, subject: Any, up: bool) -> Any:
    """What runs on a cluster needs its machines."""
    return set() if isinstance(subject, str) else correct(self, subject, up)


@instead_of(NodeManager, "on_run_lost")
def a_node_found_down_is_not_marked(correct: Any, self: Any, loss: Any) -> None:
    """The monitor reports it soon enough."""
    correct(self, loss._replace(found_down=()))


@instead_of(ReliableDelivery, "_ping")
def machines_with_abandoned_runs_only_are_not_pinged(correct: Any, self: Any, machine: int) -> None:
    """Nothing is expected of them."""
    if self._led[machine] and all(run in self._abandoned for run in self._led[machine]):
        self._in(self._timeouts.ping_s, self._ping, machine)
        return
    correct(self, machine)


@instead_of(MappingManager, "_remove", needs_a_fault=False)
def the_next_run_of_a_stopped_job_is_not_looked_at(correct: Any, self: Any, run: Any, now_s: float) -> None:
    """The machines of the stopped run are free; those of the next one have not changed."""
    correct(self, run, now_s)
    if run.ending and run.job.id in self._planned:
        self._touched.difference_update(set(self._planned[run.job.id].machines) - set(run.machines))


# Agents and network


@instead_of(Agents, "on_acknowledged")
def an_acknowledged_run_is_forgotten(correct: Any, self: Any, run: Any, lead: int) -> None:
    """An order that arrives once more, after the end of its run was acknowledged, is taken for a new one."""
    correct(self, run, lead)
    if run not in self.active:
        self._lead_of.pop(run, None)


@instead_of(Agents, "on_stop")
def a_stop_that_overtakes_its_order_leaves_nothing(correct: Any, self: Any, run: Any, lead: int) -> None:
    """An order that arrives after its stop order is carried out."""
    is_known = run in self._lead_of
    correct(self, run, lead)
    if not is_known and run not in self.active:
        self._lead_of.pop(run, None)
        self.notices.pop(run, None)
        self._send(lead, partial(self._tell, RunPreempted(run)))


@instead_of(Agents, "on_order")
def a_repeated_order_starts_the_clock_again(correct: Any, self: Any, order: Any) -> None:
    """The run time is counted from the last copy of the order."""
    if order.run in self.active:
        self.active[order.run] = self._clock.now_s, order
    correct(self, order)


@instead_of(Agents, "_repeat")
def notices_are_repeated_four_times(correct: Any, self: Any, run: Any, wait_s: float) -> None:
    """After some repetitions, a notice must have arrived."""
    if wait_s < 160.0:
        correct(self, run, wait_s)


@instead_of(Agents, "_repeat")
def notices_do_not_survive_a_reboot(correct: Any, self: Any, run: Any, wait_s: float) -> None:
    """The agent keeps notices in memory only."""
    if run in self._lead_of and self._machines.is_down(self._lead_of[run]):
        self.notices.pop(run, None)
    correct(self, run, wait_s)


@instead_of(Agents, "on_acknowledged")
def any_acknowledgement_is_for_all_notices(correct: Any, self: Any, run: Any, lead: int) -> None:
    """The agent drops all notices of its machine once one of them has arrived."""
    for other in [other for other in self.notices if self._lead_of[other] == lead]:
        correct(self, other, lead)


@instead_of(ManagerClock, "now_s")
def the_clock_goes_back(correct: Any, self: Any) -> float:
    """The manager reads the wall clock, which may be set back."""
    now_s = self._clock.now_s
    return now_s + self._offset_s(now_s)


@instead_of(remote_manager._ReadAgain, "read_again")
def readings_are_lost_in_a_crash(correct: Any, self: Any) -> None:
    """Readings that a manager had read when it crashed are not read again."""
    self._read.clear()


@instead_of(RemoteManager, "_restart")
def users_do_not_ask_again(correct: Any, self: Any) -> None:
    """A job that was submitted while the manager was down is not submitted again."""
    self._not_submitted.clear()
    correct(self)
