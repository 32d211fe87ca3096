"""Runs on several clusters, each with its own site, scheduler and users, under a meta-scheduler."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

import polars as pl

from scheduler import UserError
from scheduler.meta_scheduling.meta_scheduler import AtCluster, MetaScheduler
from scheduler.model import Job, JobId
from scheduler.rules import Kind
from sil.isolation.host import Host
from sil.runs.hosting import Supervision
from sil.runs.scenario import NO_FILE, Mistakes, Scenario, scenario_of
from sil.runs.simulation import RunKey, SiteModel, SiteRun
from sil.runs.under_test import Find, InProcess
from sil.settings.experiment_file import Experiment
from sil.site.site_in_use import ResourceNames, SiteInUse
from sil.trace.facts import Fact, RunTables, timings_frame
from sil.world.events import SimClock
from sil.world.guard.faults import SchedulerFault
from sil.world.guard.scheduler import Guard
from sil.world.harness import Together


class SeveralClusters(Scenario):
    """Clusters between which a meta-scheduler distributes the jobs; its policies are what is compared."""

    kind = Kind.CLUSTERS
    purpose = "an experiment with several clusters"
    where = "with several clusters"
    without_effect = (
        *("history", "log", "policy", "events", "queues", "notional", "outages"),
        *("messages", "crashes", "clock_jumps", "guard.decision_cost", "guard.reasons"),
    )

    @classmethod
    def _resolve_queues(
        cls, experiment: Experiment, in_use: SiteInUse, find: Find
    ) -> tuple[Mapping[str, InProcess], Mistakes]:
        """The scheduler of each cluster, by its label."""
        found, mistakes, alike = dict[str, InProcess](), Mistakes(), set[object]()
        for k, (table, site) in enumerate(zip(experiment.clusters, in_use.clusters, strict=True)):
            place, named = ("clusters", k), f"cluster '{table.name}': "
            try:
                scenario = scenario_of(experiment.of_cluster(k), site, find)
                scheduler = scenario.schedulers[0].require_in_process("each of several clusters")
            except UserError as error:
                mistakes += [(place, named + text) for text in str(error).splitlines()]
                continue
            found[scheduler.label] = scheduler
            alike.add(frozenset(job_class.name for job_class in site.site.job_classes))
            if scenario.kind is Kind.MAPPING or scheduler.has_own_queue or len(alike) > 1:
                why = (
                    "clusters have the same job classes, nodes that are time-shared or of partitions, and a "
                )
                why += "scheduler that is no whole resource manager"
                mistakes.append((place, named + why))
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
        nodes = dict.fromkeys(sentence for model in models for sentence in model.get("nodes", ()))
        schedulers = tuple(each.scheduler for each in self.experiment.clusters)
        found = {"nodes": tuple(nodes), "cluster_schedulers": schedulers}
        if not all(models):  # where nodes are time-shared, all count as whole nodes
            return found
        keys = ("cores", "gpus", "node_cores")
        return found | {key: sum((x[key] for x in models[1:]), models[0][key]) for key in keys}

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
        meta = MetaScheduler(clock, policy, self.experiment.transfers.transfer_s)
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


def _joined(run: RunKey, runs: Sequence[SiteRun], at: Sequence[Collection[JobId]]) -> RunTables:
    """The tables of all clusters, with machines numbered through, and facts in order of time; faults come
    last. The resource of a run is its cluster; a job arrives where it is submitted, and predictions are of
    those that run where they are made."""
    first = [0, *accumulate(each.site.capacity.n_machines for each in runs)]
    event, each, tables = pl.col("event"), pl.element().struct, []
    for k, of in enumerate(runs):
        is_here = (event != Fact.JOB_ARRIVED) | pl.col("job").is_in([*at[k]])
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
    return joined._replace(facts=facts.sort(event == Fact.FAULT, "time_s", maintain_order=True))
