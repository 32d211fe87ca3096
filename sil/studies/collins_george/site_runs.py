"""Runs of the harness at the site of Collins and George, many at once, a few numbers from each; and the same
site with other execution times, which shows how far verdicts depend on the synthetic ones."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sil.outcome.jobs import job_table, run_table
from sil.outcome.metrics import faults
from sil.runs.scenario import scenario_of
from sil.runs.simulation import RunKey
from sil.settings import files
from sil.settings.experiment_file import Experiment
from sil.site.site_in_use import SiteInUse, SiteSource, queues_of
from sil.studies.rules import GridSamples, StudyFailed
from sil.trace.facts import Fact
from sil.workers.runner import Runner
from sil.world.actual_runtimes import RandomStreams
from site_db.site_file.importing import read_site_file, site_text
from site_db.site_file.tables import SiteFile

SITE = "hcs-2001"
SEED = 2001
AS_BUILT_IN = 0
"""The number of the site as it is built in; perturbed ones count from 1."""
SPREAD = 0.3
"""Standard deviation of the logarithm of the factors: two in three are between 0.74 and 1.35."""
OVERALL = "overall"
OFTEN = 2
"""Displaced runs of a job from which on it was displaced often."""


@dataclass(frozen=True)
class SiteCase:
    """One run: the settings of its experiment, its scheduler and replication, and the labels of its rows.
    `site` is the number of a perturbed site."""

    labels: dict[str, str | int | float]
    settings: dict[str, Any]
    scheduler: str
    replication: int = 0
    site: int = AS_BUILT_IN

    def experiment(self) -> Experiment:
        whole = {"name": "study", "site": SITE, "seed": SEED, "schedulers": (self.scheduler,)}
        return Experiment.model_validate(whole | self.settings)


def run_all(cases: Sequence[SiteCase], runner: Runner) -> pl.DataFrame:
    """A row for each case and queue: labels, scheduler, replication, queue, and of the queue's jobs their
    number (`jobs`), total and longest turnaround (`sum_s`, `longest_s`), the least possible total by class
    (`least_s`), how many ran on clusters, and how long (`in_parallel`, `cluster_s`), the number of starts
    (`attempts`), how many started runs were displaced, with the sum of what they had behind them, in parts of
    their run times (`displaced`, `progress`), and of how many jobs at least two (`often`, of which
    `often_parallel` ended on clusters). In order of cases, whatever the number of workers; all at the same
    site. Raises StudyFailed.
    """
    with tempfile.TemporaryDirectory() as folder:
        experiment = cases[0].experiment()
        if cases[0].site != AS_BUILT_IN:
            path = Path(folder) / "site.toml"
            path.write_text(site_text(perturbed(cases[0].site)), encoding="utf-8")
            experiment = experiment.model_copy(update={"site": str(path)})
        source = SiteSource(experiment, Path(), None)
        in_use = source.snapshot(Path(folder) / "site.db")
        found = runner.map(_carry_out, cases, in_use)
        return pl.DataFrame([row for rows in found for row in rows], infer_schema_length=None)


def by_level(found: pl.DataFrame, *axes: str) -> GridSamples:
    """The measures of the jobs of each queue, and of all at the queue OVERALL: mean and longest job time
    (`time_s`, `longest_s`), the mean without the least possible times of their classes (`excess_s`), the
    share run in parallel (`parallel_percent`), their mean run time (`cluster_run_s`), runs in vain per job
    (`in_vain`), the mean progress of displaced runs (`progress_percent`), and of jobs with several of these
    the share that ended in parallel (`often_parallel_percent`)."""
    jobs = pl.col("jobs").sum()
    levels = pl.concat([found, found.with_columns(queue=pl.lit(OVERALL))])
    rows = levels.group_by(*axes, "replication", maintain_order=True).agg(
        time_s=pl.col("sum_s").sum() / jobs,
        excess_s=(pl.col("sum_s") - pl.col("least_s")).sum() / jobs,
        longest_s=pl.col("longest_s").max(),
        parallel_percent=100 * pl.col("in_parallel").sum() / jobs,
        cluster_run_s=pl.col("cluster_s").sum() / pl.col("in_parallel").sum(),
        in_vain=(pl.col("attempts") - pl.col("jobs")).sum() / jobs,
        progress_percent=100 * pl.col("progress").sum() / pl.col("displaced").sum(),
        often_parallel_percent=100 * pl.col("often_parallel").sum() / pl.col("often").sum(),
    )
    return GridSamples(rows, *axes)


def _carry_out(in_use: SiteInUse, case: SiteCase) -> list[dict[str, Any]]:
    experiment = case.experiment()
    in_use = replace(in_use, queues=queues_of(experiment) or in_use.queues)
    run = RunKey(0, case.replication, case.scheduler)
    facts = scenario_of(experiment, in_use).run(run).facts
    for fault in faults(facts).iter_rows(named=True):
        raise StudyFailed(
            f"{case.scheduler} broke the rule {fault['rule']} ({case.labels}): {fault['message']}"
        )
    jobs = job_table(facts, in_use.site.n_machines)
    jobs = jobs.join(_displaced(facts), left_on="job_id", right_on="job", how="left").with_columns(
        least_s=pl.col("job_class").replace_strict(_least_s(case.site), return_dtype=pl.Float64)
    )
    in_parallel, often = pl.col("parallel"), pl.col("displaced") >= OFTEN
    return (
        jobs.group_by("queue")
        .agg(
            jobs=pl.len(),
            sum_s=pl.col("turnaround_time").sum(),
            least_s=pl.col("least_s").sum(),
            longest_s=pl.col("turnaround_time").max(),
            in_parallel=in_parallel.sum(),
            cluster_s=pl.col("execution_time").filter(in_parallel).sum(),
            attempts=pl.col("attempts").sum(),
            displaced=pl.col("displaced").sum(),
            progress=pl.col("progress").sum(),
            often=often.sum(),
            often_parallel=(often & in_parallel).sum(),
        )
        .sort("queue")
        .select(
            *(pl.lit(value).alias(name) for name, value in case.labels.items()),
            pl.lit(case.scheduler).alias("scheduler"),
            pl.lit(case.replication).alias("replication"),
            pl.all(),
        )
        .to_dicts()
    )


@lru_cache(1)
def _least_s(site: int) -> dict[str, float]:
    """The execution time on the best machine or cluster, by job class."""
    classes = perturbed(site).job_classes
    return {of.name: min(*of.sequential_s.values(), *of.parallel_s.values()) for of in classes}


def _displaced(facts: pl.DataFrame) -> pl.DataFrame:
    """By job: the number of its started runs that were `displaced`, and the sum of what these had behind
    them, in parts of their run times (`progress`)."""
    expected = facts.filter(event=Fact.RUN_STARTED).select("run", "expected_s")
    runs = run_table(facts).filter(ending=Fact.RUN_PREEMPTED).join(expected, on="run")
    part = (pl.col("until_s") - pl.col("from_s")) / pl.col("expected_s")
    return runs.group_by("job").agg(displaced=pl.len(), progress=part.sum())


def factors(site: int, consumer: str, *shape: int) -> NDArray[np.float64]:
    """Lognormal factors of a perturbed site, with the median 1; ones for the site as it is built in."""
    if site == AS_BUILT_IN:
        return np.ones(shape)
    return RandomStreams(SEED, site).of(f"perturbed {consumer}").lognormal(0.0, SPREAD, shape)


def perturbed(site: int) -> SiteFile:
    """The built-in site, with the sequential time of each job class on each machine class times a factor, and
    the speed-up of each job class on each cluster less 1 times another, at most to the cluster's size. What
    the paper says of the structure stays: machines, clusters, which classes can run in parallel."""
    whole = read_site_file(files.find(SITE, "sites", Path()))
    if site == AS_BUILT_IN:
        return whole
    class_of = {name: group.machine_class for group in whole.machines for name in group.names}
    members = {cluster.name: cluster.members for cluster in whole.clusters}
    changed = []
    for of in whole.job_classes:
        by_class = zip(
            of.sequential_s.items(), factors(site, f"sequential {of.name}", len(of.sequential_s)), strict=True
        )
        sequential_s = {name: round(seconds * factor, 3) for (name, seconds), factor in by_class}
        by_cluster = factors(site, f"parallel {of.name}", len(of.parallel_s))
        parallel_s = {}
        for (cluster, seconds), factor in zip(of.parallel_s.items(), by_cluster, strict=True):
            machine_class = class_of[members[cluster][0]]
            speedup = 1 + factor * (of.sequential_s[machine_class] / seconds - 1)
            shortened = min(speedup, float(len(members[cluster])))
            parallel_s[cluster] = round(sequential_s[machine_class] / shortened, 3)
        changed.append(of.model_copy(update={"sequential_s": sequential_s, "parallel_s": parallel_s}))
    return whole.model_copy(update={"job_classes": tuple(changed)})


PERTURBED = (
    f"On a perturbed site, each time of a job class on a machine class is multiplied by a lognormal factor "
    f"(standard deviation {SPREAD:g} of its logarithm), and each speed-up less 1 by another."
)
