"""Measurements of parallel jobs in isolation."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.model import Job
from scheduler.time_shared.requirement import Requirement
from site_db.site_file.tables import SiteFile


class Characterisations:
    """The requirements of jobs by class and number of tasks."""

    def __init__(self, requirements: Mapping[tuple[str, int], Requirement]) -> None:
        self._requirements = dict(requirements)

    @classmethod
    def of_site(cls, site: SiteFile) -> Characterisations:
        return cls(
            {
                (job_class.name, alone.tasks): Requirement(
                    alone.tasks, alone.cpu, alone.memory_mb, alone.exe_s
                )
                for job_class in site.job_classes
                for alone in job_class.in_isolation
            }
        )

    def requirement(self, job: Job) -> Requirement | None:
        """The requirement of a job; None if its class was not measured with that number of tasks."""
        return self._requirements.get((job.job_class, job.n_tasks))

    def of(self, job_class: str, n_tasks: int) -> Requirement:
        """The requirement of a class with a number of tasks. Raises KeyError."""
        return self._requirements[job_class, n_tasks]

    def sizes(self) -> dict[str, list[int]]:
        """The measured numbers of tasks of each class, in order."""
        sizes: dict[str, list[int]] = {}
        for job_class, n_tasks in sorted(self._requirements):
            sizes.setdefault(job_class, []).append(n_tasks)
        return sizes
