"""Do the statistics say what the history says?"""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose

from sqlalchemy.orm import Session

from site_db.history.as_of import count_runs_in, read_kept_as_of
from site_db.history.kept_statistics import MOMENTS, Kept, read_kept
from site_db.history.whole_run import Key
from site_db.schema import SiteRow


def disagreements(session: Session, site_id: int) -> Sequence[Key]:
    """The statistics that are not those of the history: counts exactly, moments to 1e-9. Reads all of it."""
    site = session.get_one(SiteRow, site_id)
    told = read_kept_as_of(session, site_id, site.runs_pruned)
    count_runs_in(session, site_id, site.runs_pruned, site.runs_recorded, told)
    there = read_kept(session, site_id)
    return [
        key
        for key in sorted(told.keys() | there.keys(), key=str)
        if not (key in told and key in there and _agree(told[key], there[key]))
    ]


def _agree(one: Kept, other: Kept) -> bool:
    pairs = [(getattr(one.runs, name), getattr(other.runs, name)) for name in MOMENTS]
    scale = max(one.runs.mean_s**2, one.runs.mean_size**2, 1e-300)
    close = all(isclose(a, b, rel_tol=1e-9, abs_tol=1e-9 * scale) for a, b in pairs)
    return one.runs.count == other.runs.count and close and one.sketch.bins() == other.sketch.bins()
