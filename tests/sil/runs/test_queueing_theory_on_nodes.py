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
from scheduler.priority.policy import (
    Multifactor,
    Preemption,
    PreemptMode,
    QualityOfService,
    SitePolicy,
    Weights,
)
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.trace.facts import TRACE
from sil.workload.job_log import SCHEMA, JobLog
from site_db.jobs.logged import Charged
from site_db.site_file.cluster import SiteNodes
from tests.sil.experiment.replaying import replayed_jobs

SERVICE_S = 1000.0
REPLICATIONS, JOBS, WARM_UP = 20, 600, 100
CORES = (3, 5)
"""Of two nodes."""
C = sum(CORES)
LOAD = 0.8
CLASSES = (Charged("", "high"), Charged("", "low"))


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


def waits_s_of(
    run_s: np.ndarray,
    rng: np.random.Generator,
    folder: Path,
    load: float = LOAD,
    charged: np.ndarray | None = None,
    policy: SitePolicy | None = None,
    cores: tuple[int, ...] = CORES,
) -> np.ndarray:
    submit_s = np.cumsum(rng.exponential(SERVICE_S / (sum(cores) * load), JOBS))
    columns = {
        "job": range(1, JOBS + 1),
        "submit_s": submit_s,
        "run_s": run_s,
        "processors": [1] * JOBS,
        "estimate_s": run_s,
        "user": [-1] * JOBS,
        "request": [0] * JOBS,
        "charged": np.zeros(JOBS, np.int64) if charged is None else charged,
    }
    nodes = {f"n{n}": Node(each) for n, each in enumerate(cores)}
    log = JobLog(
        "queue",
        pl.DataFrame(columns, {**SCHEMA, "request": pl.Int64, "charged": pl.Int64}),
        sum(cores),
        cluster=SiteNodes(nodes, {}, {}, policy=policy),
        requests=(Request(),),
        charged=() if policy is None else CLASSES,
    )
    Replay(log).run(resolve("fcfs"), folder)
    jobs = replayed_jobs(folder / TRACE, log.jobs)
    return jobs.sort("job_id")["waiting_time"].to_numpy()


def agrees(waits_s: list[float], theory_s: float) -> None:
    """The theory is within the 99 % interval of replications."""
    low, high = stats.t.interval(0.99, len(waits_s) - 1, np.mean(waits_s), stats.sem(waits_s))
    assert low <= theory_s <= high, (low, theory_s, high)
    assert high - low < theory_s, "the interval says something"


@pytest.mark.parametrize("kind", ["exponential", "fixed"])
@pytest.mark.long
def test_the_mean_wait_on_shared_cores_is_that_of_theory(kind: str, tmp_path: Path) -> None:
    """Within the 99 % interval of 20 replications: M/M/c (Erlang C) and M/D/c (Crommelin)."""
    rng = np.random.default_rng(7)
    waits_s = []
    for _ in range(REPLICATIONS):
        run_s = rng.exponential(SERVICE_S, JOBS) if kind == "exponential" else np.full(JOBS, SERVICE_S)
        waits_s.append(float(waits_s_of(run_s, rng, tmp_path)[WARM_UP:].mean()))
    agrees(waits_s, (mean_wait_mmc_s if kind == "exponential" else mean_wait_mdc_s)(C, LOAD, SERVICE_S))


SHARES = 0.4, 0.6
"""Of jobs of high and low QOS."""


def by_qos(preemption: Preemption | None = None) -> SitePolicy:
    qualities = {"high": QualityOfService("high", 1, preempts=("low",)), "low": QualityOfService("low", 0)}
    return SitePolicy(Multifactor(Weights(qos=1_000)), qualities=qualities, preemption=preemption)


@pytest.mark.long
def test_classes_that_do_not_preempt_wait_as_cobham_says(tmp_path: Path) -> None:
    """M/M/c with classes (Cobham 1954): W_k = W_0 / ((1 - sigma_{k-1}) (1 - sigma_k))."""
    rng, waits_s = np.random.default_rng(11), (list[float](), list[float]())
    for _ in range(REPLICATIONS):
        charged = rng.choice(2, JOBS, p=SHARES)
        found = waits_s_of(rng.exponential(SERVICE_S, JOBS), rng, tmp_path, LOAD, charged, by_qos())
        for k in (0, 1):
            waits_s[k].append(float(found[WARM_UP:][charged[WARM_UP:] == k].mean()))
    first_s = erlang_c(C, LOAD) * SERVICE_S / C
    high = LOAD * SHARES[0]
    agrees(waits_s[0], first_s / (1 - high))
    agrees(waits_s[1], first_s / ((1 - high) * (1 - LOAD)))


@pytest.mark.long
def test_a_class_that_preempts_waits_as_if_it_were_alone(tmp_path: Path) -> None:
    """M/M/c of its own jobs, whatever the others do."""
    rng, waits_s, load = np.random.default_rng(12), list[float](), 0.7
    shares = 0.8, 0.2
    for _ in range(REPLICATIONS):
        charged = rng.choice(2, JOBS, p=shares)
        run_s = np.where(charged == 0, rng.exponential(SERVICE_S, JOBS), SERVICE_S / 2)
        policy = by_qos(Preemption(False, PreemptMode.REQUEUE))
        found = waits_s_of(run_s, rng, tmp_path, load, charged, policy, (1, 1))
        waits_s.append(float(found[WARM_UP:][charged[WARM_UP:] == 0].mean()))
    agrees(waits_s, mean_wait_mmc_s(2, load * shares[0], SERVICE_S))
