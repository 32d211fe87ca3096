"""Do the statistics say what the history says?"""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose

from sqlalchemy.orm import Session

from site_db.history.as_of import count_runs_in, read_stored_as_of
from site_db.history.completed_run import Key
from site_db.history.stored_statistics import MOMENTS, StoredStatistics, read_stored
from site_db.schema import SiteRow


def disagreements(session: Session, site_id: int) -> Sequence[Key]:
    """The statistics that are not those of the history: counts exactly, moments to 1e-9. Reads all of it."""
    site = session.get_one(SiteRow, site_id, populate_existing=True)
    told = read_stored_as_of(session, site_id, site.runs_pruned)
    count_runs_in(session, site_id, site.runs_pruned, site.runs_recorded, told)
    there = read_stored(session, site_id)
    return [
        key
        for key in sorted(told.keys() | there.keys(), key=str)
        if not (key in told and key in there and _agree(told[key], there[key]))
    ]


def _agree(one: StoredStatistics, other: StoredStatistics) -> bool:
    runs = one.runs
    # Sums of products are told as well as the numbers that went into them: they may be near zero.
    scale = {
        "squares_s2": runs.count * runs.mean_s**2,
        "squares_size2": runs.sized_count * runs.mean_size**2,
        "products": runs.sized_count * runs.sized_mean_s * runs.mean_size,
    }
    close = all(
        isclose(getattr(runs, m), getattr(other.runs, m), rel_tol=1e-9, abs_tol=1e-12 * scale.get(m, 0.0))
        for m in MOMENTS
    )
    return runs.count == other.runs.count and close and one.sketch.bins() == other.sketch.bins()
