"""A site file into the database: a new site, or the next version of one that is there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from scheduler.errors import UserError
from site_db import toml_file
from site_db.locking import locked_site
from site_db.schema import (
    AllowedPlaceRow,
    CharacterisationRow,
    ClusterInterconnectRow,
    ClusterMemberRow,
    ClusterRow,
    ExecutionHistoryRow,
    ExecutionStatisticsRow,
    InterconnectRow,
    JobClassRow,
    JobRow,
    MachineClassRow,
    MachineInterconnectRow,
    MachineRow,
    PreferenceRow,
    QueueDisplacesRow,
    QueueRow,
    QueueUserRow,
    SiteRow,
    SocialContractRow,
    SubmissionRightRow,
    UserQueueRow,
    UserRow,
)
from site_db.schema.resources import OfSite
from site_db.site_file.tables import SiteFile
from site_db.site_rows import ids_of, rows_of
from site_db.toml_file import Location

Row = TypeVar("Row", bound=OfSite)


class SiteConflict(UserError):
    """The file does not go with what the database knows. The message is one sentence for the user; `place`
    is where in the file, empty for something that the file lacks."""

    def __init__(self, place: Location, sentence: str) -> None:
        super().__init__(sentence)
        self.place = place


def put_site(session: Session, file: SiteFile, experienced: Collection[str] = ()) -> SiteRow:
    """Make the site of that name as its file says; its history and its users' jobs stay.

    What the file does not name any more goes. Raises SiteConflict where history or jobs lead to that, and for
    a job class of which neither the file nor the history has any time, unless it is one of `experienced`, of
    which history is to follow.
    """
    site = locked_site(session, file.name)
    site.description = file.description
    site.only_listed_users = file.only_listed_users
    session.flush()
    _Update(session, site, file).carry_out()
    _refuse_classes_without_times(session, site.id, file, experienced)
    return site


def put_file(session: Session, file: SiteFile, path: Path) -> None:
    """As `put_site`, for a site that was read from `path`. Raises InvalidFile with the line of a conflict."""
    try:
        put_site(session, file)
    except SiteConflict as conflict:
        raise toml_file.invalid(toml_file.read_text(path), path, conflict.place, str(conflict)) from None


class _Update:
    """One site file on its way into the rows of its site."""

    def __init__(self, session: Session, site: SiteRow, file: SiteFile) -> None:
        self._session = session
        self._site_id = site.id
        self._runs_recorded = site.runs_recorded
        self._file = file

    def carry_out(self) -> None:
        file = self._file
        self._refuse_to_forget()
        interconnects = self._put(
            InterconnectRow,
            file.interconnects,
            lambda x: {"bandwidth_mbit_per_s": x.bandwidth_mbit_per_s, "latency_us": x.latency_us},
        )
        classes = self._put(MachineClassRow, file.machine_classes, lambda k: {"architecture": k.architecture})
        machines = self._put_machines(classes, interconnects)
        clusters = self._put(ClusterRow, file.clusters, lambda c: {"least_share": c.least_share})
        self._relate(ClusterMemberRow, "cluster_id", clusters, "machine_id", machines, "members")
        self._relate(
            ClusterInterconnectRow, "cluster_id", clusters, "interconnect_id", interconnects, "interconnects"
        )
        self._put_contracts(clusters)
        self._put_job_classes(classes, clusters)
        queues = self._put_queues()
        self._put_users(queues)
        # Only now: what stays may still have led to what goes.
        gone: list[tuple[type[OfSite], Iterable[str]]] = [
            (JobClassRow, (k.name for k in file.job_classes)),
            (ClusterRow, clusters),
            (MachineRow, machines),
            (MachineClassRow, classes),
            (InterconnectRow, interconnects),
            (QueueRow, queues),
        ]
        for row, names in gone:
            self._remove_others(row, set(names))

    def _put(
        self, row: type[Row], tables: Sequence[Any], columns: Callable[[Any], dict[str, Any]]
    ) -> dict[str, int]:
        """Make the rows of one kind as the tables say. Returns their ids by name."""
        there = {one.name: one for one in rows_of(self._session, row, self._site_id)}
        for position, table in enumerate(tables):
            values = {"position": position, **columns(table)}
            one = there.get(table.name) or row()
            one.site_id, one.name = self._site_id, table.name
            for name, value in values.items():
                setattr(one, name, value)
            self._session.add(one)
        self._session.flush()
        names = {table.name for table in tables}
        ids = ids_of(self._session, row, self._site_id)
        return {name: id for name, id in ids.items() if name in names}

    def _put_machines(self, classes: dict[str, int], interconnects: dict[str, int]) -> dict[str, int]:
        there = {m.name: m for m in rows_of(self._session, MachineRow, self._site_id)}
        pairs = [(name, group) for group in self._file.machines for name in group.names]
        for position, (name, group) in enumerate(pairs):
            machine = there.get(name) or MachineRow(site_id=self._site_id, name=name)
            if machine.id is not None and machine.machine_class_id != classes[group.machine_class]:
                self._begin_anew(machine)
            machine.position = position
            machine.machine_class_id = classes[group.machine_class]
            machine.processors = group.processors
            machine.memory_mb = group.memory_mb
            machine.storage_gb = group.storage_gb
            machine.os = group.os
            machine.rating = group.rating
            machine.notional = group.notional
            self._session.add(machine)
        self._session.flush()
        names = {name for name, _ in pairs}
        ids = ids_of(self._session, MachineRow, self._site_id)
        machines = {name: id for name, id in ids.items() if name in names}
        self._clear(MachineInterconnectRow.machine_id.in_(self._ids(MachineRow)), MachineInterconnectRow)
        self._session.add_all(
            MachineInterconnectRow(machine_id=machines[name], interconnect_id=interconnects[line])
            for name, group in pairs
            for line in group.interconnects
        )
        return machines

    def _begin_anew(self, machine: MachineRow) -> None:
        """Other hardware under an old name: what its predecessor did says nothing of it."""
        machine.runs_before = self._runs_recorded
        self._clear(ExecutionStatisticsRow.machine_id == machine.id, ExecutionStatisticsRow)

    def _relate(
        self,
        row: type[Any],
        owner_column: str,
        owners: dict[str, int],
        other_column: str,
        others: dict[str, int],
        key: str,
    ) -> None:
        """Make the pairs of clusters and what belongs to them as the file says."""
        self._clear(getattr(row, owner_column).in_(owners.values()), row)
        self._session.add_all(
            row(**{owner_column: owners[cluster.name], other_column: others[name]})
            for cluster in self._file.clusters
            for name in getattr(cluster, key)
        )

    def _put_contracts(self, clusters: dict[str, int]) -> None:
        self._clear(SocialContractRow.cluster_id.in_(clusters.values()), SocialContractRow)
        self._session.add_all(
            SocialContractRow(cluster_id=clusters[cluster.name], **cluster.social_contract.model_dump())
            for cluster in self._file.clusters
            if cluster.social_contract is not None
        )

    def _put_job_classes(self, classes: dict[str, int], clusters: dict[str, int]) -> None:
        tables = self._file.job_classes
        ids = self._put(
            JobClassRow,
            tables,
            lambda k: {
                "description": k.description,
                "size": k.size,
                "network_mbit_per_s": k.network_mbit_per_s,
            },
        )
        for row in (AllowedPlaceRow, CharacterisationRow, PreferenceRow):
            self._clear(row.job_class_id.in_(ids.values()), row)
        for k in tables:
            for column, places, times_s, commands in (
                ("machine_class_id", classes, k.sequential_s, k.commands),
                ("cluster_id", clusters, k.parallel_s, k.parallel_commands),
            ):
                self._session.add_all(
                    AllowedPlaceRow(
                        job_class_id=ids[k.name],
                        **{column: places[name]},
                        expected_s=times_s.get(name),
                        command_line=commands.get(name),
                    )
                    for name in dict.fromkeys((*times_s, *commands))
                )
            self._session.add_all(
                CharacterisationRow(job_class_id=ids[k.name], **alone.model_dump())
                for alone in k.in_isolation
            )
            self._session.add_all(
                PreferenceRow(job_class_id=ids[k.name], machine_class_id=classes[name], rank=rank)
                for rank, name in enumerate(k.preferred)
            )
        self._session.flush()

    def _put_queues(self) -> dict[str, int]:
        queues = self._put(
            QueueRow,
            self._file.queues,
            lambda q: {
                "priority": q.priority,
                "scheduler": q.scheduler,
                "mapping": q.mapping,
                "open_to_all": q.users is None,
            },
        )
        for row in (QueueUserRow, QueueDisplacesRow):
            self._clear(row.queue_id.in_(queues.values()), row)
        for q in self._file.queues:
            self._session.add_all(
                QueueUserRow(queue_id=queues[q.name], user_name=user) for user in q.users or ()
            )
            self._session.add_all(
                QueueDisplacesRow(queue_id=queues[q.name], displaced_queue_id=queues[name])
                for name in q.displaces
            )
        return queues

    def _put_users(self, queues: dict[str, int]) -> None:
        """Users who are not listed any more stay, for the sake of their jobs, and nothing limits them."""
        tables = self._file.users
        for user in rows_of(self._session, UserRow, self._site_id):
            user.listed, user.all_queues, user.most_jobs, user.highest_priority = False, True, None, None
        for row in (UserQueueRow, SubmissionRightRow):
            self._clear(row.user_id.in_(self._ids(UserRow)), row)
        users = self._put(
            UserRow,
            tables,
            lambda u: {
                "listed": True,
                "all_queues": u.queues is None,
                "most_jobs": u.most_jobs,
                "highest_priority": u.highest_priority,
            },
        )
        for u in tables:
            self._session.add_all(
                UserQueueRow(user_id=users[u.name], queue_id=queues[name]) for name in u.queues or ()
            )
            self._session.add_all(
                SubmissionRightRow(user_id=users[u.name], as_user_id=users[right.user], queue_id=queue_id)
                for right in u.may_submit_as
                for queue_id in ([None] if right.queues is None else [queues[name] for name in right.queues])
            )
        self._session.flush()

    # -- what must not be lost ------------------------------------------------------------------------------

    def _refuse_to_forget(self) -> None:
        """Raise SiteConflict for what the file does not name any more and the history does."""
        file, run = self._file, ExecutionHistoryRow
        kinds: list[tuple[type[OfSite], str, Any, Any]] = [
            (JobClassRow, "job class", file.job_classes, run.job_class_id),
            (ClusterRow, "cluster", file.clusters, run.cluster_id),
            (MachineClassRow, "machine class", file.machine_classes, run.machine_class_id),
        ]
        for row, what, tables, leads_to in kinds:
            named = {table.name for table in tables}
            for one in rows_of(self._session, row, self._site_id):
                if one.name in named:
                    continue
                runs = self._count(run, run.site_id == self._site_id, leads_to == one.id)
                jobs = self._count(JobRow, JobRow.job_class_id == one.id) if row is JobClassRow else 0
                if runs or jobs:
                    raise SiteConflict(
                        (),
                        f"the {what} '{one.name}' is not in the file any more, but the history of the site "
                        f"'{file.name}' has {runs or jobs} {'runs' if runs else 'jobs'} of it; keep it in "
                        f"the file, or forget them first with `sil db prune`",
                    )

    def _remove_others(self, row: type[OfSite], names: set[str]) -> None:
        for one in rows_of(self._session, row, self._site_id):
            if one.name not in names:
                self._session.delete(one)
        self._session.flush()

    def _ids(self, row: type[OfSite]) -> Any:
        return select(row.id).where(row.site_id == self._site_id)

    def _clear(self, where: Any, row: type[Any]) -> None:
        self._session.flush()
        self._session.execute(delete(row).where(where).execution_options(synchronize_session=False))

    def _count(self, row: type[Any], *where: Any) -> int:
        return self._session.scalar(select(func.count()).select_from(row).where(*where)) or 0


def _refuse_classes_without_times(
    session: Session, site_id: int, file: SiteFile, experienced: Collection[str]
) -> None:
    seen = set(session.scalars(select(ExecutionStatisticsRow.job_class_id).distinct()))
    ids = ids_of(session, JobClassRow, site_id)
    for n, k in enumerate(file.job_classes):
        if k.sequential_s or k.parallel_s or k.in_isolation or ids[k.name] in seen or k.name in experienced:
            continue
        raise SiteConflict(
            ("job_classes", n, "name"),
            f"job class '{k.name}' has no time anywhere, neither from the site's staff nor in the history; "
            f"give it at least one in sequential_s or parallel_s",
        )
