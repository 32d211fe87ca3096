"""Job queues and their users: admission, order of service, displacement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from scheduler.model import Job, JobId

QueueNames = frozenset[str]


class MappingPolicy(StrEnum):
    """How a round treats jobs that are mapped but have not started."""

    COMMIT = "commit"
    """They keep their mapping (Collins and George)."""
    REMAP = "remap"
    """They are mapped again, together with the new jobs."""


class PlannedStarts(StrEnum):
    """When a planned run starts if its machines are free before the planned start."""

    EARLIEST = "earliest"
    """As soon as it is first on its machines."""
    KEPT = "kept"
    """At its planned start (Collins and George): gaps stay unused."""


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """One job queue.

    A queue is processed completely before the next lower one; the highest `priority` goes first, ties in the
    order given. `users` may submit to it; None = everybody. `displaces` names queues whose runs it displaces:
    its scheduler sees ready times as if they had no runs, and each of their runs, running or planned, that
    overlaps a new run of this queue on a machine is preempted or withdrawn; its job loses its progress and
    rejoins its own queue. On nodes there are no planned runs: those are preempted without which a waiting job
    of this queue fits (`scheduler.managers.displacement`), and `mapping` has no effect.
    """

    name: str = "default"
    priority: int = 0
    users: frozenset[str] | None = None
    displaces: frozenset[str] = frozenset()
    mapping: MappingPolicy = MappingPolicy.COMMIT


class Unkept(StrEnum):
    """What becomes of a job whose turnaround limit is not promised."""

    ACCEPTED = "accepted"  # it waits with its limit
    BEST_EFFORT = "best_effort"  # it waits as a job without a limit
    REFUSED = "refused"


class Gain(StrEnum):
    """Which flow times count when displacement is weighed."""

    NET = "net"
    """The flow times of the displacing queue, less what the jobs of the displaced runs lose."""
    OWN = "own"
    """The flow times of the displacing queue only (Collins and George)."""


@dataclass(frozen=True, slots=True)
class PreemptionPolicy:
    """Bounds of displacement; by default there are none.

    * `raised_after`: after this many displacements of started runs, a job moves to the next higher
      queue (against starvation); None = never.
    * `least_gain_s`: a queue displaces runs only if total flow time decreases by more than this for each of
      them; 0 = without asking. `gain` is whose flow time counts.

    Source: future work in Collins and George 2001, section 6.
    """

    raised_after: int | None = None
    least_gain_s: float = 0.0
    gain: Gain = Gain.NET

    def justifies(self, n_runs: int, gain_s: float, loss_s: Callable[[], float]) -> bool:
        """Whether `n_runs` runs may be displaced for what their jobs lose and the displacing queue gains."""
        lost_s = loss_s() if self.gain is Gain.NET else 0.0
        return gain_s - lost_s > self.least_gain_s * n_runs


def in_order_of_service(queues: Sequence[QueuePolicy]) -> tuple[QueuePolicy, ...]:
    """The queues from high to low priority.

    Raises ValueError for a duplicate name, and for a displaced queue that does not exist or is served
    before the one that displaces it: its jobs could not rejoin it in the same round.
    """
    names = [queue.name for queue in queues]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"there are two queues named '{name}'")
    for queue in queues:
        for name in sorted(queue.displaces - set(names)):
            raise ValueError(f"queue '{queue.name}' displaces '{name}', but there is no such queue")
        if queue.name in queue.displaces:
            raise ValueError(f"queue '{queue.name}' cannot displace itself")
    ordered = tuple(sorted(queues, key=lambda queue: -queue.priority))
    served: set[str] = set()
    for queue in ordered:
        for name in sorted(queue.displaces & served):
            raise ValueError(f"queue '{queue.name}' displaces '{name}', which is served before it")
        served.add(queue.name)
    return ordered


class Starvation:
    """Counts displacements of started runs, and raises a job to the next higher queue after every
    `raised_after` of them.

    `queues` are names from high to low; None = no job is ever raised. Source: future work in Collins and
    George 2001, section 6.
    """

    def __init__(self, queues: Sequence[str], raised_after: int | None) -> None:
        self._queues = queues
        self._raised_after = raised_after
        self._times: Counter[JobId] = Counter()
        self._raised_to: dict[JobId, str] = {}

    def queue_of(self, job: Job) -> str:
        """The job's current queue: the one it was submitted to, or raised to since."""
        return self._raised_to.get(job.id, job.queue)

    def note_displaced(self, job: Job) -> bool:
        """Count a displacement of a started run of `job`. Returns whether that raises the job."""
        self._times[job.id] += 1
        if self._raised_after is None or self._times[job.id] % self._raised_after:
            return False
        place = self._queues.index(self.queue_of(job))
        if place == 0:
            return False
        self._raised_to[job.id] = self._queues[place - 1]
        return True

    def forget(self, job: Job) -> None:
        """Drop a completed job."""
        del self._times[job.id]
        self._raised_to.pop(job.id, None)


@dataclass(frozen=True)
class UserPolicy:
    """The limits of one user; None = no limit.

    `queues` the user may use; `most_jobs` unfinished at a time; `highest_priority` of a queue.
    `may_submit_as` has the users in whose name this one may submit, each with the queues (None = all).
    """

    name: str
    queues: QueueNames | None = None
    most_jobs: int | None = None
    highest_priority: int | None = None
    may_submit_as: Mapping[str, QueueNames | None] = field(default_factory=dict)


class Admission:
    """The rules of a site's queues and users.

    Policies apply to the user in whose name a job runs, not to the one who submits it. With `only_listed`,
    users without a policy may not submit; otherwise they have no limits.
    """

    def __init__(
        self, queues: Sequence[QueuePolicy], users: Sequence[UserPolicy] = (), only_listed: bool = False
    ) -> None:
        self._queues = {queue.name: queue for queue in queues}
        self._users = {user.name: user for user in users}
        self._only_listed = only_listed

    def refusal(self, job: Job, unfinished: int) -> str | None:
        """The reason for refusing a job, or None. `unfinished` counts the jobs of its user."""
        queue = self._queues.get(job.queue)
        if queue is None:
            return f"there is no queue '{job.queue}'"
        for name in dict.fromkeys((job.user, job.submitted_by or job.user)):
            if self._only_listed and name not in self._users:
                return f"user '{name}' is not a user of the site"
        if job.submitted_by not in (None, job.user):
            rights = self._users.get(str(job.submitted_by), UserPolicy("")).may_submit_as
            where = rights.get(job.user, frozenset())
            if where is not None and job.queue not in where:
                return f"user '{job.submitted_by}' may not submit to queue '{job.queue}' as '{job.user}'"
        if queue.users is not None and job.user not in queue.users:
            return f"user '{job.user}' may not submit to queue '{job.queue}'"
        user = self._users.get(job.user, UserPolicy(job.user))
        if user.queues is not None and queue.name not in user.queues:
            return f"user '{user.name}' may not submit to queue '{queue.name}'"
        if user.highest_priority is not None and queue.priority > user.highest_priority:
            return (
                f"user '{user.name}' may submit at priority {user.highest_priority} and below; "
                f"queue '{queue.name}' has {queue.priority}"
            )
        if user.most_jobs is not None and unfinished >= user.most_jobs:
            return f"user '{user.name}' has {unfinished} unfinished jobs, which is the limit"
        return None


def never_fits(job: JobId, size: int, n_nodes: int) -> str | None:
    """Why a job that requests more nodes than there are, or none, is refused; otherwise None."""
    return None if 1 <= size <= n_nodes else f"job {job} asks for {size} nodes; the machine has {n_nodes}"
