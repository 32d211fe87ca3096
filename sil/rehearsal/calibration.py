"""Weights of priorities that nobody knows, found on the first part of what was recorded.

Where a job started though another one could have had its place (`OrderOfStarts`), the priority of the other
one was not higher. Weights are searched under which as few of these pairs as possible are in the wrong order.
The rest of the jobs says how good the weights are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from itertools import combinations, islice
from math import inf, isfinite, sqrt
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scheduler import UserError
from scheduler.core.codes import NONE
from scheduler.messages import counted
from scheduler.node_request import Request
from scheduler.priority.policy import Weights
from sil.outcome.replayed_log import ENDED, PrioritiesAtStart
from sil.rehearsal.month import Month
from sil.runs.on_log import Replay
from sil.site.logs import Validating
from sil.trace.facts import CODES, Fact
from sil.workload.slices import DAY_S
from site_db.site_file.cluster import SiteNodes
from site_db.slurm.priorities import WEIGHTS

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


PASSES = 20
"""The most passes: in each, every weight and every group of weights is multiplied by the factor with which
the fewest pairs are in the wrong order, while the others stay."""
UNIT = 10_000.0
"""The first weight, where none is stated."""
AS_GOOD = 0.001
"""Weights do as well as the best if so many more pairs, as a share of all, are in the wrong order."""
FACTOR = 2.0
"""A weight is determined if no weight does as well that differs by more than this factor."""


def calibrated(month: Month, replay: Replay, how: Validating) -> tuple[Month, Replay, dict[str, Any]]:
    """The month and its replay under the weights that are found on the first part of its jobs, of which only
    the rest counts, and what was found. Raises UserError."""
    if replay.slurm_statements:
        raise UserError(
            "--calibrate is for built-in schedulers; state what it finds under slurm_backfill in slurm.conf, "
            "and validate that under Slurm"
        )
    log, counts, submit_s = month.log, pl.col("counts"), month.runs.filter("counts")["submit_s"]
    until_s = (float(submit_s.min()) + float(submit_s.max())) / 2  # type: ignore[arg-type]
    is_first = counts & (pl.col("submit_s") < until_s)
    runs = month.runs.with_columns(calibrates=is_first, counts=counts & ~is_first)
    known = {key.lower(): key for key in WEIGHTS}
    names = dict.fromkeys((how.calibrate or "").replace(" ", "").lower().split(","))
    if not known.keys() >= names.keys():
        raise UserError(f"--calibrate {how.calibrate}: expected some of {','.join(WEIGHTS)}")
    search = _Search(month, until_s, [known[name] for name in names])
    log = replace(log, cluster=_with_weights(log.cluster, search.kept | search.found))
    days = (until_s - float(log.jobs["submit_s"][0])) / DAY_S
    month = replace(month, log=log, runs=runs, warm_up_days=days)
    return month, replace(replay, log=log), search.described()


def _with_weights(cluster: SiteNodes | None, weights: Mapping[str, float]) -> SiteNodes:
    """The nodes under weights by Slurm's keys. Raises UserError without a multifactor policy."""
    policy = None if cluster is None else cluster.policy
    if cluster is None or policy is None or policy.multifactor is None:
        raise UserError("--calibrate: there is no multifactor priority; give its slurm.conf with --policy")
    of_fields: dict[str, Any] = {WEIGHTS[key]: value for key, value in weights.items()}
    multifactor = replace(policy.multifactor, weights=replace(policy.multifactor.weights, **of_fields))
    return replace(cluster, policy=replace(policy, multifactor=multifactor))


