"""Dynamic coscheduling (DYN): priority for tasks with pending packets."""

from __future__ import annotations

ALL_PACKETS = 1_000
"""More than a process may have."""


class DynamicPriority:
    """How much priority a task gets for the packets pending in its receive and send queues: `per_packet` for
    each, `most` at most.

    In the kernel, this is added to the dynamic priority of each ready task at each scheduling decision, so
    that a task with more pending packets preempts another one. In user space, nice values are that much
    lower, from one sample to the next, and those without packets may be stopped until then where another has
    more than `stops_above`. No `per_packet` is no dynamic coscheduling.

    Source: CISNE-P, sections 2.2.1 and 2.2.2, which give no scale and do not say when applications stop. Here
    a packet is worth one unit, a tick that is left of a quantum or a step of the nice value, and processes
    stop for what nice values cannot express.
    """

    def __init__(self, per_packet: int, most: int, stops_above: int = ALL_PACKETS) -> None:
        self.per_packet, self.most, self.stops_above = per_packet, most, stops_above

    def bonus(self, packets: int) -> int:
        return min(self.most, self.per_packet * packets)


IN_KERNEL = DynamicPriority(1, ALL_PACKETS)
IN_USER_SPACE = DynamicPriority(1, 10)
"""Half of the range of nice values from 0 to 19."""
IN_USER_SPACE_STOPPING = DynamicPriority(1, 10, stops_above=10)
NO_PRIORITY = DynamicPriority(0, 0)
