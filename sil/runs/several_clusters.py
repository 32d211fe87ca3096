"""Runs on several clusters, each with its own site, scheduler and users, under a meta-scheduler; or as one
site: the nodes of all under one scheduler, with the jobs that arrive at each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from scheduler import UserError
from scheduler.meta_scheduling.policies import AtCluster, MetaScheduler
from scheduler.model import Job, JobId
from scheduler.rules import Kind
from sil.isolation.host import Host
from sil.runs.hosting import Supervision
from sil.runs.nodes_scenario import NodesScenario
from sil.runs.scenario import NO_FILE, Mistakes, Scenario, scenario_of
from sil.runs.simulation import RunKey, SiteModel, SiteRun
from sil.runs.transfers import Transfers
from sil.runs.under_test import Find, InProcess
from sil.settings.experiment_file import Experiment, TransfersTable, WorkloadTable
from sil.site.site_in_use import ResourceNames, SiteInUse, SiteSource
from sil.trace.facts import Fact, RunTables, timings_frame
from sil.world.events import SimClock
from sil.world.guard.faults import SchedulerFault
from sil.world.guard.scheduler import Guard
from sil.world.harness import Together
from site_db.site_file.tables import SiteFile


class SeveralClusters(Scenario):
    """Clusters between which a meta-scheduler distributes the jobs; its policies are what is compared."""

    kind = Kind.CLUSTERS
    purpose = "an experiment with several clusters"
    where = "with several clusters"
    without_effect = (
        *("history", "log", "policy", "events", "queues", "notional", "outages"),
        *("messages", "crashes", "clock_jumps", "guard.decision_cost", "guard.reasons", "nodes.unkept"),
    )

    @classmethod
    def _resolve_queues(
        cls, experiment: Experiment, in_use: SiteInUse, find: Find
    ) -> tuple[Mapping[str, InProcess], Mistakes]:
        """The scheduler of each cluster, by its label."""
        found, mistakes, known = dict[str, InProcess](), Mistakes(), set[str]()
        for k, (table, site) in enumerate(zip(experiment.clusters, in_use.clusters, strict=True)):
            place, named = ("clusters", k), f"cluster '{table.name}': "
            try:
                scenario = scenario_of(experiment.of_cluster(k), site, find)
                scheduler = scenario.schedulers[0].require_in_process("each of several clusters")
            except UserError as error:
                mistakes += [(place, named + text) for text in str(error).splitlines()]
                continue
            found[scheduler.label] = scheduler
            classes = {job_class.name for job_class in site.site.job_classes}
            if other := sorted(classes ^ (known := known or classes)):
                few = f"'{other[0]}'" + f" and {len(other) - 1} more" * (len(other) > 1)
                mistakes.append((place, f"{named}clusters have the same job classes, and not all have {few}"))
            if scenario.kind is Kind.MAPPING or scheduler.has_own_queue:
                why = "clusters have nodes that are time-shared or of partitions, and a scheduler"
                mistakes.append((place, f"{named}{why} that is no whole resource manager"))
        for name in sorted(experiment.transfers.data.keys() - known if known else ()):
            text = f"there is no job class '{name}'; expected one of {', '.join(sorted(known))}"
            mistakes.append((("transfers", "data", name), text))
        return found, mistakes

    @cached_property
    def members(self) -> Mapping[str, Scenario]:
        """Each cluster as an experiment of its own, by its name."""
        found = {}
        for k, (table, site) in enumerate(zip(self.experiment.clusters, self.in_use.clusters, strict=True)):
            alone = scenario_of(self.experiment.of_cluster(k), site, self.queue_schedulers.__getitem__)
            found[table.name] = replace(alone, place=k, replication=self.replication)
        return found

    @property
    def resources(self) -> ResourceNames:
        of_all = {cluster: member.resources for cluster, member in self.members.items()}
        names = [f"{cluster}/{name}" for cluster, of in of_all.items() for name in of.names]
        groups = [(k, group) for k, x in self.members.items() for group in x.in_use.file.machines]
        class_of = {f"{k}/{name}": group.machine_class for k, group in groups for name in group.names}
        sites = ", ".join(dict.fromkeys(of.site for of in of_all.values()))
        shared = ", ".join(cluster for cluster, of in of_all.items() if of.time_shared_cluster)
        classes = tuple(class_of[name] for name in names)
        return ResourceNames(sites, (*names, *of_all), shared or None, node_classes=classes)

    @property
    def model(self) -> dict[str, Any]:
        models = [member.model for member in self.members.values()]
        schedulers = tuple(each.scheduler for each in self.experiment.clusters)
        found = {"nodes": tuple(self.notes()), "cluster_schedulers": schedulers}
        if not all(models):  # where nodes are time-shared, all count as whole nodes
            return found
        keys = ("cores", "gpus", "node_cores")
        return found | {key: sum((x[key] for x in models[1:]), models[0][key]) for key in keys}

    @cached_property
    def transfers(self) -> Transfers:
        return Transfers(self.experiment.transfers, self.members)

    def site(self) -> SiteModel:
        raise NotImplementedError  # not reached: `_carry_out` makes the sites of the members

    def arriving(self) -> tuple[list[Job], list[set[JobId]]]:
        """The jobs, numbered in order of arrival, and which of them are submitted at each cluster."""
        drawn = [(job, k) for k, member in enumerate(self.members.values()) for job in member.jobs()]
        drawn.sort(key=lambda each: each[0].arrival_s)
        at = [{JobId(n) for n, (_, of) in enumerate(drawn) if of == k} for k in range(len(self.members))]
        return [job._replace(id=JobId(n)) for n, (job, _) in enumerate(drawn)], at

    @property
    def homes(self) -> pl.DataFrame:
        """The cluster where each job is submitted."""
        rows = [
            (job, name) for name, here in zip(self.members, self.arriving()[1], strict=True) for job in here
        ]
        return pl.DataFrame(rows, {"job_id": pl.Int64, "home": pl.String}, orient="row")

    def _carry_out(self, run: RunKey, host: Host, log: Path = NO_FILE) -> RunTables:
        (jobs, at), decisions, clock = self.arriving(), list[float](), SimClock()
        limits = self.experiment.guard
        guard = Guard(clock, limits.decision_limit_s, decisions.extend)
        asking = Supervision(host, guard, self.streams.scheduler_seed, limits.ask_twice)
        policy = asking.scheduler(self.under_test(run.scheduler).require_in_process("a meta-scheduler"))
        meta = MetaScheduler(clock, policy, self.transfers.seconds)
        runs, current = list[SiteRun](), 0
        with ExitStack() as stack:
            worlds = []
            for (name, member), here in zip(self.members.items(), at, strict=True):
                site = replace(member, submitted=jobs).site()
                runs.append(SiteRun(site, member.disturbances(site, decisions), clock=clock))
                scheduler = member.schedulers[0].require_in_process("each of several clusters")
                manager = stack.enter_context(runs[-1].managed(scheduler, asking, log))
                outlook, orders = site.outlook(runs[-1].ports, scheduler, asking), runs[-1].world.dispatcher
                there = AtCluster(name, meta, manager, outlook, orders, {job.id: job for job in site.jobs})
                orders.on_start, orders.on_given_up = there.started, there.given_up
                worlds.append((runs[-1].world, [job for job in site.jobs if job.id in here], there))
            try:
                for current in Together(worlds).steps():  # noqa: B007 (where it ends)
                    pass
            except SchedulerFault as fault:
                text = f"on cluster '{[*self.members][current]}': {fault.message}"
                job = meta.asked_about if fault.job is None else fault.job
                for each in runs:  # whose jobs may not have ended
                    each.world.trace.note_fault(fault.time_s, fault.rule, text, job)
                host.faulted(fault)
        host.over()
        return _joined(run, runs, at)._replace(timings=timings_frame(decisions, run))

    def notes(self) -> Iterator[str]:
        for name, member in self.members.items():
            yield from (f"cluster '{name}': {text}" for text in member.notes())
        yield from self.transfers.notes()


def _joined(run: RunKey, runs: Sequence[SiteRun], at: Sequence[Collection[JobId]]) -> RunTables:
    """The tables of all clusters, with machines numbered through, and facts in order of time: of an instant
    arrivals first, and faults last of all. The resource of a run is its cluster; a job arrives where it is
    submitted, and predictions are of those that run where they are made."""
    first = [0, *accumulate(each.site.capacity.n_machines for each in runs)]
    event, each, tables = pl.col("event"), pl.element().struct, []
    for k, of in enumerate(runs):
        is_first = pl.struct("event", "job").is_first_distinct()  # its data may come later
        is_here = (event != Fact.JOB_ARRIVED) | (pl.col("job").is_in([*at[k]]) & is_first)
        is_of_cluster = (pl.col("resource") < 0) | (event == Fact.JOB_MOVED)
        cluster = pl.lit(first[-1] + k, pl.Int32)
        intervals = pl.struct(each.field("first") + first[k], each.field("last") + first[k])
        shares = pl.struct(each.field("node") + first[k], each.field("chunks", "gpus"))
        renumbered = {
            "run": pl.col("run") * len(runs) + k,
            "resource": pl.when(is_of_cluster).then(cluster).otherwise(pl.col("resource") + first[k]),
            "machines": pl.col("machines").list.eval(intervals),
            "shares": pl.col("shares").list.eval(shares),
        }
        facts = of.checked(run)
        ran = pl.col("job").is_in(facts.filter(event == Fact.RUN_STARTED)["job"].implode())
        others = RunTables.of(**of.site.tables(run))
        others = others._replace(
            facts=facts.filter(is_here).with_columns(**renumbered),
            predictions=others.predictions.filter(ran),
            local_users=others.local_users.with_columns(pl.col("node") + first[k]),
        )
        tables.append(others)
    joined = RunTables(*map(pl.concat, zip(*tables, strict=True)))
    facts = joined.facts.filter((event != Fact.FAULT) | pl.col("message").is_first_distinct())
    in_order = (event == Fact.FAULT, "time_s", event != Fact.JOB_ARRIVED)  # a job starts elsewhere at once
    return joined._replace(facts=facts.sort(*in_order, maintain_order=True))


LEFT_OUT = {"description", "parallel_s", "parallel_commands", "preferred", "in_isolation", "data"}
"""What is said of job classes and does not matter on nodes of partitions."""
OF_ALL = ("machine_classes", "partitions", "site_resources", "job_classes")
ALIKE = ("queues", "users", "only_listed_users")
"""What has to be the same at all sites."""


@dataclass(frozen=True)
class OneSite(NodesScenario):
    """The nodes of several clusters, and what is submitted at each of them `apart`."""

    apart: SeveralClusters | None = None

    @classmethod
    def joined(cls, apart: SeveralClusters, scheduler: str, find: Find) -> OneSite:
        """Raises UserError for clusters that cannot be one site, and DoesNotFit for the scheduler."""
        file = one_file({name: member.in_use.file for name, member in apart.members.items()})
        if known := [name for name, member in apart.members.items() if member.in_use.statistics]:
            raise _cannot_be_one(f"the site of '{known[0]}' has a history of runs; name its site file")
        alone = {"clusters": (), "transfers": TransfersTable(), "schedulers": (scheduler,), "site": file.name}
        experiment = apart.experiment.model_copy(update=alone)
        with TemporaryDirectory() as folder:
            source = SiteSource(experiment, Path(folder), None, file=file)
            in_use = source.snapshot(Path(folder) / "site.db")
        return replace(cls.of(experiment, in_use, find), apart=apart)

    @property
    def workloads(self) -> Sequence[WorkloadTable]:
        assert self.apart is not None
        return [member.experiment.drawn for member in self.apart.members.values()]

    def jobs(self) -> list[Job]:
        assert self.apart is not None
        return replace(self.apart, replication=self.replication).arriving()[0]


def one_file(sites: Mapping[str, SiteFile]) -> SiteFile:
    """The nodes of the sites of several clusters as one site; partitions of one name become one, and a node
    is called like its cluster and itself. Raises UserError for what one name cannot mean at all of them."""
    machines, tables = list[dict[str, Any]](), {kind: dict[str, dict[str, Any]]() for kind in OF_ALL}
    for cluster, file in sites.items():
        if not file.partitions:
            raise _cannot_be_one(f"'{cluster}' has no nodes of partitions")
        if file.topology is not None:
            raise _cannot_be_one(
                f"'{cluster}' has switches or blocks, which would connect only its own nodes"
            )
        for group in file.machines:
            here = {"names": [f"{cluster}-{name}" for name in group.names], "interconnects": [], "switch": ""}
            machines.append(group.model_dump() | here)
        for kind in OF_ALL:
            for each in getattr(file, kind):
                table = each.model_dump(exclude=LEFT_OUT)
                if kind == "partitions":
                    table["nodes"] = [f"{cluster}-{name}" for name in each.nodes]
                before = tables[kind].setdefault(each.name, table)
                if before is not table and not _join(before, table):
                    what = f"'{each.name}' differs in {kind} of their sites"
                    raise _cannot_be_one(f"{what}; rename one of them, or describe them alike")
    first, *others = sites.values()
    for key in ALIKE:
        if any(getattr(other, key) != getattr(first, key) for other in others):
            raise _cannot_be_one(f"their sites differ in {key}; describe them alike")
    alike = first.model_dump(include={*ALIKE})
    of_all = {kind: [*found.values()] for kind, found in tables.items()}
    return SiteFile.model_validate({"name": "-".join(sites), "machines": machines, **of_all, **alike})


def _join(table: dict[str, Any], other: Mapping[str, Any]) -> bool:
    """Add the nodes, amounts and times of another table of the same name. Returns whether all else agrees."""
    for key in table.keys() & {"nodes", "amount"}:
        table[key] += other[key]
    times = other.get("sequential_s", {})
    agrees = all(table["sequential_s"].setdefault(name, run_s) == run_s for name, run_s in times.items())
    summed = {"nodes", "amount", "sequential_s"}
    return agrees and all(table[key] == value for key, value in other.items() if key not in summed)


def _cannot_be_one(why: str) -> UserError:
    return UserError(f"the clusters cannot be one site: {why}")
