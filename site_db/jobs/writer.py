"""Recording jobs and their completed runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from scheduler import UserError
from site_db import schema
from site_db.files.input_errors import MAX_VALUE
from site_db.history.stored_statistics import Run
from site_db.history.writer import HistoryWriter, usage
from site_db.jobs.records import Batch, JobRecord, JobState, Source
from site_db.rows import add_to_rows, ids_of, insert_rows
from site_db.site_file.machine_names import machine_of_slot
from site_db.sites import find_site

MAX_NAMES_SHOWN = 10
KEYS_AT_A_TIME = 500
"""The most keys in one query."""
MAX_USERS = 2**31 - 1
"""The position of a user who is not listed: after all who are."""


class BadRecord(UserError):
    """A job that cannot be recorded. The message is one sentence for the user."""


class SiteNames:
    """The ids of a site's job classes and resources by name."""

    def __init__(self, session: Session, site_id: int) -> None:
        self.job_classes = ids_of(session, schema.JobClassRow, site_id)
        self.machine_classes = ids_of(session, schema.MachineClassRow, site_id)
        self.clusters = ids_of(session, schema.ClusterRow, site_id)
        machine, cluster, member = schema.MachineRow, schema.ClusterRow, schema.ClusterMemberRow
        machines = select(machine.name, machine.id, machine.machine_class_id, machine.slots)
        of_site = machines.where(machine.site_id == site_id).order_by(machine.position, machine.id)
        rows = session.execute(of_site).all()
        self.machines = {name: id for name, id, _, _ in rows}
        self.class_of = {name: class_id for name, _, class_id, _ in rows}
        """The id of each machine's class."""
        self._slots = {name: n_slots for name, _, _, n_slots in rows if n_slots > 1}
        self.members: dict[str, set[int]] = {name: set() for name in self.clusters}
        """The ids of the machines in each cluster."""
        members = select(cluster.name, member.machine_id).join(member)
        for name, machine_id in session.execute(members.where(cluster.site_id == site_id)):
            self.members[name].add(machine_id)

    def machine(self, resource: str) -> str:
        """The machine with the slot of that name, else the name itself."""
        return machine_of_slot(resource, self._slots) or resource


def add_job_classes(
    session: Session, site_id: int, known: Mapping[str, int], names: Iterable[str]
) -> list[str]:
    """Add the job classes of these names that are not `known`; a log may have thousands. Returns these."""
    new = [name for name in names if name not in known]
    common = {"site_id": site_id, "description": "", "size": ""}
    rows = [{**common, "name": name, "position": k} for k, name in enumerate(new, start=len(known))]
    insert_rows(session, schema.JobClassRow, rows)
    return new


