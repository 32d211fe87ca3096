"""Runs on time-shared nodes: the table `shared_nodes` of an experiment file, resolved at the site."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from scheduler.coscheduling.daemon import Coscheduler
from scheduler.managers.limit_admission import PromisesByForecast
from scheduler.managers.starting_manager import NodeManager
from scheduler.model import Job, NodeSchedule
from scheduler.naming import Misnamed
from scheduler.ports import Clock
from scheduler.resource_manager import OnSharedNodes
from scheduler.rules import Kind
from scheduler.time_shared import predictors
from scheduler.time_shared.forecast import Predictor
from scheduler.time_shared.problem import TimeSharedProblem
from sil.runs.hosting import Supervision
from sil.runs.on_time_shared import TimeSharedSystem
from sil.runs.scenario import Mistakes, Scenario
from sil.runs.simulation import SiteModel
from sil.runs.under_test import InProcess, UnderTest
from sil.settings.time_shared_table import SharedNodesTable
from sil.site.site_in_use import ResourceNames
from sil.site.time_shared_cluster import NOTHING, NodesOfSite, NotShared, histories
from sil.world.monitors import Sampling
from sil.world.processes.model import CpuScheduler, Lowered, NodeModel, Periodic, Traffic
from sil.world.time_shared_cluster import LocalUsers, Sharing, TimeSharedCluster

if TYPE_CHECKING:
    from scheduler.meta_scheduling.outlook import SharedNodesOutlook


@dataclass(frozen=True)
class TimeSharedScenario(Scenario):
    """A cluster whose nodes jobs share among themselves and with local users."""

    lowered: Lowered = field(default_factory=dict)
    """Gets what a simulated CCS does to priorities."""

    kind = Kind.TIME_SHARED
    purpose = "an experiment with a table shared_nodes"
    where = "on time-shared nodes, where nothing is planned"
    without_effect = (
        *("queues", "workload.queues", "planned_starts", "preemption", "experience"),
        *("messages", "crashes", "clock_jumps", "nodes", "policy", "events"),
        *("checkpoint_interval_s", "checkpoint_cost_s"),
    )

    @property
    def table(self) -> SharedNodesTable:
        assert self.experiment.shared_nodes is not None
        return self.experiment.shared_nodes

    @cached_property
    def nodes(self) -> NodesOfSite:
        """The nodes of the cluster. Raises NotShared."""
        return NodesOfSite.of(self.in_use.file, self.table.cluster)

    @property
    def resources(self) -> ResourceNames:
        return ResourceNames(self.in_use.site.name, self.nodes.names, self.nodes.cluster)

    def site(self) -> SiteModel:
        return _Nodes(self)

    def jobs(self) -> list[Job]:
        """The jobs of this replication, with the turnaround limits that they request."""
        jobs, limits = super().jobs(), self.table.limits
        if limits is None:
            return jobs

        def alone_s(job: Job) -> float | None:
            needed = self.nodes.known.requirement(job)
            return None if needed is None else needed.exe_s

        return self.with_limits(jobs, limits.times_alone, alone_s)

    def _tasks(self) -> Mapping[str, Sequence[int]]:
        return self.nodes.known.sizes() | {name: list(tasks) for name, tasks in self.table.tasks.items()}

    @property
    def promises(self) -> PromisesByForecast | None:
        """Decides about turnaround limits."""
        table = self.table
        if table.limits is None:
            return None
        of = table.limits
        return PromisesByForecast(of.predictor or table.predictors[0], of.margin, of.unkept)

    @property
    def cluster(self) -> TimeSharedCluster:
        table, users = self.table, self.table.local_users
        return TimeSharedCluster(
            memory_mb=self.nodes.memory_mb,
            contract=self.nodes.contract,
            local_load=LocalUsers(**users.model_dump()) if users and users.share_of_nodes else None,
            sharing=Sharing(
                "fluid" if table.sharing == "detailed" else table.sharing,
                coscheduling_loss=table.coscheduling.loss,
                overhead=table.coscheduling.overhead,
            ),
            sampling=Sampling(**table.monitors.model_dump()),
            run_to_run=self.spread,
            control_delay_s=table.coscheduling.control_delay_s,
            in_detail=self._in_detail if table.sharing == "detailed" else None,
        )

    @property
    def _in_detail(self) -> NodeModel:
        given = self.table.in_detail.model_dump()
        traffic = {
            name: {tasks: Traffic(*of) for tasks, of in sizes.items()}
            for name, sizes in given.pop("traffic").items()
        }
        cpu_scheduler, coscheduler = given.pop("cpu_scheduler"), given.pop("coscheduler")
        reserved = given.pop("reservation") == "share" and coscheduler != Coscheduler.NONE
        given["periodic"] = {
            name: Periodic(**of, reserved=reserved) for name, of in given["periodic"].items()
        }
        return NodeModel(CpuScheduler(cpu_scheduler), Coscheduler(coscheduler), **given, traffic=traffic)

    def predictors(
        self, asking: Supervision, scheduler: InProcess, clock: Clock, labels: Sequence[str]
    ) -> Iterator[tuple[str, Predictor]]:
        """Those of the predictors that fit the scheduler, each with its own instance of it."""
        errors_of = histories(self.in_use.errors, self.nodes.known, scheduler.spec)
        for label in labels:
            if _why_not(scheduler, label) is None:  # else `notes` says so
                asked = asking.what_ifs(scheduler, clock)()
                yield label, predictors.make(predictors.read(label), asked, errors_of)

    def notes(self) -> Iterator[str]:
        yield from super().notes()
        unused = "coscheduling" if self.table.sharing == "detailed" else "in_detail"
        if (given := getattr(self.table, unused)) != type(given)():
            yield (
                f"the table shared_nodes.{unused} has no effect with sharing = '{self.table.sharing}': "
                f"coscheduling is of the fluid model, in_detail of 'detailed'"
            )
        detail = self.table.in_detail
        by_none = Coscheduler(detail.coscheduler) is Coscheduler.NONE
        if detail.periodic and detail.reservation == "share" and by_none:
            yield "nothing is reserved for periodic jobs with coscheduler = 'none', since CCS would do it"
        for scheduler in self.schedulers:
            for label in self.table.predictors:
                why = _why_not(scheduler, label)
                if why is not None:
                    yield f"for scheduler '{scheduler.label}' the predictor '{label}' is left out: {why}"

    def _mistakes(self) -> Mistakes:
        found = super()._mistakes()
        try:
            nodes = self.nodes
        except NotShared as error:
            return [*found, (("shared_nodes", "cluster"), str(error))]
        found += self._mistakes_in_faults(nodes.names, "the time-shared cluster")
        for point in range(len(self.experiment.points)):
            overhead, share = self.at(point).table.coscheduling.overhead, nodes.contract.share
            if overhead >= share:
                sentence = (
                    f"coscheduling that costs {overhead:g} of a CPU leaves nothing of the {share:g} that the "
                    f"social contract guarantees to parallel tasks; the overhead has to be less"
                )
                found.append((("shared_nodes", "coscheduling", "overhead"), sentence))
                break
        found += self._never_measured()
        promises = self.promises
        if promises is None:
            return found
        for scheduler in self.schedulers:
            why = _why_not(scheduler, promises.predictor)
            if why is not None:
                wrong = f"limits are promised by a predictor that does not fit it: {why}"
                found.append((("schedulers", scheduler.label), f"scheduler '{scheduler.label}': {wrong}"))
        return found

    def _never_measured(self) -> Mistakes:
        sizes, mix = self.nodes.known.sizes(), self.experiment.drawn.mix
        found: Mistakes = [
            (
                ("workload", "mix", name) if mix else ("site",),
                f"the job class '{name}' was never measured in isolation (job_classes.in_isolation), so its "
                f"needs on time-shared nodes are unknown; measure it, or leave it out of workload.mix",
            )
            for name in mix or [k.name for k in self.in_use.file.job_classes]
            if name not in sizes
        ]
        for name, tasks in self.table.tasks.items():
            place = ("shared_nodes", "tasks", name)
            if name not in sizes:
                found.append((place, f"the site has no job class '{name}' for time-shared nodes"))
            elif not set(tasks) <= set(sizes[name]):
                never = ", ".join(map(str, sorted(set(tasks) - set(sizes[name]))))
                measured = ", ".join(map(str, sizes[name]))
                sentence = f"'{name}' was never measured in isolation with {never} tasks, but with {measured}"
                found.append((place, sentence))
        for name, of in self.table.in_detail.periodic.items():
            least = min((self.nodes.known.of(name, n).cpu for n in sizes.get(name, ())), default=None)
            if least is None or of.share > least:
                sentence = f"the site has no job class '{name}' for time-shared nodes"
                if least is not None:
                    sentence = (
                        f"a task of '{name}' uses {least:g} of a CPU in isolation, so it cannot compute for "
                        f"{of.share:g} of each period; expected a share of at most that"
                    )
                found.append((("shared_nodes", "in_detail", "periodic", name, "share"), sentence))
        return found


def _why_not(scheduler: UnderTest, predictor: str) -> str | None:
    """Why a predictor does not fit a scheduler; None if it does."""
    if not isinstance(scheduler, InProcess) or scheduler.has_own_queue:
        return "it has a queue of its own, which predictors do not know"
    # A plug-in is not made here: all that matters is whether it is LoRaS.
    alike = scheduler.spec.make() if scheduler.is_built_in else _AnyOther()
    try:
        predictors.make(predictors.read(predictor), alike, lambda _: NOTHING)
    except Misnamed as error:
        return str(error)
    return None


class _AnyOther:
    """A scheduler of which nothing is known."""

    def schedule(self, problem: object) -> NodeSchedule:
        raise NotImplementedError  # never runs: it stands for a plug-in that must not be imported here


class _Nodes(TimeSharedSystem):
    def __init__(self, scenario: TimeSharedScenario) -> None:
        super().__init__(scenario.cluster, scenario.jobs(), scenario.nodes.known, scenario.streams)
        self._scenario, self.lowered = scenario, scenario.lowered

    def manager(
        self, ports: OnSharedNodes, scheduler: InProcess, asking: Supervision
    ) -> NodeManager[TimeSharedProblem]:
        scenario, asked = self._scenario, asking.scheduler(scheduler)
        made = dict(scenario.predictors(asking, scheduler, ports.clock, scenario.table.predictors))
        return self.predicting(ports, asked, made, scenario.promises, scenario.admission)

    def outlook(self, ports: OnSharedNodes, scheduler: InProcess, asking: Supervision) -> SharedNodesOutlook:
        from scheduler.meta_scheduling.outlook import SharedNodesOutlook  # only several clusters need it

        labels = (*self._scenario.table.predictors, predictors.AWARE)  # which fits any scheduler
        _, first = next(self._scenario.predictors(asking, scheduler, ports.clock, labels))
        return SharedNodesOutlook(self._allocation, first, ports.clock)
