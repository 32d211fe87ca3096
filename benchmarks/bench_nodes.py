"""How near is a replay of accounting to the schedule behind it, and how fast in both engines, compared with a
plain EASY? How fast is accounting imported, compared with a pass of Python's csv module?

The site and its schedule are those of `slurm_site`, whose EASY in NumPy is the baseline: it does nothing but
find starts. A replay also simulates the nodes and writes the trace; the harness guards the scheduler. Times
are CPU seconds. Run with `python -m benchmarks.bench_nodes`.
"""

from __future__ import annotations

import csv
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

from benchmarks.bench_replay import cpu_s, only_trace
from benchmarks.record import keep
from benchmarks.slurm_site import SlurmSite, easy, write_accounting
from scheduler.priority.policy import (
    Association,
    Multifactor,
    Preemption,
    PreemptMode,
    QualityOfService,
    SitePolicy,
    Weights,
)
from sil.outcome.finished_jobs import jobs_in
from sil.outcome.jobs import job_table
from sil.runs.on_log import Replay
from sil.runs.scenario import scenario_of
from sil.runs.simulation import RunKey
from sil.runs.under_test import resolve
from sil.settings.experiment_file import Experiment
from sil.settings.log_events import Events, JobEvent, NodesUpdated
from sil.settings.log_tables import HistoryTable
from sil.settings.replays import Engine
from sil.site.logs import read_log, read_nodes_of
from sil.site.site_in_use import SiteSource
from sil.trace.facts import TRACE
from sil.trace.reading import read_facts
from sil.workload.job_log import JobLog
from sil.workload.settings import Rules
from site_db import store
from site_db.jobs.accounting_import import import_accounting
from site_db.jobs.logged import Charged, Tally
from site_db.site_file.importing import put_site
from site_db.site_file.nodes import with_cluster
from site_db.site_file.tables import SiteFile
from site_db.slurm_conf import read_cluster
from site_db.store import parse_address

SEED = 1
FIDELITY_JOBS = 20_000
CASES = (
    ("easy", 1, 0.5, 100_000),
    ("easy", 1, 0.85, 100_000),
    ("easy", 30, 0.5, 100_000),
    ("conservative", 1, 0.5, 20_000),
    ("conservative", 1, 0.85, 20_000),
    ("conservative", 1, 3.0, 3_000),
)
"""Scheduler, 340 nodes times this, load, number of jobs."""
POLICIES = ("easy", "easy_sjbf", "rigid(backfilling=easy, selection=best_fit)")


def accounting(
    site: SlurmSite, n_jobs: int, load: float, folder: Path
) -> tuple[JobLog, float, dict[str, float]]:
    """The log as the testbed reads it, the seconds of the plain scheduler, and facts of its schedule."""
    jobs = site.jobs(n_jobs, SEED, load)
    began_s = time.process_time()
    starts, places, lengths = easy(site, jobs)
    plain_s = time.process_time() - began_s
    (folder / "slurm.conf").write_text(site.slurm_conf)
    write_accounting(folder / "sacct.txt", site, jobs, starts, places)
    log = read_log(folder / "sacct.txt", Rules(), None, read_nodes_of(folder / "slurm.conf"))
    wait_s = float(np.mean([start - job.submit_s for start, job in zip(starts, jobs, strict=True)]))
    return log, plain_s, {"mean_wait_s": wait_s, "median_queue": float(np.median(lengths))}


def replay(
    log: JobLog, scheduler: str, folder: Path, engine: Engine = Engine.COMPILED
) -> tuple[float, float]:
    """Its seconds, and the mean wait."""
    began_s = time.process_time()
    Replay(log, engine=engine).run(resolve(scheduler), folder)
    took_s = time.process_time() - began_s
    jobs = jobs_in(read_facts(folder / TRACE), log.jobs)
    return took_s, float(jobs["waiting_time"].mean() or 0.0)  # type: ignore[arg-type]


def fidelity(console: Console, folder: Path) -> list[dict[str, Any]]:
    log, _, made = accounting(SlurmSite(), FIDELITY_JOBS, 0.85, folder)
    title = f"{FIDELITY_JOBS:,} jobs, median queue {made['median_queue']:.0f}"
    table = Table("policy", "mean wait (s)", "of that of the site's own EASY", title=title)
    found = []
    for policy in POLICIES:
        _, wait_s = replay(log, policy, folder)
        found.append({"policy": policy, "wait_s": wait_s, "ratio": wait_s / made["mean_wait_s"]})
        table.add_row(policy, f"{wait_s:,.1f}", f"{found[-1]['ratio']:.4f}")
    console.print(table)
    return found


