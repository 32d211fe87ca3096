"""Slurm's controller as a resource manager: it has its own queue, and decides in its own time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from operator import attrgetter

from scheduler.model import Job, JobId, RunId
from scheduler.ports import RunEnded, RunLost
from scheduler.resource_manager import ResourceManager
from sil.settings.log_events import Command
from sil.slurm.controller import Controller
from sil.slurm.layout import CannotRequest
from sil.slurm.protocol.records import BatchJobLaunch, SuspendJob, script_completed
from sil.slurm.protocol.releases import PARTITION_LACKS_IT
from sil.slurm.protocol.submission import NodeShare, shares, shares_shown
from sil.slurm.queries import CANCELLED, EVERY_S, Statements, UnconfirmedEnds, reasons_of, times_to_come
from sil.slurm.runs import (
    AFTER_AN_EVENT_S,
    INSTANT_S,
    LONGEST_WAIT_S,
    MAX_IN_VAIN,
    ControllerLimits,
    LaunchedJob,
    LaunchedJobs,
    Timers,
)
from sil.slurm.submissions import Submissions, commands_of, name_in, rejection
from sil.world.events import SimClock
from sil.world.guard.scheduler import Guard
from sil.world.machines.execution import SimDispatcher
from sil.world.monitors import NodeChanges

SETTLES_FOR_S = 60.0
"""The time for the nodes to register and for the controller to settle before the first job, in seconds."""


class SlurmManager(ResourceManager):
    """Reports arrivals and completions to the controller, and carries out what it orders its nodes to do.

    Between two events of the world, the controller is followed alone, as far as the next one: whenever it
    launches a job, it is that time in the world, too. While no job waits, its time is left behind, and
    catches up at once. The time of a decision is the CPU time of the controller from one event to the
    next."""

    def __init__(
        self,
        controller: Controller,
        jobs: Submissions,
        changes: NodeChanges,
        patience: ControllerLimits,
        orders: SimDispatcher,
        guard: Guard,
    ) -> None:
        self._controller = controller
        self._layout = layout = jobs.layout
        self._submissions = jobs
        self._changes = changes
        self._patience = patience
        self._orders = orders
        assert isinstance(guard.clock, SimClock)
        self._clock = guard.clock
        self._note = guard.note
        self._starts_at_s = jobs.starts_at_s = controller.clock.now_s + SETTLES_FOR_S
        """Second 0 of the world."""
        self._arrived: list[Job] = []
        self._completed: list[tuple[LaunchedJob, bool]] = []
        """Runs, and whether their jobs are over with them."""
        self._changed: list[tuple[str, bool]] = []
        """Nodes that have gone down or come back."""
        self._runs = LaunchedJobs(layout, orders)
        self._waiting: set[str] = set()
        """The names of jobs that do not run and are not over."""
        self._stalled: set[str] = set()
        """Jobs that will not start before a node comes back or an operator changes something."""
        self._in_doubt = UnconfirmedEnds(controller, jobs.jobs.__contains__)
        self._appointments = Timers()
        self._due: list[Command] = []
        self._has_news = False
        """Whether events occurred in the world whose notices follow after the round."""
        self._followed_until_s = 0.0
        self._followed_to_s = inf
        """The time to which the controller is to be followed, whatever happens then in the world."""
        self._idle_since_s = self._round_at_s = 0.0
        self._n_in_vain = 0
        for command in commands_of(jobs.events):
            self.appoint(command.at_s, partial(self._due.append, command))
        controller.begin(layout.nodes, self._starts_at_s)

    # -- notices --------------------------------------------------------------------------------------------

    def on_job_arrived(self, job: Job) -> str | None:
        refused = self._submissions.refusal(job)
        if refused is None:
            self._arrived.append(job)
            self.wants_round = True
        return refused

    def on_run_ended(self, ended: RunEnded) -> None:
        if (run := self._runs.over(ended.run)) is not None:
            self._completed.append((run, not self._runs.runs_on(run.first)))
        self.wants_round = True

    def on_run_preempted(self, run: RunId) -> None:
        """Note that the controller has ended a run; if the job is not over, it is to be launched again."""
        self.wants_round = True

    def on_run_lost(self, lost: RunLost) -> None:
        """Wait for the controller, which learns it from the state of the node."""
        self._note_changes(lost)
        if (run := self._runs.over(lost.run)) is not None:
            self._waiting.add(run.name)
        self.wants_round = True

    def on_monitor_news(self) -> None:
        self._note_changes()
        self.wants_round = True

    def _note_changes(self, loss: RunLost | None = None) -> None:
        self._changed += ((self._layout.name_of(node), up) for node, up in self._changes.new(loss))

    def appoint(self, at_s: float, act: Callable[[], None]) -> None:
        """Call `act` once, at this time, within a round or before one."""
        self._appointments.add(at_s, act)
        self.wants_round = True

    def hear(self, statements: Statements, at_s: float) -> None:
        """Have statements collected at this time, and regularly from then on as long as there are jobs."""

        def ask() -> None:
            jobs = self._submissions.jobs
            waiting = {name: jobs[name].id for name in self._waiting if name in jobs}
            statements.hear(waiting, self._clock.now_s)
            self.hear(statements, at_s + EVERY_S)

        self._appointments.add(at_s, ask, lambda: not self._waiting and self._orders.next_event_s == inf)

    @property
    def wakes_at_s(self) -> float | None:  # type: ignore[override]
        return s if (s := min(self._appointments.first_s, self._followed_to_s)) < inf else None

    def on_time_passed(self) -> None:
        self._followed_to_s = inf
        for act in self._appointments.due(self._clock.now_s):
            self._jump(self._clock.now_s)
            act()
        self.wants_round = True

    def why_waiting(self) -> dict[JobId, str]:
        jobs, reasons = self._submissions.jobs, reasons_of(self._controller)
        return {jobs[name].id: f"Slurm: {why}" for name, why in reasons.items() if name in jobs}

    # -- the round ------------------------------------------------------------------------------------------

    def run_round(self) -> None:
        self.wants_round = self._has_news = False
        asked_s, cpu_s, n_runs = self._clock.now_s, self._controller.cpu_s(), self._runs.n_launched
        self._jump(self._clock.now_s)
        if self._completed or self._arrived or self._changed:
            self._follow_closely()
        completed, self._completed = self._completed, []
        for run, is_last in completed:
            if is_last:
                self._controller.ask(script_completed(run.first, self._submissions.user_id(run.job)))
                self._match_time()
            self._submissions.over(run.job)
        changed, self._changed = dict(self._changed), []
        if changed:
            self._controller.update_nodes(changed)
            self._reconsider()
        due, self._due[:] = [*self._due], []
        for command in due:
            if command.job is None:
                self._carry_out(command)
        arrived, self._arrived = self._arrived, []
        for job in arrived:
            self._submit(job)
        for command in due:
            if command.job is not None:
                self._carry_out(command)
        self._obey()
        self._note_ended()
        self._idle_since_s = self._round_at_s = self._clock.now_s
        self._n_in_vain = 0
        self._follow()
        self._followed_to_s = self._next_s if self._goes_on else inf
        cpu_s = self._controller.cpu_s() - cpu_s
        n_jobs, n_runs = len(self._waiting) + len(self._runs.running), self._runs.n_launched - n_runs
        self._note((asked_s, n_jobs, len(self._layout.nodes), n_runs, cpu_s, cpu_s, 0.0))

    def _follow_closely(self) -> None:
        """Note that something has happened that the controller will react to."""
        self._controller.clock.event()
        self._followed_until_s = self._clock.now_s + AFTER_AN_EVENT_S

    def _jump(self, to_s: float) -> None:
        while not self._controller.advance(self._starts_at_s + to_s, jumps=True):
            self._answer()
        self._match_time()

    def _follow(self) -> None:
        """Advance the controller alone to just before the next event in the world: a run that completes
        exactly at its time limit counts as complete, so the controller must learn of it first."""
        while (until_s := self._horizon_s()) > self._clock.now_s + 2 * INSTANT_S:
            if self._controller.advance(self._starts_at_s + until_s - INSTANT_S):
                self._match_time()
            else:
                self._answer()
            self._note_ended()

    def _horizon_s(self) -> float:
        next_s, until_s = self._next_s, self._idle_since_s + self._patience.without_a_start_s
        if self._has_news:
            return self._clock.now_s
        proceeds = len(self._runs.running) > len(self._runs.suspended)
        if not self._goes_on and (proceeds or next_s < inf or not self._stalled):
            return min(next_s, self._followed_until_s)
        if proceeds:
            return next_s
        if self._clock.now_s + 2 * INSTANT_S < until_s:
            return min(next_s, until_s)
        return self._after_idling_s(next_s)

    @property
    def _goes_on(self) -> bool:
        return bool(self._waiting or self._runs.suspended or self._runs.overdue)

    @property
    def _next_s(self) -> float:
        """When something happens in the world, or is to be done; infinite if nothing will."""
        return min(self._orders.next_event_s, self._appointments.first_s)

    def _after_idling_s(self, next_s: float) -> float:
        """How far to follow the controller that has long not started any of the jobs that wait, while none
        runs: it is to change something by itself, or the world changes first; else they never start."""
        expects = self._n_in_vain < MAX_IN_VAIN
        own_s = min(times_to_come(self._controller, expects), default=inf) - self._starts_at_s
        if own_s <= min(next_s, self._round_at_s + LONGEST_WAIT_S):
            self._n_in_vain += 1
            self._jump(own_s)
            self._idle_since_s = own_s
            return self._horizon_s()
        self._stalled |= self._waiting
        self._waiting.clear()
        if next_s == inf:
            reasons = reasons_of(self._controller)
            for name in sorted(self._stalled):
                self._give_up(name, f"Slurm never starts it: {reasons.get(name, 'it does not know it')}")
            for run in sorted(self._runs.suspended):
                self._give_up(self._runs.running[run].name, "Slurm suspended it and never lets it continue")
        return self._clock.now_s

    def _match_time(self) -> None:
        """Set the world's time to the controller's; notices of events in between follow after the round."""
        now_s = self._controller.clock.now_s - self._starts_at_s
        self._has_news = self._has_news or self._orders.next_event_s < now_s
        self._clock.wait_until(now_s)

    # -- to the controller ----------------------------------------------------------------------------------

    def _reconsider(self) -> None:
        self._waiting |= self._stalled
        self._stalled.clear()

    def _submit(self, job: Job) -> None:
        jobs, group = self._submissions.with_its_group(job)
        if not jobs:
            return  # others of its array are to come
        try:
            answer = self._controller.submit(self._submissions.requested(jobs, group))
            self._match_time()
            refused = rejection(answer)
        except CannotRequest as why:
            refused = f"it requests {why}"
        if refused is None:
            names = self._submissions.accepted(answer.job, jobs, group)
            (self._stalled if answer.error == PARTITION_LACKS_IT else self._waiting).update(names)
            return
        for one in jobs:
            self._submissions.over(one)
            self._orders.give_up(one.id, refused)

    def _carry_out(self, command: Command) -> None:
        words = self._submissions.words_of(command)
        if words is None:
            return
        if command.job is not None:
            self._in_doubt.add(self._submissions.names[command.job], CANCELLED)
        self._controller.slurm(words[0], *words[1:])
        self._controller.changed(words)
        self._follow_closely()
        self._reconsider()

    # -- from the controller --------------------------------------------------------------------------------

    def _answer(self) -> None:
        self._match_time()
        self._controller.serve()
        if self._controller.orders:
            self._obey()

    def _obey(self) -> None:
        """Carry out all that the controller orders at this time, in order of the numbers of jobs, since that
        of the messages is by chance. Runs begin after others have stopped."""
        self._controller.settle()
        while self._controller.orders or self._runs.to_begin:
            orders, self._controller.orders = self._controller.orders, []
            launched: list[int] = []
            for order in sorted(orders, key=attrgetter("job")):
                if isinstance(order, BatchJobLaunch):
                    name = name_in(order.array_job, order.array_task) if order.array_job else ""
                    self._launched(order.job, shares(order), order.job, name)
                    launched.append(order.job)
                elif isinstance(order, SuspendJob):
                    self._runs.on_suspend(order)
                elif (run := self._runs.killed(order.job)) is not None:  # else it is over
                    self._waiting.add(run.name)
            self._runs.begin()
            for first in launched:
                for number in self._submissions.others.get(first, ()):  # which it starts without a word
                    shown = self._controller.slurm("scontrol", "show", "job", "--details", str(number))
                    self._launched(number, [*shares_shown(shown, self._layout.threads)], first)

    def _launched(self, number: int, shares: Sequence[NodeShare], first: int, name: str = "") -> None:
        """Start a launched job, unless it was given up. The number is the default of its name."""
        name = name or str(number)
        if (job := self._submissions.jobs.get(name)) is None:
            return
        running = LaunchedJob(number, name, job, first)
        run = self._runs.launched(running, shares, self._submissions.estimate_s(job))
        self._waiting.discard(name)
        self._stalled.discard(name)
        limit_s = self._patience.ends_after_s(self._submissions.limit_s(job))
        if limit_s < inf:
            runs, at_s = self._runs, self._clock.now_s + limit_s
            self._appointments.add(at_s, lambda: runs.overdue.add(run), lambda: run not in runs.running)

    def _note_ended(self) -> None:
        for name, why in self._in_doubt.over():
            self._give_up(name, f"Slurm ended it: {why}")

    def _give_up(self, name: str, why: str) -> None:
        job = self._submissions.jobs[name]
        self._submissions.over(job)
        self._waiting.discard(name)
        self._stalled.discard(name)
        self._runs.stop(name)
        self._orders.describe(job.id, why)
        self._orders.give_up(job.id, why)
