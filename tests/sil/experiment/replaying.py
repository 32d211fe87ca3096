"""Replays in tests, with schedulers by name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from sil.experiment import replay as replaying
from sil.experiment.replay import Outcome
from sil.experiment.replay_folder import render
from sil.outcome.finished_jobs import jobs_in
from sil.outcome.jobs import JOBS
from sil.report.analysis import ALL_JOBS
from sil.runs.on_log import Replay
from sil.runs.under_test import schedulers_for_logs
from sil.trace.reading import read_facts
from sil.workers.executor import Executor, Listener


def replay_all(
    replay: Replay, names: Iterable[str], out: Path, executor: Executor, report: bool, listener: Listener
) -> list[Outcome]:
    outcomes = replaying.replay_all(replay, schedulers_for_logs(names), out, executor, ALL_JOBS, listener)
    if report:
        render(out)
    return outcomes


def jobs_under(outcome: Outcome) -> pl.DataFrame:
    """Its jobs.csv."""
    return pl.read_csv(outcome.folder / JOBS)


def replayed_jobs(trace: Path, log: pl.DataFrame, cut: frozenset[int] = frozenset()) -> pl.DataFrame:
    """What jobs.csv has, from the trace alone."""
    return jobs_in(read_facts(trace), log, cut)
