"""The Lublin-Feitelson model of the workload of a parallel supercomputer: rigid jobs with a daily cycle.

Source: Lublin and Feitelson, "The workload on parallel supercomputers: modeling the characteristics of rigid
jobs", Journal of Parallel and Distributed Computing 63(11), 2003; parameters and bounds of the authors'
program of 1999, for jobs of one type (neither batch nor interactive).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import gammainc

from scheduler.messages import UserError, counted
from sil.workload.job_log import LARGEST, LOAD_TOLERANCE, MAX_PROCESSORS, MIN_S, SCHEMA, JobLog
from site_db.files.access import Memory

Floats = NDArray[np.float64]

BYTES_OF_A_JOB = 500
"""The memory, in bytes, for a job while the jobs are drawn."""
BUCKETS = 48
BUCKET_S = 1800.0
DAY_S = BUCKETS * BUCKET_S
LONGEST_RUN_LN = 12.0
"""Runs of more than exp(12) s, two days, are drawn again."""
LONGEST_GAP_LN = 13.0
"""Gaps of more than exp(13) s at an average hour, five days, are drawn again."""

_FIRST_BUCKET = 11
_LOWEST_MIDDLE = 1.5
_TRIES = 1000
_MAX_DOUBLINGS = 24.0
"""The most doublings of gaps, for a load."""
_MIN_DOUBLING = 1e-6


@dataclass(frozen=True, slots=True)
class Gamma:
    """A gamma distribution with mean `shape` * `scale`."""

    shape: float
    scale: float

    def up_to(self, x: Floats) -> Floats:
        """The probability of at most `x`."""
        return np.asarray(gammainc(self.shape, x / self.scale), dtype=np.float64)

    def draw(self, n: int, rng: np.random.Generator) -> Floats:
        return rng.gamma(self.shape, self.scale, n)


@dataclass(frozen=True)
class Lublin:
    """The model with its parameters; in brackets, the authors' names for them.

    Sizes: a share `serial` of the jobs has one processor. For the others, log2 of the size is uniform: with
    probability `lower_half` [UProb] between `smallest_log2` [ULow] and the middle [UMed], else between that
    and the whole machine [UHi = log2(P)]; a share `power_of_two` of all jobs has it rounded. The middle is
    `below_whole` below the whole machine; on machines of less than 16 processors, it is at least 1.5, as the
    authors advise for 8, or halfway between both ends, whichever is lower.

    Run times: their natural logarithm, in ln(s), is of the gamma `short` [a1, b1] with the probability
    `short_slope` * size + `short_share` [pa, pb], kept between 0 and 1, else of the gamma `long` [a2, b2].

    Arrivals: the logarithm of the time to the next one is of the gamma `gap` [aarr * ARAR, barr], in seconds
    at an average hour, less at a busy one. The weights of the half hours of a day, counted from 11 (05:00) to
    58, are of the gamma `cycle` [anum, bnum]. The workload begins at midnight.
    """

    serial: float = 0.244
    power_of_two: float = 0.576
    smallest_log2: float = 0.8
    lower_half: float = 0.86
    below_whole: float = 2.5
    short: Gamma = Gamma(4.2, 0.94)
    long: Gamma = Gamma(312.0, 0.03)
    short_slope: float = -0.0054
    short_share: float = 0.78
    gap: Gamma = Gamma(10.2303 * 1.0225, 0.4871)
    cycle: Gamma = Gamma(8.1737, 3.9631)

    def jobs(self, n: int, processors: int, rng: np.random.Generator, load: float | None = None) -> JobLog:
        """`n` jobs for a machine of `processors`; times are whole seconds, and users estimate runs exactly.

        With a `load`, jobs come more or less often, so that it is offered; times of day stay. Raises
        UserError for impossible numbers of jobs or processors, loads, or parameters."""
        if n < 1:
            raise UserError(f"the model was asked for {counted(n, 'job')}; at least 1 is needed")
        if not 2 <= processors <= MAX_PROCESSORS:
            raise UserError(
                f"the model was asked for a machine of {counted(processors, 'processor')}; "
                f"it takes from 2 to {MAX_PROCESSORS:,}"
            )
        Memory(f"the model's {n:,} jobs").take(BYTES_OF_A_JOB * n)
        sizes = self._sizes(n, processors, rng)
        run_s = self._run_times_s(sizes, rng)
        costs = _at_most(LONGEST_GAP_LN, n, lambda which: self.gap.draw(len(which), rng))
        paid = np.cumsum(np.exp(costs) / BUCKET_S)
        arrivals_s = self._arrivals_s(paid)
        if load is not None:
            work_s = float((sizes * run_s).sum()) / processors
            arrivals_s = self._with_load(paid, work_s, load)
        columns = {
            "job": np.arange(1, n + 1),
            "submit_s": arrivals_s,
            "run_s": run_s,
            "processors": sizes,
            "estimate_s": run_s,
            "user": np.full(n, -1),
        }
        name = f"Lublin-Feitelson model, {counted(n, 'job')} for {counted(processors, 'processor')}"
        name += "" if load is None else f", load {load:g}"
        return JobLog(name, pl.DataFrame(columns, schema=SCHEMA), processors, {"note": name})

    def _sizes(self, n: int, processors: int, rng: np.random.Generator) -> NDArray[np.int64]:
        whole = float(np.log2(processors))
        least_middle = min(_LOWEST_MIDDLE, (self.smallest_log2 + whole) / 2)
        middle = max(whole - self.below_whole, least_middle)
        if not 0 <= self.smallest_log2 <= middle <= whole:
            raise UserError(
                f"sizes from 2^{self.smallest_log2:g} over 2^{middle:g} to 2^{whole:g} do not rise; on a "
                f"machine of {counted(processors, 'processor')}, smallest_log2 has to be from 0 to "
                f"{whole:g}, and below_whole at least 0"
            )
        kind, half, place = rng.random(n), rng.random(n), rng.random(n)
        in_lower = half <= self.lower_half
        low, high = np.where(in_lower, self.smallest_log2, middle), np.where(in_lower, middle, whole)
        size_log2 = low + (high - low) * place
        is_power = kind <= self.serial + self.power_of_two
        size_log2[is_power] = np.floor(size_log2[is_power] + 0.5)
        sizes = np.minimum(np.floor(2.0**size_log2 + 0.5), processors).astype(np.int64)
        sizes[kind <= self.serial] = 1
        return sizes

    def _run_times_s(self, sizes: NDArray[np.int64], rng: np.random.Generator) -> Floats:
        short_with = np.clip(self.short_slope * sizes + self.short_share, 0.0, 1.0)

        def drawn(which: NDArray[np.int64]) -> Floats:
            is_short = rng.random(len(which)) <= short_with[which]
            logs = np.empty(len(which))
            logs[is_short] = self.short.draw(int(is_short.sum()), rng)
            logs[~is_short] = self.long.draw(int((~is_short).sum()), rng)
            return logs

        return np.maximum(np.floor(np.exp(_at_most(LONGEST_RUN_LN, len(sizes), drawn))), MIN_S)

    def _with_load(self, paid: Floats, work_s: float, load: float) -> Floats:
        """The arrivals with other gaps, in proportion, over a span in which `work_s` is this load, by
        bisection: a longer gap in a quiet night changes the span by more than one in a busy hour."""
        if not 0 < load < float("inf"):
            raise UserError(f"a load of {load:g} is impossible; give one above 0, like 0.7")
        wanted_s = work_s / load

        def span_s(log2_of_gaps: float) -> float:
            arrivals_s = self._arrivals_s(paid * 2.0**log2_of_gaps)
            return float(arrivals_s[-1] - arrivals_s[0])

        low, high, error = -_MAX_DOUBLINGS, _MAX_DOUBLINGS, float("inf")
        while high - low > _MIN_DOUBLING and error > LOAD_TOLERANCE / 10:
            middle = (low + high) / 2
            ratio = span_s(middle) / wanted_s
            low, high = (middle, high) if ratio < 1 else (low, middle)
            error = abs(ratio - 1)
        if error > LOAD_TOLERANCE or wanted_s > LARGEST:
            raise UserError(
                f"{len(paid):,} jobs that arrive at whole seconds cannot make a load of {load:g}; ask for "
                f"another one, or for more jobs"
            )
        return self._arrivals_s(paid * 2.0**middle)

    def _arrivals_s(self, paid_by_jobs: Floats) -> Floats:
        """The times at which the accumulated weight of the half hours equals that of the gaps so far."""
        days, rest = np.divmod(paid_by_jobs, BUCKETS)
        paid = np.concatenate([[0.0], np.cumsum(self._weights())])
        into_day_s = np.interp(rest, paid, np.arange(BUCKETS + 1) * BUCKET_S)
        arrivals_s: Floats = np.floor(days * DAY_S + into_day_s)
        return arrivals_s

    def _weights(self) -> Floats:
        """The weights of the half hours of a day from midnight on; 1 on average."""
        first = _FIRST_BUCKET
        up_to_edges = self.cycle.up_to(np.arange(first, first + BUCKETS + 1, dtype=np.float64) - 0.5)
        weights: Floats = np.roll(np.diff(up_to_edges), first - 1)
        return weights * (BUCKETS / float(weights.sum()))


def _at_most(largest: float, n: int, drawn: Callable[[NDArray[np.int64]], Floats]) -> Floats:
    """`n` values, drawn again while above `largest`; `drawn` gets the indices to draw. Raises UserError if
    this does not end."""
    values, again = np.empty(n), np.arange(n)
    for _ in range(_TRIES):
        values[again] = drawn(again)
        again = again[values[again] > largest]
        if not len(again):
            return values
    raise UserError(
        f"the parameters give values above {largest:g} nearly always, so that no job is ever drawn"
    )
