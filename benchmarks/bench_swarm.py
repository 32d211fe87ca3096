"""How many cases of a swarm per second, compared with the same jobs in a plain simulation?

Cases of 20 jobs, 4 machines and 3 kinds of faults, carried out and checked; the plain simulations have
neither faults nor a network, and are not checked. Interleaved, in CPU time of one process; and `sil swarm` on
two processes, by wall time. Run with `python -m benchmarks.bench_swarm`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count

from benchmarks.record import keep
from sil.swarm.campaign import Swarm, carried_out
from sil.swarm.case import Case, Machines, drawn
from sil.swarm.faults import Faulty
from sil.swarm.simulation import verdict_on
from sil.swarm.sites import SITES, Tested
from sil.trace.recorder import TraceRecorder
from sil.workers.processes import Processes
from sil.world.events import EventQueue, SimClock
from sil.world.harness import World
from sil.world.monitors import SimMonitor
from sil.world.rounds import OnRequest

JOBS, MACHINES, FAULTS = 20, 4, 3
CASES = 100
"""For each kind of machines."""
OF_A_SWARM = 4_000


def cases(machines: Machines) -> list[Case]:
    found = (drawn(seed, machines=[machines]) for seed in count())
    wanted = (
        case
        for case in found
        if (len(case.jobs), case.n_machines, len(case.faults)) == (JOBS, MACHINES, FAULTS)
    )
    return [next(wanted) for _ in range(CASES)]


def plain(case: Case) -> None:
    """The same jobs under the same manager, without faults, network and checks."""
    clock, events = SimClock(), EventQueue()
    site = SITES[case.machines](case, Tested(case, clock, None))
    machines = site.machines(events, Faulty(clock, case.n_machines, case.until_s))
    trace = TraceRecorder(nodes=site.capacity.nodes)
    world = World(clock, events, trace, machines, SimMonitor(clock), OnRequest())
    world.run([site.job(job) for job in case.jobs], site.manager(site.ports(world)))


def cpu_s(carry_out: Callable[[Case], object], some: list[Case]) -> float:
    began_s = time.process_time()
    for case in some:
        carry_out(case)
    return time.process_time() - began_s


def main() -> None:
    results = []
    for machines in Machines:
        some = cases(machines)
        cpu_s(plain, some)
        cpu_s(verdict_on, some)
        pairs = [(cpu_s(verdict_on, some), cpu_s(plain, some)) for _ in range(3)]
        faulty_s, plain_s = (min(times) for times in zip(*pairs, strict=True))
        results.append(
            {
                "machines": machines.value,
                "cases_per_cpu_s": CASES / faulty_s,
                "plain_per_cpu_s": CASES / plain_s,
                "ratio": faulty_s / plain_s,
            }
        )
        print(
            f"{machines}: {CASES / faulty_s:,.0f} cases per CPU second; without faults "
            f"{CASES / plain_s:,.0f}; a case takes {faulty_s / plain_s:.1f} times as long",
            flush=True,
        )
    with Processes(2) as executor:
        carried_out(Swarm(), range(100), executor)
        began_s = time.perf_counter()
        found = carried_out(Swarm(), range(OF_A_SWARM), executor)
        wall_s = time.perf_counter() - began_s
    assert not found.violations, found.violations
    print(f"sil swarm: {OF_A_SWARM / wall_s:,.0f} cases per second on two processes")
    results.append({"swarm_per_s": OF_A_SWARM / wall_s})
    print(f"Kept in {keep('swarm', 0, results).name}.")


if __name__ == "__main__":
    main()
