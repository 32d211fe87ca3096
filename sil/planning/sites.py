"""Where a plan's runs take place: a site with its forecast workload, or the machine of a log."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from scheduler import UserError
from scheduler.messages import plural
from scheduler.model import Job
from scheduler.node_request import Request
from scheduler.rules import Kind
from sil.experiment.provenance import code_under_test, fingerprint
from sil.outcome.finished_jobs import jobs_in
from sil.outcome.jobs import bounded_slowdown, job_table, run_table, with_gpus
from sil.planning.load import Load, any_runs_on, load, load_on_nodes
from sil.planning.options import AS_IT_IS, Option, bought
from sil.planning.plan_file import OF_POLICY, Plan, PlanLogTable
from sil.planning.runs import CORE_HOURS, GPU_HOURS, JOBS, OptionRun, Shares, Simulated
from sil.runs.nodes_scenario import NodesScenario
from sil.runs.on_log import Replay
from sil.runs.scenario import Scenario, scenario_of
from sil.runs.several_clusters import OneSite, SeveralClusters
from sil.runs.simulation import PRINTED, RunKey
from sil.runs.under_test import Find, InProcess, UnderTest, resolve, schedulers_for_logs
from sil.settings.experiment_file import Files
from sil.settings.files import code_and_data, named, paths
from sil.site.logs import read_log, under_policy
from sil.site.site_in_use import SiteInUse, SiteSource
from sil.site.what_if_site import InapplicableChange
from sil.workers.executor import FIRST, Attempt
from sil.workload.job_log import JobLog
from sil.workload.slices import SlicedLog, equal_slices, with_warm_up
from sil.world.actual_runtimes import RandomStreams
from site_db.site_file.cluster import SiteNodes
from site_db.site_file.nodes import cluster_of, request_of
from site_db.store import Address


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

    def _scenario(self, option: Option) -> tuple[Scenario, str]:
        key = repr([option.policy, option.schedulers, *(x.model_dump_json() for x in option.changes)])
        if key not in self._made and option.schedulers:
            self._made[key] = self._joined(option)
        elif key not in self._made:
            experiment = self.plan.experiment(option.changes, option.policy)
            with TemporaryDirectory() as folder:
                in_use = self._source.with_changes(experiment).snapshot(Path(folder) / "site.db")
            scenario = scenario_of(experiment, in_use, self._find)
            self._made[key] = scenario, fingerprint(scenario)
        return self._made[key]

    def _joined(self, option: Option) -> tuple[Scenario, str]:
        """The clusters under another meta-scheduler, or as one site."""
        if len(option.schedulers) > 1:
            raise InapplicableChange("clusters are joined under one scheduler")
        (name,), (today, mark) = option.schedulers, self._scenario(AS_IT_IS)
        assert isinstance(today, SeveralClusters)
        under_test = self._find(name)
        if isinstance(under_test, InProcess) and under_test.spec.kind is Kind.CLUSTERS:
            experiment = today.experiment.model_copy(update={"schedulers": (name,)})
            scenario: Scenario = scenario_of(experiment, today.in_use, self._find)
        else:
            scenario = OneSite.joined(today, name, self._find)
        return scenario, mark + fingerprint(scenario)

    def run(self, option: Option, scheduler: str, replication: int) -> OptionRun:
        scenario, mark = self._scenario(option)
        scheduler = (*option.schedulers, scheduler)[0]
        log, refusals = scenario.in_use.log, None
        if isinstance(scenario, NodesScenario):
            refusals = partial(refused_shares, scenario.at(0, replication))
        return OptionRun(
            self.plan,
            mark,
            scheduler,
            replication,
            int(scenario.model.get("cores", scenario.in_use.site.n_machines)),
            f"replication {replication}",
            partial(_on_site, self.plan, scenario, RunKey(0, replication, scheduler)),
            refusals,
            int(scenario.model.get("gpus", 0)),
            has_classes=log is None or bool(log.job_classes),
        )

    def load(self, option: Option) -> Load | None:
        """The load with an option; None if all jobs are submitted at the beginning."""
        scenario, today = self.scenario(option), self.scenario(AS_IT_IS)
        if isinstance(scenario, SeveralClusters):
            return self._load_of(scenario)
        if isinstance(scenario, NodesScenario):
            return load_on_nodes(scenario, today if isinstance(today, NodesScenario) else scenario)
        return load(scenario.experiment.drawn, scenario.in_use)

    def _load_of(self, apart: SeveralClusters) -> Load | None:
        """The highest load of the clusters, if jobs stay at home, else that of all; None if it is not known,
        since nodes are time-shared or cannot be one site."""
        members: list[Scenario] = [*apart.members.values()]
        if "home" not in apart.experiment.schedulers:
            one = Option("one site", schedulers=(apart.experiment.clusters[0].scheduler,))
            try:
                members = [self.scenario(one)]
            except UserError:
                return None
        found = (load_on_nodes(x, x) for x in members if isinstance(x, NodesScenario))
        return max(filter(None, found), key=lambda load: load.rho, default=None)

    def notes_on(self, option: Option) -> Iterable[str]:
        """What of the policy and the events is not modelled."""
        scenario = self.scenario(option)
        return scenario.notes_on_rules() if isinstance(scenario, NodesScenario) else ()

    def requests(self) -> list[Request]:
        """The requests of all jobs that may arrive at nodes."""
        in_use = self.in_use(AS_IT_IS)
        if in_use.log is not None:
            return list(in_use.log.requests)
        mix = self.plan.forecast.mix
        return [request_of(of.request) for of in in_use.file.job_classes if not mix or of.name in mix]

    def usable(self, option: Option, scheduler: str) -> Option:
        """The option without offers that no job of the forecast can use, whatever happens in a run: built-in
        schedulers do not see nodes on which no job can run; others, and failures, may."""
        plan, is_ours = self.plan, self._find(scheduler).is_built_in
        is_on_nodes = isinstance(self.scenario(option), NodesScenario)
        if not is_ours or plan.failures or plan.messages or plan.crashes or not is_on_nodes:
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
            before, after = (dict(cluster_of(self.in_use(option).file).nodes) for option in (less, more))
        except InapplicableChange:
            return False
        added = [node for name, node in after.items() if name not in before]
        is_same = {name: node.specification for name, node in after.items() if name in before} == {
            name: node.specification for name, node in before.items()
        }
        return is_same and bool(added) and not any_runs_on(added, self.requests())


def _on_site(plan: Plan, scenario: Scenario, run: RunKey, attempt: Attempt = FIRST) -> Simulated:
    facts = scenario.run(run, attempt=attempt).facts
    jobs = job_table(facts, scenario.in_use.site.n_machines, plan.bounded_slowdown_threshold_s)
    apart = scenario.apart if isinstance(scenario, OneSite) else scenario
    if isinstance(apart, SeveralClusters):
        jobs = jobs.join(replace(apart, replication=run.replication).homes, on="job_id", how="left")
    runs = run_table(facts)
    if "requested_gpus" in jobs.columns:
        runs = with_gpus(runs, jobs)
    runs = runs.rename({"job": "job_id"})
    # Jobs are numbered in order of arrival, those of a log from 1.
    first = int(facts["job"].min() or 0)  # type: ignore[arg-type]
    measured = jobs.filter(pl.col("job_id") >= first + plan.warm_up_jobs)
    return Simulated(facts, runs, jobs, measured)


def refused_shares(scenario: NodesScenario, refused: Collection[int]) -> dict[str, Shares]:
    """The shares of the jobs with these numbers, by the reason: what they do, as a phrase. GPU hours are left
    out if no job requests any."""
    arriving = scenario.arriving()
    every: Counter[str] = Counter()
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for job in arriving.jobs:
        run_s = arriving.run_s(job, ())
        hours = run_s / 3600.0 if isfinite(run_s) else 0.0
        held = scenario.cluster.held(job.request or Request())
        of_job = {JOBS: 1.0, CORE_HOURS: held.cpus * hours, GPU_HOURS: held.gpus * hours}
        every.update(of_job)
        if job.id in refused:
            found[_reason(job, scenario.cluster)].update(of_job)
    return {
        why: {unit: amount / every[unit] for unit, amount in amounts.items() if every[unit]}
        for why, amounts in found.items()
    }


def _reason(job: Job, cluster: SiteNodes) -> str:
    """Why a job is refused: what no partition it names allows, what the site lacks, else its rules."""
    request = job.request or Request()
    names = sorted(request.partitions)
    where = f"{plural(len(names), 'partition')} {' and '.join(names)}"
    allow = "allow" if len(names) > 1 else "allows"
    known = cluster.limits_of(filter(cluster.has_partition, names))
    if names and not known:
        return f"name {where}, which the site does not have"
    for what, limit_s in (("nodes", None), ("time", job.estimate_s)):
        if known and all(partition.refusal(request, limit_s) for partition in known):
            return f"request more {what} than {where} {allow}"
    if (beyond := request.beyond(cluster.site_resources)) is not None:
        return f"request more than the site has, {beyond}"
    if cluster.unsatisfied(request, job.estimate_s) is not None:
        return f"request more than the nodes{f' of {where}' if names else ''} have"
    return "are against the site's rules for users and queues"


class OnLog:
    """The machine of a log of rigid jobs, to which processors can be added; the consecutive parts of the log
    are the replications. Raises InvalidFile, and SchedulerNotLoaded for a scheduler that cannot replay a
    log."""

    def __init__(self, plan: Plan, folder: Path, find: Find = resolve) -> None:
        assert plan.log is not None
        self.plan = plan
        policies = ((), *(table.given for table in plan.policies))
        self._under = {policy: self._read(plan.log, dict(policy), folder) for policy in policies}
        self._log = self._under[()].log
        settings = f"{plan.log.model_dump_json()}|{plan.guard.model_dump_json()}|{plan.seed}"
        mark = f"{settings}|{plan.bounded_slowdown_threshold_s}|{code_and_data()}"
        on_nodes = any(sliced.log.cluster is not None for sliced in self._under.values())
        self._under_test = {
            found.label: (found, f"{mark}|{code_under_test(found)}")
            for found in schedulers_for_logs(plan.schedulers, on_nodes, find)
        }

    def _read(self, table: PlanLogTable, other: Mapping[str, Files], folder: Path) -> SlicedLog:
        """The log under a policy that may be another than that of the plan, on one node with all its
        processors."""
        policy, settings = (other.get(key) or getattr(self.plan, key) for key in OF_POLICY)
        path, files = named(table.file, folder), [named(str(name), folder) for name in paths(policy)]
        nodes = under_policy(SiteNodes({}, {}, {}, has_memory=False), files, settings=settings)
        cluster = None if nodes.policy is None else nodes
        log = read_log(path, table.rules, table.processors, cluster, files).with_load(table.load)
        return with_warm_up(equal_slices(log, table.n_parts))

    def run(self, option: Option, scheduler: str, replication: int) -> OptionRun:
        sliced, capacity = self._under[option.policy], self._processors(option)
        under_test, mark = self._under_test[scheduler]
        part, sums = sliced.slices[replication].log, sorted(sliced.log.sources.values())
        simulate = partial(_on_log, self.plan, part, capacity, under_test, replication)
        where = f"part {replication} of the log"
        return OptionRun(self.plan, f"{mark}|{sums}", scheduler, replication, capacity, where, simulate)

    def notes_on(self, option: Option) -> Iterable[str]:
        """What of the policy is not modelled."""
        cluster = self._under[option.policy].log.cluster
        return () if cluster is None else (*cluster.notes, *self._under[option.policy].log.not_associated)

    def usable(self, option: Option, scheduler: str) -> Option:
        return option

    def load(self, option: Option) -> Load | None:
        found = self._log.on(self._processors(option)).load
        return None if found is None else Load(found, "rigid jobs")

    def _processors(self, option: Option) -> int:
        return self._log.processors + option.processors


def _on_log(
    plan: Plan, part: JobLog, capacity: int, scheduler: UnderTest, replication: int, attempt: Attempt = FIRST
) -> Simulated:
    guard = plan.guard
    replay = Replay(
        part.on(capacity),
        decision_limit_s=guard.decision_limit_s,
        seed=RandomStreams(plan.seed, replication).scheduler_seed,
        determinism_check=guard.ask_twice,
        memory_limit_mb=guard.memory_limit_mb,
    )
    with TemporaryDirectory() as name:
        facts = replay.facts(scheduler, Path(name) / PRINTED, attempt)
    bound_s, processors = plan.bounded_slowdown_threshold_s, pl.col("requested_number_of_resources")
    per_processor = bounded_slowdown(pl.col("execution_time"), bound_s, processors)
    jobs = jobs_in(facts, part.jobs, bound_s=bound_s)
    jobs = jobs.with_columns(tasks=processors, per_processor=per_processor)
    runs = jobs.select(
        "job_id", from_s="starting_time", until_s="finish_time", tasks="requested_number_of_resources"
    )
    counts = pl.col("job_id").is_in(list(part.measured)) if part.measured else pl.lit(True)
    measured = jobs.filter(counts).sort("submission_time", "job_id")[plan.warm_up_jobs :]
    return Simulated(facts, runs, jobs, measured)
