"""Fields 17 and 18 of the Standard Workload Format: the job that has to end before another one may start, and
the seconds between. They are counted, not modelled."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import polars as pl

from sil.workload.archive.repairs import LINE

PLACE = "place"
"""Of a row among all rows of the log."""


def preceding_notes(
    named: pl.DataFrame, places: pl.DataFrame, kept: Collection[float] | None = None
) -> Iterator[str]:
    """A sentence on the lines that name a preceding job, if there are any. `named` are their rows in order,
    with LINE, PLACE, job and preceding; `places` has job and PLACE of all rows, or of those that are named;
    `kept` are the numbers of the jobs that are used, if that are not all."""
    if not len(named):
        return
    first = places.group_by("job").agg(first_place=pl.col(PLACE).min())
    found = named.join(first, left_on="preceding", right_on="job", how="left", maintain_order="left")
    itself, is_there = pl.col("preceding") == pl.col("job"), pl.col("first_place").is_not_null()
    kinds = {
        "itself": itself,
        "a job that is not in the log": ~is_there & ~itself,
        "a job on a later line": ~itself & (pl.col("first_place") > pl.col(PLACE)),
    }
    if kept is not None:
        kinds["a job that is left out"] = ~itself & is_there & ~pl.col("preceding").is_in(kept)
    counts = found.select(where.sum().alias(what) for what, where in kinds.items()).row(0, named=True)
    some = [f"{n:,} {'names' if n == 1 else 'name'} {what}" for what, n in counts.items() if n]
    if len(named) > 1 and named["preceding"].n_unique() == 1:
        some.append(f"all name job {named['preceding'][0]:.0f}, which is probably no dependency")
    of_these = f" (of these, {', '.join(some)})" if some else ""
    n, where = len(named), named[LINE][0]
    lines = f"line {where} names" if n == 1 else f"{n:,} lines, the first is line {where}, name"
    yield (
        f"{lines} a preceding job in field 17, after whose end the job may start{of_these}; not modelled: "
        f"jobs do not wait for preceding jobs and think times (field 18) here"
    )
