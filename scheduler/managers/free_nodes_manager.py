"""The resource manager for free nodes, identical ones or nodes with cores, memory and GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.managers.free_node_allocation import free_node_allocation
from scheduler.managers.queues import Admission, PreemptionPolicy, QueuePolicy
from scheduler.managers.starting_manager import StartingManager
from scheduler.ports import Scheduler
from scheduler.resource_manager import OnFreeNodes


def free_nodes_manager(
    ports: OnFreeNodes,
    scheduler: Scheduler,
    memoryless: bool = False,
    queues: Sequence[QueuePolicy] = (),
    preemption: PreemptionPolicy | None = None,
    admission: Admission | None = None,
) -> StartingManager:
    """The manager of the nodes that these ports describe.

    Nodes with cores, memory and GPUs may have several queues, between which runs may be preempted; all jobs
    are in one problem for the scheduler, in order of service. By default, jobs of other queues are refused;
    `admission` states further rules for the same queues. Without `queues` there is one, open to all.

    Raises NotOnTheseNodes for queues on identical nodes and for a least gain, ValueError for queues that
    cannot be served.
    """
    if admission is None and queues:
        admission = Admission(queues)
    allocation = free_node_allocation(ports, queues, preemption)
    return StartingManager(ports, allocation, scheduler, memoryless, admission)
