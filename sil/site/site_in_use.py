"""The site of an experiment: from a site file or a database, copied beside the results; and the names of
its resources, to which indices in a trace refer."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import polars as pl
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from scheduler import UserError
from scheduler.managers.queues import QueuePolicy, UserPolicy
from scheduler.mapping.etc import EtcMatrix
from scheduler.model import Job, Site
from scheduler.priority.policy import SitePolicy
from scheduler.registry import key_of
from sil.settings import files
from sil.settings.events_file import events_in
from sil.settings.experiment_file import Experiment, Files
from sil.settings.log_events import Events
from sil.settings.log_tables import LogTable
from sil.site.logs import read_log, under_policy
from sil.site.past import past_log
from sil.site.what_if_changes import ChangedSite, apply_changes
from sil.site.what_if_site import Absence
from sil.site.what_if_times import estimation_uncertainty
from sil.workload.job_log import SCHEMA, JobLog
from sil.workload.slices import check_weeks
from site_db import experience as past
from site_db import sites, store
from site_db.estimation import Cell, SiteLayout
from site_db.exchange import copy_site
from site_db.experience import Expect, KnownError, MemoryExperience, StatisticsReader
from site_db.history.statistics import RunStatistics
from site_db.jobs.past import with_recorded_data
from site_db.site_file import importing, validation
from site_db.site_file.cluster import SiteNodes
from site_db.site_file.importing import SiteConflict
from site_db.site_file.nodes import cluster_of
from site_db.site_file.tables import SiteFile
from site_db.sites import SiteReader, find_site, queue_policy
from site_db.states import current_states
from site_db.store import Address, DatabaseTrouble

Queues = tuple[tuple[QueuePolicy, str | None], ...]


@dataclass(frozen=True)
class SiteInUse:
    """A site as one experiment uses it, with its statistics as of run `as_of` of its history."""

    site: Site
    queues: Queues
    users: tuple[UserPolicy, ...]
    only_listed_users: bool
    down: tuple[str, ...]
    """Machines and interconnects that are down when the experiment begins."""
    file: SiteFile
    as_of: int
    layout: SiteLayout
    statistics: Mapping[Cell, RunStatistics]
    errors: tuple[KnownError, ...] = ()
    """Errors of past turnaround predictions as of that run."""
    absences: tuple[Absence, ...] = ()
    """When what-if changes add or remove machines for a time."""
    uncertainty: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """The uncertainty of times on notional machines: relative standard deviation by (job class, machine
    class)."""
    log: JobLog | None = None
    """The jobs that arrive, where they are those of a log or of the site's past."""
    policy: SitePolicy | None = None
    events: Events = field(default_factory=Events)
    others: Mapping[int, SiteInUse] = field(default_factory=dict)
    """As it is at other points of the grid, by number, where the log, the policy or the events differ."""

    clusters: tuple[SiteInUse, ...] = ()
    """The sites of several clusters."""

    @property
    def has_nodes(self) -> bool:
        """Whether its machines are nodes of partitions, of which jobs request parts."""
        return bool(self.file.partitions)

    def at(self, point: int) -> SiteInUse:
        return self.others.get(point, self)

    @cached_property
    def cluster(self) -> SiteNodes:
        """The nodes of its partitions, under the policy."""
        return replace(cluster_of(self.file), policy=self.policy)

    def experience(self) -> MemoryExperience:
        """The experience at the beginning of a run."""
        return MemoryExperience(self.layout, self.statistics)

    def expected_times(self, jobs: Sequence[Job]) -> EtcMatrix:
        """The expected times of jobs on each machine and cluster, by the experience at the beginning."""
        return self.experience().estimate(jobs, [len(members) for members in self.site.members])

    def digest(self) -> str:
        """A digest that is equal for equal sites with equal statistics."""
        # Not of the site itself: its sets have another order in every process.
        everything = (
            self.file.model_dump_json(),
            self.down,
            sorted(self.statistics.items()),
            self.errors,
            self.absences,
            sorted(self.uncertainty.items()),
            None if self.log is None else (self.log.digest(), self.log.part),
            # Notes name files as they are called.
            None if self.policy is None else replace(self.policy, notes=()),
            replace(self.events, notes=()),
            [other.digest() for other in (*self.others.values(), *self.clusters)],
        )
        return hashlib.sha256(repr(everything).encode()).hexdigest()


