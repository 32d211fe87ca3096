"""A lower bound of the sum of completions, from the work of jobs and the speed of machines."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.compiled import FixedFloats2, Floats, Ints, called_from_python, part
from scheduler.mapping.kernels.lines import Lines
from scheduler.mapping.kernels.table import Table

SLACK = 1e-9
"""Relative; more than the rounding error of these sums."""


N_STEPS = 64
"""Number of steps between the first and the last ready time, to which ready times are rounded down."""


class LeastWork(NamedTuple):
    """The slowness of machines, and the least work of each job: time / slowness.

    Any positive slowness gives a valid bound. A good one is the mean, over the job classes that can run
    there, of the time in proportion to the shortest of the class.
    """

    slowness: Floats  # (K,)
    work_s: Floats  # (C,)
    least_s: Floats  # (C,) the shortest time on any machine
    by_work: Ints  # (C,) job classes in ascending order of their work, those that can run nowhere left out
    speed_at: Floats  # (N_STEPS + 1,) room for the speed of the machines that are ready from each step on


def least_work_of(table: Table, ready_s: Floats) -> LeastWork:
    """Three passes over the table. `ready_s` by machine index; machines that are never ready do no work."""
    n_job_classes, n_machine_classes = table.by_job_class_s.shape
    slowness, work_s, least_s = np.empty(n_machine_classes), np.empty(n_job_classes), np.empty(n_job_classes)
    first_s = np.minimum.reduceat(ready_s[table.machines], table.first_machine[:-1])
    never_s = np.where(np.isfinite(first_s), 0.0, np.inf)
    _measure(table.by_job_class_s, never_s, slowness, work_s, least_s)
    able = int(np.isfinite(work_s).sum())
    return LeastWork(slowness, work_s, least_s, np.argsort(work_s)[:able].copy(), np.empty(N_STEPS + 1))


@called_from_python
def _measure(
    times_s: FixedFloats2, never_s: Floats, slowness: Floats, work_s: Floats, least_s: Floats
) -> None:
    """`never_s` (K,) is infinite where no machine will ever be ready, and zero else."""
    slowness[:] = 0.0
    for c in range(len(times_s)):
        least = np.inf
        for k in range(len(slowness)):
            least = min(least, times_s[c, k] + never_s[k])
        least_s[c] = least
        for k in range(len(slowness)):
            if least > 0.0 and times_s[c, k] + never_s[k] < np.inf:
                slowness[k] += times_s[c, k] / least
    for k in range(len(slowness)):
        slowness[k] = slowness[k] / len(times_s) if slowness[k] > 0.0 else 1.0
    for c in range(len(times_s)):
        work = np.inf
        for k in range(len(slowness)):
            work = min(work, (times_s[c, k] + never_s[k]) / slowness[k])
        work_s[c] = work


@part
def least_rest_s(table: Table, least_work: LeastWork, lines: Lines, next_job: Ints) -> float:
    """A lower bound of the sum of completions of the jobs left. O(C + number of runs).

    The larger of two bounds. When x jobs are done, the machines ready by then have done at least the x least
    amounts of work; and no job is done before the first ready time plus its least time.
    """
    first_s, last_s = np.inf, -np.inf
    for k in range(len(lines.front_s)):
        if lines.front_s[k] < np.inf:
            first_s = min(first_s, lines.front_s[k])
            last_s = max(last_s, lines.front_s[k])
            for x in range(table.first_machine[k], table.first_machine[k] + lines.n_runs[k]):
                last_s = max(last_s, lines.run_s[x])
    if first_s == np.inf:
        return 0.0
    step_s = max((last_s - first_s) / N_STEPS, 1e-300)
    add_speeds(table, least_work, lines, first_s, step_s)
    step, now_s, speed = 0, first_s, least_work.speed_at[0]
    rest_s = alone_s = 0.0
    for c in least_work.by_work:
        n, work_s = table.first_job[c + 1] - next_job[c], least_work.work_s[c]
        alone_s += n * (first_s + least_work.least_s[c])
        while n > 0:
            # All jobs so far are done at `now_s`; q more before other machines become ready.
            q = n
            if step < N_STEPS:
                room_s = max(0.0, (first_s + (step + 1) * step_s - now_s) * speed)
                if work_s * n > room_s:
                    q = int(room_s / work_s)
            took_s = work_s / speed
            rest_s += q * now_s + took_s * q * (q + 1) / 2
            now_s += q * took_s
            n -= q
            if n > 0:  # more machines become ready while the next job runs
                begun_s = max(0.0, room_s - q * work_s)
                step += 1
                speed += least_work.speed_at[step]
                while step < N_STEPS and work_s - begun_s > step_s * speed:
                    begun_s += step_s * speed
                    step += 1
                    speed += least_work.speed_at[step]
                now_s = first_s + step * step_s + (work_s - begun_s) / speed
                rest_s += now_s
                n -= 1
    return max(rest_s, alone_s)


@part
def add_speeds(table: Table, least_work: LeastWork, lines: Lines, first_s: float, step_s: float) -> None:
    """The speed that becomes available at each step."""
    least_work.speed_at[:] = 0.0
    for k in range(len(lines.front_s)):
        if lines.front_s[k] < np.inf:
            speed = 1.0 / least_work.slowness[k]
            step = min(N_STEPS, int((lines.front_s[k] - first_s) / step_s))
            least_work.speed_at[step] += speed * (lines.front_end[k] - lines.front_at[k])
            for x in range(table.first_machine[k], table.first_machine[k] + lines.n_runs[k]):
                step = min(N_STEPS, int((lines.run_s[x] - first_s) / step_s))
                least_work.speed_at[step] += speed * lines.run_length[x]
