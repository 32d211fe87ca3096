"""An example: evolution strategies learn a small policy for a log, which is compared with built-in schedulers
on the weeks that are held out. `python -m sil.gym.example --help` says how to run it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import polars as pl
from numpy.typing import NDArray

import sil
import sil.gym as sil_gym
from sil.workload.job_log import JobLog
from sil.workload.slices import check_weeks, weeks_of
from sil.world.core.codes import N_OF_JOB, N_OF_MACHINE

Numbers = NDArray[np.float64]
Seen = Mapping[str, NDArray[Any]]

assert sil_gym.__doc__  # importing it registers the environments

WINDOW, JOBS, HELD_OUT = 32, 512, 0.3
HIDDEN = 8
N_WEIGHTS = (N_OF_JOB + N_OF_MACHINE + 2) * HIDDEN
GENERATED = partial(sil.lublin_feitelson, 50_000, processors=128, load=0.85, seed=1)
"""The log by default."""

PAIRS, SPREAD, STEP = 32, 0.3, 0.1
"""Candidates in an iteration are PAIRS x 2; how far they are apart; and how far the weights move."""


def actions(weights: Numbers, seen: Seen) -> NDArray[np.int64]:
    """The actions of policies with these weights (n, N_WEIGHTS), one for each of n observations.

    A network with one hidden layer scores each job, by what is seen of it and of the machine, and to wait, as
    a job of which all is 0; the valid action with the highest score is taken.
    """
    jobs = np.pad(seen["jobs"], ((0, 0), (0, 1), (0, 0)))
    of_jobs, of_machine, bias, out = np.split(
        weights.reshape(len(weights), -1, HIDDEN), np.cumsum([N_OF_JOB, N_OF_MACHINE, 1]), axis=1
    )
    hidden = np.tanh(jobs @ of_jobs + seen["machine"][:, None] @ of_machine + bias)
    scores = (hidden @ out.swapaxes(1, 2))[:, :, 0]
    return np.asarray(np.where(seen["action_mask"] == 1, scores, -np.inf).argmax(axis=1))


def policy(weights: Numbers) -> Any:
    """A policy with these weights, for `sil.from_policy`."""
    return lambda seen: actions(weights[None], {name: array[None] for name, array in seen.items()})[0]


def train(log: JobLog, iterations: int, seed: int = 1) -> Numbers:
    """The weights (N_WEIGHTS,) after some iterations of evolution strategies (Salimans et al. 2017): all
    candidates of an iteration schedule the same jobs; the weights move by their ranks."""
    n = 2 * PAIRS
    envs = gymnasium.make_vec(
        "sil/Backfill-v0", num_envs=n, log=log, window=WINDOW, jobs=JOBS, held_out=HELD_OUT
    )
    rng = np.random.default_rng(seed)
    weights = np.zeros(N_WEIGHTS)
    for k in range(iterations):
        noise = rng.standard_normal((PAIRS, N_WEIGHTS))
        candidates = weights + SPREAD * np.concatenate([noise, -noise])
        seen, _ = envs.reset(seed=[int(rng.integers(2**31))] * n)  # type: ignore[arg-type]
        returns, are_over = np.zeros(n), np.zeros(n, np.bool_)
        while not are_over.all():
            seen, rewards, over, _, _ = envs.step(actions(candidates, seen))
            returns += np.where(are_over, 0.0, rewards)
            are_over |= over
        ranks = returns.argsort().argsort() / (n - 1) - 0.5
        weights = weights + STEP * (ranks[:PAIRS] - ranks[PAIRS:]) @ noise / PAIRS / SPREAD
        if k % 10 == 9:
            print(f"{k + 1} iterations: mean bounded slowdown {-returns.mean():.1f}", flush=True)
    return weights


def held_out_weeks(log: JobLog) -> list[JobLog]:
    """The whole weeks of the part of a log that is held out. Raises UserError for less than two."""
    rest = log[len(log) - round(HELD_OUT * len(log)) :]
    check_weeks(rest)
    return weeks_of(rest)


def compared(weeks: list[JobLog], weights: Numbers) -> sil.Sweep:
    """Compare the policy with built-in schedulers on each of the weeks."""
    learned = sil.from_policy(policy(weights), window=WINDOW)
    schedulers = {"easy": "easy", "fcfs": "fcfs", "sjf": "sjf", "policy": learned}
    return sil.sweep(weeks, schedulers, progress=False)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m sil.gym.example", description=__doc__)
    parser.add_argument(
        "log", nargs="?", help="a log in the Standard Workload Format; without one, jobs are generated"
    )
    parser.add_argument(
        "--iterations", type=int, default=150, help="of training (default: 150, some minutes)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of training (default: 1)")
    given = parser.parse_args()
    try:
        log = sil.read_log(given.log) if given.log else GENERATED()
        weeks = held_out_weeks(log)
        sweep = compared(weeks, train(log, given.iterations, given.seed))
    except sil.UserError as error:
        parser.error(str(error))
    with pl.Config(tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True, float_precision=1):
        for metric in ("bounded_slowdown_mean", "waiting_time_mean"):
            print(f"\n{metric} on held-out weeks, with half-widths of 95 % intervals:")
            print(sweep.summary(metric).drop("load", "estimates"))


if __name__ == "__main__":
    main()
