"""What the jobs of the world request of the controller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import ceil, inf
from types import MappingProxyType

from scheduler.free_nodes.runtime_estimates import LONGEST_S
from scheduler.managers.queues import Admission
from scheduler.model import Job
from sil.settings.log_events import Events, JobArray, jobs_in, with_names
from sil.slurm.jobs.known import FIRST_OF_ARRAY
from sil.slurm.layout import CannotRequest, Layout
from sil.slurm.protocol.submission import Submission


class Submissions:
    """`user_ids` by name; `estimate_s` is the estimate of a job of which its user gives none; `events` have
    arrays, and further options of some jobs; `left_out` says why some jobs, by number, are not submitted."""

    def __init__(
        self,
        layout: Layout,
        user_ids: Mapping[str, int],
        estimate_s: Callable[[Job], float],
        events: Events,
        admission: Admission | None = None,
        left_out: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        self.layout, self.events, self.estimate_s = layout, events, estimate_s
        self._admission, self._left_out = admission, left_out
        self._unfinished_of: Counter[str] = Counter()
        """By user."""
        self._user_ids = user_ids
        self._array_of = {number: array for array in events.arrays for number in array.jobs}
        self._arrived: dict[JobArray, list[Job]] = {}

    def refusal(self, job: Job) -> str | None:
        """Why an arriving job is not submitted, as the site's own rules refuse it; None if it is."""
        if job.id in self._left_out:
            return self._left_out[job.id]
        if self._admission is not None:
            refused = self._admission.refusal(job, self._unfinished_of[job.user])
            if refused is not None:
                return refused
        self._unfinished_of[job.user] += 1
        return None

    def over(self, job: Job) -> None:
        """An admitted job has ended or been given up."""
        self._unfinished_of[job.user] -= 1

    def with_its_array(self, job: Job) -> tuple[list[Job], int | None]:
        """A job that arrives, with those of its array, if there is one, and how many of these run at a time;
        no jobs as long as others of the array are to arrive."""
        array = self._array_of.get(job.id)
        if array is None:
            return [job], None
        jobs = self._arrived.setdefault(array, [])
        jobs.append(job)
        return (jobs if len(jobs) == len(array.jobs) else []), array.at_once

    def of(self, jobs: Sequence[Job], names: Mapping[int, str], at_once: int | None = None) -> Submission:
        """Of one job, or of an array of several, of which `at_once` run at a time. `names` are what Slurm
        calls jobs that were submitted before. Raises CannotRequest."""
        first, *others = jobs
        user, limit_s = self.user_id(first), max(map(self.limit_s, jobs))
        options = {**self.layout.options(first), **self.events.options.get(first.id, {})}
        if "dependency" in options:
            missing = jobs_in(options["dependency"]) - names.keys()
            if missing:
                raise CannotRequest(f"a dependency on job {min(missing)}, which Slurm has not accepted")
            options["dependency"] = with_names(options["dependency"], names)
        if others:
            throttle = "" if at_once is None else f"%{at_once}"
            options["array"] = f"{FIRST_OF_ARRAY}-{FIRST_OF_ARRAY + len(others)}{throttle}"
        limit_min = None if limit_s == inf else round(limit_s / 60)
        return Submission(user=user, group=user, name=str(first.id), time_limit_min=limit_min, **options)

    def limit_s(self, job: Job) -> float:
        """The time limit, in whole minutes; infinite if the partition's default applies."""
        estimate_s = job.estimate_s if job.estimate_s is not None else self.estimate_s(job)
        return 60.0 * ceil(estimate_s / 60) if estimate_s < LONGEST_S else inf

    def user_id(self, job: Job) -> int:
        return self._user_ids[job.user]
