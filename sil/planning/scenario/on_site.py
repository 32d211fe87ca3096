"""Plans for a site: its machines and clusters, and its forecast workload."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import polars as pl

from scheduler.messages import plural
from scheduler.model import Job
from scheduler.node_request import Request
from sil.experiment.provenance import fingerprint
from sil.outcome.jobs import job_table, run_table
from sil.planning.options import AS_IT_IS, Option, bought
from sil.planning.plan_file import Plan
from sil.planning.scenario.capacity import Load, load, load_on_nodes
from sil.planning.scenario.node_demand import any_runs_on, specification
from sil.planning.scenario.scenario import CORE_HOURS, GPU_HOURS, JOBS, OptionRun, Shares, Simulated
from sil.runs.resolve import scenario_of
from sil.runs.scenario import Scenario
from sil.runs.simulation import RunKey
from sil.runs.under_test import Find, resolve
from sil.site.site_in_use import SiteInUse, SiteSource
from sil.site.what_if_site import InapplicableChange
from site_db.site_file.cluster import Cluster
from site_db.site_file.nodes import cluster_of, request_of
from site_db.store import Address

if TYPE_CHECKING:
    from sil.runs.nodes_scenario import NodesScenario  # loads compiled code


class OnSite:
    """A site with the changes of options; that of each option is made once. `find` finds schedulers by name.

    Raises InapplicableChange, DoesNotFit, InvalidFile and what SiteSource raises.
    """

    def __init__(self, plan: Plan, folder: Path, address: Address | None, find: Find = resolve) -> None:
        self.plan = plan
        self._find = find
        self._source = SiteSource(plan.experiment(()), folder, address)
        self._made: dict[str, tuple[Scenario, str]] = {}

    @property
    def name(self) -> str:
        return self._source.name

    def in_use(self, option: Option) -> SiteInUse:
        return self.scenario(option).in_use

    def scenario(self, option: Option) -> Scenario:
        return self._scenario(option)[0]

    def run(self, option: Option, scheduler: str, replication: int) -> OptionRun:
        scenario, mark = self._scenario(option)
        log = scenario.in_use.log
        run = OptionRun(
            self.plan,
            mark,
            scheduler,
            replication,
            int(scenario.model.get("cores", scenario.in_use.site.n_machines)),
            f"replication {replication}",
            partial(_simulated, self.plan, scenario, RunKey(0, replication, scheduler)),
            gpus=int(scenario.model.get("gpus", 0)),
            has_classes=log is None or bool(log.job_classes),
        )
        if not scenario.in_use.has_nodes:
            return run
        # Imported here, since nodes load compiled code.
        from sil.runs.nodes_scenario import NodesScenario

        if isinstance(scenario, NodesScenario):
            run = replace(run, refusals=partial(refused_shares, scenario, replication))
        return run

    def requests(self) -> list[Request]:
        """Those of all jobs that may arrive at nodes."""
        in_use = self.in_use(AS_IT_IS)
        if in_use.log is not None:
            return list(in_use.log.requests)
        mix = self.plan.forecast.mix
        arriving = [table for table in in_use.file.job_classes if not mix or table.name in mix]
        return [request_of(table.request) for table in arriving]

    def usable(self, option: Option, scheduler: str) -> Option:
        """Built-in schedulers do not see nodes on which no job can run; others, and failures, may."""
        plan, is_ours = self.plan, self._find(scheduler).is_built_in
        if not is_ours or plan.failures or plan.messages or plan.crashes or not self.in_use(option).has_nodes:
            return option
        for k in dict.fromkeys(option.offers):
            counts = (0 if n == k else option.offers.count(n) for n in range(len(plan.offers)))
            less = bought(plan, tuple(counts))
            if self._is_usable_alike(less, option):
                option = less
        return option

    def _is_usable_alike(self, less: Option, more: Option) -> bool:
        """Whether all that `more` has besides are nodes on which no job of the forecast can run."""
        try:
            before, after = (cluster_of(self.in_use(option).file) for option in (less, more))
        except InapplicableChange:
            return False
        same = {name: specification(node) for name, node in after.nodes.items() if name in before.nodes}
        added = [node for name, node in after.nodes.items() if name not in before.nodes]
        is_same = same == {name: specification(node) for name, node in before.nodes.items()}
        return is_same and bool(added) and not any_runs_on(added, self.requests())

    def load(self, option: Option) -> Load | None:
        scenario = self.scenario(option)
        if not scenario.in_use.has_nodes:
            return load(scenario.experiment.drawn, scenario.in_use)
        # Imported here, since nodes load compiled code.
        from sil.runs.nodes_scenario import NodesScenario

        today = self.scenario(AS_IT_IS)
        assert isinstance(scenario, NodesScenario)
        assert isinstance(today, NodesScenario)
        return load_on_nodes(scenario, today)

    def _scenario(self, option: Option) -> tuple[Scenario, str]:
        """With its fingerprint."""
        key = repr([change.model_dump_json() for change in option.changes])
        if key not in self._made:
            experiment = self.plan.experiment(option.changes)
            with TemporaryDirectory() as folder:
                in_use = self._source.with_changes(experiment).snapshot(Path(folder) / "site.db")
            scenario = scenario_of(experiment, in_use, self._find)
            self._made[key] = scenario, fingerprint(scenario)
        return self._made[key]


def _simulated(plan: Plan, scenario: Scenario, run: RunKey) -> Simulated:
    facts = scenario.run(run).facts
    jobs = job_table(facts, scenario.in_use.site.n_machines, plan.bounded_slowdown_threshold_s)
    runs = run_table(facts).rename({"job": "job_id"})
    if "requested_gpus" in jobs.columns:
        gpus = jobs.select("job_id", "requested_gpus")
        runs = runs.join(gpus, on="job_id", how="left", maintain_order="left")
    # Jobs are numbered in order of arrival, those of a log from 1.
    first = int(facts["job"].min() or 0)  # type: ignore[arg-type]
    measured = jobs.filter(pl.col("job_id") >= first + plan.warm_up_jobs)
    return Simulated(facts, runs, jobs, measured)


def refused_shares(scenario: NodesScenario, replication: int, refused: Collection[int]) -> dict[str, Shares]:
    """The shares of the jobs with these numbers, by the reason: what they do, as a phrase. GPU hours are left
    out if no job requests any."""
    arriving = scenario.arriving(replication)
    every: Counter[str] = Counter()
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for job in arriving.jobs:
        request = _request_of(job)
        run_s = arriving.run_s(job, ())
        hours = run_s / 3600.0 if isfinite(run_s) else 0.0
        held = scenario.cluster.held(request)
        of_job = {JOBS: 1.0, CORE_HOURS: held.cpus * hours, GPU_HOURS: held.gpus * hours}
        every.update(of_job)
        if job.id in refused:
            found[reason(job, scenario.cluster)].update(of_job)
    return {
        why: {unit: amount / every[unit] for unit, amount in amounts.items() if every[unit]}
        for why, amounts in found.items()
    }


def reason(job: Job, cluster: Cluster) -> str:
    """Why a job is refused: what no partition it names allows, what the site lacks, else its rules."""
    request = _request_of(job)
    names = sorted(request.partitions)
    where = f"{plural(len(names), 'partition')} {' and '.join(names)}"
    allow = "allow" if len(names) > 1 else "allows"
    known = cluster.limits_of(filter(cluster.has_partition, names))
    if names and not known:
        return f"name {where}, which the site does not have"
    if known and all(partition.refusal(request, None) for partition in known):
        return f"request more nodes than {where} {allow}"
    if known and all(partition.refusal(request, job.estimate_s) for partition in known):
        return f"request more time than {where} {allow}"
    if (beyond := request.beyond(cluster.site_resources)) is not None:
        return f"request more than the site has, {beyond}"
    if cluster.unsatisfied(request, job.estimate_s) is not None:
        return f"request more than the nodes{f' of {where}' if names else ''} have"
    return "are against the site's rules for users and queues"


def _request_of(job: Job) -> Request:
    return job.request or Request()
