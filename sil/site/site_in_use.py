"""The site of an experiment: from a site file or a site database, kept beside the results as it was then."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from scheduler.managers.admission import UserPolicy
from scheduler.managers.queues import QueuePolicy
from scheduler.model import Site
from sil.settings import files
from sil.settings.experiment_file import Experiment
from sil.site.error_histories import scheduler_key
from sil.site.overlay import Overlay, overlaid
from sil.site.what_if_site import Absence, Expect
from sil.site.what_if_times import expected_of, unsure
from site_db import sites, store
from site_db.copying import copy_site
from site_db.estimation import Cell, Layout
from site_db.experience import MemoryExperience, StatisticsReader
from site_db.history.statistics import RunStatistics
from site_db.prediction_errors import KnownError, known_errors, schedulers_predicted
from site_db.site_file import exchange, importing, validation
from site_db.site_file.importing import SiteConflict
from site_db.site_file.tables import SiteFile
from site_db.sites import SiteReader, find_site, queue_policy
from site_db.states import current_states
from site_db.store import Address, DatabaseTrouble

Queues = tuple[tuple[QueuePolicy, str | None], ...]


@dataclass(frozen=True)
class SiteInUse:
    """A site as one experiment uses it, with what was known of it after run `as_of` of its history."""

    site: Site
    queues: Queues
    users: tuple[UserPolicy, ...]
    only_listed_users: bool
    down: tuple[str, ...]
    """Machines and interconnects that are down when the experiment begins."""
    file: SiteFile
    """The whole site, as its file says it."""
    as_of: int
    believed: tuple[Layout, Mapping[Cell, RunStatistics]]
    """What its history made one expect then."""
    errors: tuple[KnownError, ...] = ()
    """How wrong predictions of turnaround were, as far as the site's history knew then."""
    absences: tuple[Absence, ...] = ()
    """When machines that are only imagined are not there, or others are imagined away."""
    uncertain: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """How sure times are that are only imagined: their relative standard deviation by (job class, machine
    class)."""

    def experience(self) -> MemoryExperience:
        """What is known of the site when a run begins."""
        return MemoryExperience(*self.believed)

    def digest(self) -> str:
        """Equal for sites that are, and of which the same is believed."""
        # Not of the site itself: its sets have another order in every process.
        everything = (
            self.file.model_dump_json(),
            self.down,
            sorted(self.believed[1].items()),
            self.errors,
            self.absences,
            sorted(self.uncertain.items()),
        )
        return hashlib.sha256(repr(everything).encode()).hexdigest()


