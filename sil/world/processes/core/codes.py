"""Codes and constants of simulated processes."""

from __future__ import annotations

CPU, ARRIVES, WAKES, DELIVERED = range(4)
"""Kinds of events: what a CPU does comes to its end; a message arrives at a process; a process wakes up; the
message with this number arrives at a daemon."""

PARALLEL, LOCAL, DAEMON = range(3)
"""Kinds of processes."""

RUNNABLE, BLOCKED, ASLEEP, GONE = range(4)
"""States of processes: waiting for a message, or for a time."""

LINUX_2_4, CFS = range(2)
"""Schedulers of the operating system."""

NO_PROCESS = -1
MAX_DIMENSIONS = 20
SEGMENT_BYTES, SOCKET_BYTES = 1460, 65535
"""Bytes of a packet on Ethernet, and of a socket's queue by default in Linux 2.4."""

SECOND = 1_000_000_000
NEVER = 2**62
TICK = SECOND // 100
"""HZ is 100 in Linux 2.4 on a PC (include/asm-i386/param.h). Times are in nanoseconds."""

LATENCY, MIN_GRANULARITY, WAKEUP_GRANULARITY = 6_000_000, 750_000, 1_000_000
LATENCY_TASKS = 8
"""sysctl_sched_* of a single CPU in Linux 2.6.38 to 6.5 (kernel/sched/fair.c)."""

NICE_0 = 1024.0
WEIGHTS = (
    *(88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916),
    *(9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277),
    *(1024, 820, 655, 526, 423, 335, 272, 215, 172, 137),
    *(110, 87, 70, 56, 45, 36, 29, 23, 18, 15),
)
"""Weights of the nice values -20 to 19, 1.25 times per step: sched_prio_to_weight of kernel/sched/core.c."""
