"""Recording jobs and their completed runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import count
from math import isfinite
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from scheduler import UserError
from site_db import schema
from site_db.files.input_errors import MOST
from site_db.history.stored_statistics import CompletedRun
from site_db.history.writer import HistoryWriter, usage
from site_db.jobs.records import Batch, JobRecord, JobState, Source
from site_db.rows import add_to_rows, ids_of, insert_rows
from site_db.site_file.machine_names import machine_of_slot
from site_db.sites import find_site

MOST_NAMES_SHOWN = 10
KEYS_AT_A_TIME = 500
"""In one query."""
MOST_USERS = 2**31 - 1
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
        self.machines = {name: (id, class_id) for name, id, class_id, _ in rows}
        """The id and the class's id."""
        self._slots = {name: n_slots for name, _, _, n_slots in rows if n_slots > 1}
        self.members: dict[str, set[int]] = {name: set() for name in self.clusters}
        """The ids of the machines in each cluster."""
        members = select(cluster.name, member.machine_id).join(member)
        for name, machine_id in session.execute(members.where(cluster.site_id == site_id)):
            self.members[name].add(machine_id)

    def machine(self, resource: str | None) -> tuple[int, int] | None:
        """The ids of a machine, or of the machine of a slot, and of its class; None if there is none."""
        if resource is None:
            return None
        return self.machines.get(machine_of_slot(resource, self._slots) or resource)


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
        """The ids of those sources by key of which anything was recorded before."""
        row, keys, found = schema.SourceRow, [source.key for source in sources], dict[str, int]()
        for k in range(0, len(keys), KEYS_AT_A_TIME):
            some = row.key.in_(keys[k : k + KEYS_AT_A_TIME])
            query = select(row.key, row.id).where(row.site_id == self._site_id, some)
            found |= dict(session.execute(query).all())
        return found

    def put(self, session: Session, sources: Sequence[Source]) -> dict[str, int]:
        """The ids of sources by key; those that are new are added."""
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
        runs = [
            (source_id, self._run(job, users))
            for source_id, job in zip(source_ids, jobs, strict=True)
            if job.state is JobState.DONE
        ]
        run_numbers = count(self._history.record(session, runs))
        numbered = list(zip(self._take_serials(session, len(jobs)), jobs, strict=True))
        rows = [
            {
                "site_id": self._site_id,
                "source_id": source_id,
                "serial": serial,
                "run_number": next(run_numbers) if job.state is JobState.DONE else None,
                **self._job_columns(job, users),
            }
            for source_id, (serial, job) in zip(source_ids, numbered, strict=True)
        ]
        insert_rows(session, schema.JobRow, rows)
        for predictions in (_run_time_predictions(numbered), _turnaround_predictions(numbered)):
            rows = [{"site_id": self._site_id, **one} for one in predictions]
            insert_rows(session, schema.PredictionRow, rows)
        submitted = Counter((users[job.user], job.queue) for job in jobs)
        add_to_rows(session, schema.UserUsageRow, [usage(*of, jobs=n) for of, n in sorted(submitted.items())])

    def _job_columns(self, job: JobRecord, users: Mapping[str, int]) -> dict[str, Any]:
        return {
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
            "machine_id": machine[0] if (machine := self.names.machine(job.resource)) else None,
            "cluster_id": self.names.clusters.get(job.resource or ""),
            "submitted_unix_s": job.submitted_s,
            "started_unix_s": job.started_s,
            "ended_unix_s": job.ended_s,
            "preemptions": job.preemptions,
            "time_limit_s": job.time_limit_s,
        }

    def _run(self, job: JobRecord, users: Mapping[str, int]) -> CompletedRun:
        who, job_class_id = f"job {job.number}", self._job_class(job)
        time_s, started_s = job.run_time_s, job.started_s
        if time_s is None or not 0.0 < time_s < MOST:
            raise BadRecord(f"{who}: its run time is {time_s}; expected seconds, more than 0")
        if started_s is None or not isfinite(started_s):
            raise BadRecord(f"{who}: it started at {started_s}; expected seconds")
        if job.size is not None and not 0.0 < job.size < MOST:
            raise BadRecord(f"{who}: its size is {job.size}; expected a number, more than 0")
        rest = (started_s, time_s, users[job.user], job.queue, job.size)
        if job.resource is None:
            class_id = self.names.machine_classes.get(job.machine_class or "")
            if class_id is None:
                raise BadRecord(f"{who}: the site '{self._site}' has no machine class '{job.machine_class}'")
            return CompletedRun(job_class_id, class_id, None, None, None, *rest)
        machine = self.names.machine(job.resource)
        if machine is not None:
            if job.members not in (None, 1):
                raise BadRecord(f"{who}: it ran on {job.members} machines, and '{job.resource}' is one")
            machine_id, class_id = machine
            return CompletedRun(job_class_id, class_id, machine_id, None, None, *rest)
        if job.resource not in self.names.clusters:
            raise BadRecord(f"{who}: the site '{self._site}' has no machine or cluster '{job.resource}'")
        most = len(self.names.members[job.resource])
        members = most if job.members is None else job.members
        if not 1 <= members <= most:
            raise BadRecord(
                f"{who}: it ran on {members} machines of the cluster '{job.resource}', which has {most}"
            )
        return CompletedRun(job_class_id, None, None, self.names.clusters[job.resource], members, *rest)

    def _job_class(self, job: JobRecord) -> int:
        found = self.names.job_classes.get(job.job_class)
        if found is None:
            known = ", ".join([*self.names.job_classes][:MOST_NAMES_SHOWN]) or "none"
            more = ", ..." if len(self.names.job_classes) > MOST_NAMES_SHOWN else ""
            raise BadRecord(
                f"job {job.number}: the site '{self._site}' has no job class '{job.job_class}'; it has "
                f"{known}{more}"
            )
        return found

    def _take_serials(self, session: Session, n: int) -> range:
        site = schema.SiteRow
        taken = (
            update(site)
            .where(site.id == self._site_id)
            .values(jobs_recorded=site.jobs_recorded + n)
            .returning(site.jobs_recorded)
        )
        last = session.execute(taken).scalar_one()
        return range(last - n + 1, last + 1)

    def _put_users(self, session: Session, jobs: Iterable[JobRecord]) -> dict[str, int]:
        """Ids of users; an unknown one is added, without any policy."""
        names = {name for job in jobs for name in (job.user, job.submitted_by) if name}
        if not names <= self._users.keys():
            self._users = ids_of(session, schema.UserRow, self._site_id)
        for name in sorted(names - self._users.keys()):
            user = schema.UserRow(site_id=self._site_id, name=name, position=MOST_USERS, listed=False)
            session.add(user)
            session.flush()
            self._users[name] = user.id
        return self._users


