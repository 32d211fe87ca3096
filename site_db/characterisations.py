"""Parallel jobs as they were measured in isolation: what a queue manager knows of them."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.model import Job
from scheduler.time_shared.requirement import Requirement
from site_db.site_file.tables import SiteFile


class Characterisations:
    """What jobs of each class with each number of tasks need."""

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
        """None where jobs of the class were never measured with so many tasks."""
        return self._requirements.get((job.job_class, job.n_tasks))

    def of(self, job_class: str, n_tasks: int) -> Requirement:
        """Raises KeyError."""
        return self._requirements[job_class, n_tasks]

    def sizes(self) -> dict[str, list[int]]:
        """The numbers of tasks with which each class was measured, in order."""
        sizes: dict[str, list[int]] = {}
        for job_class, n_tasks in sorted(self._requirements):
            sizes.setdefault(job_class, []).append(n_tasks)
        return sizes