class _Given(NamedTuple):
    """What may differ between the points of a grid."""

    log: JobLog | None
    policy: SitePolicy | None
    events: Events


class SiteSource:
    """The source of an experiment's site: a site file, or a site in a database."""

    def __init__(
        self, experiment: Experiment, folder: Path, address: Address | None, as_of: int | None = None,
        file: SiteFile | None = None,
    ) -> None:  # fmt: skip
        """The site at `address`, with its statistics as of run `as_of` of its history (None = now); else that
        of `file`, or the experiment's own, whose relative path starts at `folder`.

        Raises InvalidFile where a site file is missing or wrong, UserError and DatabaseTrouble.
        """
        self._experiment = experiment
        self._origin = store.open_database(address) if address else None
        self.address = address
        self._as_of = as_of
        self._folder = folder
        self._given: dict[str, _Given] = {}
        """What files and databases state, by the settings that name them."""
        if self._origin is None or address is None:
            self._path = files.find(experiment.site, "sites", folder) if file is None else folder
            self._file = file or importing.read_site_file(self._path)
        else:
            with store.reading(self._origin) as session:
                self._file = SiteReader(session, sites.site_at(session, address)).as_file()
            for _, sentence in validation.errors(self._file):
                raise DatabaseTrouble(f"{address}: the site '{self.name}' cannot be used: {sentence}")

    @property
    def name(self) -> str:
        return self._file.name

    def snapshot(self, database: Path) -> SiteInUse:
        """Copy the site as it is now into a new file `database`, and use it from there.

        Raises InvalidFile for a site that cannot be used, UserError and DatabaseTrouble.
        """
        copied, changed = store.replace(database), self._changed()
        self._copy_into(copied)
        if changed is not None:
            with store.changing(copied) as session:
                job_classes = [table.name for table in changed.file.job_classes]
                importing.put_site(session, changed.file, experienced=job_classes)
        in_use = self._in_use(copied, changed)
        copied.dispose()
        return in_use

    def resume(self, database: Path) -> SiteInUse | None:
        """The site as an earlier start of the same experiment copied it into `database`, even if its history
        has grown since; None if it is another site now."""
        try:
            copied = store.open_file(database)
        except DatabaseTrouble:
            return None
        with store.reading(copied) as session:
            changed = self._changed()
            expected = self._file if changed is None else changed.file
            same = sites.site_names(session) == [self.name] and (
                SiteReader(session, self.name).as_file() == expected
            )
        in_use = self._in_use(copied, changed) if same else None
        copied.dispose()
        return in_use

    def with_changes(self, experiment: Experiment) -> SiteSource:
        """The same site for an experiment with other what-if changes.

        Expected times at the unchanged site are computed once for all of them, and files are read once.
        """
        _ = self._expect
        other = copy.copy(self)
        other._experiment = experiment
        return other

    def _copy_into(self, database: Engine) -> None:
        with store.changing(database) as session:
            if self._origin is None or self.address is None:
                importing.put_file(session, self._file, self._path)
                return
            with store.reading(self._origin) as origin:
                try:
                    copy_site(origin, self.name, session, self._as_of)
                except SiteConflict as conflict:
                    when = "" if self._as_of is None else f" as of run {self._as_of}"
                    raise DatabaseTrouble(
                        f"{self.address}: the site '{self.name}' cannot be used{when}: {conflict}"
                    ) from None

    def _changed(self) -> ChangedSite | None:
        """The site with the experiment's what-if changes. Raises InapplicableChange."""
        if not self._experiment.notional:
            return None
        return apply_changes(self._file, self._expect, self._experiment.notional)

    @cached_property
    def _expect(self) -> Expect:
        with TemporaryDirectory() as folder:
            unchanged = store.replace(Path(folder) / "unchanged.db")
            self._copy_into(unchanged)
            with store.reading(unchanged) as session:
                reader = StatisticsReader(session, self.name)
                statistics = reader.statistics(session, find_site(session, self.name).runs_pruned)
            unchanged.dispose()
        return past.expected_times(reader.layout, MemoryExperience(reader.layout, statistics))

    def _in_use(self, database: Engine, changed: ChangedSite | None) -> SiteInUse:
        queues = queues_of(self._experiment)
        with store.reading(database) as session:
            reader = SiteReader(session, self.name)
            as_of = reader.site.runs_pruned
            history = StatisticsReader(session, self.name)
            statistics = history.statistics(session, as_of)
            file, (given, *others) = reader.as_file(), self._given_at_points()
            errors: tuple[KnownError, ...] = ()
            # Only predictions for time-shared nodes have errors, and only a database stores them.
            if self._origin is not None and self._experiment.shared_nodes is not None:
                with store.reading(self._origin) as origin:
                    site_id, names = find_site(origin, self.name).id, self._experiment.schedulers
                    errors = tuple(errors_under(origin, site_id, names, as_of))
            uncertainty: dict[tuple[str, str], float] = {}
            if changed is not None:
                uncertainty = estimation_uncertainty(history.layout, statistics, changed.new_classes)
                uncertainty |= changed.uncertainty
            found = SiteInUse(
                site=reader.as_scheduled(),
                queues=queues or tuple(reader.queue_policies()) or ((QueuePolicy(), None),),
                users=tuple(reader.user_policies()),
                only_listed_users=reader.site.only_listed_users,
                down=tuple(current_states(session, reader).down),
                file=file,
                as_of=as_of,
                layout=history.layout,
                statistics=statistics,
                errors=errors,
                absences=() if changed is None else changed.absences,
                uncertainty=uncertainty,
            )
        different = {k: _with(found, other) for k, other in enumerate(others, 1) if other is not given}
        return replace(_with(found, given), others=different, clusters=tuple(self._clusters()))

    def _clusters(self) -> Iterator[SiteInUse]:
        """The sites of several clusters, those in files as they are now."""
        for k, each in enumerate(self._experiment.clusters):
            address = None
            if each.site is not None and each.site.partition("#")[0].endswith(".db"):
                address = store.parse_address(str(self._folder / each.site))
            source = SiteSource(self._experiment.of_cluster(k), self._folder, address)
            with TemporaryDirectory() as folder:
                found = source.snapshot(Path(folder) / "cluster.db")
            if source._origin is not None:
                with store.reading(source._origin) as origin:
                    site_id = find_site(origin, source.name).id
                    found = replace(found, file=with_recorded_data(origin, site_id, found.file))
            yield found

    def _given_at_points(self) -> list[_Given]:
        """What is given at each point of the grid, or once if that does not vary."""
        names = "log", "history", "policy", "policy_settings", "events"
        experiment, found = self._experiment, list[_Given]()
        varies = any(key.partition(".")[0] in names for key in experiment.grid)
        for point in range(len(experiment.points) if varies else 1):
            here = experiment.at(point)
            key = repr([getattr(here, name) for name in names])
            if key not in self._given:
                self._given[key] = self._read(here)
            found.append(self._given[key])
        return found

    def _read(self, experiment: Experiment) -> _Given:
        """What is given with these settings, as it is at the unchanged site: what jobs request does not
        depend on what-if changes."""
        if not self._file.partitions:
            return _Given(None, None, Events())
        files, settings = self._files(experiment.policy), experiment.policy_settings
        cluster = under_policy(cluster_of(self._file), files, settings=settings)
        log, files = self._observed(experiment, cluster), self._files(experiment.events)
        table = experiment.log or experiment.history
        if log is None or table is None or table.weeks is not None:
            jobs = pl.DataFrame(schema=SCHEMA)
            _, events = events_in(files, JobLog("the drawn jobs", jobs, cluster.cores, cluster=cluster))
            return _Given(log, cluster.policy, events)
        if files and table.load != 1.0:
            raise UserError(
                f"the load moves the submissions of jobs, and not the times in {files[0]}; leave one out"
            )
        log, events = events_in(files, log)
        return _Given(log, cluster.policy, events)

    def _files(self, given: Files) -> list[Path]:
        return [files.named(str(name), self._folder) for name in files.paths(given)]

    @property
    def files(self) -> list[Path]:
        """The files that state the policy and the events."""
        points = map(self._experiment.at, range(len(self._experiment.points)))
        return [*dict.fromkeys(f for x in points for f in self._files(x.policy) + self._files(x.events))]

    def _observed(self, experiment: Experiment, cluster: SiteNodes) -> JobLog | None:
        """The jobs of a log or of the past, on these nodes; None if they are drawn one by one."""
        table = experiment.log or experiment.history
        if isinstance(table, LogTable):
            log = read_log(files.named(table.file, self._folder), table.rules, None, cluster)
        elif table is None or table.jobs is not None:
            return None
        elif self._origin is None:
            raise UserError(
                "the jobs of this experiment are the history of a site; name its database with --site"
            )
        else:
            with store.reading(self._origin) as origin:
                log = past_log(origin, self._file, cluster, table.days)
        if table.weeks is None:
            return log.with_load(table.load)
        check_weeks(log)  # the load of weeks is scaled after they are drawn: a week has seven days
        return log


