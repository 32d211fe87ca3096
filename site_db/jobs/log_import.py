"""Importing a job log: its jobs become records, and the site grows with what they name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from scheduler import UserError
from site_db import schema
from site_db.files.access import digest
from site_db.files.input_errors import InvalidFile
from site_db.jobs.logged import COMPLETED, LoggedJob
from site_db.jobs.records import JobRecord, JobState, Source, SourceKind
from site_db.jobs.writer import BadRecord, JobWriter, SiteNames, add_job_classes
from site_db.rows import ids_of, insert_rows, locked_site

AT_A_TIME = 20_000
"""The number of jobs in a batch: for each batch, the statistics of its job classes are written and copied
once."""
NO_PARTITION = "default"
DESCRIPTION = "as its job logs tell"
"""The description of a new site."""


class LogBuilder(ABC):
    """Turns the jobs of a log into records, and adds to a site what they name."""

    def __init__(self, session: Session, site_id: int, names: SiteNames) -> None:
        self._session, self._site_id, self._names = session, site_id, names
        row = schema.AllowedPlaceRow
        places = select(row.job_class_id, row.machine_class_id, row.cluster_id)
        of_site = places.join(schema.JobClassRow).where(schema.JobClassRow.site_id == site_id)
        self._allowed = {(c, k, x) for c, k, x in session.execute(of_site)}
        self._new_places: list[dict[str, object]] = []

    @abstractmethod
    def records(self, jobs: Sequence[LoggedJob]) -> list[JobRecord]:
        """The records of jobs, after what they name has been added to the site. Raises BadRecord."""

    def finish(self) -> Iterator[str]:
        """Finish, once all jobs are recorded. Returns sentences on what does not fit the site, and on what is
        assumed."""
        return iter(())

    def _add_job_classes(self, names: Iterable[str]) -> list[str]:
        """Add the classes of these names that are new. Returns these."""
        known = self._names.job_classes
        if new := add_job_classes(self._session, self._site_id, known, names):
            known.update(ids_of(self._session, schema.JobClassRow, self._site_id))
        return new

    def _allow(self, job_class: str, machine_class_id: int | None, cluster_id: int | None = None) -> None:
        allowed = (self._names.job_classes[job_class], machine_class_id, cluster_id)
        if allowed not in self._allowed:
            self._allowed.add(allowed)
            columns = ("job_class_id", "machine_class_id", "cluster_id")
            # With an empty command line, since a log has neither that nor an expected time.
            self._new_places.append({**dict(zip(columns, allowed, strict=True)), "command_line": ""})

    def _flush(self) -> None:
        insert_rows(self._session, schema.AllowedPlaceRow, self._new_places)
        self._new_places = []
        self._session.flush()


MakeBuilder = Callable[[Session, int, SiteNames], LogBuilder]


def import_log(
    session: Session, site: str, source: Source, jobs: Iterable[LoggedJob], make_builder: MakeBuilder
) -> tuple[int, list[str]]:
    """Record the jobs of a log (`source_of`) at a site, which is created if there is none of that name.

    All in the transaction of the session. Jobs that are in an earlier log of this kind, or earlier in this
    one, are skipped; returns how many these are, and the sentences of `LogBuilder.finish`. Raises UserError
    for a log that was imported before, and InvalidFile for one that does not fit the site.
    """
    site_id = locked_site(session, site, DESCRIPTION).id
    writer = JobWriter(session, site)
    writer.lock(session)
    builder = make_builder(session, site_id, writer.names)
    if writer.has(session, source):
        raise UserError(f"{source.name}: the site '{site}' has the jobs of this file already")
    skipped = 0
    rest = iter(jobs)
    while batch := list(islice(rest, AT_A_TIME)):
        new = _new_jobs(session, site_id, source.kind, batch)
        skipped += len(batch) - len(new)
        try:
            writer.add(session, source, builder.records(new))
        except BadRecord as error:
            raise InvalidFile(f"{source.name}: {error}") from None
    return skipped, [*builder.finish()]


def source_of(kind: SourceKind, log: Path) -> Source:
    """A log as a source of jobs."""
    return Source(kind, digest(log), log.name)


def record_of(job: LoggedJob, job_class: str, queue: str, **place: Any) -> JobRecord:
    """The record of a job that ran on a resource or a machine class. One that did not complete has failed: it
    is load, but no lesson on run times."""
    completed = job.state == COMPLETED
    return JobRecord(
        number=job.number,
        job_class=job_class,
        user=job.user,
        queue=queue or NO_PARTITION,
        state=JobState.DONE if completed else JobState.FAILED,
        submitted_s=job.submitted_unix_s,
        started_s=job.started_unix_s,
        run_time_s=job.ended_unix_s - job.started_unix_s,
        time_limit_s=job.time_limit_s,
        reason="" if completed else job.state,
        account=job.account,
        qos=job.qos,
        **place,
    )


def _new_jobs(session: Session, site_id: int, kind: SourceKind, jobs: Sequence[LoggedJob]) -> list[LoggedJob]:
    """The jobs that no log of this kind has had, since the weeks of logs may overlap.

    Jobs are equal if id, start and owner are; a requeued job runs twice. The owner is the user, or in archive
    logs, which all count from 1, the job class. (In accounting, the class depends on the site's nodes.)
    """
    sources = select(schema.SourceRow.id).filter_by(site_id=site_id, kind=kind.value)
    source_ids = session.scalars(sources).all()
    row, numbers = schema.JobRow, [job.number for job in jobs]
    of_user = kind is SourceKind.SACCT
    query = (
        select(row.number, schema.UserRow.name if of_user else schema.JobClassRow.name, row.started_unix_s)
        .join(schema.JobClassRow, schema.JobClassRow.id == row.job_class_id)
        .join(schema.UserRow, schema.UserRow.id == row.user_id)
        .where(row.source_id.in_(source_ids), row.number.in_(numbers))
    )
    known = {tuple(key) for key in session.execute(query)}
    by_key: dict[tuple[str, str, float], LoggedJob] = {}
    for job in jobs:
        owner = job.user if of_user else _class_on_machines(job)
        by_key.setdefault((job.number, owner, job.started_unix_s), job)
    return [job for key, job in by_key.items() if key not in known]


def _class_on_machines(job: LoggedJob) -> str:
    return f"{job.user}/{job.program}/{job.processors}"


def count_things(session: Session, site: str) -> dict[str, int]:
    """How many things of each kind a site has; none if there is no such site."""
    kinds: dict[str, type[schema.OfSite]] = {
        "machine class": schema.MachineClassRow,
        "machine": schema.MachineRow,
        "cluster": schema.ClusterRow,
        "job class": schema.JobClassRow,
    }
    of_site = select(func.count()).join(schema.SiteRow).where(schema.SiteRow.name == site)
    return {what: session.scalar(of_site.select_from(row)) or 0 for what, row in kinds.items()}


def count_members(session: Session, site: str) -> dict[str, int]:
    """How many machines are in each cluster of a site, by name."""
    row, cluster, member = schema.SiteRow, schema.ClusterRow, schema.ClusterMemberRow
    query = select(cluster.name, func.count(member.machine_id)).join(member)
    of_site = query.join(row, row.id == cluster.site_id).where(row.name == site)
    return dict(session.execute(of_site.group_by(cluster.name)).all())


class JobsOnMachines(LogBuilder):
    """The jobs of a log at a site of machines: the machines and clusters that they ran on are added.

    A job class is (user, program, processors). A run on one node is a run on that machine. A run on several
    nodes is a run on the smallest cluster that has them all; without one, on a cluster named for the
    partition, to which these nodes are added. A run without nodes is one of the machine class named for the
    partition. New nodes become machines of the class named for their partition.
    """

    def __init__(self, session: Session, site_id: int, names: SiteNames) -> None:
        super().__init__(session, site_id, names)
        self._found: dict[tuple[str, tuple[str, ...]], str] = {}
        """The machine, cluster or (without nodes) machine class for nodes that jobs in a partition had."""

    def records(self, jobs: Sequence[LoggedJob]) -> list[JobRecord]:
        self._add_job_classes(dict.fromkeys(map(_class_on_machines, jobs)))
        found = [self._record(job) for job in jobs]
        self._flush()
        return found

    def _record(self, job: LoggedJob) -> JobRecord:
        key = job.partition or NO_PARTITION, job.nodes
        if key not in self._found:
            self._found[key] = self._resource(*key)
        name, place, n = _class_on_machines(job), self._found[key], len(job.nodes)
        if n > 1:
            self._allow(name, None, self._names.clusters[place])
        else:
            self._allow(name, (self._names.class_of if n else self._names.machine_classes)[place])
        where = {"resource" if n else "machine_class": place}
        return record_of(job, name, job.partition, members=n or 1, **where)

    def _resource(self, partition: str, nodes: tuple[str, ...]) -> str:
        """Raises BadRecord for a node with the name of a cluster."""
        names = self._names
        if not nodes:
            self._put(schema.MachineClassRow, names.machine_classes, partition)
            return partition
        for node in nodes:
            if node in names.clusters:
                raise BadRecord(f"the node '{node}' has the name of a cluster; give that another one first")
            if node not in names.machines:
                class_id = self._put(schema.MachineClassRow, names.machine_classes, partition)
                self._put(schema.MachineRow, names.machines, node, machine_class_id=class_id)
                names.class_of[node] = class_id
        if len(nodes) == 1:
            return nodes[0]
        machine_ids, members = dict.fromkeys(names.machines[node] for node in nodes), names.members
        fitting = [name for name, ids in members.items() if ids.issuperset(machine_ids)]
        if fitting:
            return min(fitting, key=lambda name: (len(members[name]), name))
        # A cluster cannot have the name of a machine.
        name = f"partition {partition}" if partition in names.machines else partition
        cluster_id = self._put(schema.ClusterRow, names.clusters, name)
        new = [id for id in machine_ids if id not in members.setdefault(name, set())]
        rows = [{"cluster_id": cluster_id, "machine_id": id} for id in new]
        insert_rows(self._session, schema.ClusterMemberRow, rows)
        members[name].update(new)
        return name

    def _put(self, row: type[schema.OfSite], known: dict[str, int], name: str, **values: int) -> int:
        """The id of the row of that name, which is added if there is none."""
        if name not in known:
            make: Callable[..., schema.OfSite] = row
            new = make(site_id=self._site_id, name=name, position=len(known), **values)
            self._session.add(new)
            self._session.flush()
            known[name] = new.id
        return known[name]
