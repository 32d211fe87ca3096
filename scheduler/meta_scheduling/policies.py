"""The meta-scheduler; its policies, which say in the queues of which clusters a job waits; and built-in ones.
Ties: the shorter transfer, then the cluster listed first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple, Protocol

from scheduler import ports
from scheduler.meta_scheduling.outlook import Outlook
from scheduler.model import DispatchOrder, Job, JobId, NodeSchedule, RunId, Start
from scheduler.problem import SchedulingProblem, first_violation
from scheduler.resource_manager import Manager, ManagerDecorator
from scheduler.rules import EACH_JOB_ONCE, KNOWN_NODES, NO_JOB_FORGOTTEN, Kind, ScheduleRejected, Violation
from scheduler.time_shared.forecast import Forecast


class ClusterState(NamedTuple):
    """One of the clusters to which a job may be sent.

    * `name`, `is_home`: its name, and whether the job was submitted there.
    * `n_jobs`: its unfinished jobs, those on their way to it included.
    * `load_s`: how long these would occupy all of it, by their estimates.
    * `transfer_s`, `output_s`: the seconds until the job's data would be there, and its output be back.
    * `forecast()`: its start and end there, if no other job came later: by the cluster's own policy, run
      forward with estimates; on time-shared nodes, by CISNE's predictor.
    """

    name: str
    is_home: bool
    n_jobs: int
    load_s: float
    transfer_s: float
    output_s: float
    forecast: Callable[[], Forecast]


class ClustersProblem(SchedulingProblem):
    """One job, which is submitted now, and the `clusters` that would accept it, which take the place of nodes
    in the answer."""

    kind = Kind.CLUSTERS

    def __init__(self, now_s: float, job: Job, clusters: Sequence[ClusterState]) -> None:
        super().__init__(now_s, [job], None, len(clusters))
        self.clusters = tuple(clusters)

    def sent_to(self, *clusters: int) -> NodeSchedule:
        """The answer that the job joins the queues of these, by position, and runs on the first to start
        it."""
        return NodeSchedule((Start(0, clusters, self.now_s + 1.0),))

    def arrays(self) -> Mapping[str, Any]:
        return {"clusters": [each[1:6] for each in self.clusters], "n_places": self.n_places}

    def violation(self, answer: object) -> Violation | None:
        job, found = self.jobs[0].id, first_violation(self, answer, lambda i, job, start, nodes: None)
        if found is None and not sum(len(start.nodes) for start in getattr(answer, "starts", ())):
            return Violation(NO_JOB_FORGOTTEN, job, f"job {job} is sent to no cluster")
        if found is not None and found.rule == KNOWN_NODES:
            return replace(found, message=f"job {job} is sent to a cluster that is none of {self.n_places}")
        return found


COSTS: Mapping[str, Callable[[ClusterState], float]] = {
    "distance": lambda cluster: not cluster.is_home,
    "jobs": lambda cluster: cluster.n_jobs,
    "load": lambda cluster: cluster.load_s,
    "start": lambda cluster: cluster.forecast().start_s or 0.0,
    "end": lambda cluster: cluster.forecast().end_s + cluster.output_s,
}


class Ranked:
    """Each job to the clusters with the least cost: one, or copies to several.

    `distance` keeps jobs where they are submitted; `jobs` joins the shortest queue; `load` is in seconds;
    `start` and `end` are predicted, which takes some decisions of each cluster's scheduler. Sources:
    Subramani et al., HPDC 2002 (load); Sabin et al., JSSPP 2003 (start); Hanzich et al. 2006 (end); Casanova,
    "Benefits and drawbacks of redundant batch requests", 2007 (copies).
    """

    def __init__(self, cost: str = "load", copies: int = 1) -> None:
        if cost not in COSTS or copies < 1:
            raise ValueError(f"cost is one of {', '.join(COSTS)}, not '{cost}', and copies at least 1")
        self._cost, self._copies = COSTS[cost], copies

    def schedule(self, problem: ClustersProblem) -> NodeSchedule:
        costs = [(self._cost(each), each.transfer_s, k) for k, each in enumerate(problem.clusters)]
        return problem.sent_to(*(k for *_, k in sorted(costs)[: self._copies]))


class RoundRobin:
    """Each cluster in turn, whatever its load."""

    def __init__(self) -> None:
        self._n = -1

    def schedule(self, problem: ClustersProblem) -> NodeSchedule:
        self._n += 1
        return problem.sent_to(self._n % problem.n_places)


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
        transfer_s, output_s = self._meta.transfers(job, home.name, self.name)
        here = self._here(job, now_s + transfer_s, output_s)
        forecast = cache(partial(self.outlook.forecast, here, waiting, running))
        n_jobs = len(waiting) + len(running)
        return ClusterState(self.name, self is home, n_jobs, load_s, transfer_s, output_s, forecast)

    def send(self, job: Job, at_s: float, output_s: float) -> None:
        """Let a job arrive whose data are not here yet."""
        self._waiting[job.id] = here = self._here(job, at_s, output_s)
        self._on_their_way.add(job.id)
        self.door.submit(here, at_s)

    def _here(self, job: Job, at_s: float, output_s: float) -> Job:
        """A job as it is here, due when its output has to leave."""
        limit_s = None if job.limit_s is None else job.deadline_s - output_s - at_s
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
    starts in one. `transfers` gives the seconds in which the data of a job that is submitted at one cluster
    get to another, and its output back."""

    def __init__(
        self, clock: ports.Clock, policy: AnyPolicy, transfers: Callable[[Job, str, str], tuple[float, float]]
    ) -> None:
        self.clock, self._policy, self.transfers = clock, policy, transfers
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
            if (late_s := problem.clusters[k].transfer_s) or places[k] is not home:
                places[k].send(job, now_s + late_s, problem.clusters[k].output_s)
        if home in chosen and not problem.clusters[places.index(home)].transfer_s:
            return home.admit(job)
        sent = f"sent to {', '.join(each.name for each in chosen)}"
        home.door.move(job.id, "until its data are here" if home in chosen else sent)
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
