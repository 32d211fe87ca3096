"""The resource manager for free nodes, identical ones or nodes with cores, memory and GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scheduler.managers.queues import Admission, PreemptionPolicy, QueuePolicy
from scheduler.managers.starting_manager import NodeAllocation, StartingManager
from scheduler.messages import UserError
from scheduler.resource_manager import OnFreeNodes

if TYPE_CHECKING:
    from scheduler.free_nodes.consumable_problem import ConsumableNodesProblem, FreeNodesScheduler
    from scheduler.free_nodes.problem import FreeNodesProblem


def free_nodes_manager(
    ports: OnFreeNodes,
    scheduler: FreeNodesScheduler,
    memoryless: bool = False,
    queues: Sequence[QueuePolicy] = (),
    preemption: PreemptionPolicy | None = None,
    admission: Admission | None = None,
) -> StartingManager[FreeNodesProblem | ConsumableNodesProblem]:
    """The manager of the nodes that these ports describe.

    Nodes with cores, memory and GPUs may have several queues, between which runs may be preempted; all jobs
    are in one problem for the scheduler, in order of service. By default, jobs of other queues are refused;
    `admission` states further rules for the same queues. Without `queues` there is one, open to all.

    Raises UserError for queues on identical nodes and for a least gain, ValueError for queues that
    cannot be served.
    """
    if admission is None and queues:
        admission = Admission(queues)
    allocation = _allocation(ports, queues, preemption or PreemptionPolicy())
    if ports.nodes and (load := getattr(scheduler, "load_for_requests", None)) is not None:
        load()
    return StartingManager(ports, allocation, scheduler, memoryless, admission)


def _allocation(
    ports: OnFreeNodes, queues: Sequence[QueuePolicy], preemption: PreemptionPolicy
) -> NodeAllocation[FreeNodesProblem | ConsumableNodesProblem]:
    """The state of the nodes that these ports describe."""
    # Each loads compiled code that the other does without.
    if not ports.nodes:
        if queues:
            raise UserError(
                f"there are {len(queues)} queues for identical nodes, which have one without a policy; "
                f"state what each node has, or leave the queues out"
            )
        from scheduler.managers.free_node_allocation import FreeNodeAllocation

        return FreeNodeAllocation(ports.n_nodes, ports.run_times)
    if preemption.least_gain_s:
        raise UserError(
            f"preemption.least_gain_s is {preemption.least_gain_s:g} s, but on nodes no run is planned, so "
            f"that no gain is known; expected 0: leave it out"
        )
    from scheduler.managers.consumable_allocation import ConsumableAllocation

    return ConsumableAllocation(ports, queues, preemption.raised_after)
