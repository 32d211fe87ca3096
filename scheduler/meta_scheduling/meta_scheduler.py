"""A meta-scheduler: sends each job, where it is submitted, to one of several clusters or to some of them.

Each cluster keeps its own resource manager and scheduler, which know nothing of the others; its `AtCluster`
hears of its jobs and runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Protocol

from scheduler import ports
from scheduler.meta_scheduling.outlook import Outlook
from scheduler.meta_scheduling.policies import ClustersProblem, ClusterState
from scheduler.model import DispatchOrder, Job, JobId, NodeSchedule, RunId
from scheduler.resource_manager import Manager, ManagerDecorator
from scheduler.rules import EACH_JOB_ONCE, ScheduleRejected, Violation

AnyPolicy = ports.Scheduler[Any, NodeSchedule]


class Door(Protocol):
    """Lets a job arrive at a cluster at a time, or tells `where` a job is that does not run there."""

    def submit(self, job: Job, at_s: float) -> None: ...

    def move(self, job: JobId, where: str) -> None: ...


class AtCluster(ManagerDecorator):
    """The meta-scheduler's part at one cluster; `described` has the jobs of all clusters as they are here."""

    def __init__(
        self, name: str, meta: MetaScheduler, manager: Manager, outlook: Outlook, door: Door,
        described: Mapping[JobId, Job],
    ) -> None:  # fmt: skip
        self.name, self.door, self.described = name, door, described
        self._meta, self._manager, self.outlook = meta, manager, outlook
        self._waiting: dict[JobId, Job] = {}
        """The jobs that are in the queue, or on their way to it."""
        self._on_their_way: set[JobId] = set()
        self._running: dict[RunId, tuple[DispatchOrder, float]] = {}
        """The runs in progress, and when they began."""
        meta.clusters.append(self)

    def state(self, job: Job, home: AtCluster, now_s: float) -> ClusterState:
        """What a policy knows of this cluster."""
        waiting, running = self._waiting.values(), self._running.values()
        load_s = self.outlook.load_s(waiting, running)
        transfer_s = self._meta.transfer_s(job, home.name, self.name)
        here = self._here(job, now_s + transfer_s)
        forecast = cache(partial(self.outlook.forecast, here, waiting, running))
        n_jobs = len(waiting) + len(running)
        return ClusterState(self.name, self is home, n_jobs, load_s, transfer_s, forecast)

    def send(self, job: Job, at_s: float) -> None:
        """Let a job of another cluster arrive."""
        self._waiting[job.id] = here = self._here(job, at_s)
        self._on_their_way.add(job.id)
        self.door.submit(here, at_s)

    def _here(self, job: Job, at_s: float) -> Job:
        """A job of another cluster as it is here, due when it is there."""
        limit_s = None if job.limit_s is None else job.deadline_s - at_s
        return self.described[job.id]._replace(arrival_s=at_s, limit_s=limit_s)

    def admit(self, job: Job) -> str | None:
        """Queue a job that is here. Returns the reason if no cluster has it, otherwise None."""
        self._waiting[job.id] = job
        if (refusal := self._manager.handle(ports.JobArrived(job))) is None:
            return None
        del self._waiting[job.id]
        return self._meta.refused(job.id, self, refusal)

    def started(self, order: DispatchOrder) -> None:
        """A run starts here."""
        job = order.job.id
        if (here := self._waiting.pop(job, None)) is None:
            message = f"job {job} is started on the cluster '{self.name}', whose queue it has left"
            raise ScheduleRejected(Violation(EACH_JOB_ONCE, job, message))
        self._running[order.run] = order._replace(job=here), self._meta.clock.now_s
        self._meta.started(job, self)

    def given_up(self, job: JobId) -> None:
        self._waiting.pop(job, None)

    def leave(self, job: JobId, where: str) -> None:
        """A job has started elsewhere; one that is still on its way here leaves when it arrives."""
        if self._waiting.pop(job, None) is not None and job not in self._on_their_way:
            self._manager.handle(ports.JobActedOn(job, "cancel"))
            self.door.move(job, where)

    def handle(self, notice: ports.Notice) -> str | None:
        match notice:
            case ports.JobArrived(job) if job.id not in self._on_their_way:
                return self._meta.submitted(job, self)
            case ports.JobArrived(job):
                self._on_their_way.discard(job.id)
                if job.id in self._waiting:
                    return self.admit(job)
                self.door.move(job.id, "it has started elsewhere")
                return None
            case ports.RunEnded(run):
                self._running.pop(run, None)
            case ports.RunLost(run) | ports.RunPreempted(run) if run in self._running:
                job = self._running.pop(run)[0].job
                self._waiting[job.id] = job
        return self._manager.handle(notice)


class MetaScheduler:
    """Asks its policy once for each job that is submitted. A job in several queues leaves the others when it
    starts in one. `transfer_s` gives the seconds in which its data get from one cluster to another."""

    def __init__(
        self, clock: ports.Clock, policy: AnyPolicy, transfer_s: Callable[[Job, str, str], float]
    ) -> None:
        self.clock, self._policy, self.transfer_s = clock, policy, transfer_s
        self.clusters: list[AtCluster] = []
        self.asked_about: JobId | None = None
        """The job about which the policy is being asked."""
        self._queues: dict[JobId, list[AtCluster]] = {}
        """Where each job that has not started waits."""

    def submitted(self, job: Job, home: AtCluster) -> str | None:
        """A user submits a job. Returns the reason for refusing it, otherwise None."""
        now_s = self.clock.now_s
        places = [each for each in self.clusters if each.outlook.accepts(each.described[job.id])] or [home]
        problem = ClustersProblem(now_s, job, [each.state(job, home, now_s) for each in places])
        self.asked_about = job.id
        answer = self._policy.schedule(problem)
        if (violation := problem.violation(answer)) is not None:
            raise ScheduleRejected(violation)
        self.asked_about = None
        found = sorted(answer.starts[0].nodes)
        chosen = self._queues[job.id] = [places[k] for k in found]
        for k in found:
            if places[k] is not home:
                places[k].send(job, now_s + problem.clusters[k].transfer_s)
        if home in chosen:
            return home.admit(job)
        home.door.move(job.id, f"sent to {', '.join(each.name for each in chosen)}")
        return None

    def refused(self, job: JobId, by: AtCluster, why: str) -> str | None:
        """A cluster refuses a job. Returns the reason if no other cluster has it."""
        self._queues[job].remove(by)
        if not self._queues[job]:
            return why
        by.door.move(job, f"refused here: {why}")
        return None

    def started(self, job: JobId, at: AtCluster) -> None:
        """A job starts: it leaves the other queues."""
        for other in self._queues.pop(job, ()):
            if other is not at:
                other.leave(job, f"it has started on {at.name}")