class _Search:
    """The search for weights under which few pairs of jobs are in the wrong order. Raises UserError for what
    cannot be calibrated."""

    def __init__(self, month: Month, until_s: float, keys: list[str]) -> None:
        cluster = _with_weights(month.log.cluster, {})
        weights = cluster.policy.multifactor.weights  # type: ignore[union-attr]
        self.stated = {key: float(getattr(weights, field)) for key, field in WEIGHTS.items()}
        log = replace(month.log, cluster=_with_weights(cluster, dict.fromkeys(WEIGHTS, 1.0)))
        runs = month.runs.filter(pl.col("submit_s") < until_s)
        ahead = OrderOfStarts(log).ahead(runs, frozenset(runs.filter("counts")["job"]), until_s)
        self._least, self._ahead = ahead[:, -1], dict(zip(FACTORS, ahead.T, strict=False))
        others = {key: weight for key, weight in self.stated.items() if key not in keys}
        self._fixed, unit = self._ahead["tres"] + self._by(others), max((1.0, *others.values()))
        self.kept: dict[str, float] = {}
        if not self._fixed.any():  # only ratios matter
            first, *keys = keys
            unit = self.stated[first] or UNIT
            self.kept[first], self._fixed = unit, self._by({first: unit})
        if not keys or not self._fixed.any():
            raise UserError(
                "--calibrate: only ratios of weights matter, and in the first part no two jobs, one in the "
                "place of the other, differ in two factors that have weights"
            )
        self.groups = [group for n in range(len(keys)) for group in combinations(keys, n + 1)]
        self.found = dict.fromkeys(keys, unit)
        self._descend()

    def _descend(self) -> None:
        fewest = self.wrong(self.found)
        for _ in range(PASSES):
            before = fewest
            for keys in self.groups:
                factor, wrong, *_ = self.best(keys)
                if wrong < fewest:
                    self.found |= {key: factor * (self.found[key] or 1.0) for key in keys}
                    fewest = wrong
            if fewest == before:
                break
        self.found = {key: float(round(value)) for key, value in self.found.items()}

    def best(self, keys: Sequence[str]) -> tuple[float, int, float, float]:
        """`_best` of the factors for some weights; those of 0 count as 1."""
        others = {key: value for key, value in self.found.items() if key not in keys}
        along = self._by({key: self.found[key] or 1.0 for key in keys})
        return _best(self._fixed - self._least + self._by(others), along)

    def wrong(self, weights: Mapping[str, float]) -> int:
        """How many pairs are in the wrong order."""
        return int((self._fixed + self._by({key: weights[key] for key in self.found}) < self._least).sum())

    def _by(self, weights: Mapping[str, float]) -> Numbers:
        """By how much the jobs that started are ahead, by these weights."""
        terms = (weight * self._ahead[WEIGHTS[key]] for key, weight in weights.items())
        return sum(terms, np.zeros(len(self._least)))

    def described(self) -> dict[str, Any]:
        """What was found, as JSON has it, with sentences."""
        n_pairs = len(self._least)
        wrong, stated = (self.wrong(each) / n_pairs for each in (self.found, self.stated))
        weights, sentences = [], [self._sentence(wrong, stated)]
        for key, value in self.found.items():
            ranges, unit = [self.best(group)[2:] for group in self.groups if key in group], value or 1.0
            least, most = unit * min(low for low, _ in ranges), unit * max(high for _, high in ranges)
            ends = {"least": least, "most": most if isfinite(most) else None}
            weights.append({"key": key, "stated": self.stated[key], "found": value, **ends})
            if value > FACTOR * least or most > FACTOR * value:
                with_these = f"{least:,.0f} {f'to {most:,.0f}' if isfinite(most) else 'or more'}"
                sentences.append(
                    f"The log does not determine {key}: the order agrees as well with {with_these}."
                )
        of_pairs = {"pairs": n_pairs, "wrong": wrong, "stated_wrong": stated}
        return {**of_pairs, "kept": self.kept, "weights": weights, "sentences": sentences}

    def _sentence(self, wrong: float, stated: float) -> str:
        found, kept = (
            " ".join(f"{key}={value:.0f}" for key, value in each.items()) for each in (self.found, self.kept)
        )
        beside = f", beside {kept}: only ratios of weights matter" if kept else ""
        return (
            f"Calibrated on the first part: {found}{beside}. Of {counted(len(self._least), 'pair')} of jobs "
            f"of which one had a place that the other could have had, {100 * wrong:.1f} % are in the wrong "
            f"order, under the stated weights {100 * stated:.1f} %."
        )


def _best(fixed: Numbers, along: Numbers) -> tuple[float, int, float, float]:
    """The value, of at least 0, with which the fewest of `fixed + value * along` are in the wrong order: the
    middle of the first interval of them; or 0, if that is in it."""
    always = int((fixed[along == 0.0] < 0.0).sum())
    turns = -fixed[along != 0.0] / along[along != 0.0]
    rises = along[along != 0.0] > 0.0
    until, after = np.sort(turns[rises]), np.sort(turns[~rises])  # wrong below the first, above the second
    edges = np.unique(np.concatenate(([0.0], turns[turns > 0.0])))
    above = np.append(edges[1:], inf)
    inside = np.where(np.isinf(above), 2.0 * edges + 1.0, (edges + above) / 2.0)
    wrong = len(until) - np.searchsorted(until, inside) + np.searchsorted(after, inside) + always
    fewest = int(wrong.min())
    first = int(wrong.argmin())
    last = first + int((wrong[first:] == fewest).argmin() or len(wrong) - first) - 1
    low, high = float(edges[first]), float(above[last])
    factor = 0.0 if low == 0.0 else 2.0 * low if high == inf else sqrt(low * high)
    (as_good,) = np.nonzero(wrong <= fewest + AS_GOOD * len(fixed))
    return factor, fewest, float(edges[as_good[0]]), float(above[as_good[-1]])
