"""Importing Slurm's accounting at a site of nodes, where a job keeps its own size, or at one of machines.

A job class is (user, program, request, features, partition). Its runs count for the machine class of the
first of the site's nodes that the job ran on; without any, for that of the first node that satisfies the
job. A job that names several partitions is recorded in the one that has its nodes, though it requests any
of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import BindParameter, Double, bindparam, update
from sqlalchemy.orm import Session

from scheduler.messages import counted
from scheduler.node_request import Request
from site_db import schema
from site_db.history.stored_statistics import of_site
from site_db.jobs.log_import import (
    DESCRIPTION,
    JobsOnMachines,
    LogBuilder,
    MakeBuilder,
    import_log,
    record_of,
    source_of,
)
from site_db.jobs.logged import COMPLETED, LoggedJob, Tally, up_to_now
from site_db.jobs.occupancy import Occupancy
from site_db.jobs.records import JobRecord, SourceKind
from site_db.jobs.requests import LoggedRequests
from site_db.jobs.sacct.reader import read_file
from site_db.jobs.writer import SiteNames
from site_db.site_file.cluster import SiteNodes
from site_db.site_file.importing import put_site
from site_db.site_file.nodes import cluster_of, request_columns, with_cluster
from site_db.sites import site_names, site_or_new


@dataclass(slots=True)
class _Class:
    """What the log tells of a job class: its longest time limit, and the runs that did not complete."""

    request: Request
    limit_s: float | None = None
    n_failed: int = 0
    failed_s: float = 0.0


class JobsOnNodes(LogBuilder):
    def __init__(self, session: Session, site_id: int, names: SiteNames, cluster: SiteNodes) -> None:
        super().__init__(session, site_id, names)
        self._cluster = cluster
        self._requests = LoggedRequests(cluster)
        self._classes: dict[str, _Class] = {}
        self._described: dict[int, str] = {}
        """Requests, their features and partitions, by place, as in names of job classes."""
        self._class_of_place: dict[int, str] = {}
        class_names = {id: name for name, id in names.machine_classes.items()}
        self._machine_class = {name: class_names[class_id] for name, class_id in names.class_of.items()}
        self._occupancy = Occupancy()
        self._n_unlimited = self._n_overrun = 0
        """How many jobs had no time limit, or ran for longer."""
        self._unknown_nodes: dict[str, int] = {}
        """Nodes that the site lacks, with the line of the first job there."""

    def records(self, jobs: Sequence[LoggedJob]) -> list[JobRecord]:
        places = [self._requests.count(job) for job in jobs]
        names = [self._noted(job, place) for job, place in zip(jobs, places, strict=True)]
        rows = [
            {
                "job_class_id": self._names.job_classes[name],
                **request_columns(self._classes[name].request, self._classes[name].limit_s),
            }
            for name in self._add_job_classes(dict.fromkeys(names))
        ]
        if rows:
            self._session.execute(schema.RequestRow.__table__.insert(), rows)  # type: ignore[attr-defined]
        ran_on = [self._ran_on(job, place) for job, place in zip(jobs, places, strict=True)]
        for name, machine_class in zip(names, ran_on, strict=True):
            self._allow(name, self._names.machine_classes[machine_class])
        self._flush()
        return [
            record_of(job, name, self._partition(job), machine_class=machine_class)
            for job, name, machine_class in zip(jobs, names, ran_on, strict=True)
        ]

    def finish(self) -> Iterator[str]:
        """Estimate a class of which no run has completed by those that did not. Time limits are the longest
        that were requested, as far as the partitions allow."""
        row, request, place = schema.ExecutionStatisticsRow, schema.RequestRow, schema.AllowedPlaceRow
        experienced = set(self._session.scalars(of_site(self._site_id, row.job_class_id)))
        ids = {self._names.job_classes[name]: found for name, found in self._classes.items()}
        limits = {id: one.limit_s for id, one in ids.items() if one.limit_s is not None}
        unknown = {
            id: one.failed_s / one.n_failed
            for id, one in ids.items()
            if one.n_failed and id not in experienced
        }
        value: BindParameter[float] = bindparam("value", type_=Double)
        longer = request.time_limit_s.is_(None) | (request.time_limit_s < value)
        for column, where, values in (
            (request.time_limit_s, longer, limits),
            (place.expected_s, place.expected_s.is_(None), unknown),
        ):
            if values:
                table: Any = column.class_.__table__
                of_class = update(table).where(table.c.job_class_id == bindparam("of"), where)
                rows = [{"of": id, "value": time_s} for id, time_s in values.items()]
                self._session.connection().execute(of_class.values({column.key: value}), rows)
        yield from self._assumptions()

    def _assumptions(self) -> Iterator[str]:
        if self._n_unlimited:
            yield f"{counted(self._n_unlimited, 'job')} without a time limit"
        if self._n_overrun:
            yield f"{counted(self._n_overrun, 'job')} ran for longer than the time limit"
        yield from self._requests.ignored()
        yield from self._requests.never_fit()
        yield from self._occupancy.mistakes(self._cluster.nodes)
        if self._unknown_nodes:
            name, line = next(iter(self._unknown_nodes.items()))
            n = len(self._unknown_nodes)
            some = "1 node is" if n == 1 else f"{n:,} nodes are"
            yield (
                f"{some} not at the site, the first is {name} in line {line}; a run on no other node counts "
                f"for the first node that satisfies the job"
            )

    def _noted(self, job: LoggedJob, place: int) -> str:
        """The class of a job with the request at a place, to which its time limit and outcome are added."""
        self._occupancy.add(job)
        request = self._requests.all[place]
        if place not in self._described:
            parts = (str(request), *sorted(request.features), *sorted(request.partitions))
            self._described[place] = "/".join(parts)
        name = f"{job.user}/{job.program}/{self._described[place]}"
        found = self._classes.get(name)
        if found is None:
            found = self._classes[name] = _Class(request)
        ran_s = job.ended_unix_s - job.started_unix_s
        if job.time_limit_s is None:
            self._n_unlimited += 1
        else:
            self._n_overrun += ran_s > job.time_limit_s
            most_s = self._cluster.longest_limit_s(request.partitions)
            found.limit_s = max(found.limit_s or 0.0, min(job.time_limit_s, most_s))
        if job.state != COMPLETED:
            found.n_failed += 1
            found.failed_s += ran_s
        return name

    def _partition(self, job: LoggedJob) -> str:
        """The first of the partitions that a job names which has all its nodes; else the first."""
        if "," not in job.partition:
            return job.partition
        named = [name for name in map(str.strip, job.partition.split(",")) if name]
        sets = [self._cluster.nodes[node].partitions for node in job.nodes if node in self._cluster.nodes]
        return next((name for name in named if all(name in one for one in sets)), "".join(named[:1]))

    def _ran_on(self, job: LoggedJob, place: int) -> str:
        for node in job.nodes:
            if node not in self._machine_class:
                self._unknown_nodes.setdefault(node, job.line)
        known = next((self._machine_class[node] for node in job.nodes if node in self._machine_class), None)
        if known is not None:
            return known
        if place not in self._class_of_place:
            name = self._cluster.first_for(self._requests.all[place]) or next(iter(self._cluster.nodes))
            self._class_of_place[place] = self._machine_class[name]
        return self._class_of_place[place]


ALONE = (
    "the site '{site}' has machines but no partitions: each job is assumed to have its machines to itself; "
    "for nodes that jobs share, import slurm.conf first (sil db import-slurm-conf)"
)
INFERRED = (
    "the sizes and partitions of {n} inferred from the jobs that ran there: a node has what was "
    "in use at a time; for the true ones, import slurm.conf (sil db import-slurm-conf)"
)

NO_NODES = (
    "no job names its nodes (NodeList), and the site has none: runs count for the machine class of their "
    "partition; to simulate the jobs, import slurm.conf before the log (sil db import-slurm-conf)"
)


def import_accounting(
    session: Session, site: str, log: Path, tally: Tally, now_unix_s: float, zone: tzinfo = UTC
) -> tuple[int, list[str]]:
    """Record the jobs of accounting that used their nodes, with local times of `zone`; `tally` counts what
    happened to its rows.

    At a site with partitions, jobs request parts of its nodes. A new site gets nodes that are inferred from
    the jobs. Returns how many jobs were recorded before, and sentences on what is assumed. Raises as
    `import_log`, and InvalidFile.
    """
    notes: list[str] = []
    is_new, file = site not in site_names(session), site_or_new(session, site)
    if is_new:
        file = file.model_copy(update={"description": DESCRIPTION})
    cluster = cluster_of(file) if file.partitions else None
    if file.machines and cluster is None:
        notes.append(ALONE.format(site=site))
    elif cluster is None:
        occupancy = Occupancy()
        for job in read_file(log, Tally(), zone=zone):
            occupancy.add(job)
        cluster = occupancy.cluster()
        if not cluster.nodes:
            notes.append(NO_NODES)
        else:
            n = len(cluster.nodes)
            notes.append(INFERRED.format(n="1 node are" if n == 1 else f"{n:,} nodes are"))
            experienced = [table.name for table in file.job_classes]
            put_site(session, with_cluster(file, cluster), experienced)
    make: MakeBuilder = JobsOnMachines
    if cluster is not None and cluster.nodes:
        make = partial(JobsOnNodes, cluster=cluster)
    jobs = up_to_now(read_file(log, tally, zone=zone), log, now_unix_s)
    skipped, of_site = import_log(session, site, source_of(SourceKind.SACCT, log), jobs, make)
    return skipped, [*notes, *tally.remarks(), *of_site]
