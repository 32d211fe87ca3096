"""Admission control: which jobs are accepted, checked when they arrive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.managers.queues import QueuePolicy
from scheduler.model import Job

Queues = frozenset[str]


@dataclass(frozen=True)
class UserPolicy:
    """The limits of one user; None = no limit.

    `queues` the user may use; `most_jobs` unfinished at a time; `highest_priority` of a queue.
    `may_submit_as` has the users in whose name this one may submit, each with the queues (None = all).
    """

    name: str
    queues: Queues | None = None
    most_jobs: int | None = None
    highest_priority: int | None = None
    may_submit_as: Mapping[str, Queues | None] = field(default_factory=dict)


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
        return self._refused_by_policy(self._users.get(job.user, UserPolicy(job.user)), queue, unfinished)

    def _refused_by_policy(self, user: UserPolicy, queue: QueuePolicy, unfinished: int) -> str | None:
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
