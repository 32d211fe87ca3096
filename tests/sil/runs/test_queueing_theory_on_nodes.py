"""Queueing theory on shared cores: jobs of one core that share nodes wait as long as theory says."""

from __future__ import annotations

from itertools import pairwise
from math import exp, factorial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

from scheduler.node_request import Node, Request
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.trace.facts import TRACE
from sil.workload.job_log import SCHEMA, JobLog
from site_db.site_file.cluster import SiteNodes
from tests.sil.experiment.replaying import replayed_jobs

SERVICE_S = 1000.0
REPLICATIONS, JOBS, WARM_UP = 20, 600, 100
CORES = (3, 5)
"""Of two nodes."""
C = sum(CORES)
LOAD = 0.8


def erlang_c(servers: int, load: float) -> float:
    """The probability of waiting in M/M/c (Erlang 1917)."""
    offered = servers * load
    waits = offered**servers / factorial(servers) / (1.0 - load)
    return waits / (sum(offered**k / factorial(k) for k in range(servers)) + waits)


def mean_wait_mmc_s(servers: int, load: float, service_s: float) -> float:
    return erlang_c(servers, load) * service_s / (servers * (1.0 - load))


def mean_wait_mdc_s(servers: int, load: float, service_s: float, states: int = 400) -> float:
    """Crommelin 1932: all jobs in service at a time have ended one service time later, so the numbers of jobs
    at such times are a Markov chain; the mean wait follows from its queue by Little's law."""
    offered = servers * load
    arrivals = np.empty(states)
    arrivals[0] = exp(-offered)
    for _, k in pairwise(range(states)):
        arrivals[k] = arrivals[k - 1] * offered / k
    chain = np.zeros((states, states))
    for i in range(states):
        left = max(0, i - servers)
        chain[i, left:] = arrivals[: states - left]
    chain /= chain.sum(axis=1, keepdims=True)
    system = np.vstack([(chain.T - np.eye(states))[:-1], np.ones(states)])
    of_state = np.linalg.solve(system, np.eye(states)[-1])
    queue = np.maximum(np.arange(states) - servers, 0) @ of_state
    return float(queue) * service_s / offered


def test_the_formulas_agree_with_published_values() -> None:
    """Erlang C for 5 servers at 0.8 is 0.5541; one server with fixed times waits half as long (M/D/1)."""
    assert erlang_c(5, 0.8) == pytest.approx(0.5541, abs=5e-5)
    assert mean_wait_mdc_s(1, 0.8, 1.0) == pytest.approx(0.8 / (2 * (1 - 0.8)), rel=1e-6)


def mean_wait_s(run_s: np.ndarray, rng: np.random.Generator, folder: Path) -> float:
    submit_s = np.cumsum(rng.exponential(SERVICE_S / (C * LOAD), JOBS))
    columns = {
        "job": range(1, JOBS + 1),
        "submit_s": submit_s,
        "run_s": run_s,
        "processors": [1] * JOBS,
        "estimate_s": run_s,
        "user": [-1] * JOBS,
        "request": [0] * JOBS,
    }
    nodes = {f"n{n}": Node(cores) for n, cores in enumerate(CORES)}
    log = JobLog(
        "queue",
        pl.DataFrame(columns, {**SCHEMA, "request": pl.Int64}),
        C,
        cluster=SiteNodes(nodes, {}, {}),
        requests=(Request(),),
    )
    Replay(log).run(resolve("fcfs"), folder)
    jobs = replayed_jobs(folder / TRACE, log.jobs)
    return float(jobs["waiting_time"][WARM_UP:].mean() or 0.0)


@pytest.mark.parametrize("kind", ["exponential", "fixed"])
@pytest.mark.long
def test_the_mean_wait_on_shared_cores_is_that_of_theory(kind: str, tmp_path: Path) -> None:
    """Within the 99 % interval of 20 replications: M/M/c (Erlang C) and M/D/c (Crommelin)."""
    rng = np.random.default_rng(7)
    waits_s = []
    for _ in range(REPLICATIONS):
        run_s = rng.exponential(SERVICE_S, JOBS) if kind == "exponential" else np.full(JOBS, SERVICE_S)
        waits_s.append(mean_wait_s(run_s, rng, tmp_path))
    theory_s = (mean_wait_mmc_s if kind == "exponential" else mean_wait_mdc_s)(C, LOAD, SERVICE_S)
    low, high = stats.t.interval(0.99, REPLICATIONS - 1, np.mean(waits_s), stats.sem(waits_s))
    assert low <= theory_s <= high, (low, theory_s, high)
    assert high - low < theory_s, "the interval says something"