def speed(console: Console, folder: Path) -> list[dict[str, Any]]:
    columns = "scheduler", "nodes", "load", "jobs", "median queue of EASY", "only trace, jobs/s", "compiled"
    table = Table(*columns, "harness", "plain EASY")
    found = []
    for scheduler, scale, load, n_jobs in CASES:
        log, plain_s, made = accounting(SlurmSite(scale), n_jobs, load, folder)
        only_trace(log, scheduler, folder)  # what is loaded at first does not count
        trace_s = cpu_s(lambda: only_trace(log, scheduler, folder))  # noqa: B023
        compiled_s, _ = replay(log, scheduler, folder)
        harness_s, _ = replay(log, scheduler, folder, Engine.HARNESS)
        rates = {
            "trace_jobs_per_s": n_jobs / trace_s,
            "compiled_jobs_per_s": n_jobs / compiled_s,
            "harness_jobs_per_s": n_jobs / harness_s,
            "plain_jobs_per_s": n_jobs / plain_s,
        }
        case = {"scheduler": scheduler, "nodes": 340 * scale, "load": load, "jobs": n_jobs}
        found.append({**case, **rates, **made})
        table.add_row(
            scheduler,
            f"{340 * scale:,}",
            f"{load:g}",
            f"{n_jobs:,}",
            f"{made['median_queue']:.0f}",
            *(f"{rate:,.0f}" for rate in rates.values()),
        )
    console.print(table)
    return found


def with_fair_share(log: JobLog, n_users: int = 1_000, n_accounts: int = 50) -> JobLog:
    """The same jobs, each of one of many users with shares of their accounts, under multifactor priority."""
    rng = np.random.default_rng(SEED)
    users = {user: f"user{user}" for user in range(n_users)}
    accounts = [Association(f"account{k}", shares=int(rng.integers(1, 10))) for k in range(n_accounts)]
    members = [Association(f"account{k % n_accounts}", name) for k, name in users.items()]
    weights = Weights(age=1_000, fair_share=100_000, job_size=1_000)
    policy = SitePolicy(Multifactor(weights), (*accounts, *members))
    assert log.cluster is not None
    jobs = log.jobs.with_columns(user=pl.Series(rng.integers(0, n_users, len(log))))
    return replace(log, jobs=jobs, users=users, charged=(), cluster=replace(log.cluster, policy=policy))


def under_a_policy(console: Console, folder: Path) -> list[dict[str, Any]]:
    """How much longer EASY takes under multifactor priority with fair share of 1,000 users."""
    table = Table("load", "jobs", "EASY, jobs/s", "time under the policy", "with all results")
    found = []
    for load in (0.5, 0.85):
        plain, *_ = accounting(SlurmSite(), 50_000, load, folder)
        logs = {"plain": plain, "policy": with_fair_share(plain)}
        only = {name: cpu_s(partial(only_trace, log, "easy", folder)) for name, log in logs.items()}
        whole = {name: replay(log, "easy", folder)[0] for name, log in logs.items()}
        case = {
            "load": load,
            "trace": only["policy"] / only["plain"],
            "all": whole["policy"] / whole["plain"],
        }
        found.append(case)
        rate = f"{len(plain) / only['plain']:,.0f}"
        table.add_row(f"{load:g}", f"{len(plain):,}", rate, f"{case['trace']:.2f}", f"{case['all']:.2f}")
    console.print(table)
    return found


