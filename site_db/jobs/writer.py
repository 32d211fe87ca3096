"""Jobs and their whole runs into the database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from math import isfinite
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from scheduler.errors import UserError
from site_db.bulk import add_up_rows, insert_rows
from site_db.history.completed_run import CompletedRun
from site_db.history.writer import USAGE, HistoryWriter
from site_db.jobs.records import JobRecord, JobState, Source
from site_db.schema import (
    ClusterMemberRow,
    ClusterRow,
    JobClassRow,
    JobRow,
    MachineClassRow,
    MachineRow,
    PredictionRow,
    RecordingRow,
    SiteRow,
    SourceRow,
    UserRow,
    UserUsageRow,
)
from site_db.site_rows import ids_of
from site_db.sites import find_site
from site_db.toml_file import MOST


class BadRecord(UserError):
    """A job that cannot be recorded. The message is one sentence for the user."""


class TakenInBefore(UserError):
    """Nothing is recorded twice. The message is one sentence for the user."""


class JobWriter:
    """Records the jobs of one site, each call in the transaction of its session; after one that failed,
    `forget`. Raises UnknownSite."""

    def __init__(self, session: Session, site_name: str) -> None:
        site = find_site(session, site_name)
        self._site = site_name
        self._site_id = site.id
        self._history = HistoryWriter(site.id)
        self._users: dict[str, int] = {}
        self._version = -1

    def lock(self, session: Session) -> None:
        """Wait for the turn to record, till the end of the transaction."""
        version = self._history.lock(session)
        if version != self._version:
            self._version = version
            self.learn_names(session)

    def learn_names(self, session: Session) -> None:
        """Learn what the site calls its things; needed where this transaction has added some."""
        site_id = self._site_id
        self._job_classes = ids_of(session, JobClassRow, site_id)
        self._classes = ids_of(session, MachineClassRow, site_id)
        machines = select(MachineRow.name, MachineRow.id, MachineRow.machine_class_id)
        of_site = session.execute(machines.where(MachineRow.site_id == site_id))
        self._machines = {name: (id, class_id) for name, id, class_id in of_site}
        self._clusters = ids_of(session, ClusterRow, site_id)
        row = ClusterMemberRow
        members = select(row.cluster_id).join(ClusterRow, ClusterRow.id == row.cluster_id)
        sizes = Counter(session.scalars(members.where(ClusterRow.site_id == site_id)))
        self._sizes = {name: sizes[id] for name, id in self._clusters.items()}

    def forget(self) -> None:
        """The transaction was rolled back."""
        self._history.forget()
        self._version = -1
        self._users.clear()

    def knows(self, session: Session, source: Source) -> bool:
        """Whether anything of the source was recorded before."""
        return self._find(session, source) is not None

    def source_id(self, session: Session, source: Source) -> int:
        """The id of a source, which is added where it is new."""
        found = self._find(session, source)
        if found is not None:
            return found
        new = SourceRow(
            site_id=self._site_id,
            kind=source.kind.value,
            key=source.key,
            name=source.name,
            scheduler=source.scheduler,
            point=source.point,
            replication=source.replication,
        )
        session.add(new)
        session.flush()
        return new.id

    def _find(self, session: Session, source: Source) -> int | None:
        row = SourceRow
        return session.scalar(select(row.id).where(row.site_id == self._site_id, row.key == source.key))

    def batches_of(self, session: Session, recorder: str) -> int:
        """How many batches the recorder of that name has got into the database."""
        row = RecordingRow
        found = session.scalar(
            select(row.batches).where(row.site_id == self._site_id, row.recorder == recorder)
        )
        return found or 0

    def count_batch_of(self, session: Session, recorder: str) -> None:
        """This transaction has one more of them."""
        add_up_rows(
            session, RecordingRow, ("site_id", "recorder"), ("batches",), [(self._site_id, recorder, 1)]
        )

    def add(self, session: Session, source: Source, jobs: Sequence[JobRecord]) -> None:
        """Record jobs, with the whole runs of those that are done. Raises BadRecord."""
        self.lock(session)
        for job in jobs:
            if not isfinite(job.submitted_s):
                raise BadRecord(f"job {job.number}: it was submitted at {job.submitted_s}; expected seconds")
        source_id = self.source_id(session, source)
        users = self._put_users(session, _users_of(jobs))
        first = self._history.record(session, source_id, self._runs(jobs, users))
        numbers = count(first)
        serials = self._take_serials(session, len(jobs))
        rows = [
            (
                self._site_id,
                serial,
                source_id,
                job.number,
                self._job_class(job),
                users[job.user],
                users[job.submitted_by] if job.submitted_by else None,
                job.queue,
                job.size,
                job.state.value,
                job.reason,
                self._machines[job.resource][0] if job.resource in self._machines else None,
                self._clusters.get(job.resource or ""),
                job.submitted_s,
                job.started_s,
                job.ended_s,
                job.preemptions,
                job.time_limit_s,
                next(numbers) if job.state is JobState.DONE else None,
            )
            for serial, job in zip(serials, jobs, strict=True)
        ]
        insert_rows(session, JobRow, _OF_JOB, rows)
        predictions = [
            (self._site_id, serial, "run_time", job.started_s, job.expected_s, "", job.run_time_s)
            for serial, job in zip(serials, jobs, strict=True)
            if job.expected_s is not None
        ]
        insert_rows(session, PredictionRow, _OF_PREDICTION, predictions)
        insert_rows(session, PredictionRow, _OF_TURNAROUND, list(self._turnarounds(serials, jobs)))
        submitted = Counter((users[job.user], job.queue) for job in jobs)
        usage = [(user, queue, n, 0, 0.0) for (user, queue), n in sorted(submitted.items())]
        add_up_rows(session, UserUsageRow, ("user_id", "queue"), USAGE, usage)

    def _turnarounds(self, serials: range, jobs: Sequence[JobRecord]) -> Iterator[tuple[Any, ...]]:
        """Predictions of turnaround, scored where the job is done."""
        for serial, job in zip(serials, jobs, strict=True):
            since_s = job.submitted_s
            real_s = None if job.ended_s is None else job.ended_s - since_s
            for said in job.predicted:
                interval = (None if bound is None else bound - since_s for bound in (said.low_s, said.high_s))
                yield (
                    self._site_id,
                    serial,
                    "turnaround",
                    said.made_s,
                    said.end_s - since_s,
                    *interval,
                    said.predictor,
                    said.waiting,
                    said.jobs_there,
                    "",
                    real_s,
                )

    def _runs(self, jobs: Sequence[JobRecord], users: dict[str, int]) -> list[CompletedRun]:
        return [self._run(job, users) for job in jobs if job.state is JobState.DONE]

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
            class_id = self._classes.get(job.machine_class or "")
            if class_id is None:
                raise BadRecord(f"{who}: the site '{self._site}' has no machine class '{job.machine_class}'")
            return CompletedRun(job_class_id, class_id, None, None, None, *rest)
        if job.resource in self._machines:
            if job.members not in (None, 1):
                raise BadRecord(f"{who}: it ran on {job.members} machines, and '{job.resource}' is one")
            machine_id, class_id = self._machines[job.resource]
            return CompletedRun(job_class_id, class_id, machine_id, None, None, *rest)
        if job.resource not in self._clusters:
            raise BadRecord(f"{who}: the site '{self._site}' has no machine or cluster '{job.resource}'")
        most = self._sizes[job.resource]
        members = most if job.members is None else job.members
        if not 1 <= members <= most:
            raise BadRecord(
                f"{who}: it ran on {members} machines of the cluster '{job.resource}', which has {most}"
            )
        return CompletedRun(job_class_id, None, None, self._clusters[job.resource], members, *rest)

    def _job_class(self, job: JobRecord) -> int:
        found = self._job_classes.get(job.job_class)
        if found is None:
            known = ", ".join([*self._job_classes][:MOST_NAMES_TOLD]) or "none"
            more = ", ..." if len(self._job_classes) > MOST_NAMES_TOLD else ""
            raise BadRecord(
                f"job {job.number}: the site '{self._site}' has no job class '{job.job_class}'; it has "
                f"{known}{more}"
            )
        return found

    def _take_serials(self, session: Session, n: int) -> range:
        site = SiteRow
        taken = (
            update(site)
            .where(site.id == self._site_id)
            .values(jobs_recorded=site.jobs_recorded + n)
            .returning(site.jobs_recorded)
        )
        last = session.execute(taken).scalar_one()
        return range(last - n + 1, last + 1)

    def _put_users(self, session: Session, names: Iterable[str]) -> dict[str, int]:
        """Ids of users; one who is not known yet becomes so, without any policy."""
        wanted = set(names)
        if not wanted <= self._users.keys():
            self._users = ids_of(session, UserRow, self._site_id)
        for name in sorted(wanted - self._users.keys()):
            user = UserRow(site_id=self._site_id, name=name, position=MOST_USERS, listed=False)
            session.add(user)
            session.flush()
            self._users[name] = user.id
        return self._users


MOST_NAMES_TOLD = 10
MOST_USERS = 2**31 - 1
"""The position of a user who is not listed: behind all who are."""


def _users_of(jobs: Iterable[JobRecord]) -> set[str]:
    return {name for job in jobs for name in (job.user, job.submitted_by) if name}


_OF_JOB = (
    "site_id",
    "serial",
    "source_id",
    "number",
    "job_class_id",
    "user_id",
    "submitted_by_id",
    "queue",
    "size",
    "state",
    "reason",
    "machine_id",
    "cluster_id",
    "submitted_unix_s",
    "started_unix_s",
    "ended_unix_s",
    "preemptions",
    "time_limit_s",
    "run_number",
)
_OF_PREDICTION = (
    "site_id",
    "job_serial",
    "quantity",
    "made_unix_s",
    "predicted_s",
    "grounds",
    "actual_s",
)
_OF_TURNAROUND = (
    "site_id",
    "job_serial",
    "quantity",
    "made_unix_s",
    "predicted_s",
    "low_s",
    "high_s",
    "predictor",
    "waiting",
    "jobs_there",
    "grounds",
    "actual_s",
)
