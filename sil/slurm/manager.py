"""Slurm's controller as a resource manager: it has its own queue, and decides in its own time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, inf
from typing import Any

from scheduler.managers.queues import Admission
from scheduler.model import Completion, Job, JobId, Loss, RunId
from scheduler.resource_manager import ResourceManager
from scheduler.rules import MAKES_PROGRESS
from sil.slurm.controller import Controller
from sil.slurm.ended_jobs import EndedJobs
from sil.slurm.layout import CannotRequest, Layout
from sil.slurm.nodes import NodesOfController
from sil.slurm.protocol.authentication import Stated
from sil.slurm.protocol.from_nodes import CompleteBatchScript, ReturnCode, ReturnCodeWithText, Submitted
from sil.slurm.protocol.return_codes import reason
from sil.slurm.protocol.submission import Submission
from sil.slurm.protocol.to_nodes import BatchJobLaunch, KillJob, SuspendJob
from sil.world.dispatcher import SimDispatcher
from sil.world.events import SimClock
from sil.world.guard.faults import SchedulerFault
from sil.world.guard.scheduler import Guard

SETTLES_FOR_S = 60.0
"""The nodes register before the first job, and the controller settles for so long."""
AFTER_AN_EVENT_S = 5.0
"""For so long after an event, the controller is followed step by step, also if no job waits."""
LONGEST_IDLE_S = 7 * 86_400.0
"""If for so long nothing runs and no job starts, none ever will."""
RESOLUTION_S = 2e-6
"""The controller's time is in microseconds, and in seconds since the epoch; the world's is not."""
COMPLETED = "COMPLETED"


class SlurmManager(ResourceManager):
    """Tells the controller of arrivals and completions, and carries out what it orders its nodes to do.

    Between two events of the world, the controller is followed alone, as far as the next one: whenever it
    launches a job, it is that time in the world, too. While no job waits, its time is left behind, and
    catches up at once. The time of a decision is the CPU time of the controller from one event to the next.
    """

    def __init__(
        self,
        controller: Controller,
        layout: Layout,
        estimate_s: Callable[[Job], float],
        user_ids: Mapping[str, int],
        orders: SimDispatcher,
        guard: Guard,
    ) -> None:
        self._controller = controller
        self._layout = layout
        self._estimate_s = estimate_s
        self._user_ids = user_ids
        self._orders = orders
        self.admission: Admission | None = None
        """Rules of the site for who may submit what, beside the controller's own."""
        assert isinstance(guard.clock, SimClock)
        self._clock = guard.clock
        self._note = guard.note
        self._starts_at_s = controller.clock.now_s + SETTLES_FOR_S
        """Second 0 of the world."""
        self._nodes = NodesOfController(
            controller, layout.nodes, Stated(), self._on_launch, self._on_kill, self._on_suspend
        )
        self._ended = EndedJobs(controller.folder / "jobcomp.txt")
        self._arrived: list[Job] = []
        self._completed: list[int] = []
        self._jobs: dict[int, Job] = {}
        """By Slurm's job id: those that are not over."""
        self._waiting: set[int] = set()
        self._running: dict[RunId, int] = {}
        self._run_of: dict[int, RunId] = {}
        self._n_runs = 0
        self._has_news = False
        """Whether something has happened in the world that is told after the round."""
        self._followed_until_s = 0.0
        self._idle_since_s = 0.0
        self._nodes.register(layout.nodes)
        while not controller.advance(self._starts_at_s):
            controller.serve()

    # -- notices --------------------------------------------------------------------------------------------

    def on_job_arrived(self, job: Job) -> str | None:
        if self.admission is not None:
            unfinished = sum(other.user == job.user for other in (*self._jobs.values(), *self._arrived))
            refused = self.admission.refusal(job, unfinished)
            if refused is not None:
                return refused
        self._arrived.append(job)
        self.wants_round = True
        return None

    def on_run_ended(self, completion: Completion) -> None:
        number = self._running.pop(completion.run, None)
        if number is not None:
            del self._run_of[number]
            self._completed.append(number)
        self.wants_round = True

    def on_run_preempted(self, run_id: RunId) -> None:
        """The controller has ended it; if the job is not over, it is to be launched again."""
        self.wants_round = True

    def on_run_lost(self, loss: Loss) -> None:
        number = self._running.pop(loss.run, None)
        if number is not None:
            del self._run_of[number]
            self._waiting.add(number)
        self.wants_round = True

    def pause(self, at_s: float, on_pause: Callable[[Controller], None]) -> None:
        """Call `on_pause` once, at this time; nothing happens in the world until it returns."""
        self._pauses_at_s, self._on_pause = at_s, on_pause

    _pauses_at_s = inf

    @property
    def wakes_at_s(self) -> float | None:  # type: ignore[override]
        return None if self._pauses_at_s == inf else self._pauses_at_s

    def on_time_passed(self) -> None:
        self._pauses_at_s = inf
        self._catch_up()
        self._on_pause(self._controller)
        self.wants_round = True

    def why_waiting(self) -> dict[JobId, str]:
        return {self._jobs[number].id: f"Slurm: {why}" for number, why in self._reasons().items()}

    # -- the round ------------------------------------------------------------------------------------------

    def run_round(self) -> None:
        self.wants_round = self._has_news = False
        asked_s, cpu_s, n_runs = self._clock.now_s, self._controller.cpu_s(), self._n_runs
        self._catch_up()
        if self._completed or self._arrived:
            self._controller.clock.event()
            self._followed_until_s = self._clock.now_s + AFTER_AN_EVENT_S
        completed, self._completed = self._completed, []
        for number in completed:
            self._ask(CompleteBatchScript(job=number, user=self._user_id(self._jobs[number])))
            del self._jobs[number]
        arrived, self._arrived = self._arrived, []
        for job in arrived:
            self._submit(job)
        self._controller.settle()
        self._note_ended()
        self._follow()
        cpu_s = self._controller.cpu_s() - cpu_s
        n_places = len(self._layout.nodes)
        self._note((asked_s, len(self._jobs), n_places, self._n_runs - n_runs, cpu_s, cpu_s, 0.0))

    def _catch_up(self) -> None:
        now_s = self._starts_at_s + self._clock.now_s
        while not self._controller.jump(now_s):
            self._controller.serve()
        self._match_time()

    def _follow(self) -> None:
        """Go on with the controller alone until something happens in the world, or nothing will."""
        while (until_s := self._horizon_s()) > self._clock.now_s + RESOLUTION_S:
            if self._controller.advance(self._starts_at_s + until_s):
                self._match_time()
            else:
                self._match_time()
                self._controller.serve()
            self._note_ended()

    def _horizon_s(self) -> float:
        """How far to follow it now."""
        next_s = self._orders.next_event_s
        if self._has_news:
            return self._clock.now_s
        if not self._waiting:
            return min(next_s, self._followed_until_s)
        if next_s < inf:
            self._idle_since_s = self._clock.now_s
            return next_s
        if self._clock.now_s >= self._idle_since_s + LONGEST_IDLE_S:
            return self._clock.now_s
        return self._idle_since_s + LONGEST_IDLE_S

    def _match_time(self) -> None:
        """The world's time is the controller's; what happened before then is told after the round."""
        now_s = self._controller.clock.now_s - self._starts_at_s
        self._has_news = self._has_news or self._orders.next_event_s < now_s
        self._clock.wait_until(now_s)

    # -- to the controller ----------------------------------------------------------------------------------

    def _submit(self, job: Job) -> None:
        estimate_s = job.estimate_s if job.estimate_s is not None else self._estimate_s(job)
        user = self._user_id(job)
        try:
            options = self._layout.options(job)
        except CannotRequest as why:
            self._orders.give_up(job.id, f"it requests {why}")
            return
        limit_min = None if estimate_s == inf else ceil(estimate_s / 60)
        submission = Submission(user=user, group=user, name=str(job.id), time_limit_min=limit_min, **options)
        answer = self._ask(submission.described())
        match answer:
            case Submitted(job=number):
                self._jobs[number] = job
                self._waiting.add(number)
            case ReturnCode(code=code):
                self._orders.give_up(job.id, f"Slurm rejected it: {reason(code)}")
            case ReturnCodeWithText(text=text):
                self._orders.give_up(job.id, f"Slurm rejected it: {text}")
            case _:
                raise AssertionError(answer)

    def _ask(self, body: Any) -> Any:
        """The controller's answer, for which it may need time."""
        answer = self._nodes.ask(body)
        self._match_time()
        return answer

    def _user_id(self, job: Job) -> int:
        return self._user_ids[job.user]

    # -- from the controller --------------------------------------------------------------------------------

    def _on_launch(self, launch: BatchJobLaunch) -> None:
        number = launch.job
        job = self._jobs[number]
        self._n_runs += 1
        run = RunId(self._n_runs)
        self._running[run] = number
        self._run_of[number] = run
        self._waiting.discard(number)
        self._orders.dispatch(self._layout.order(run, job, launch.shares(), self._estimate_s(job)))

    def _on_kill(self, kill: KillJob) -> None:
        """Also of runs that are over."""
        run = self._run_of.pop(kill.id.job, None)
        if run is not None:
            del self._running[run]
            self._waiting.add(kill.id.job)
            self._orders.preempt(run)

    def _on_suspend(self, suspend: SuspendJob) -> None:
        raise SchedulerFault(MAKES_PROGRESS, "Slurm suspends a job", self._clock.now_s)

    def _note_ended(self) -> None:
        """Jobs that the controller has ended by itself are given up."""
        for number, state in self._ended.new():
            job = self._jobs.get(number)
            if job is None or state == COMPLETED or number in self._run_of:
                continue
            del self._jobs[number]
            self._waiting.discard(number)
            self._orders.give_up(job.id, f"ended by Slurm: {state}")

    def _reasons(self) -> dict[int, str]:
        """Why jobs wait, by Slurm's job id."""
        listed = self._controller.slurm("squeue", "-h", "-a", "-t", "PD", "-o", "%A %r").splitlines()
        found = (line.partition(" ") for line in listed)
        return {int(number): why for number, _, why in found if int(number) in self._jobs}