def _run_time_predictions(numbered: Iterable[tuple[int, JobRecord]]) -> Iterator[dict[str, Any]]:
    for serial, job in numbered:
        if job.expected_s is not None:
            yield _prediction(serial, "run_time", job.started_s, job.expected_s, job.run_time_s)


def _turnaround_predictions(numbered: Iterable[tuple[int, JobRecord]]) -> Iterator[dict[str, Any]]:
    """Predictions of turnaround, with the actual one where the job is done."""
    for serial, job in numbered:
        submitted_s = job.submitted_s
        actual_s = None if job.ended_s is None else job.ended_s - submitted_s
        for one in job.predicted:
            yield _prediction(serial, "turnaround", one.made_s, one.end_s - submitted_s, actual_s) | {
                "low_s": None if one.low_s is None else one.low_s - submitted_s,
                "high_s": None if one.high_s is None else one.high_s - submitted_s,
                "predictor": one.predictor,
                "waiting": one.waiting,
                "jobs_there": one.jobs_there,
            }


def _prediction(
    serial: int, quantity: str, made_s: float | None, predicted_s: float, actual_s: float | None
) -> dict[str, Any]:
    return {
        "job_serial": serial,
        "quantity": quantity,
        "made_unix_s": made_s,
        "predicted_s": predicted_s,
        "actual_s": actual_s,
        "grounds": "",
    }
