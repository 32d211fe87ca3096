"""Importing a job log: its jobs become records, and the site grows with what they name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from scheduler import UserError
from site_db import schema
from site_db.files.input_errors import InvalidFile
from site_db.files.readers import digest
from site_db.jobs.records import COMPLETED, JobRecord, JobState, LoggedJob, Source, SourceKind
from site_db.jobs.writer import BadRecord, JobWriter, SiteNames
from site_db.rows import ids_of, insert_rows, locked_site

AT_A_TIME = 20_000
"""Jobs in a batch: for each batch, the statistics of its job classes are written and copied once."""
NO_PARTITION = "default"
DESCRIPTION = "as its job logs tell"
"""Of a site that is new."""


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
    def class_name(self, job: LoggedJob) -> str:
        """The job class of a job."""

    @abstractmethod
    def records(self, jobs: Sequence[LoggedJob]) -> list[JobRecord]:
        """The records of jobs, after what they name has been added to the site. Raises BadRecord."""

    def finish(self) -> None:
        """All jobs are recorded."""
        return

    def _add_job_classes(self, names: Iterable[str]) -> list[str]:
        """Add the classes of these names that are new; a log may have thousands. Returns these."""
        known = self._names.job_classes
        new = [name for name in names if name not in known]
        first = len(known)
        common = {"site_id": self._site_id, "description": "", "size": ""}
        rows = [{**common, "name": name, "position": first + k} for k, name in enumerate(new)]
        insert_rows(self._session, schema.JobClassRow, rows)
        if new:
            known.update(ids_of(self._session, schema.JobClassRow, self._site_id))
        return new

    def _allow(self, job_class: str, machine_class_id: int | None, cluster_id: int | None = None) -> None:
        """Allow a job class on a machine class or a cluster."""
        allowed = (self._names.job_classes[job_class], machine_class_id, cluster_id)
        if allowed not in self._allowed:
            self._allowed.add(allowed)
            columns = ("job_class_id", "machine_class_id", "cluster_id")
            # With an empty command line, since a log has neither that nor an expected time.
            self._new_places.append({**dict(zip(columns, allowed, strict=True)), "command_line": ""})

    def _flush(self) -> None:
        """Write additions."""
        insert_rows(self._session, schema.AllowedPlaceRow, self._new_places)
        self._new_places = []
        self._session.flush()


MakeBuilder = Callable[[Session, int, SiteNames], LogBuilder]


def import_log(
    session: Session, site: str, source: Source, jobs: Iterable[LoggedJob], make_builder: MakeBuilder
) -> int:
    """Record the jobs of a log (`source_of`) at a site, which is created if there is none of that name.

    All in the transaction of the session. Jobs that are in an earlier log of this kind, or earlier in this
    one, are skipped; returns how many these are. Raises UserError for a log that was imported before,
    and InvalidFile for one that does not fit the site.
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
        new = _new_jobs(session, site_id, source.kind, batch, builder.class_name)
        skipped += len(batch) - len(new)
        try:
            writer.add(session, source, builder.records(new))
        except BadRecord as error:
            raise InvalidFile(f"{source.name}: {error}") from None
    builder.finish()
    return skipped


def source_of(kind: SourceKind, log: Path) -> Source:
    """A log as a source of jobs."""
    return Source(kind, digest(log), log.name)


def record_of(
    job: LoggedJob,
    job_class: str,
    queue: str,
    resource: str | None,
    machine_class: str | None,
    members: int | None,
) -> JobRecord:
    """A job that did not complete has failed: it is load, but no lesson on run times."""
    completed = job.state == COMPLETED
    return JobRecord(
        number=job.number,
        job_class=job_class,
        user=job.user,
        queue=queue or NO_PARTITION,
        state=JobState.DONE if completed else JobState.FAILED,
        submitted_s=job.submitted_unix_s,
        resource=resource,
        machine_class=machine_class,
        members=members,
        started_s=job.started_unix_s,
        run_time_s=job.ended_unix_s - job.started_unix_s,
        time_limit_s=job.time_limit_s,
        reason="" if completed else job.state,
        account=job.account,
        qos=job.qos,
    )