def happening(log: JobLog) -> dict[str, dict[str, Any]]:
    """Settings of replays of a log in which every 100th job has an outage of a node for two hours, or every
    20th is cancelled up to two hours after its submission, or all that with checkpoints; or every 20th may
    preempt others."""
    rng, last_s = np.random.default_rng(SEED), float(log.jobs["submit_s"].max() or 0.0)  # type: ignore[arg-type]
    assert log.cluster is not None
    names, of_nodes = [*log.cluster.nodes], list[NodesUpdated]()
    for at_s in rng.uniform(0.0, last_s, len(log) // 100).round().tolist():
        name = names[rng.integers(len(names))]
        of_nodes += [NodesUpdated(at_s, name, "DOWN"), NodesUpdated(at_s + 7_200.0, name, "RESUME")]
    of_nodes.sort(key=lambda event: event.at_s)
    some = log.jobs.sample(len(log) // 20, seed=SEED).select("submit_s", "job").rows()
    acts = [JobEvent(submit_s + float(rng.integers(7_200)), job, "cancel") for submit_s, job in some]
    acts.sort(key=lambda event: event.at_s)
    everything = Events(tuple(of_nodes), tuple(acts))
    preempting = {mode: {"log": with_preemption(log, mode)} for mode in PreemptMode}
    return {
        "nothing": {},
        "outages": {"events": replace(everything, on_jobs=())},
        "cancellations": {"events": replace(everything, on_nodes=())},
        "both, with checkpoints": {"events": everything, "checkpoint_interval_s": 3_600.0},
        "two QOS without preemption": preempting[PreemptMode.OFF],
        "requeue": preempting[PreemptMode.REQUEUE],
        "suspend": preempting[PreemptMode.SUSPEND],
    }


def with_preemption(log: JobLog, mode: PreemptMode) -> JobLog:
    """The same jobs, of which every 20th is of a QOS that preempts the others."""
    rng, names = np.random.default_rng(SEED), ("low", "high")
    qualities = {"low": QualityOfService("low"), "high": QualityOfService("high", 10, preempts=("low",))}
    policy = SitePolicy(
        Multifactor(Weights(qos=1_000)), qualities=qualities, preemption=Preemption(False, mode)
    )
    assert log.cluster is not None
    jobs = log.jobs.with_columns(charged=pl.Series((rng.random(len(log)) < 0.05).astype(np.int64)))
    charged = tuple(Charged("", name) for name in names)
    return replace(log, jobs=jobs, charged=charged, cluster=replace(log.cluster, policy=policy))


def with_events(console: Console, folder: Path) -> list[dict[str, Any]]:
    """The facts of EASY with outages, cancellations and preemption, in both engines, by a replay without
    them."""
    log, *_ = accounting(SlurmSite(), 20_000, 0.5, folder)
    table, found, plain_s = Table("what happens", "time by that without", "harness / compiled"), [], 0.0
    for name, settings in happening(log).items():
        made = [
            partial(Replay(**{"log": log, "engine": engine} | settings).facts, resolve("easy"), folder)
            for engine in (Engine.COMPILED, Engine.HARNESS)
        ]
        compiled_s, harness_s = (cpu_s(facts) for facts in made)
        plain_s = plain_s or compiled_s
        case = {"what": name, "by_plain": compiled_s / plain_s, "harness": harness_s / compiled_s}
        found.append(case)
        table.add_row(name, f"{case['by_plain']:.2f}", f"{case['harness']:.1f}")
    console.print(table)
    return found


def importing(console: Console, folder: Path) -> dict[str, Any]:
    """Accounting with three steps for each job, into an SQLite database; and the wait of the past simulated
    from there."""
    _, _, made = accounting(SlurmSite(), FIDELITY_JOBS, 0.85, folder)
    log, address = folder / "sacct.txt", parse_address(str(folder / "site.db"))
    began = time.perf_counter()
    with log.open(newline="") as file:
        n_rows = sum(1 for _ in csv.reader(file, delimiter="|"))
    csv_s = time.perf_counter() - began
    with store.changing(store.create(address)) as session:
        empty = SiteFile(name="made", machine_classes=(), job_classes=())
        put_site(session, with_cluster(empty, read_cluster(folder / "slurm.conf")))
        began = time.perf_counter()
        import_accounting(session, "made", log, Tally(), time.time())
        took_s = time.perf_counter() - began
    experiment = Experiment(name="past", site="", schedulers=("easy",), history=HistoryTable())
    in_use = SiteSource(experiment, folder, address).snapshot(folder / "copy.db")
    facts = scenario_of(experiment, in_use).run(RunKey(0, 0, "easy")).facts
    wait_s = float(job_table(facts, len(in_use.layout.machines))["waiting_time"].mean() or 0.0)  # type: ignore[arg-type]
    found = {
        "rows_per_s": n_rows / took_s,
        "csv": took_s / csv_s,
        "wait_of_the_past": wait_s / made["mean_wait_s"],
    }
    console.print(
        f"import: {found['rows_per_s']:,.0f} rows/s, {found['csv']:.1f} times as long as a pass of csv.reader"
    )
    console.print(
        f"simulated from the database, the past has {found['wait_of_the_past']:.4f} of its mean wait"
    )
    return found


def main() -> None:
    console = Console()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log, *_ = accounting(SlurmSite(), 3_000, 0.5, folder)
        for scheduler in ("easy", "conservative"):  # what is compiled is loaded
            for engine in (Engine.COMPILED, Engine.HARNESS):
                replay(log, scheduler, folder, engine)
        results = {
            "fidelity": fidelity(console, folder),
            "importing": importing(console, folder),
            "speed": speed(console, folder),
            "policy": under_a_policy(console, folder),
            "events": with_events(console, folder),
        }
    console.print(f"results are in {keep('nodes', SEED, results)}")


if __name__ == "__main__":
    main()