class JobWriter:
    """Records the jobs of one site, each call in the transaction of its session; call `reset` after a failed
    one. Raises UserError."""

    def __init__(self, session: Session, site_name: str) -> None:
        site = find_site(session, site_name)
        self._site = site_name
        self._site_id = site.id
        self._history = HistoryWriter(site.id)
        self._users: dict[str, int] = {}
        self._version = -1
        self.names = SiteNames(session, site.id)

    def lock(self, session: Session) -> None:
        """Lock the site until the end of the transaction."""
        version = self._history.lock(session)
        if version != self._version:
            self._version = version
            self.names = SiteNames(session, self._site_id)

    def reset(self) -> None:
        """Drop all that was read, after the transaction was rolled back."""
        self._history.reset()
        self._version = -1
        self._users.clear()

    def has(self, session: Session, source: Source) -> bool:
        """Whether anything of the source was recorded before."""
        return bool(self.ids_of(session, [source]))

    def has_any(self, session: Session, prefix: str) -> bool:
        """Whether anything of a source whose key begins so was recorded before."""
        row = schema.SourceRow
        query = select(row.id).where(
            row.site_id == self._site_id, row.key.startswith(prefix, autoescape=True)
        )
        return session.scalar(query.limit(1)) is not None

    def ids_of(self, session: Session, sources: Sequence[Source]) -> dict[str, int]:
        """The ids, by key, of those sources of which anything was recorded before."""
        row, keys, found = schema.SourceRow, [source.key for source in sources], dict[str, int]()
        for k in range(0, len(keys), KEYS_AT_A_TIME):
            some = row.key.in_(keys[k : k + KEYS_AT_A_TIME])
            query = select(row.key, row.id).where(row.site_id == self._site_id, some)
            found |= dict(session.execute(query).all())
        return found

    def put(self, session: Session, sources: Sequence[Source]) -> dict[str, int]:
        """Add the sources that are new. Returns the ids of all by key."""
        found = self.ids_of(session, sources)
        of_site = {"site_id": self._site_id}
        new = {source.key: source for source in sources if source.key not in found}
        rows = [schema.SourceRow(**of_site | asdict(one) | {"kind": one.kind.value}) for one in new.values()]
        session.add_all(rows)
        session.flush()
        return found | {row.key: row.id for row in rows}

    def begin_batch(self, session: Session, recorder: str, number: int) -> bool:
        """Note a batch as the last one of its recorder. Returns whether it is not recorded yet."""
        found = session.get(schema.RecordingRow, (self._site_id, recorder))
        if found is None:
            session.add(schema.RecordingRow(site_id=self._site_id, recorder=recorder, batches=number))
        elif found.batches >= number:
            return False
        else:
            found.batches = number
        return True

    def add(self, session: Session, source: Source, jobs: Sequence[JobRecord]) -> None:
        """As `add_all`, for the jobs of one source."""
        self.add_all(session, [(source, jobs)])

    def add_all(self, session: Session, batches: Sequence[Batch]) -> None:
        """Record jobs, with the runs of those that are done; at most one snapshot of the history is taken,
        after them. Raises BadRecord."""
        self.lock(session)
        jobs = [job for _, some in batches for job in some]
        for job in jobs:
            if not isfinite(job.submitted_s):
                raise BadRecord(f"job {job.number}: it was submitted at {job.submitted_s}; expected seconds")
        ids = self.put(session, [source for source, _ in batches])
        source_ids = [ids[source.key] for source, some in batches for _ in some]
        users = self._put_users(session, jobs)
        rows = [self._row(id, job, users) for id, job in zip(source_ids, jobs, strict=True)]
        done = [(job, row) for job, row in zip(jobs, rows, strict=True) if job.state is JobState.DONE]
        first = self._history.record(session, [self._run(job, row) for job, row in done])
        for number, (_, row) in enumerate(done, start=first):
            row["run_number"] = number
        site = schema.SiteRow
        recorded = site.jobs_recorded
        taken = update(site).where(site.id == self._site_id).values(jobs_recorded=recorded + len(jobs))
        last = session.execute(taken.returning(recorded)).scalar_one()
        predicted, data = [], []
        for serial, job, row in zip(range(last - len(jobs) + 1, last + 1), jobs, rows, strict=True):
            row["serial"] = serial
            predicted += [(self._site_id, serial, *one) for one in _predictions(job)]
            if (job.input_mb, job.output_mb) != (None, None):
                data.append((self._site_id, serial, job.input_mb or 0.0, job.output_mb or 0.0, job.data_at))
        insert_rows(session, schema.JobRow, rows)
        predicted.sort(key=lambda one: one[_PREDICTION.index("quantity")])
        of_jobs = [dict(zip(_PREDICTION, one, strict=True)) for one in predicted]
        insert_rows(session, schema.PredictionRow, of_jobs)
        insert_rows(session, schema.JobDataRow, [dict(zip(_DATA, one, strict=True)) for one in data])
        submitted = Counter((users[job.user], job.queue) for job in jobs)
        add_to_rows(session, schema.UserUsageRow, [usage(*of, jobs=n) for of, n in sorted(submitted.items())])

    def _row(self, source_id: int, job: JobRecord, users: Mapping[str, int]) -> dict[str, Any]:
        resource = job.resource or ""
        return {
            "site_id": self._site_id,
            "source_id": source_id,
            "serial": None,
            "run_number": None,
            "number": job.number,
            "job_class_id": self._job_class(job),
            "user_id": users[job.user],
            "submitted_by_id": users[job.submitted_by] if job.submitted_by else None,
            "queue": job.queue,
            "account": job.account,
            "qos": job.qos,
            "size": job.size,
            "state": job.state.value,
            "reason": job.reason,
            "machine_id": self.names.machines.get(self.names.machine(resource)),
            "cluster_id": self.names.clusters.get(resource),
            "submitted_unix_s": job.submitted_s,
            "started_unix_s": job.started_s,
            "ended_unix_s": job.ended_s,
            "preemptions": job.preemptions,
            "time_limit_s": job.time_limit_s,
        }

    def _run(self, job: JobRecord, row: Mapping[str, Any]) -> Run:
        who, time_s = f"job {job.number}", job.run_time_s
        if time_s is None or not 0.0 < time_s < MAX_VALUE:
            raise BadRecord(f"{who}: its run time is {time_s}; expected seconds, more than 0")
        if job.started_s is None or not isfinite(job.started_s):
            raise BadRecord(f"{who}: it started at {job.started_s}; expected seconds")
        if job.size is not None and not 0.0 < job.size < MAX_VALUE:
            raise BadRecord(f"{who}: its size is {job.size}; expected a number, more than 0")
        class_id, members = self._class_and_members(who, job)
        common = {name: row[name] for name in _OF_A_RUN}
        return common | {"machine_class_id": class_id, "members": members, "run_time_s": time_s}

    def _class_and_members(self, who: str, job: JobRecord) -> tuple[int | None, int | None]:
        """The class of the machine on which a job ran, or of how many members of a cluster it had."""
        site, resource = self._site, job.resource
        if resource is None:
            class_id = self.names.machine_classes.get(job.machine_class or "")
            if class_id is None:
                raise BadRecord(f"{who}: the site '{site}' has no machine class '{job.machine_class}'")
            return class_id, None
        if (machine := self.names.machine(resource)) in self.names.machines:
            if job.members not in (None, 1):
                raise BadRecord(f"{who}: it ran on {job.members} machines, and '{resource}' is one")
            return self.names.class_of[machine], None
        if resource not in self.names.clusters:
            raise BadRecord(f"{who}: the site '{site}' has no machine or cluster '{resource}'")
        most = len(self.names.members[resource])
        members = most if job.members is None else job.members
        if not 1 <= members <= most:
            raise BadRecord(
                f"{who}: it ran on {members} machines of the cluster '{resource}', which has {most}"
            )
        return None, members

    def _job_class(self, job: JobRecord) -> int:
        found = self.names.job_classes.get(job.job_class)
        if found is None:
            known = ", ".join([*self.names.job_classes][:MAX_NAMES_SHOWN]) or "none"
            more = ", ..." if len(self.names.job_classes) > MAX_NAMES_SHOWN else ""
            raise BadRecord(
                f"job {job.number}: the site '{self._site}' has no job class '{job.job_class}'; it has "
                f"{known}{more}"
            )
        return found

    def _put_users(self, session: Session, jobs: Iterable[JobRecord]) -> dict[str, int]:
        """Ids of users; an unknown one is added, without any policy."""
        names = {name for job in jobs for name in (job.user, job.submitted_by) if name}
        if not names <= self._users.keys():
            self._users = ids_of(session, schema.UserRow, self._site_id)
        for name in sorted(names - self._users.keys()):
            user = schema.UserRow(site_id=self._site_id, name=name, position=MAX_USERS, listed=False)
            session.add(user)
            session.flush()
            self._users[name] = user.id
        return self._users