def _new_jobs(
    session: Session,
    site_id: int,
    kind: SourceKind,
    jobs: Sequence[LoggedJob],
    class_name: Callable[[LoggedJob], str],
) -> list[LoggedJob]:
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
        owner = job.user if of_user else class_name(job)
        by_key.setdefault((job.number, owner, job.started_unix_s), job)
    return [job for key, job in by_key.items() if key not in known]


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

    def class_name(self, job: LoggedJob) -> str:
        return f"{job.user}/{job.program}/{job.processors}"

    def records(self, jobs: Sequence[LoggedJob]) -> list[JobRecord]:
        self._add_job_classes(dict.fromkeys(map(self.class_name, jobs)))
        places = [self._place(job) for job in jobs]
        self._flush()
        return [self._record(job, place) for job, place in zip(jobs, places, strict=True)]

    def _record(self, job: LoggedJob, place: str) -> JobRecord:
        name, members = self.class_name(job), len(job.nodes) or 1
        resource, machine_class = (place, None) if job.nodes else (None, place)
        return record_of(job, name, job.partition, resource, machine_class, members)

    def _place(self, job: LoggedJob) -> str:
        """The name of the machine, cluster or (for a job without nodes) machine class that a job ran on.

        It is added if it is new, and the job's class is allowed there. Raises BadRecord for a node with the
        name of a cluster.
        """
        partition = job.partition or NO_PARTITION
        key = (partition, job.nodes)
        if key not in self._found:
            self._found[key] = self._resource(partition, job.nodes)
        resource = self._found[key]
        machine_class_id = cluster_id = None
        if len(job.nodes) > 1:
            cluster_id = self._names.clusters[resource]
        elif job.nodes:
            _, machine_class_id = self._names.machines[resource]
        else:
            machine_class_id = self._names.machine_classes[resource]
        self._allow(self.class_name(job), machine_class_id, cluster_id)
        return resource

    def _resource(self, partition: str, nodes: tuple[str, ...]) -> str:
        if not nodes:
            self._put(schema.MachineClassRow, self._names.machine_classes, partition)
            return partition
        machine_ids = {node: self._put_machine(node, partition) for node in nodes}
        if len(nodes) == 1:
            return nodes[0]
        members = self._names.members
        fitting = [name for name, ids in members.items() if ids.issuperset(machine_ids.values())]
        if fitting:
            return min(fitting, key=lambda name: (len(members[name]), name))
        # A cluster cannot have the name of a machine.
        name = f"partition {partition}" if partition in self._names.machines else partition
        cluster_id = self._put(schema.ClusterRow, self._names.clusters, name)
        of_cluster = members.setdefault(name, set())
        new = [id for id in machine_ids.values() if id not in of_cluster]
        rows = [{"cluster_id": cluster_id, "machine_id": id} for id in new]
        insert_rows(self._session, schema.ClusterMemberRow, rows)
        of_cluster.update(new)
        return name

    def _put_machine(self, name: str, partition: str) -> int:
        machines = self._names.machines
        if name in self._names.clusters:
            raise BadRecord(f"the node '{name}' has the name of a cluster; give that another one first")
        if name not in machines:
            class_id = self._put(schema.MachineClassRow, self._names.machine_classes, partition)
            machines[name] = (
                self._insert(schema.MachineRow(machine_class_id=class_id), name, len(machines)),
                class_id,
            )
        return machines[name][0]

    def _put(self, row: type[schema.OfSite], known: dict[str, int], name: str) -> int:
        """The id of the row of that name, which is added if there is none."""
        if name not in known:
            known[name] = self._insert(row(), name, len(known))
        return known[name]

    def _insert(self, row: schema.OfSite, name: str, position: int) -> int:
        row.site_id, row.name, row.position = self._site_id, name, position
        self._session.add(row)
        self._session.flush()
        return row.id
