"""Runs of the harness at the site of Collins and George, many at once, a few numbers from each."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from sil.outcome.jobs import job_table
from sil.outcome.metrics import faults
from sil.runs.composition import RunKey
from sil.runs.resolve import scenario_of
from sil.settings.experiment_file import Experiment
from sil.site.site_in_use import SiteInUse, SiteSource, queues_of
from sil.studies.collins_george.perturbed import AS_BUILT_IN, SEED, SITE, perturbed
from sil.studies.grid_samples import GridSamples, StudyFailed
from sil.workers.runner import Runner
from site_db.site_file.exchange import site_text

OVERALL = "overall"


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
    number (`jobs`), total and longest turnaround (`sum_s`, `longest_s`), how many ran on clusters
    (`in_parallel`), and the number of starts (`attempts`). In order of cases, whatever the number of workers;
    all at the same site. Raises StudyFailed.
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
    """Of the jobs of each queue, and of all at the queue OVERALL: mean and longest job time (`time_s`,
    `longest_s`), the share run in parallel (`parallel_percent`), and runs in vain per job (`in_vain`)."""
    jobs = pl.col("jobs").sum()
    levels = pl.concat([found, found.with_columns(queue=pl.lit(OVERALL))])
    rows = levels.group_by(*axes, "replication", maintain_order=True).agg(
        time_s=pl.col("sum_s").sum() / jobs,
        longest_s=pl.col("longest_s").max(),
        parallel_percent=100 * pl.col("in_parallel").sum() / jobs,
        in_vain=(pl.col("attempts") - pl.col("jobs")).sum() / jobs,
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
    return (
        job_table(facts, in_use.site.n_machines)
        .group_by("queue")
        .agg(
            jobs=pl.len(),
            sum_s=pl.col("turnaround_time").sum(),
            longest_s=pl.col("turnaround_time").max(),
            in_parallel=pl.col("parallel").sum(),
            attempts=pl.col("attempts").sum(),
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
