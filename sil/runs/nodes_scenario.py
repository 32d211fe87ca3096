"""Runs on the nodes of a site's partitions, of which jobs request parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from math import ceil, inf, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scheduler import UserError
from scheduler.managers.queues import PreemptionPolicy, QueuePolicy, Unkept, in_order_of_service
from scheduler.messages import abbreviated
from scheduler.model import Job
from scheduler.node_request import Request
from scheduler.priority.claims import Claimant, Claims
from scheduler.resource_manager import OnFreeNodes
from scheduler.rules import Kind
from sil.runs.faults import is_remote
from sil.runs.free_nodes import FreeNodesModel, as_submitted, changes_of, notes_for, unable
from sil.runs.scenario import Mistakes, Scenario
from sil.runs.simulation import SiteModel, run_times_by
from sil.runs.under_test import NO_REQUESTS, SlurmProgram, controllers, notes_on_slurm
from sil.settings.experiment_file import WorkloadTable
from sil.settings.replays import Expiry
from sil.site.site_in_use import ResourceNames
from sil.workload.accounting import default_limit_s
from sil.workload.arrivals import LoggedRuns
from sil.workload.job_log import JobLog, queue_of
from sil.workload.slices import drawn_weeks, few_weeks
from sil.world.actual_runtimes import RuntimesOnNodes
from sil.world.failures import Checkpoints
from site_db.site_file.cluster import SiteNodes
from site_db.site_file.nodes import first_of, never_satisfied, requests_at

if TYPE_CHECKING:
    from sil.slurm.world import SlurmWorld


class Arriving(NamedTuple):
    """The jobs of one replication in order of arrival, how long each runs on some nodes, and at most."""

    jobs: list[Job]
    run_s: Callable[[Job, Sequence[int]], float]
    limit_s: Callable[[Job], float]
    """The time limit at which the runs of a job end; infinite if there is none."""
    log: JobLog | None = None

    def with_checkpoints(self, checkpoints: Checkpoints) -> Arriving:
        """The same jobs, whose run times, estimates and limits allow for their checkpoints."""
        jobs = [
            job if job.estimate_s is None else job._replace(estimate_s=checkpoints.run_s(job.estimate_s))
            for job in self.jobs
        ]
        return Arriving(
            jobs,
            lambda job, nodes: checkpoints.run_s(self.run_s(job, nodes)),
            lambda job: inf if self.limit_s(job) == inf else job.estimate_s or inf,
            self.log,
        )


class NodesScenario(Scenario):
    """A site with partitions: jobs request cores, memory and GPUs of its nodes, and share them."""

    kind = Kind.FREE_NODES
    purpose = "an experiment on the nodes of a site with partitions"
    where = "on nodes, where nothing is planned"
    without_effect = ("planned_starts", "preemption.least_gain_s", "preemption.gain", "experience")
    refused = NO_REQUESTS

    @property
    def cluster(self) -> SiteNodes:
        return self.in_use.cluster

    @property
    def resources(self) -> ResourceNames:
        classes = tuple(group.machine_class for group in self.in_use.file.machines for _ in group.names)
        return ResourceNames(self.in_use.site.name, tuple(self.cluster.nodes), node_classes=classes)

    @property
    def model(self) -> dict[str, Any]:
        cluster = self.cluster
        node_cores = tuple(int(node.cores) for node in cluster.nodes.values())
        model = {"nodes": tuple(cluster.model), "cores": cluster.cores, "gpus": cluster.gpus}
        return {**model, "node_cores": node_cores}

    def site(self) -> SiteModel:
        return _Nodes(self)

    @property
    def workloads(self) -> Sequence[WorkloadTable]:
        """What the jobs are drawn from."""
        return [self.experiment.drawn]

    def arriving(self) -> Arriving:
        """The jobs of the log or of the past, else jobs drawn at random."""
        log = self.in_use.log
        if log is None:
            return self._drawn()
        if self.weeks is not None:
            log = drawn_weeks(log, self.weeks, self.streams.of("weeks")).with_load(self.load)
        runs = LoggedRuns(
            log.jobs,
            requests=log.requests,
            users=log.users,
            job_classes=log.job_classes,
            served=self._served,
            charged=log.charged,
        )
        return Arriving(
            list(runs.arrivals()),
            lambda job, nodes: runs.run_s(job),
            lambda job: inf if job.estimate_s is None else job.estimate_s,
            log,
        )

    def _drawn(self) -> Arriving:
        requests, jobs = self.requests, []
        for job in self.jobs():
            request, limit_s = requests[job.job_class]
            # Without queues, it goes to that of its partitions.
            queue = job.queue if self.has_queues else queue_of(request)
            cpus = self.held[job.job_class]
            jobs.append(job._replace(request=request, n_tasks=cpus, estimate_s=limit_s, queue=queue))
        mean, spread, quantiles = self.run_times(jobs)
        actual = RuntimesOnNodes(mean, self.in_use.layout.slots.first, spread, quantiles)
        limits_s = {job.id: job.estimate_s for job in jobs if job.estimate_s is not None}
        jobs = [
            job if job.id in limits_s else job._replace(estimate_s=actual.expected_s(job)) for job in jobs
        ]
        if self.experiment.nodes.time_limits == "ignored":
            return Arriving(jobs, actual.run_s, lambda job: inf)
        return Arriving(
            jobs,
            lambda job, nodes: min(actual.run_s(job, nodes), limits_s.get(job.id, inf)),
            lambda job: limits_s.get(job.id, inf),
        )

    def _tasks(self) -> Mapping[str, Sequence[int]]:
        return {name: [cpus] for name, cpus in self.held.items()}

    @cached_property
    def held(self) -> Mapping[str, int]:
        """The CPUs that a job of each class keeps from others."""
        return {name: ceil(self.cluster.held(request).cpus) for name, (request, _) in self.requests.items()}

    @cached_property
    def requests(self) -> Mapping[str, tuple[Request, float | None]]:
        """What the jobs of each class request, and their time limit."""
        requests = requests_at(self.in_use.file, self.cluster)
        limits_s = {
            table.name: table.request and table.request.time_limit_s for table in self.in_use.file.job_classes
        }
        return {
            name: (request, limits_s[name] or default_limit_s(request.partitions, self.cluster))
            for name, request in requests.items()
        }

    @property
    def has_queues(self) -> bool:
        return bool(self.experiment.queues or self.in_use.file.queues)

    @property
    def policies(self) -> Sequence[QueuePolicy]:
        """The policies of the queues and, for jobs of which no partition is named like one, of a queue of
        priority 0 that is open to all."""
        return (*self.named_queues, *map(QueuePolicy, self._unnamed))

    @property
    def named_queues(self) -> Sequence[QueuePolicy]:
        return super().policies if self.has_queues else []

    @cached_property
    def _served(self) -> Sequence[str]:
        return [policy.name for policy in in_order_of_service(self.named_queues)]

    @cached_property
    def _unnamed(self) -> Sequence[str]:
        log, drawn = self.in_use.log, (request for request, _ in self.requests.values())
        needed = dict.fromkeys(
            queue_of(request, self._served) for request in (log.requests if log else drawn)
        )
        return [name for name in needed if name not in self._served]

    def notes(self) -> Iterator[str]:
        yield from super().notes()
        yield from self.cluster.model
        if self.experiment.workload is not None:
            mix = self.experiment.drawn.mix
            refused = never_satisfied(self.in_use.file)
            yield from first_of([sentence for name, sentence in refused if not mix or name in mix])
        yield from notes_on_slurm(self.schedulers, self.in_use.policy is not None)
        yield from dict.fromkeys(self.notes_on_rules())
        files = {each.path for each in controllers(self.schedulers) if each.path is not None}
        if self.has_queues and files:
            yield (
                f"Slurm has the priorities of {abbreviated(sorted(map(str, files)))}; of the queues, only "
                f"who may submit to them counts"
            )
        log = self.in_use.log
        if log is not None:
            yield log.summary
            yield from log.notes
            if self.weeks is not None:
                yield from few_weeks(log)
            if self.has_queues and self._unnamed:
                yield (
                    f"no queue is named like a partition of the jobs of {'; '.join(self._unnamed)}: they "
                    f"have priority 0 and may be of any user; for other rules, name a queue ([[queues]]) "
                    f"like the partition"
                )

    def notes_on_rules(self) -> Iterator[str]:
        """What of the policy and the events is not modelled, at all points of the grid."""
        for in_use in (self.in_use, *self.in_use.others.values()):
            yield from () if in_use.policy is None else in_use.policy.notes
            stops = in_use.policy is not None and in_use.policy.preemption is not None
            stops = stops or any(queue.displaces for queue in self.named_queues)
            is_foreseen = not stops or self.experiment.nodes.unkept is Unkept.ACCEPTED
            yield from notes_for(in_use.events, self.schedulers, is_foreseen)
        if self.in_use.log is None and (policy := self.in_use.policy) is not None:
            claims = Claims(policy, tuple(self.cluster.nodes.values()))
            users = [user.partition(" as ")[2] or user for user in self.experiment.drawn.users]
            if unknown := [user for user in users if any(claims.unknown(Claimant(user)))]:
                yield f"the policy has no association of the users {abbreviated(unknown)}, who are drawn"

    def _mistakes(self) -> Mistakes:
        experiment, found = self.experiment, super()._mistakes()
        found += self._mistakes_in_faults(self.cluster.nodes, f"the site '{self.in_use.site.name}'")
        for scheduler in self.schedulers:
            if isinstance(scheduler, SlurmProgram) and scheduler.program.path is None:
                found += (
                    (("schedulers", scheduler.label), why) for why in self._not_of_partitions(scheduler)
                )
        if experiment.policy and self.has_queues:
            sentence = "policy and queues both say who is served first; leave one of them out, and with it"
            found.append((("policy",), f"{sentence} a queue's priority is the PriorityTier of a partition"))
        found += self._mistakes_in_events()
        if experiment.replications > 1 and self.in_use.log is not None and not self.weeks:
            sentence = (
                f"replications is {experiment.replications}, but all of a log is one replication; give "
                f"log.weeks for replications that draw weeks of it"
            )
            found.append((("replications",), sentence))
        return found

    def _mistakes_in_events(self) -> Mistakes:
        events, log = self.in_use.events, self.in_use.log
        is_closed_loop = log is not None and bool(log.after)
        try:
            changes_of(events, self.cluster)
        except UserError as error:
            return [(("events",), str(error))]
        place = ("events",) if events else ("log", "closed_loop")
        if is_remote(self.experiment) and (events or is_closed_loop):
            what = "is not for a manager that the tables messages, crashes and clock_jumps disturb"
            return [(place, f"{'.'.join(place)} {what}; leave one of them out")]
        unkept = self.experiment.nodes.unkept
        found: Mistakes = [
            (("schedulers", name), why)
            for name, why in unable(events, is_closed_loop, unkept, self.schedulers)
        ]
        in_use, experiment = self.in_use, self.experiment
        fail = in_use.down or in_use.absences or experiment.outages or experiment.failures
        if events.on_nodes and controllers(self.schedulers) and fail:
            why = "Slurm's controller hears of nodes from operators (events), or of outages and failures"
            found.append((("events",), f"{why}; leave one of them out"))
        return found

    def _not_of_partitions(self, scheduler: SlurmProgram) -> Iterator[str]:
        """What the queues state that Slurm's partitions cannot, unless a slurm.conf says how."""
        for policy in self.named_queues:
            if policy.name not in self.cluster.partitions:
                yield (
                    f"scheduler '{scheduler.label}': its queues are partitions, and the site "
                    f"'{self.in_use.site.name}' has no partition '{policy.name}'; name the queue like one, "
                    f"or give a slurm.conf ('slurm: slurm.conf')"
                )
            elif policy.displaces:
                yield (
                    f"scheduler '{scheduler.label}': queue '{policy.name}' displaces others, which only a "
                    f"slurm.conf can state (PreemptType, PreemptMode); give one ('slurm: slurm.conf')"
                )

    @property
    def weeks(self) -> int | None:
        """The number of weeks of the log that are drawn for each replication."""
        observed = self.experiment.log or self.experiment.history
        return None if observed is None else observed.weeks

    @property
    def load(self) -> float:
        """The load of drawn weeks, as a multiple of that in the log."""
        observed = self.experiment.log or self.experiment.history
        return 1.0 if observed is None else observed.load


