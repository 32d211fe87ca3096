"""The parts of runs on nodes as a chart has them: which CPUs they use, from one interruption to the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import ceil

import polars as pl

from sil.outcome.jobs import ENDINGS
from sil.trace.facts import Fact
from sil.trace.held import request_of, shares_in

_TIMES = {"job_id": pl.Int64, "run": pl.Int64, "from_s": pl.Float64, "until_s": pl.Float64}


def run_parts(facts: pl.DataFrame, node_cores: Sequence[int]) -> pl.DataFrame:
    """A row for each part of a run and each interval of its CPUs, from `low` on, before `high`: job_id,
    from_s, until_s, and whether the run `is_lost`.

    The CPUs of a node lie side by side. A run has the lowest ones that are free when it begins, and when it
    continues those that it had, if these are free."""
    bases, free = [0, *accumulate(node_cores)], [(1 << n) - 1 for n in node_cores]
    cores_of: dict[int, float | None] = {}
    held: dict[int, dict[int, int]] = {}
    since_s: dict[int, float] = {}
    rows: list[tuple[int, int, float, float, int, int]] = []
    columns = facts.select("time_s", "event", "job", "run", "detail").iter_rows()
    for (time_s, event, job, run, detail), shares in zip(columns, shares_in(facts["shares"]), strict=True):
        if event == Fact.JOB_ARRIVED:
            request = request_of(detail or "{}")
            cores_of[job] = None if request.exclusive else request.cores
        elif event == Fact.RUN_STARTED:
            cores = cores_of[job]
            each = {n: node_cores[n] if cores is None else ceil(k * cores) for n, k, _ in shares or ()}
            held[run] = {n: _lowest(free[n], k) for n, k in each.items()}
        elif event == Fact.RUN_CONTINUED:
            for n, mask in held[run].items():
                held[run][n] = mask if not mask & ~free[n] else _lowest(free[n], mask.bit_count())
        elif run in since_s and event in (Fact.RUN_STOPPED, *ENDINGS):
            began_s = since_s.pop(run)
            for n, mask in held[run].items():
                free[n] |= mask
                rows += ((job, run, began_s, time_s, *each) for each in _intervals(mask, bases[n]))
        if event in (Fact.RUN_STARTED, Fact.RUN_CONTINUED):
            since_s[run] = time_s
            for n, mask in held[run].items():
                free[n] &= ~mask
    lost = facts.filter(pl.col("event").is_in([fact.value for fact in ENDINGS[1:]]))["run"]
    table = pl.DataFrame(rows, schema={**_TIMES, "low": pl.Int64, "high": pl.Int64}, orient="row")
    return table.with_columns(is_lost=pl.col("run").is_in(lost.to_list())).drop("run")


def _lowest(mask: int, n: int) -> int:
    """The n lowest bits of a mask, or all."""
    rest = mask
    for _ in range(n):
        rest &= rest - 1 if rest else 0
    return mask ^ rest


def _intervals(mask: int, base: int) -> Iterator[tuple[int, int]]:
    """The intervals of the bits of a mask, of which the first counts as `base`."""
    while mask:
        low = (mask & -mask).bit_length() - 1
        gap = ~(mask >> low)
        high = low + (gap & -gap).bit_length() - 1
        yield base + low, base + high
        mask &= ~((1 << high) - 1)
