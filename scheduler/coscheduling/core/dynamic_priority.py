"""Dynamic coscheduling (DYN): priority for tasks with pending packets."""

from __future__ import annotations


class DynamicPriority:
    """How much priority a task gets for the packets pending in its receive and send queues: `per_packet` for
    each, `most` at most.

    In the kernel, this is added to the dynamic priority of each ready task at each scheduling decision, so
    that a task with more pending packets preempts another one. In user space, nice values are that much
    lower, from one sample to the next. No `per_packet` is no dynamic coscheduling.

    Source: CISNE-P, sections 2.2.1 and 2.2.2, which give no scale. Here a packet is worth one unit: a tick
    that is left of a quantum, or a step of the nice value.
    """

    def __init__(self, per_packet: int, most: int) -> None:
        self.per_packet, self.most = per_packet, most

    def bonus(self, packets: int) -> int:
        return min(self.most, self.per_packet * packets)


IN_KERNEL = DynamicPriority(1, 1_000)
"""More than all packets that a process may have."""
IN_USER_SPACE = DynamicPriority(1, 10)
"""Half of the range of nice values from 0 to 19."""
NO_PRIORITY = DynamicPriority(0, 0)
