"""Sites of free nodes: identical processors, or nodes of which jobs request parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from scheduler import UserError
from scheduler.managers.queues import QueuePolicy
from scheduler.managers.rigid_allocation import free_nodes_manager
from scheduler.model import Job
from scheduler.ports import RuntimeEstimator
from scheduler.resource_manager import Manager, OnFreeNodes
from sil.outcome.invariants.checker import Capacity
from sil.runs.hosting import Supervision, what_if_scheduler
from sil.runs.simulation import SiteModel
from sil.runs.under_test import InProcess
from sil.settings.replays import Estimates
from sil.trace.log_ids import LOG_ID
from sil.workload.job_log import JobLog, user_names
from sil.world.events import EventQueue
from sil.world.failures import Hindrances
from sil.world.harness import World
from sil.world.machines.execution import ExecutionModel
from sil.world.machines.nodes import ConsumableMachines, SpaceSharedMachines
from sil.world.monitors import NodeStates
from site_db.site_file.cluster import SiteNodes

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
    may_fail = True

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
        monitor = NodeStates(world.monitor) if self.may_fail else None
        ports = OnFreeNodes(world.clock, world.dispatcher, self.n_nodes, self.run_times, monitor)
        if self.cluster is None:
            return ports
        of = self.cluster
        ports = replace(ports, nodes=self.nodes, site_resources=self.site_resources, topology=of.topology)
        return replace(ports, partitions=of.partitions, policy=of.policy)

    def manager(self, ports: OnFreeNodes, scheduler: InProcess, asking: Supervision) -> Manager:
        return free_nodes_manager(ports, asking.scheduler(scheduler), asking.is_memoryless(scheduler))

    def outlook(self, ports: OnFreeNodes, scheduler: InProcess, asking: Supervision) -> FreeNodesOutlook:
        from scheduler.meta_scheduling.outlook import FreeNodesOutlook  # only several clusters need it

        limit_s, seed = asking.guard.limit_s, asking.seed
        make = partial(what_if_scheduler, asking.host, scheduler.spec, ports.clock, limit_s, seed)
        return FreeNodesOutlook(ports, make, self.queue_policies)


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
