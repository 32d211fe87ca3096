"""Jobs that started before others that could have had their place: what starts say of priorities."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields, replace
from itertools import islice

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scheduler.core.codes import NONE
from scheduler.node_request import Request
from scheduler.priority.policy import Weights
from sil.outcome.priorities import ENDED, PrioritiesAtStart
from sil.trace.facts import CODES, Fact

MAX_WAITING = 100
"""The most waiting jobs with which one that starts is compared: those that have waited longest."""
FACTORS = tuple(field.name for field in fields(Weights))
"""The factors of a priority, by their names."""
EARLIER, LATER = -1.0, 1e-6
"""By how much the priority of a job is greater at least that arrived before the other one, or after it: Slurm
rounds, and serves equal ones by arrival."""
Numbers = NDArray[np.float64]


class OrderOfStarts(PrioritiesAtStart):
    """Compares each job that starts with those that go on waiting, name the same partitions, request no more
    for no longer, and have reached no limit: they could have had its place."""

    def ahead(self, runs: pl.DataFrame, counts: Collection[int], until_s: float) -> Numbers:
        """A row for each of the `runs` of a `Month` that counts and starts until then, and each such other
        job: by how much its weighted factors are greater, in columns for FACTORS, and its priority at
        least."""
        self._starts_s = dict(runs.select("job", "start_s").iter_rows())
        self._waiting: dict[int, None] = {}
        self._fits: dict[tuple[int, int], bool] = {}
        self._rows: list[list[float]] = []
        known = {
            job
            for job, (_, who, request, limit_s) in self._asked.items()
            if isinstance(self._claims.of(who, request, limit_s), int)
        }
        columns = {"end_s": ENDED, "submit_s": CODES[Fact.JOB_ARRIVED], "start_s": CODES[Fact.RUN_STARTED]}
        events = [
            (at_s, k, event, job)
            for k, (column, event) in enumerate(columns.items())
            for job, at_s in runs.select("job", column).iter_rows()
            if at_s < until_s and job in known
        ]
        for at_s, _, event, job in sorted(events):
            service, slot = self._claims.service, self._asked[job][0]
            self._follow(at_s, event, job)
            if event == columns["submit_s"]:
                self._waiting[job] = None
            elif event == columns["start_s"]:
                del self._waiting[job]
                if job in counts:
                    self._compare(at_s, job)
                service.take(slot, 1)
            else:
                service.take(slot, -1)
        return np.array(self._rows, np.float64).reshape(-1, len(FACTORS) + 1)

    def _compare(self, now_s: float, job: int) -> None:
        service, (slot, _, requested, limit_s) = self._claims.service, self._asked[job]
        mine = self._claims.factors(*self._asked[job])
        for other in islice(self._waiting, MAX_WAITING):
            its_slot, _, request, its_limit_s = self._asked[other]
            is_waiting = self._starts_s[other] > now_s and service.reached(its_slot) == NONE
            if is_waiting and its_limit_s <= limit_s and self._is_no_larger(request, requested):
                its = self._claims.factors(*self._asked[other])
                is_later = (service.since_s[slot], job) > (service.since_s[its_slot], other)
                ahead = [mine[name] - its[name] for name in FACTORS]
                self._rows.append([*ahead, LATER if is_later else EARLIER])

    def _is_no_larger(self, less: Request, more: Request) -> bool:
        """Whether a request fits wherever the other one does, in the same partitions."""
        key = id(less), id(more)  # of equal requests, there is one
        if key not in self._fits:
            amounts = {name: getattr(more, name) for name in ("chunks", "cores", "memory_mib")}
            is_less = all(getattr(less, name) <= amount for name, amount in amounts.items())
            self._fits[key] = is_less and replace(less, **amounts) == more
        return self._fits[key]