class SiteSource:
    """Where the site of an experiment comes from: a site file, or a site in a database."""

    def __init__(
        self, experiment: Experiment, folder: Path, address: Address | None, as_of: int | None = None
    ) -> None:
        """The site at `address`, with what was known of it after run `as_of` of its history (None = now);
        else the experiment's own, whose relative path starts at `folder`.

        Raises InvalidFile where a site file is missing or wrong, UnknownSite and DatabaseTrouble.
        """
        self._experiment = experiment
        self._origin = store.open_database(address) if address else None
        self.address = address
        self._as_of = as_of
        if self._origin is None or address is None:
            self._path = files.find(experiment.site, "sites", folder)
            self._file = exchange.read_site_file(self._path)
        else:
            with store.reading(self._origin) as session:
                self._file = SiteReader(session, address.site or sites.only_site(session)).as_file()
            for _, sentence in validation.errors(self._file):
                raise DatabaseTrouble(f"{address}: the site '{self.name}' cannot be used: {sentence}")

    @property
    def name(self) -> str:
        return self._file.name

    def take_into_use(self, database: Path) -> SiteInUse:
        """Put the site as it is now into the file `database`, anew, and use it from there.

        Raises InvalidFile for a site that cannot be used, PrunedHistory and DatabaseTrouble.
        """
        made, overlay = store.replace(database), self._overlay()
        self._copy_into(made)
        if overlay is not None:
            with store.changing(made) as session:
                everything = [table.name for table in overlay.file.job_classes]
                importing.put_site(session, overlay.file, experienced=everything)
        in_use = self._taken_up(made, overlay)
        made.dispose()
        return in_use

    def _copy_into(self, database: Engine) -> None:
        with store.changing(database) as session:
            if self._origin is None or self.address is None:
                importing.put_file(session, self._file, self._path)
            else:
                with store.reading(self._origin) as origin:
                    try:
                        copy_site(origin, self.name, session, self._as_of)
                    except SiteConflict as conflict:
                        when = "" if self._as_of is None else f" as of run {self._as_of}"
                        raise DatabaseTrouble(
                            f"{self.address}: the site '{self.name}' cannot be used{when}: {conflict}"
                        ) from None

    def imagining(self, experiment: Experiment) -> SiteSource:
        """The same site for an experiment that imagines other changes of it; what is expected at the site as
        it is, is worked out once for all of them."""
        assert self._expect is not None
        other = copy.copy(self)
        other._experiment = experiment
        return other

    def _overlay(self) -> Overlay | None:
        """The site with the changes that the experiment imagines. Raises CannotImagine."""
        if not self._experiment.notional:
            return None
        return overlaid(self._file, self._expect, self._experiment.notional)

    @cached_property
    def _expect(self) -> Expect:
        """What is expected at the site as it is."""
        with TemporaryDirectory() as folder:
            as_it_is = store.replace(Path(folder) / "as-it-is.db")
            self._copy_into(as_it_is)
            with store.reading(as_it_is) as session:
                reader = StatisticsReader(session, self.name)
                statistics = reader.statistics(session, SiteReader(session, self.name).site.runs_pruned)
            as_it_is.dispose()
        return expected_of(reader.layout, MemoryExperience(reader.layout, statistics))

    def take_up(self, database: Path) -> SiteInUse | None:
        """The site as an earlier start of the same experiment left it in `database`; None if it is another
        now. Its history may have grown since: what was believed at first is believed still."""
        try:
            made = store.open_file(database)
        except DatabaseTrouble:
            return None
        with store.reading(made) as session:
            overlay = self._overlay()
            meant = self._file if overlay is None else overlay.file
            same = sites.site_names(session) == [self.name] and (
                SiteReader(session, self.name).as_file() == meant
            )
        in_use = self._taken_up(made, overlay) if same else None
        made.dispose()
        return in_use

    def _taken_up(self, database: Engine, overlay: Overlay | None) -> SiteInUse:
        queues = queues_of(self._experiment)
        with store.reading(database) as session:
            reader = SiteReader(session, self.name)
            known = StatisticsReader(session, self.name)
            believed = known.layout, known.statistics(session, reader.site.runs_pruned)
            unsure_of = {} if overlay is None else unsure(*believed, overlay.new_classes)
            said = {} if overlay is None else overlay.uncertain
            return SiteInUse(
                site=reader.as_scheduled(),
                queues=queues or tuple(reader.queue_policies()) or ((QueuePolicy(), None),),
                users=tuple(reader.user_policies()),
                only_listed_users=reader.site.only_listed_users,
                down=tuple(current_states(session, reader).down),
                file=reader.as_file(),
                as_of=reader.site.runs_pruned,
                believed=believed,
                errors=self._errors_as_of(reader.site.runs_pruned),
                absences=() if overlay is None else overlay.absences,
                uncertain={**unsure_of, **said},
            )

    def _errors_as_of(self, number: int) -> tuple[KnownError, ...]:
        """Only predictions for shared nodes have errors, and only a database has kept them."""
        if self._origin is None or self._experiment.shared_nodes is None:
            return ()
        with store.reading(self._origin) as origin:
            site_id = find_site(origin, self.name).id
            return tuple(errors_under(origin, site_id, self._experiment.schedulers, number))


def errors_under(
    session: Session, site_id: int, schedulers: Iterable[str], as_of: int
) -> Iterator[KnownError]:
    """What is known of the errors of predictions under some schedulers, however they were named."""
    keys = {scheduler_key(name) for name in schedulers}
    for name in schedulers_predicted(session, site_id):
        if scheduler_key(name) in keys:
            yield from known_errors(session, site_id, name, as_of)


def queues_of(experiment: Experiment) -> Queues:
    """The queues that the experiment has instead of those of its site; none where it has not."""
    return tuple((queue_policy(table), table.scheduler) for table in experiment.queues)
