"""What an experiment teaches its site: completions go to the site's database as replications finish."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sil.experiment.results import batches
from sil.site.resource_names import ResourceNames
from sil.trace.tables import RunTables
from site_db import store
from site_db.jobs import csv_file
from site_db.jobs.recorder import Recorder
from site_db.store import Address, DatabaseTrouble


class Teacher:
    """Records the finished replications of one experiment in the database that its site came from.

    What was recorded by an earlier start of the same experiment is not recorded again. What cannot be
    written until the end goes to the file `leftover`.
    """

    def __init__(
        self,
        address: Address,
        resources: ResourceNames,
        experiment: str,
        fingerprint: str,
        leftover: Path,
        tell: Callable[[str], None],
    ) -> None:
        """Raises DatabaseTrouble where the database cannot be reached when the experiment begins."""
        self._address = address
        self._places = resources
        self._experiment = experiment
        self._fingerprint = fingerprint
        self._leftover = leftover
        self._tell = tell
        self._recorder = Recorder(store.open_database(address), resources.site, tell)

    def teach(self, tables: RunTables) -> None:
        """Record some runs of the harness. Raises DatabaseTrouble."""
        for source, jobs in batches(tables, self._places, self._experiment, self._fingerprint):
            self._recorder.record(source, jobs)

    def finish(self) -> None:
        """Try once more to write what waits; what still cannot be written is kept in a file."""
        try:
            self._recorder.write()
        except DatabaseTrouble as trouble:
            self._tell(str(trouble))
        waiting = self._recorder.waiting
        if not waiting:
            self._leftover.unlink(missing_ok=True)
            return
        csv_file.write(self._leftover, waiting)
        self._tell(
            f"{sum(len(jobs) for _, jobs in waiting)} jobs could not be recorded and are kept in "
            f"{self._leftover}; record them later with: sil db history --import '{self._leftover}' "
            f"--db '{self._address}#{self._places.site}'"
        )
