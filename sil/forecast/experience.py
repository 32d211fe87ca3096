"""How long jobs run that have not ended, and what arrives next: drawn from what ended and arrived before."""

from __future__ import annotations

import numpy as np
import polars as pl

from scheduler.core.arrays import Floats, Ints
from scheduler.free_nodes.runtime_estimates import LONGEST_S
from sil.workload.job_log import MIN_S
from sil.workload.slices import DAY_S, WEEK_S

LEAST = 10
"""The fewest similar jobs from which a run time is drawn."""
MOST = 200
"""Of more, the latest count."""
AHEAD_DAYS = 14
"""The days for which arrivals are drawn."""
SIMILAR = (("user", "estimate_s", "processors"), ("user", "estimate_s"), ("user",), ("request",), ())
"""The columns in which jobs are alike, from the most similar ones on; `request` has the partitions, too."""


class RunTimes:
    """Run times of jobs, as shares of their time limits, of the latest similar jobs that had ended: those of
    the same user with the same limit and size; else with the same limit; else of the same user; else with the
    same request on nodes; else of anyone. At least LEAST must have run for longer than the job has so far; if
    no job has, it runs up to its limit. Such categories are those of Smith, Taylor and Foster, "Using
    Run-Time Predictions to Estimate Queue Wait Times", JSSPP 1999."""

    def __init__(self, jobs: pl.DataFrame, ended: Ints) -> None:
        """`ended` are the places of jobs that have ended, in order of their ends."""
        self._columns = {name: jobs[name].to_numpy() for each in SIMILAR for name in each if name in jobs}
        self._limit_s = np.nan_to_num(jobs["estimate_s"].to_numpy(), nan=LONGEST_S)
        self._ended = ended
        self._share = jobs["run_s"].to_numpy()[ended] / self._limit_s[ended]

    def of(self, job: int, ran_s: float) -> Floats:
        """Run times that the job in a place may have, equally likely, when it has run for `ran_s`."""
        limit_s = float(self._limit_s[job])
        longer = self._share * limit_s > ran_s
        for names in SIMILAR:
            alike = longer
            for name in names:
                if name in self._columns:
                    alike = alike & (self._columns[name][self._ended] == self._columns[name][job])
            if np.count_nonzero(alike) >= (LEAST if names else 1):
                found: Floats = self._share[np.flatnonzero(alike)[-MOST:]] * limit_s
                return np.maximum(found, MIN_S)
        return np.array([max(limit_s, ran_s + MIN_S)])


def drawn_arrivals(submit_s: Floats, now_s: float, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """Which jobs of the past arrive again within the next AHEAD_DAYS, and when: each day is a day of the past
    that began at the same time of the same day of the week; without one, none do. `submit_s` of the jobs that
    have arrived."""
    first_s = float(submit_s[0]) if len(submit_s) else now_s
    places, times = list[Ints](), list[Floats]()
    for day in range(AHEAD_DAYS):
        begin_s = now_s + day * DAY_S
        least, most = day // 7 + 1, int((begin_s - first_s) // WEEK_S)
        if most < least:
            continue
        back_s = float(rng.integers(least, most + 1)) * WEEK_S
        begin, end = np.searchsorted(submit_s, [begin_s - back_s, begin_s - back_s + DAY_S], side="right")
        places.append(np.arange(begin, end))
        times.append(submit_s[begin:end] + back_s)
    return np.concatenate([np.zeros(0, np.int64), *places]), np.concatenate([np.zeros(0), *times])
