"""A site as a file that stands alone: with the times that only its history knows."""

from __future__ import annotations

from sqlalchemy.orm import Session

from site_db.experience import MemoryExperience, StatisticsReader, expected_times
from site_db.site_file.tables import JobClassTable, SiteFile
from site_db.sites import SiteReader


def exported(session: Session, site: str) -> SiteFile:
    """The site; a job class to which its staff gave no time has the times that are expected now, on the
    machine classes where its jobs may run. Raises UserError."""
    file, reader = SiteReader(session, site).as_file(), StatisticsReader(session, site)
    expect = expected_times(reader.layout, MemoryExperience(reader.layout, reader.statistics(session)))

    def with_times(table: JobClassTable) -> JobClassTable:
        if table.sequential_s or table.parallel_s or table.in_isolation:
            return table
        times = {place: expect(table.name, place) for place in table.commands}
        known = {place: seconds for place, seconds in times.items() if seconds is not None}
        return table.model_copy(update={"sequential_s": known})

    return file.model_copy(update={"job_classes": tuple(map(with_times, file.job_classes))})