_OF_A_RUN = (
    *("source_id", "job_class_id", "machine_id", "cluster_id"),
    *("started_unix_s", "user_id", "queue", "size"),
)
"""The columns that a job and its run have in common."""
_DATA = ("site_id", "job_serial", "input_mb", "output_mb", "at")
_PREDICTION = (
    *("site_id", "job_serial", "quantity", "made_unix_s", "predicted_s", "actual_s"),
    *("predictor", "low_s", "high_s", "waiting", "jobs_there", "grounds"),
)


def _predictions(job: JobRecord) -> Iterator[tuple[Any, ...]]:
    """The predictions of run time and turnaround, as far as known: the columns _PREDICTION from the quantity
    on."""
    if job.expected_s is not None:
        yield "run_time", job.started_s, job.expected_s, job.run_time_s, "", None, None, None, None, ""
    begin_s, end_s = job.submitted_s, job.ended_s
    for one in job.predicted:
        times_s = one.end_s, end_s, one.low_s, one.high_s
        predicted_s, actual_s, *interval_s = (None if at_s is None else at_s - begin_s for at_s in times_s)
        at_the_time = one.waiting, one.jobs_there, ""
        yield "turnaround", one.made_s, predicted_s, actual_s, one.predictor, *interval_s, *at_the_time
