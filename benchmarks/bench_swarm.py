"""How many cases of a swarm per second, compared with the same jobs in a plain simulation?

Cases of 20 jobs, 4 machines and 3 kinds of faults, carried out and checked; the plain simulations have
neither faults nor a network, and are not checked. Interleaved, in CPU time of one process; then such cases,
and those that `sil swarm` draws, on two processes, by wall time. Run with `python -m benchmarks.bench_swarm`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import count

from benchmarks.record import keep
from scheduler.rules import Violation
from sil.isolation.host import HERE
from sil.runs.simulation import Disturbances, SiteRun
from sil.swarm.campaign import Swarm, found_by
from sil.swarm.case import Case, SiteKind, drawn
from sil.swarm.simulation import verdict_on
from sil.swarm.sites import SITES, CaseScheduler
from sil.workers.executor import Executor, Item
from sil.workers.processes import Processes
from sil.world.events import SimClock

JOBS, MACHINES, FAULTS = 20, 4, 3
CASES = 100
"""For each kind of machines."""
CASES_OF_AN_ITEM = 25
OF_A_SWARM = 4_000


def cases() -> dict[SiteKind, list[Case]]:
    """The cases of the first seeds that have this size."""
    found: dict[SiteKind, list[Case]] = {machines: [] for machines in SiteKind}
    for case in map(drawn, count()):
        if (len(case.jobs), case.n_machines, len(case.faults)) == (JOBS, MACHINES, FAULTS):
            found[case.machines].append(case)
            if min(map(len, found.values())) >= CASES:
                break
    return {machines: some[:CASES] for machines, some in found.items()}


def plain(case: Case) -> None:
    """The same jobs under the same manager, without faults, network and checks."""
    clock = SimClock()
    tested = CaseScheduler(case, clock, None, HERE)
    site = SITES[case.machines](case, tested)
    simulation = SiteRun(site, Disturbances(), clock=clock)
    manager = site.manager(simulation.ports, tested.under_test, tested)
    simulation.world.run([site.job(job) for job in case.jobs], manager)


def cpu_s(carry_out: Callable[[Case], object], some: list[Case]) -> float:
    began_s = time.process_time()
    for case in some:
        carry_out(case)
    return time.process_time() - began_s


def per_second(executor: Executor, seeds: list[int]) -> float:
    """By wall time."""
    n_items = len(seeds) // CASES_OF_AN_ITEM
    items = [Item(str(k), partial(found_by, Swarm(), seeds[k::n_items])) for k in range(n_items)]
    violations: dict[int, Violation] = {}
    began_s = time.perf_counter()
    executor.run(items, lambda _, found: violations.update(found.violations))
    wall_s = time.perf_counter() - began_s
    assert not violations, violations
    return len(seeds) / wall_s


def main() -> None:
    results: list[dict[str, object]] = []
    of_this_size = cases()
    for machines, some in of_this_size.items():
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
    sized = [case.seed for some in of_this_size.values() for case in some]
    with Processes(2) as executor:
        per_second(executor, sized[:: len(sized) // 100])
        sized_per_s = max(per_second(executor, sized) for _ in range(3))
        swarm_per_s = per_second(executor, list(range(OF_A_SWARM)))
    print(f"on two processes: {sized_per_s:,.0f} such cases per second, a third on each kind of machines")
    print(f"sil swarm: {swarm_per_s:,.0f} cases per second on two processes")
    results.append({"sized_per_s": sized_per_s, "swarm_per_s": swarm_per_s})
    print(f"Kept in {keep('swarm', 0, results).name}.")


if __name__ == "__main__":
    main()
