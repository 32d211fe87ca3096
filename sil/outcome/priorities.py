"""The priority of each job when it started, with its factors, calculated anew from the facts of a replay."""

from __future__ import annotations

from functools import cache

import polars as pl

from scheduler.node_request import Request
from scheduler.node_resources.described import DescribedNodes, RequestAdmission
from scheduler.priority.claims import Claimant, Claims
from sil.outcome.jobs import ENDINGS, PRIORITY
from sil.trace.fact_columns import FactColumns
from sil.trace.facts import CODES, Fact
from sil.workload.job_log import JobLog, user_names

_WAITS, _STARTED = [CODES[fact] for fact in (Fact.JOB_ARRIVED, Fact.JOB_ELIGIBLE)], CODES[Fact.RUN_STARTED]
ENDED = CODES[Fact.RUN_ENDED]
_KNOWN = {*_WAITS, _STARTED, *(CODES[fact] for fact in ENDINGS)}
"""The facts that matter, of which a job waits from those on that `_WAITS` has."""


class PrioritiesAtStart:
    """Follows the facts of a replay of a log that has a policy."""

    def __init__(self, log: JobLog) -> None:
        assert log.cluster is not None
        assert log.cluster.policy is not None
        nodes = DescribedNodes(tuple(log.cluster.nodes.values()), log.cluster.site_resources)
        admission = RequestAdmission(nodes, log.cluster.partitions)
        admitted = cache(lambda k, limit_s: admission.admitted(log.requests[k], limit_s))
        self._claims, self._found = Claims(log.cluster.policy, nodes.all), dict[int, dict[str, float]]()
        self._asked: dict[int, tuple[int, Claimant, Request, float]] = {}
        names, charged = user_names(log.jobs["user"].unique(), log.users), log.charged or (("", ""),)
        of_jobs = "charged" if log.charged else pl.lit(0).alias("charged")
        rows = log.jobs.select("job", "user", of_jobs, "request", "estimate_s").iter_rows()
        for slot, (job, user, k, which, limit_s) in enumerate(rows):
            if isinstance(request := admitted(which, limit_s), Request):
                self._asked[job] = slot, Claimant(names[user], *charged[k]), request, limit_s

    def add(self, facts: FactColumns) -> None:
        """Follow the next facts."""
        columns = facts.time_s.tolist(), facts.event.tolist(), facts.job.tolist()
        for time_s, event, job in zip(*columns, strict=True):
            if event in _KNOWN and job in self._asked:
                self._follow(time_s, event, job)

    def _follow(self, time_s: float, event: int, job: int) -> None:
        claims, service = self._claims, self._claims.service
        slot, who, request, limit_s = self._asked[job]
        if event in _WAITS:
            if isinstance(claim := claims.of(who, request, limit_s), int):
                service.next_claim = claim
                service.arrives(slot, time_s)
        elif event == _STARTED:
            service.calculate(time_s)
            factors = claims.factors(slot, who, request, limit_s)
            named = {f"{PRIORITY}_{name}": value for name, value in factors.items()}
            self._found[job] = {PRIORITY: service.priority(slot), **named}
            service.begins(slot, time_s)
        else:
            service.ends(slot, time_s)

    def of(self, finished: pl.DataFrame) -> pl.DataFrame:
        """A table of jobs that have finished, with their priorities."""
        found = pl.DataFrame([self._found.pop(job) for job in finished["job_id"]])
        return finished.hstack(found.cast(pl.Float64))