def _with(in_use: SiteInUse, given: _Given) -> SiteInUse:
    """A site with what is given; a log is on its nodes, as changed."""
    found = replace(in_use, policy=given.policy, events=given.events)
    if (log := given.log) is None:
        return found
    return replace(found, log=replace(log, cluster=found.cluster, processors=found.cluster.cores))


def errors_under(
    session: Session, site_id: int, schedulers: Iterable[str], as_of: int
) -> Iterator[KnownError]:
    """The errors of predictions under some schedulers, however they were named."""
    keys = {key_of(name) for name in schedulers}
    for name in past.schedulers_predicted(session, site_id):
        if key_of(name) in keys:
            yield from past.known_errors(session, site_id, name, as_of)


def queues_of(experiment: Experiment) -> Queues:
    """The queues that the experiment defines instead of those of its site."""
    return tuple((queue_policy(table), table.scheduler) for table in experiment.queues)


@dataclass(frozen=True)
class ResourceNames:
    """Machines, each slot as one, then clusters; or the nodes of a time-shared cluster, or of partitions."""

    site: str
    names: tuple[str, ...]
    time_shared_cluster: str | None = None
    layout: SiteLayout | None = None
    """The layout of machines with slots, of which only the machines are in a database; None: nodes."""
    node_classes: tuple[str, ...] = ()
    """The machine class of each node of partitions, for which runs there count."""

    def recorded(self, index: int | None, n: int = 1) -> tuple[str | None, int]:
        """The name in a database of what a run on `n` machines held, and the number of machines there.

        A run on -1, the index of time-shared nodes, held their cluster; one on nothing has no name.
        """
        if index is None or index < 0:
            return None if index is None else self.time_shared_cluster, n
        if self.layout is None:
            return self.names[index], n
        place, machines = self.layout.slots.place(index, n)
        return self.layout.resources[place], machines

    def machine_class(self, node: int | None) -> str | None:
        """The machine class of a node; None unless it is in partitions."""
        return None if node is None or not self.node_classes else self.node_classes[node]