class _Nodes(FreeNodesModel):
    def __init__(self, scenario: NodesScenario) -> None:
        super().__init__(scenario.cluster)
        self._scenario = scenario
        arriving, factors = scenario.arriving(), scenario.experiment.nodes.deadlines
        if scenario.checkpoints is not None:
            arriving = arriving.with_checkpoints(scenario.checkpoints)
        if factors is not None:
            limited = scenario.with_limits(arriving.jobs, factors, lambda job: job.estimate_s)
            arriving = arriving._replace(jobs=limited)
        self._arriving, self.jobs, self.run_s = arriving, arriving.jobs, arriving.run_s
        self.n_jobs = len(arriving.jobs)
        self.queue_policies = scenario.policies if scenario.has_queues else ()
        self.preemption = PreemptionPolicy(scenario.experiment.preemption.raised_after)
        self.admission, self.unkept = scenario.admission, scenario.experiment.nodes.unkept
        events, log = scenario.in_use.events, arriving.log
        self.changes = changes_of(events, scenario.cluster)
        if scenario.experiment.nodes.expiry is Expiry.DEADLINE:
            events = events.with_expiry(
                (job.id, job.arrival_s, job.deadline_s - job.arrival_s, job.estimate_s or nan)
                for job in self.jobs
            )
        self._what_happens = events
        self.events = (events or None) if log is None else events.of_eligibility(log)
        self.unsuccessful = frozenset(map(int, log.unsuccessful)) if log is not None and self.events else ()
        estimates = scenario.experiment.nodes.estimates
        self.run_times = run_times_by(estimates, lambda job: arriving.run_s(job, ()))

    def limit_s(self, job: Job) -> float:
        return self._arriving.limit_s(job)

    def slurm_world(self, ports: OnFreeNodes, folder: Path) -> SlurmWorld:
        from sil.slurm.world import SlurmWorld  # not loaded for other schedulers

        scenario = self._scenario
        return SlurmWorld(
            scenario.cluster,
            [*dict.fromkeys(job.user for job in self.jobs)],
            self.run_times.estimate_s,
            priorities={policy.name: policy.priority for policy in scenario.named_queues},
            admission=scenario.admission if scenario.has_queues else None,
            # It hears of nodes either by the commands of operators or by a monitor.
            monitor=None if scenario.in_use.events.on_nodes else ports.monitor,
            events=self._what_happens,
            **({} if self._arriving.log is None else as_submitted(self._arriving.log)),
        )
