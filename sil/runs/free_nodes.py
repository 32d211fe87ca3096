"""Sites of free nodes: identical processors, or nodes of which jobs request parts; and what operators do with
nodes, for schedulers other than Slurm's controller: drains, outages and reservations as changes of the
simulated world, and which schedulers know of which events."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from scheduler import UserError
from scheduler.managers.queues import Admission, PreemptionPolicy, QueuePolicy, Unkept
from scheduler.managers.rigid_allocation import RigidAllocation, free_nodes_manager
from scheduler.managers.starting_manager import Submit
from scheduler.messages import counted
from scheduler.model import Job
from scheduler.node_resources.core.codes import MAX_RESERVATIONS
from scheduler.ports import DrainChanged, ReservationMade, RuntimeEstimator
from scheduler.resource_manager import Manager, OnFreeNodes
from sil.outcome.invariants.checker import Capacity
from sil.runs.hosting import Supervision
from sil.runs.simulation import SiteModel
from sil.runs.under_test import InProcess, SlurmProgram, UnderTest
from sil.settings.log_events import Events, NodesReserved, NodesUpdated
from sil.settings.replays import Estimates
from sil.trace.facts import Fact
from sil.trace.log_ids import LOG_ID
from sil.workload.job_log import JobLog, user_names
from sil.world.events import EventQueue, StateChange
from sil.world.failures import Hindrances, TimedChange
from sil.world.harness import World
from sil.world.machines.execution import ExecutionModel
from sil.world.machines.nodes import ConsumableMachines, SpaceSharedMachines
from sil.world.monitors import NodeStates
from site_db.site_file.cluster import SiteNodes
from site_db.site_file.machine_names import expand, patterns

if TYPE_CHECKING:
    from scheduler.meta_scheduling.outlook import FreeNodesOutlook
    from sil.slurm.submissions import Components
    from sil.slurm.world import SlurmWorld


_COMPONENT = re.compile(r"(\d+)\+(\d+)")


class FreeNodesModel(SiteModel):
    """`processors` that are identical, or the nodes of a cluster; what jobs run there, and how long."""

    run_s: Callable[[Job, Sequence[int]], float]
    run_times: RuntimeEstimator
    queue_policies: Sequence[QueuePolicy] = ()
    """Where jobs of one go before those of others; none: there is one order over all nodes."""
    preemption: PreemptionPolicy | None = None
    admission: Admission | None = None
    may_fail = True
    unkept = Unkept.ACCEPTED

    def __init__(self, cluster: SiteNodes | None, processors: int = 0) -> None:
        self.cluster = cluster
        self.nodes = () if cluster is None else tuple(cluster.nodes.values())
        self.n_nodes = len(self.nodes) or processors
        self.site_resources = {} if cluster is None else cluster.site_resources
        names = () if cluster is None else (*cluster.nodes,)
        self.capacity = Capacity(self.n_nodes, 1, names, self.nodes, self.site_resources)

    def machines(self, events: EventQueue, hindrances: Hindrances | None) -> ExecutionModel:
        if self.nodes:
            return ConsumableMachines(self.nodes, self.run_s, events, self.site_resources, hindrances)
        return SpaceSharedMachines(self.n_nodes, self.run_s, events, hindrances)

    def ports(self, world: World) -> OnFreeNodes:
        self._world, monitor = world, NodeStates(world.monitor) if self.may_fail else None
        ports = OnFreeNodes(world.clock, world.dispatcher, self.n_nodes, self.run_times, monitor)
        if self.cluster is None:
            return ports
        of = self.cluster
        ports = replace(ports, nodes=self.nodes, site_resources=self.site_resources, topology=of.topology)
        return replace(ports, partitions=of.partitions, policy=of.policy)

    def manager(self, ports: OnFreeNodes, scheduler: InProcess, asking: Supervision) -> Manager:
        limits = None if self.unkept is Unkept.ACCEPTED else partial(self._limits, ports, scheduler, asking)
        asked, is_memoryless = asking.scheduler(scheduler), asking.is_memoryless(scheduler)
        queues, admission = self.queue_policies, self.admission
        return free_nodes_manager(ports, asked, is_memoryless, queues, self.preemption, admission, limits)

    def _limits(
        self, ports: OnFreeNodes, scheduler: InProcess, asking: Supervision, nodes: RigidAllocation
    ) -> Submit:
        from scheduler.managers.limit_admission import LimitAdmission, PromisesByForecast
        from scheduler.managers.run_forward import ForecastsOnNodes

        forecasts = ForecastsOnNodes(nodes, ports.clock, asking.what_ifs(scheduler, ports.clock))
        rule = PromisesByForecast(unkept=self.unkept)
        return LimitAdmission(nodes, forecasts, ports.clock, rule, self.promised).submit

    def promised(self, job: Job, by_s: float, cost: str = "") -> None:
        trace, now_s = self._world.trace, self._world.clock.now_s
        trace.note(now_s, Fact.PROMISED, job=job.id, expected_s=by_s - job.arrival_s, detail=cost or None)

    def outlook(self, ports: OnFreeNodes, scheduler: InProcess, asking: Supervision) -> FreeNodesOutlook:
        from scheduler.meta_scheduling.outlook import FreeNodesOutlook  # only several clusters need it

        return FreeNodesOutlook(ports, asking.what_ifs(scheduler, ports.clock), self.queue_policies)


def slurm_world(log: JobLog, estimates: Estimates, run_times: RuntimeEstimator) -> SlurmWorld:
    """What Slurm's controller manages in the replay of a log. Raises UserError for estimates that are no time
    limits."""
    from sil.slurm.world import SlurmWorld

    if estimates is not Estimates.USER:
        raise UserError(
            "Slurm has time limits, which are the users' estimates; replay the log under it with the "
            "estimates 'user'"
        )
    users = user_names(log.jobs["user"].unique(), log.users)
    machine = log.cluster or log.processors
    return SlurmWorld(machine, [*users.values()], run_times.estimate_s, **as_submitted(log))


def as_submitted(log: JobLog) -> dict[str, Any]:
    """What Slurm's controller is told of the jobs of a log, as `SlurmWorld` has it: accounts, QOS, and which
    are components of one job."""
    users = user_names(log.jobs["user"].unique(), log.users)
    charged: dict[int, dict[str, str]] = {}
    accounts: dict[str, dict[str, None]] = {}
    if log.charged:
        for job, user, k in log.jobs.select("job", "user", "charged").iter_rows():
            charged[job] = log.charged[k]._asdict()
            if account := log.charged[k].account:
                accounts.setdefault(users[user], {})[account] = None
    of_users = {user: [*its] for user, its in accounts.items()}
    return {"charged": charged, "accounts": of_users, "components": _components(log)}


def _components(log: JobLog) -> list[Components]:
    from sil.slurm.submissions import Components

    if LOG_ID not in log.jobs.columns:
        return []
    of_job: dict[str, dict[int, int]] = {}
    for number, name in log.jobs.select("job", LOG_ID).iter_rows():
        if (found := _COMPONENT.fullmatch(name)) is not None:
            of_job.setdefault(found[1], {})[int(found[2])] = number
    return [Components(tuple(jobs[k] for k in sorted(jobs))) for jobs in of_job.values() if len(jobs) > 1]


UNFORESEEN = "forecasts on which jobs with deadlines are admitted do not foresee preemption"
MODELLED_FLAGS = ("MAINT", "IGNORE_JOBS", "SPEC_NODES", "OVERLAP")


def changes_of(events: Events, cluster: SiteNodes) -> tuple[TimedChange, ...]:
    """The changes of nodes, in order of time. Raises UserError for nodes that the cluster does not have."""
    return tuple(_Changes(cluster).of(events))


def unable(
    events: Events, is_closed_loop: bool, unkept: Unkept, schedulers: Iterable[UnderTest]
) -> Iterator[tuple[str, str]]:
    """The schedulers that cannot carry events out, or replay a closed loop, by name, and why."""
    for each in schedulers:
        lacks = ["closed loop"] if is_closed_loop else []
        lacks += [] if unkept is Unkept.ACCEPTED else ["admission by forecast (unkept)"]
        lacks += ["commands for events"] if events and not isinstance(each, SlurmProgram) else []
        if lacks and (not isinstance(each, InProcess) or each.has_own_queue):
            why = f"has its own queue, and no {lacks[0]}; leave one of the two out"
            yield each.label, f"scheduler '{each.label}' {why}"


def notes_for(events: Events, schedulers: Iterable[UnderTest], is_foreseen: bool = True) -> list[str]:
    """What of the events is not modelled under these schedulers, nor foreseen by the forecasts that admit
    jobs."""
    if not is_foreseen:
        return [UNFORESEEN, *notes_for(events, schedulers)]
    if all(isinstance(each, SlurmProgram) for each in schedulers):
        return [*events.notes]
    return [*events.notes, *events.only_of_slurm, *notes_on(events)]


def notes_on(events: Events) -> list[str]:
    """What of the reservations is not modelled, a sentence each."""
    flags = Counter(
        flag.upper() for event in events.on_nodes if isinstance(event, NodesReserved) for flag in event.flags
    )
    return [
        f"flag {flag} of {counted(n, 'reservation')} is not modelled: only Slurm's controller knows it"
        for flag, n in sorted(flags.items())
        if flag not in MODELLED_FLAGS
    ]


class _Changes:
    def __init__(self, cluster: SiteNodes) -> None:
        self._place = {name: n for n, name in enumerate(cluster.nodes)}
        self._down, self._drained = set[int](), set[int]()
        self._made: list[NodesReserved] = []
        self._nodes_of: list[tuple[int, ...]] = []

    def of(self, events: Events) -> Iterator[TimedChange]:
        for k, event in enumerate(events.on_nodes):
            at_s = max(event.at_s, 0.0)
            if isinstance(event, NodesReserved):
                if event.end_s > at_s:
                    nodes = self._reserved(event)
                    yield at_s, ReservationMade(event.name, nodes, event.start_s, event.end_s)
                continue
            nodes = self._named(event.nodes, f"State={event.state}")
            if event.state == "DRAIN":
                yield from self._drain(at_s, nodes, True, event.reason)
            elif event.state == "DOWN":
                later = (each for each in events.on_nodes[k:] if isinstance(each, NodesUpdated))
                lasts = all(each.state != "RESUME" for each in later)
                yield from self._set_up(at_s, nodes, False, lasts)
            else:
                yield from self._set_up(at_s, nodes, True)
                yield from self._drain(at_s, nodes, False)

    def _drain(
        self, at_s: float, nodes: Sequence[int], is_drained: bool, reason: str = ""
    ) -> Iterator[TimedChange]:
        changed = tuple(n for n in nodes if (n in self._drained) != is_drained)
        self._drained.symmetric_difference_update(changed)
        if changed:
            yield at_s, DrainChanged(changed, is_drained, reason)

    def _set_up(
        self, at_s: float, nodes: Sequence[int], is_up: bool, lasts: bool = False
    ) -> Iterator[TimedChange]:
        changed = tuple(n for n in nodes if (n in self._down) == is_up)
        self._down.symmetric_difference_update(changed)
        if changed:
            yield at_s, StateChange(changed, is_up, lasts)

    def _named(self, nodes: str, what: str) -> tuple[int, ...]:
        try:
            names = [*self._place] if nodes.upper() == "ALL" else expand(patterns(nodes))
        except ValueError as error:
            raise UserError(f"{what}: {error}") from None
        if unknown := next((name for name in names if name not in self._place), None):
            raise UserError(f"{what}: there is no node '{unknown}'; expected names of the log's nodes")
        return tuple(sorted({self._place[name] for name in names}))

    def _reserved(self, event: NodesReserved) -> tuple[int, ...]:
        """The nodes of a reservation; of a number, the last ones that no other reservation has then."""
        what = f"reservation '{event.name}'"
        taken, n_known = set[int](), 1
        for other, nodes in zip(self._made, self._nodes_of, strict=True):
            n_known += other.end_s > event.at_s
            if other.start_s < event.end_s and event.start_s < other.end_s:
                taken.update(nodes)
        if n_known > MAX_RESERVATIONS:
            raise UserError(f"{what}: {n_known} are known at a time; expected at most {MAX_RESERVATIONS}")
        if isinstance(event.nodes, str):
            found = self._named(event.nodes, what)
        else:
            left = [n for n in range(len(self._place)) if n not in taken]
            if len(left) < event.nodes:
                raise UserError(
                    f"{what}: n_nodes is {event.nodes}, and {counted(len(left), 'node')} of "
                    f"{len(self._place)} are in no other reservation then; expected at most as many"
                )
            found = tuple(left[len(left) - event.nodes :])
        self._made.append(event)
        self._nodes_of.append(found)
        return found
